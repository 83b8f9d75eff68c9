//! Files of perf as captures: those of threads and of CPUs, snapshots, cut ones, and any bytes.

use mote_capture::{Capture, Of, Stream, What};
use mote_perfdata::attribute::{flag, sample};
use mote_perfdata::header::feature;
use mote_perfdata::intel_pt::{Clock, Info};
use mote_perfdata::record::{Task, aux, kind};
use mote_perfdata::{Attribute, Event, Features, NewPiece, PerfData, Record, SampleFormat, SampleId, Writer};
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

/// The same to a pipe: events and features are records in front of the others.
fn piped(info: &Info, pieces: &[(i32, i32, &[u8])]) -> Vec<u8> {
    let whole = file(info, pieces);
    let data = PerfData::open(whole.as_slice()).expect("a file");
    let format = SampleFormat::of(&data.events()[0].attribute);
    let mut piped = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    let mut put =
        |record: &Record, id: &SampleId| piped.extend(record.write(id, format).expect("it is short"));
    let text =
        |text: &str| [(text.len() as u32 + 1).to_le_bytes().as_slice(), text.as_bytes(), &[0]].concat();
    let Event { attribute, ids } = data.events()[0].clone();
    let none = SampleId::default();
    put(&Record::Attribute { attribute, ids }, &none);
    put(&Record::Feature { number: feature::CPUID.into(), bytes: text("GenuineIntel,6,142,10") }, &none);
    put(&Record::Other { kind: kind::EVENT_UPDATE, bytes: vec![0; 16] }, &none);
    for entry in data.records() {
        let entry = entry.expect("whole");
        piped.extend(entry.record.write(&entry.id, format).expect("it is short"));
        let bytes = entry.piece.map(|piece| &whole[piece.offset as usize..][..piece.len as usize]);
        piped.extend(bytes.unwrap_or_default());
    }
    piped
}

/// A sample of a thread with packets, as perf writes one: id, thread, time, CPU, callers, and the packets.
fn sample(time: u64, cpu: u32, packets: &[u8]) -> Record {
    let mut bytes = Vec::new();
    for word in [1, 7 | 8 << 32, time, u64::from(cpu), 2, 0x1000, 0x2000, packets.len() as u64] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes.extend(packets);
    Record::Other { kind: kind::SAMPLE, bytes }
}

/// A file whose packets are in samples.
fn sampled(info: &Info, samples: &[Record]) -> Vec<u8> {
    let members = sample::TID | sample::TIME | sample::CPU | sample::IDENTIFIER;
    let pt = Attribute {
        kind: 8,
        config: 0x300_e601,
        sample_type: members,
        flags: flag::SAMPLE_ID_ALL,
        ..Attribute::default()
    };
    let misses = Attribute { kind: 0, sample_type: members | sample::CALLCHAIN | sample::AUX, ..pt };
    let events = [Event { attribute: pt, ids: vec![2] }, Event { attribute: misses, ids: vec![1] }];
    let mut writer = Writer::new(Cursor::new(Vec::new()), &events).expect("memory");
    writer.record(&info.write(), &SampleId::default()).expect("memory");
    samples.iter().for_each(|record| writer.record(record, &SampleId::default()).expect("memory"));
    writer.finish(&Features::default()).expect("memory").into_inner()
}

