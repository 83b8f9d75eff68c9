//! Files of perf as captures: those of threads and of CPUs, snapshots, cut ones, and any bytes.

use mote_capture::{Capture, Of, Stream, What};
use mote_perfdata::attribute::{flag, sample};
use mote_perfdata::intel_pt::{Clock, Info};
use mote_perfdata::record::{Task, aux};
use mote_perfdata::{Attribute, Event, Features, NewPiece, Record, SampleId, Writer};
use proptest::prelude::*;
use std::fs;
use std::io::Cursor;
use std::path::Path;

const PSB: [u8; 16] =
    [0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82];
const TASK: Task = Task { pid: 7, tid: 8 };

/// A file with a thread's name and a loss, and these pieces of packets: thread, CPU, bytes.
fn file(info: &Info, pieces: &[(i32, i32, &[u8])]) -> Vec<u8> {
    let sample_type = sample::TID | sample::TIME | sample::CPU | sample::IDENTIFIER;
    let flags = flag::SAMPLE_ID_ALL;
    let attribute = Attribute { kind: 8, config: 0x300_e603, sample_type, flags, ..Attribute::default() };
    let mut writer =
        Writer::new(Cursor::new(Vec::new()), &[Event { attribute, ids: vec![1] }]).expect("memory");
    writer.record(&info.write(), &SampleId::default()).expect("memory");
    for (idx, (tid, cpu, bytes)) in pieces.iter().enumerate() {
        let piece = NewPiece { idx: idx as u32, tid: *tid, cpu: *cpu, ..NewPiece::default() };
        writer.piece(&piece, bytes.len() as u64, *bytes).expect("memory");
    }
    let id = |time| SampleId { task: Some(TASK), time: Some(time), id: Some(1), stream: None, cpu: Some(3) };
    let lost = Record::Aux { offset: 0, size: 8, flags: aux::TRUNCATED };
    // Not in the order of time.
    writer.record(&lost, &id(2000)).expect("memory");
    let name = Record::Comm { task: TASK, is_exec: false, name: "a".into() };
    writer.record(&name, &id(1500)).expect("memory");
    writer.finish(&Features::default()).expect("memory").into_inner()
}

fn info() -> Info {
    Info {
        unit: 8,
        clock: Some(Clock { shift: 0, mult: 1, zero: 1000 }),
        tsc_bit: 0x400,
        mtc_bit: 0x200,
        mtc_period_bits: 0x3c000,
        tsc_per_art: (300, 2),
        cyc_bit: 2,
        ..Info::default()
    }
}

/// What a file of these bytes is as a capture.
fn opened(bytes: &[u8], look: impl FnOnce(Result<Capture, String>)) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    fs::write(&path, bytes).expect("a file");
    look(Capture::open(&path).map_err(|why| why.to_string()));
}

fn bytes(stream: &Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.bytes.read(0, usize::MAX, &mut bytes).expect("it is read");
    bytes
}

#[test]
fn pieces_of_a_thread_are_its_stream() {
    let second = [0x04; 8];
    let pieces = [(8, -1, PSB.as_slice()), (9, -1, &PSB), (8, -1, &second)];
    opened(&file(&info(), &pieces), |capture| {
        let capture = capture.expect("a capture");
        let streams: Vec<&Stream> = capture.streams().collect();
        assert_eq!(
            streams.iter().map(|stream| stream.of).collect::<Vec<_>>(),
            [Of::Thread(8), Of::Thread(9)]
        );
        assert_eq!((streams[0].pid, streams[0].name.as_str()), (7, "a"));
        assert_eq!(bytes(streams[0]), [PSB.as_slice(), &second].concat());
        let processor = capture.processor();
        assert_eq!((processor.mtc, processor.cyc, processor.tsc_hz), (Some(3), Some(0), Some(1_000_000_000)));
        // By time: the name, then the loss, by the time stamp counter.
        let said: Vec<_> = capture.notes().iter().map(|note| (note.time, &note.what)).collect();
        assert!(matches!(
            said.as_slice(),
            [(Some(500), What::Thread { .. }), (Some(1000), What::Lost { .. })]
        ));
    });
}

#[test]
fn snapshots_of_cpus_begin_at_a_psb() {
    let first = [&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &PSB].concat();
    let info = Info { is_snapshot: true, per_cpu: true, ..info() };
    opened(&file(&info, &[(-1, 3, &first), (-1, 3, &first)]), |capture| {
        let capture = capture.expect("a capture");
        let streams: Vec<&Stream> = capture.streams().collect();
        assert_eq!((streams.len(), streams[0].of), (1, Of::Cpu(3)));
        assert_eq!(bytes(streams[0]), [PSB, PSB].concat());
    });
}

#[test]
fn what_has_no_packets_says_why() {
    opened(&file(&info(), &[]), |capture| {
        assert!(capture.expect_err("it is empty").contains("nothing of Intel PT was written"));
    });
    assert!(Capture::open(Path::new("/no/such/place")).is_err());
}

#[test]
fn a_cut_file_has_what_there_is() {
    let whole = file(&info(), &[(8, -1, [0x04; 4096].as_slice())]);
    opened(&whole[..whole.len() - 400], |capture| {
        let capture = capture.expect("what there is");
        assert_eq!(
            capture.streams().map(|stream| stream.bytes.len()).sum::<u64>(),
            4096 - 400 + behind(&whole)
        );
        assert!(capture.problems().iter().any(|problem| problem.contains("cut")), "{:?}", capture.problems());
    });
}

/// Bytes of the file behind the packets.
fn behind(whole: &[u8]) -> u64 {
    let run = whole.windows(64).rposition(|bytes| bytes == [0x04; 64]).expect("packets");
    (whole.len() - run - 64) as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_answered(at: u16, with in proptest::collection::vec(any::<u8>(), 1..40)) {
        let mut damaged = file(&info(), &[(8, 3, &PSB)]);
        let at = usize::from(at) % damaged.len();
        let end = damaged.len().min(at + with.len());
        damaged[at..end].copy_from_slice(&with[..end - at]);
        opened(&damaged, |capture| {
            if let Ok(capture) = capture {
                capture.streams().for_each(|stream| drop(capture.code(stream)));
            }
        });
    }
}
