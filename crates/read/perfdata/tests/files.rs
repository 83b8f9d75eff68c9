//! Files that were written are read as they are; cut ones up to where they are cut; others are refused with the reason.

mod support;

use mote_perfdata::attribute::{flag, sample};
use mote_perfdata::header::feature;
use mote_perfdata::record::{
    Auxtrace, File, IdEntry, Lifetime, Mmap, Mode, Task, TimeConversion, Vcpu, aux, kind,
};
use mote_perfdata::{Attribute, Error, Event, Features, NewPiece, PerfData, Piece, Record, SampleId, Writer};
use proptest::prelude::*;
use std::io::Cursor;

fn event() -> Event {
    let sample_type =
        sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD | sample::IDENTIFIER;
    let flags = flag::SAMPLE_ID_ALL | flag::MMAP2 | flag::CONTEXT_SWITCH;
    Event { attribute: Attribute { kind: 8, sample_type, flags, ..Attribute::default() }, ids: vec![17, 18] }
}

fn some_records() -> Vec<Record> {
    let task = Task { pid: 7, tid: 8 };
    let mmap = Mmap {
        task,
        mode: Mode::User,
        start: 0x40_0000,
        len: 0x1000,
        offset: 0x2000,
        file: File::BuildId(vec![0xab; 20]),
        protection: 5,
        flags: 2,
        path: "/bin/a b".into(),
    };
    let inode = File::Inode { major: 8, minor: 1, inode: 99, generation: 3 };
    let parent = Task { pid: 1, tid: 1 };
    let lifetime = Lifetime { task, parent, time: 5 };
    let (old, new) = (vec![0xe9, 1, 2, 3, 4], vec![0x90]);
    vec![
        Record::Mmap(mmap.clone()),
        Record::Mmap(Mmap { file: inode, ..mmap.clone() }),
        Record::Mmap(Mmap {
            file: File::Unknown,
            protection: 4,
            flags: 0,
            mode: Mode::Kernel,
            ..mmap.clone()
        }),
        Record::Comm { task, is_exec: true, name: "a thread".into() },
        Record::Fork(lifetime),
        Record::Exit(lifetime),
        Record::Aux { offset: 4096, size: 100, flags: aux::TRUNCATED | aux::PARTIAL },
        Record::ItraceStart(task),
        Record::Switch { is_out: true, is_preempted: true, other: None },
        Record::Switch { is_out: false, is_preempted: false, other: Some(parent) },
        Record::Ksymbol { start: 1 << 63, len: 9, of: 1, is_removed: false, name: "bpf_prog".into() },
        Record::TextPoke { start: 1 << 63, old, new },
        Record::Lost { id: 17, count: 4 },
        Record::LostSamples(5),
        Record::Sample { ip: 0x40_0010, address: 0, period: 9, mode: Mode::User, more: 0, sampled: None },
        Record::FinishedRound,
        Record::IdIndex(vec![IdEntry { id: 17, idx: 0, cpu: -1, tid: 8, guest: None }]),
        Record::IdIndex(vec![
            IdEntry { id: 17, idx: 0, cpu: 2, tid: 8, guest: None },
            IdEntry { id: 18, idx: 1, cpu: 2, tid: 9, guest: Some(Vcpu { machine: 4711, number: 3 }) },
        ]),
        Record::TimeConversion(TimeConversion {
            shift: 10,
            mult: 427,
            zero: 3,
            has_zero: true,
            ..Default::default()
        }),
        Record::BuildId { pid: -1, mode: Mode::User, build_id: vec![1, 2, 3], path: "/bin/a".into() },
    ]
}

/// A file with these, and a piece of 13 bytes behind them.
fn file(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), &[event()]).expect("memory");
    let id = id();
    records.iter().for_each(|record| writer.record(record, &id).expect("memory"));
    let piece = NewPiece { offset: 64, reference: 3, idx: 1, tid: -1, cpu: 2 };
    writer.piece(&piece, 13, &[7; 20][..]).expect("memory");
    let mut features = Features::default();
    features.set_text(feature::ARCH, "x86_64");
    features.set_command(&["mote", "pt"]);
    writer.finish(&features).expect("memory").into_inner()
}

fn id() -> SampleId {
    SampleId {
        task: Some(Task { pid: 7, tid: 8 }),
        time: Some(1 << 40),
        id: Some(18),
        stream: None,
        cpu: Some(3),
    }
}

#[test]
fn what_was_written_is_read() {
    let records = some_records();
    let bytes = file(&records);
    let file = PerfData::open(bytes.as_slice()).expect("a file");
    assert_eq!(file.events(), [event()]);
    assert_eq!((file.problems().len(), file.is_streamed()), (0, false));
    assert_eq!(file.features().text(feature::ARCH).as_deref(), Some("x86_64"));
    assert_eq!(file.features().command(), Some(vec!["mote".to_owned(), "pt".to_owned()]));
    let entries: Vec<_> = file.records().collect::<Result<_, _>>().expect("all of them");
    for (entry, record) in entries.iter().zip(&records) {
        assert_eq!(entry.record, *record);
        let expected = if record.kind() < kind::OF_PERF { id() } else { SampleId::default() };
        assert_eq!(entry.id, expected, "{record:?}");
    }
    let last = entries.last().expect("the piece");
    let expected = Auxtrace { size: 16, offset: 64, reference: 3, idx: 1, tid: -1, cpu: 2 };
    assert_eq!((&last.record, entries.len()), (&Record::Auxtrace(expected), records.len() + 1));
    let Some(Piece { offset, len }) = last.piece else { panic!("no bytes") };
    let piece = &bytes[offset as usize..(offset + len) as usize];
    assert_eq!(piece, [&[7; 13][..], &[0; 3]].concat());
}