/// PSB+ at a time, 8 bytes more than PSB, and PSBEND.
fn psb(time: u8) -> Vec<u8> {
    [PSB.as_slice(), &[0x19, time, 0, 0, 0, 0, 0, 0], &[0x02, 0x23]].concat()
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
fn what_was_written_to_a_pipe_is_the_same() {
    let pieces = [(8, -1, PSB.as_slice()), (8, -1, &[0x04; 8])];
    opened(&piped(&info(), &pieces), |capture| {
        let capture = capture.expect("a capture");
        let streams: Vec<&Stream> = capture.streams().collect();
        assert_eq!((streams.len(), streams[0].pid, streams[0].name.as_str()), (1, 7, "a"));
        assert_eq!(bytes(streams[0]), [PSB.as_slice(), &[0x04; 8]].concat());
        let processor = capture.processor();
        assert_eq!((processor.model, processor.mtc), (Some([6, 142, 10]), Some(3)));
        assert_eq!((capture.notes().len(), capture.problems().len()), (2, 0));
    });
    // Cut in the middle of the packets.
    let piped = piped(&info(), &[(8, -1, [0x04; 4096].as_slice())]);
    let at = piped.windows(64).rposition(|bytes| bytes == [0x04; 64]).expect("packets");
    opened(&piped[..at], |capture| {
        let capture = capture.expect("what there is");
        assert!(capture.problems().iter().any(|problem| problem.contains("cut")), "{:?}", capture.problems());
        assert_eq!(capture.streams().map(|stream| stream.bytes.len()).sum::<u64>(), 4096 - 64);
    });
}

#[test]
fn packets_of_samples_are_pieces_of_streams() {
    let [first, second, third] = [1, 2, 3].map(|time| [psb(time), vec![0x06; 6]].concat());
    let middle = &[&[0xff; 3][..], &first].concat();
    // The second sample has the end of the first one again; the third is of another time, the last has no PSB.
    let samples = [
        sample(3000, 2, &[third.as_slice(), &[0; 3]].concat()),
        sample(1000, 2, middle),
        sample(2000, 2, &[first.as_slice(), &second].concat()),
        sample(2500, 3, &[0x06; 16]),
    ];
    let per_cpu = Info { per_cpu: true, ..info() };
    for (info, of) in [(info(), Of::Thread(8)), (per_cpu, Of::Cpu(2))] {
        opened(&sampled(&info, &samples), |capture| {
            let capture = capture.expect("a capture");
            let streams: Vec<&Stream> = capture.streams().collect();
            assert_eq!(streams.iter().map(|stream| stream.of).collect::<Vec<_>>(), [of]);
            assert_eq!(bytes(streams[0]), [first.as_slice(), &second, &third, &[0; 3]].concat());
            let mut parts = streams[0].bytes.parts();
            let mut found = Vec::new();
            while let Some(part) = parts.next_part().expect("it is read") {
                found.push((part.offset, part.is_new));
            }
            assert_eq!(found, [(0, false), (2 * first.len() as u64, true)]);
            let problems = capture.problems();
            assert!(
                matches!(problems, [why] if why.starts_with("1 piece of packets cannot be read")),
                "{problems:?}"
            );
        });
    }
    opened(&sampled(&info(), &samples[3..]), |capture| {
        assert!(capture.expect_err("nothing can be read").contains("no PSB says"));
    });
}

#[test]
fn what_was_asked_for_is_known() {
    let filter = "filter 0x10/0x20@/bin/a".to_owned();
    let mut bytes = file(&Info { filter: filter.clone(), ..info() }, &[(8, -1, &PSB)]);
    opened(&bytes, |capture| {
        let capture = capture.expect("a capture");
        assert_eq!((&capture.processor().filter, capture.processor().no_branches), (&filter, false));
        assert_eq!(capture.problems(), [""; 0]);
    });
    // BranchEn, which the event leaves out; an old kernel's event does not say it.
    let config = 0x300_e603_u64.to_le_bytes();
    let at = bytes.windows(8).position(|bytes| bytes == config).expect("the event");
    for (config, no_branches) in [(0x300_c603_u64, true), (0x300_c602, false)] {
        bytes[at..at + 8].copy_from_slice(&config.to_le_bytes());
        opened(&bytes, |capture| {
            let capture = capture.expect("a capture");
            assert_eq!(capture.processor().no_branches, no_branches);
            let said =
                capture.problems().iter().any(|problem| problem.contains("without packets of branches"));
            assert_eq!(said, no_branches);
        });
    }
    opened(&file(&Info { filter: "trace all".to_owned(), ..info() }, &[(8, -1, &PSB)]), |capture| {
        let problems = capture.expect("a capture").problems().to_vec();
        assert!(
            matches!(problems.as_slice(), [why] if why.contains("`trace all` is not understood")),
            "{problems:?}"
        );
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
