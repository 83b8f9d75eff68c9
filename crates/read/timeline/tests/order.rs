//! Events come in the order of time, exactly those of the range, with losses between them.

#[path = "../examples/make_trace/build.rs"]
mod build;

use build::{EPOCH, Plan};
use mote_layout::packet::CONTENT_SIZE_AT;
use mote_timeline::{Entry, Events, Loss, Place, Range, Trace};
use std::path::Path;
use tempfile::TempDir;

/// Byte offset of `packet_size` in a packet: it follows the 64 bits of `content_size`.
const PACKET_SIZE_AT: usize = CONTENT_SIZE_AT + 8;

fn recording(plan: &Plan) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    build::build(dir.path(), plan).expect("built");
    dir
}

/// Time, stream and `a` of all events.
fn all(events: &mut Events<'_>) -> Vec<(i64, usize, i128)> {
    let mut seen = Vec::new();
    while let Some(entry) = events.next() {
        if let Entry::Event(record) = entry {
            let event = record.event().expect("an event");
            seen.push((record.time(), record.stream_index(), event.payload().integer("a").unwrap_or(-1)));
        }
    }
    assert!(events.problems().is_empty(), "{:?}", events.problems());
    seen
}

fn open(dir: &Path) -> Trace {
    let trace = Trace::open(dir).expect("it opens");
    assert!(trace.problems().is_empty(), "{:?}", trace.problems());
    trace
}

#[test]
fn streams_are_merged_by_time() {
    for streams in [1, 2, 3, 7, 40] {
        let dir = recording(&Plan { streams, ..Plan::default() });
        let trace = open(dir.path());
        let seen = all(&mut trace.events(Range::ALL));
        assert_eq!(seen.len(), 1000 * streams as usize);
        assert!(seen.is_sorted_by_key(|(time, ..)| *time));
        for stream in 0..streams as usize {
            let own: Vec<i128> = seen.iter().filter(|(_, s, _)| *s == stream).map(|(.., a)| *a).collect();
            assert!(own.iter().copied().eq(0..1000), "stream {stream} is complete and in order");
        }
    }
}

#[test]
fn events_at_the_same_time_all_come() {
    let dir = recording(&Plan { streams: 5, step: 1, ..Plan::default() });
    assert_eq!(all(&mut open(dir.path()).events(Range::ALL)).len(), 5000);
}

#[test]
fn a_range_holds_exactly_the_events_between_its_ends() {
    let dir = recording(&Plan { packet_bytes: 500, ..Plan::default() });
    let trace = open(dir.path());
    let whole = all(&mut trace.events(Range::ALL));
    let at = |index: usize| whole[index].0;
    let moments =
        [i64::MIN, at(0) - 1, at(0), at(1), at(500), at(501) - 1, at(1998), at(1999), at(1999) + 1, i64::MAX];
    for from in moments {
        for to in moments {
            let expected: Vec<_> =
                whole.iter().copied().filter(|(time, ..)| (from..=to).contains(time)).collect();
            assert_eq!(all(&mut trace.events(Range { from, to })), expected, "{from}..={to}");
        }
    }
}

#[test]
fn journal_and_clock_class_agree_here() {
    let dir = recording(&Plan::default());
    let with = all(&mut open(dir.path()).events(Range::ALL));
    let dir = recording(&Plan { journal: false, ..Plan::default() });
    let without = all(&mut open(dir.path()).events(Range::ALL));
    assert_eq!(with, without);
    assert!(with[0].0 >= EPOCH.cast_signed() + 1_000_000);
}

#[test]
fn threads_have_the_names_of_the_journal() {
    let dir = recording(&Plan::default());
    let trace = open(dir.path());
    let mut events = trace.events(Range::ALL);
    while let Some(entry) = events.next() {
        let Entry::Event(record) = entry else { panic!("no loss here") };
        let tid = record.tid().expect("a thread");
        let (named, _) = record.named().expect("a name");
        assert_eq!(named.name, format!("worker-{}", tid - 1000));
        assert_eq!((record.pid(), record.cpu()), (Some(999), Some(tid - 1000)));
    }
}

#[test]
fn losses_stand_where_they_happened_and_sum_up() {
    let plan = Plan { lost: 7, packet_bytes: 1000, streams: 2, ..Plan::default() };
    let dir = recording(&plan);
    let trace = open(dir.path());
    let mut events = trace.events(Range::ALL);
    let (mut lost, mut by_cause, mut last) = (0, 0, i64::MIN);
    while let Some(entry) = events.next() {
        match entry {
            Entry::Event(record) => {
                assert!(record.time() >= last);
                last = record.time();
            }
            Entry::Loss(record) => {
                let Loss { since, until, events, causes, packets, place, unknown } = record.loss;
                assert!(since.is_none_or(|since| since < *until) && record.time >= last);
                assert_eq!((*events, *packets, *place, *unknown), (7, 0, Place::Packet, 0));
                lost += events;
                by_cause += causes[0];
            }
        }
    }
    let packets: u64 = (0..2).map(|n| last_sequence(dir.path(), n)).sum();
    assert_eq!((lost, by_cause), (7 * packets, lost));
}

/// Packets of the stream before the last.
fn last_sequence(dir: &Path, stream: u32) -> u64 {
    let bytes = std::fs::read(dir.join(format!("stream_{stream}"))).expect("readable");
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let field = at + PACKET_SIZE_AT;
        let bits = u64::from_le_bytes(bytes[field..field + 8].try_into().expect("8 bytes"));
        at += bits as usize / 8;
        packets += 1;
    }
    packets - 1
}

#[test]
fn a_missing_packet_is_a_loss_of_packets() {
    let plan = Plan { packet_bytes: 1000, streams: 1, ..Plan::default() };
    let dir = recording(&plan);
    let path = dir.path().join("stream_0");
    let bytes = std::fs::read(&path).expect("readable");
    let field = PACKET_SIZE_AT;
    let first = u64::from_le_bytes(bytes[field..field + 8].try_into().expect("8 bytes")) as usize / 8;
    // Without the second packet; all but the last are of the same size.
    std::fs::write(&path, [&bytes[..first], &bytes[2 * first..]].concat()).expect("written");
    let trace = open(dir.path());
    let mut events = trace.events(Range::ALL);
    let mut losses = Vec::new();
    while let Some(entry) = events.next() {
        if let Entry::Loss(loss) = entry {
            losses.push((loss.loss.packets, loss.loss.events));
        }
    }
    assert_eq!(losses, [(1, 0)]);
}