#[test]
fn cut_files_are_read_up_to_there() {
    let records = some_records();
    let bytes = file(&records);
    let whole = PerfData::open(bytes.as_slice()).expect("a file");
    let ends: Vec<u64> =
        whole.records().map(|entry| entry.expect("whole")).map(|entry| entry.offset).collect();
    for len in 0..bytes.len() {
        let cut = &bytes[..len];
        support::check(cut);
        let begin = ends[0];
        match PerfData::open(cut) {
            Ok(file) => {
                let found: Vec<_> = file.records().collect();
                let there = ends.iter().filter(|end| **end < len as u64).count();
                // The features alone are missing: a sentence, and all records.
                let right = found.iter().filter(|entry| entry.is_ok()).count();
                assert!(right + 1 >= there.min(records.len() + 1), "{len}: {right} of {there}");
                assert!(!file.problems().is_empty() || len as u64 > begin, "{len}");
            }
            Err(Error::NoPerfData) => assert!(len < 8),
            Err(Error::Cut { len: said, .. }) => {
                assert_eq!(said, len as u64);
                assert!(said < begin);
            }
            Err(why) => panic!("{len}: {why}"),
        }
    }
}

#[test]
fn a_file_that_was_not_finished_is_read_to_its_end() {
    let records = some_records();
    let mut bytes = file(&records);
    let whole = PerfData::open(bytes.as_slice()).expect("a file");
    let last = whole.records().last().expect("one").expect("whole");
    bytes.truncate((last.offset + u64::from(last.size)) as usize + 3);
    // perf writes the size of its data at the end.
    bytes[48..56].fill(0);
    let file = PerfData::open(bytes.as_slice()).expect("a file");
    assert!(file.problems()[0].contains("was not finished"), "{:?}", file.problems());
    let mut found: Vec<_> = file.records().collect();
    assert!(matches!(found.pop(), Some(Err(Error::Cut { what: "hardware trace", .. }))));
    let last = found.pop().expect("the piece").expect("whole");
    assert_eq!(last.piece.map(|piece| piece.len), Some(3));
    assert_eq!(found.len(), records.len());
}

#[test]
fn others_are_refused() {
    let check = |bytes: &[u8], expect: &str| {
        let said = match PerfData::open(bytes) {
            Err(why) => why.to_string(),
            Ok(file) => file.records().find_map(Result::err).expect("an error").to_string(),
        };
        assert!(said.contains(expect), "{said} is not {expect}");
    };
    check(b"", "no file of perf");
    check(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", "no file of perf");
    check(b"PERFFILE\0\0\0\0\0\0\0\0", "before Linux 3.0");
    check(b"2ELIFREP\0\0\0\0\0\0\0\0", "big-endian");
    check(b"PERFILE2", "cut");
    check(b"PERFILE2\x07\0\0\0\0\0\0\0", "header has 7 bytes");
    // To a pipe: a record of size 3; a compressed one.
    let pipe = |record: &[u8]| [b"PERFILE2\x10\0\0\0\0\0\0\0", record].concat();
    check(&pipe(&[1, 0, 0, 0, 0, 0, 3, 0]), "byte 16 has a size of 3");
    check(&pipe(&[81, 0, 0, 0, 0, 0, 12, 0, 1, 2, 3, 4]), "compressed records: the file is cut");
    check(&pipe(&[&[81, 0, 0, 0, 0, 0, 28, 0][..], &[7; 20]].concat()), "byte 16 cannot be unpacked");
    // COMPRESSED2, with 9 bytes of 8.
    check(
        &pipe(&[83, 0, 0, 0, 0, 0, 24, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        "fewer bytes than it says",
    );
    let mut events = file(&[]);
    events[16] = 9;
    check(&events, "attribute has 9 bytes");
}

/// Blocks of 4 bytes that become nearly 128 KiB (RFC 8878, 3.1.1): each is 31 records of 0x1010 bytes, all of which are
/// 0x10.
#[test]
fn compressed_records_may_become_much_longer() {
    let [low, middle, high, _] = (31 * 0x1010 * 8 + 2_u32).to_le_bytes();
    let mut packed: Vec<u8> = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    packed.extend([low, middle, high, 0x10].repeat(200));
    let mut bytes = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    bytes.extend(kind::COMPRESSED.to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend((packed.len() as u16 + 8).to_le_bytes());
    bytes.extend(&packed);
    let file = PerfData::open(bytes.as_slice()).expect("a file");
    let entries = file.records().map(|entry| entry.expect("whole"));
    let sizes = entries.map(|entry| (entry.was_compressed, entry.size));
    assert_eq!(sizes.filter(|found| *found == (true, 0x1010)).count(), 31 * 200);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), number in 0_usize..20, at: u16) {
        // As a record of each kind, in a file from a pipe.
        for kind in (0..24).chain(64..84) {
            let mut all = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
            all.extend(u32::to_le_bytes(kind));
            all.extend([bytes.first().copied().unwrap_or(0), 0x40, bytes.len() as u8 + 8, 0]);
            all.extend(&bytes);
            support::check(&all);
        }
        // In the place of something that was right.
        let mut damaged = file(&some_records()[number..]);
        let at = usize::from(at) % damaged.len();
        let end = damaged.len().min(at + bytes.len());
        damaged[at..end].copy_from_slice(&bytes[..end - at]);
        support::check(&damaged);
    }
}
