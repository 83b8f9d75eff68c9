//! A reading that seeks, forward and back, sees what one from the beginning sees: also in streams without packet
//! headers or without times in them, and in damaged ones.

#[path = "../examples/make_trace/build.rs"]
mod build;

use build::Plan;
use mote_ctf::Schema;
use mote_layout::packet::{HEADER_BYTES, TIMESTAMP_END_AT};
use mote_timeline::{Entry, Events, Part, Range, Source, Storage, Trace};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// What an entry is known by: time, stream, and of events `a`, of losses how many.
type Seen = (i64, String, i128);

fn read(source: &mut dyn Source) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(entry) = source.next() {
        seen.push(match entry {
            Entry::Event(record) => {
                let a = record.event().and_then(|event| event.payload().integer("a"));
                (record.time(), record.stream_index().to_string(), a.unwrap_or(-1))
            }
            Entry::Loss(loss) => (loss.time, loss.stream.label.clone(), -1 - i128::from(loss.loss.events)),
        });
    }
    seen
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end.max(1)
    }
}

/// Seeks to windows here and there, with one reading and with fresh ones.
fn check(trace: &Trace) -> Vec<Seen> {
    let whole = read(&mut trace.events(Range::ALL));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut events = trace.events(Range { from: whole[whole.len() / 2].0, to: i64::MAX });
    for _ in 0..60 {
        let first = random.below(whole.len());
        let last = (first + random.below(300)).min(whole.len() - 1);
        let jitter = random.below(3) as i64 - 1;
        let range = Range { from: whole[first].0 + jitter, to: whole[last].0.max(whole[first].0) + jitter };
        let expected: Vec<&Seen> =
            events_of(&whole).filter(|seen| (range.from..=range.to).contains(&seen.0)).collect();
        events.seek(range);
        assert_eq!(events_of(&read(&mut events)).collect::<Vec<_>>(), expected, "{range:?}, seeking");
        // Losses at the ends of a window are its own, but how one came there makes no difference.
        events.seek(range);
        assert_eq!(read(&mut events), read(&mut trace.events(range)), "{range:?}");
    }
    events.seek(Range::ALL);
    assert_eq!(read(&mut events), whole);
    whole
}

fn events_of(seen: &[Seen]) -> impl Iterator<Item = &Seen> {
    seen.iter().filter(|(.., number)| *number >= 0)
}

fn recording(plan: &Plan) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    build::build(dir.path(), plan).expect("built");
    dir
}

fn problems(events: &Events<'_>) -> Vec<String> {
    events.problems().list().iter().map(ToString::to_string).collect()
}

#[test]
fn windows_are_found_forward_and_back() {
    for (streams, packet_bytes, events) in
        [(1, 500, 30_000), (3, 500, 3000), (2, 4096, 5000), (1, 1 << 20, 5000)]
    {
        let dir = recording(&Plan { streams, packet_bytes, events, ..Plan::default() });
        let whole = check(&Trace::open(dir.path()).expect("it opens"));
        assert_eq!(whole.len(), events as usize * streams as usize);
    }
}

#[test]
fn losses_are_those_of_the_window_however_one_comes_there() {
    let dir = recording(&Plan { lost: 7, packet_bytes: 700, events: 5000, ..Plan::default() });
    check(&Trace::open(dir.path()).expect("it opens"));
}

#[test]
fn lttng_is_read_from_anywhere() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../lib/ctf/tests/data/lttng-2.16");
    check(&Trace::open(&dir).expect("it opens"));
}

/// A trace in memory.
fn in_memory(metadata: &str, stream: Vec<u8>) -> Trace {
    let schema = Schema::parse(metadata.as_bytes()).expect("sound metadata");
    let storage: Box<dyn Storage> = Box::new(Arc::<[u8]>::from(stream));
    let streams = vec![(PathBuf::from("memory"), storage)];
    Trace::of(vec![Part { dir: PathBuf::new(), schema, facts: None, streams }])
}

#[test]
fn packets_in_memory_are_read_as_files_are() {
    let dir = recording(&Plan { streams: 1, packet_bytes: 700, journal: false, ..Plan::default() });
    let of_file = check(&Trace::open(dir.path()).expect("it opens"));
    let metadata = std::fs::read_to_string(dir.path().join("metadata")).expect("text");
    let bytes = std::fs::read(dir.path().join("stream_0")).expect("bytes");
    assert_eq!(check(&in_memory(&metadata, bytes)), of_file);
}

/// Metadata of a stream with one kind of event, a time of 32 bits and a number; `context` are the fields of the packet
/// context.
fn foreign(context: &str) -> String {
    let context =
        if context.is_empty() { String::new() } else { format!("packet.context := struct {{ {context} }};") };
    format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 32; align = 8; }} := u32;
        typealias integer {{ size = 64; align = 8; }} := u64;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        clock {{ name = c; freq = 1000000000; }};
        typealias integer {{ size = 32; align = 8; map = clock.c.value; }} := time32;
        typealias integer {{ size = 64; align = 8; map = clock.c.value; }} := time64;
        stream {{ {context} event.header := struct {{ time32 timestamp; }}; }};
        event {{ name = e; id = 0; fields := struct {{ u32 a; }}; }};"
    )
}

/// Packets of `count` events each, with the header that `header` makes of begin, end and size in bits; the time wraps.
fn packets(packets: usize, count: u32, header: impl Fn(u64, u64, u32) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut time, mut number) = (u64::from(u32::MAX) - 1_000_000, 0_u32);
    for _ in 0..packets {
        let mut events = Vec::new();
        let begin = time + 1000;
        for _ in 0..count {
            time += 1000;
            events.extend_from_slice(&(time as u32).to_le_bytes());
            events.extend_from_slice(&number.to_le_bytes());
            number += 1;
        }
        let size = header(begin, time, 0).len() + events.len();
        bytes.extend(header(begin, time, size as u32 * 8));
        bytes.extend(events);
    }
    bytes
}

#[test]
fn streams_without_packet_headers_or_times_are_never_short() {
    let all = |trace: &Trace, count: usize| {
        let whole = check(trace);
        assert!(whole.iter().map(|(.., a)| *a).eq(0..count as i128), "every event, in order");
    };
    // The whole file is one packet.
    all(&in_memory(&foreign(""), packets(1, 3000, |_, _, _| Vec::new())), 3000);
    // Sizes only.
    let size = |_: u64, _: u64, bits: u32| bits.to_le_bytes().to_vec();
    all(&in_memory(&foreign("u32 packet_size;"), packets(100, 30, size)), 3000);
    // An end, and no begin: the next packet's times count from the last event.
    let end = |_: u64, end: u64, bits: u32| [&end.to_le_bytes()[..], &bits.to_le_bytes()].concat();
    all(&in_memory(&foreign("time64 timestamp_end; u32 packet_size;"), packets(100, 30, end)), 3000);
    // A begin, and no end.
    let begin = |begin: u64, _: u64, bits: u32| [&begin.to_le_bytes()[..], &bits.to_le_bytes()].concat();
    all(&in_memory(&foreign("time64 timestamp_begin; u32 packet_size;"), packets(100, 30, begin)), 3000);
    // Both, of 32 bits, which wrap: they count from the packet before.
    let short =
        |begin: u64, end: u64, bits: u32| [begin as u32, end as u32, bits].map(u32::to_le_bytes).concat();
    let context = "time32 timestamp_begin; time32 timestamp_end; u32 packet_size;";
    all(&in_memory(&foreign(context), packets(100, 30, short)), 3000);
}

#[test]
fn what_packets_without_an_end_tell_of_losses_is_found_from_anywhere() {
    let lost = |begin: u64, _: u64, bits: u32| {
        let lost = (begin / 1000) as u32;
        [&begin.to_le_bytes()[..], &bits.to_le_bytes(), &lost.to_le_bytes()].concat()
    };
    let context = "time64 timestamp_begin; u32 packet_size; u32 events_discarded;";
    let whole = check(&in_memory(&foreign(context), packets(100, 30, lost)));
    assert_eq!(whole.len() - events_of(&whole).count(), 100, "each packet tells of one");
}

#[test]
fn a_packet_with_wrong_times_hides_nothing() {
    let plan = Plan { streams: 1, packet_bytes: HEADER_BYTES + 40 * 24 + 9, events: 4000, ..Plan::default() };
    let dir = recording(&plan);
    let path = dir.path().join("stream_0");
    let bytes = std::fs::read(&path).expect("readable");
    let whole = read(&mut Trace::open(dir.path()).expect("it opens").events(Range::ALL));
    let packet = HEADER_BYTES + 40 * 24;
    assert_eq!(bytes.len(), 100 * packet);
    // Begin and end of a packet in the middle: far in the future, or in the past.
    for (field, value) in [
        (TIMESTAMP_END_AT - 8, u64::MAX >> 1),
        (TIMESTAMP_END_AT - 8, 3),
        (TIMESTAMP_END_AT, u64::MAX >> 1),
        (TIMESTAMP_END_AT, 3),
    ] {
        let mut damaged = bytes.clone();
        let at = 50 * packet + field;
        damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
        std::fs::write(&path, &damaged).expect("written");
        let trace = Trace::open(dir.path()).expect("it opens");
        let numbers = |range| read(&mut trace.events(range)).into_iter().map(|(.., a)| a).collect::<Vec<_>>();
        // Times of an event count from its packet's begin: the packet's own may be wrong, all others are there.
        let expected =
            |from: usize, to: usize| (from..=to).map(|a| a as i128).filter(|a| !(2000..2040).contains(a));
        for (from, to) in [(100, 200), (1900, 2100), (2050, 2060), (3000, 3100), (0, 3999)] {
            let range = Range { from: whole[from].0, to: whole[to].0 };
            let seen: Vec<i128> = numbers(range).into_iter().filter(|a| !(2000..2040).contains(a)).collect();
            assert!(
                seen.iter().copied().eq(expected(from, to)),
                "field {field} is {value}: {from} to {to}: {seen:?}"
            );
        }
        let mut events = trace.events(Range::ALL);
        read(&mut events);
        let told = problems(&events);
        let said = told.iter().any(|told| told.contains("not in the order of time"));
        assert!(
            said || (field, value) == (TIMESTAMP_END_AT, u64::MAX >> 1),
            "field {field} is {value}: {told:?}"
        );
    }
}

#[test]
fn what_is_wrong_is_told_once_however_often_it_is_read() {
    let dir = recording(&Plan { streams: 1, packet_bytes: 700, ..Plan::default() });
    let path = dir.path().join("stream_0");
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes.truncate(bytes.len() - 5);
    std::fs::write(&path, &bytes).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    let mut events = trace.events(Range::ALL);
    read(&mut events);
    let once = problems(&events);
    assert_eq!(once.len(), 1);
    events.seek(Range::ALL);
    read(&mut events);
    assert_eq!(problems(&events), once);
}
