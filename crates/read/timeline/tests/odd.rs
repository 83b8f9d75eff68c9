//! Traces that others made, not quite as the specification has it: all is read, and what is odd is a warning. What is
//! missing is an error.

use mote_timeline::{Entry, Fault, Problem, Range, Trace};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// What a stream of bytes is that has no packets: an event is 8 bytes of time and one of `a`.
const PLAIN: &str = "trace { major = 1; minor = 8; byte_order = le; };
    clock { name = c; };
    stream { event.header := struct { integer { size = 64; map = clock.c.value; } timestamp; }; };
    event { name = e; fields := struct { integer { size = 8; } a; }; };";

/// The same in packets with a UUID, their times and their size in bits.
const PACKETS: &str = "trace { major = 1; minor = 8; byte_order = le; uuid = \"01010101-0101-0101-0101-010101010101\";
        packet.header := struct { integer { size = 32; align = 8; } magic; integer { size = 8; } uuid[16]; }; };
    clock { name = c; };
    typealias integer { size = 64; align = 8; map = clock.c.value; } := time_t;
    stream {
        packet.context := struct { time_t timestamp_begin; time_t timestamp_end; integer { size = 64; } packet_size; };
        event.header := struct { time_t timestamp; };
    };
    event { name = e; fields := struct { integer { size = 8; } a; }; };";

fn event(time: u64, a: u8) -> Vec<u8> {
    [&time.to_le_bytes()[..], &[a]].concat()
}

/// A packet of [`PACKETS`] with these bytes of its UUID and times, and events at 10 and 20.
fn packet(uuid: u8, begin: u64, end: u64) -> Vec<u8> {
    let events = [event(10, 1), event(20, 2)].concat();
    let size = (4 + 16 + 24 + events.len() as u64) * 8;
    let header = [&0xc1fc_1fc1_u32.to_le_bytes()[..], &[uuid; 16]].concat();
    let context = [begin, end, size].map(u64::to_le_bytes).concat();
    [header, context, events].concat()
}

fn write(metadata: &str, stream: &[u8]) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("metadata"), metadata).expect("written");
    fs::write(dir.path().join("stream"), stream).expect("written");
    dir
}

/// The events' `a`, whether all could be read, and what was wrong in words.
fn read(dir: &Path) -> (Vec<i128>, bool, Vec<String>) {
    let trace = Trace::open(dir).expect("a trace");
    let mut events = trace.events(Range::ALL);
    let mut seen = Vec::new();
    while let Some(entry) = events.next() {
        if let Entry::Event(record) = entry {
            seen.push(record.event().expect("an event").payload().integer("a").expect("a"));
        }
    }
    let problems = [trace.problems(), events.problems()];
    let words = problems.iter().flat_map(|problems| problems.list()).map(Problem::to_string).collect();
    (seen, problems.iter().all(|problems| !problems.is_broken()), words)
}

#[test]
fn a_stream_without_packet_sizes_that_is_cut_is_told() {
    let whole = [event(10, 1), event(20, 2), event(30, 3)].concat();
    for len in 1..=whole.len() {
        let dir = write(PLAIN, &whole[..len]);
        let (seen, good, words) = read(dir.path());
        assert_eq!(seen, [1, 2, 3][..len / 9], "cut at {len}");
        if len % 9 == 0 {
            assert!(good && words.is_empty(), "{words:?}");
        } else {
            assert!(!good);
            let [word] = &words[..] else { panic!("{words:?}") };
            assert!(
                word.contains("stream, byte ") && word.contains("the file ends inside an event"),
                "{word}"
            );
        }
    }
}

#[test]
fn packets_of_another_uuid_are_read_with_one_warning() {
    let dir = write(PACKETS, &[packet(1, 5, 20), packet(2, 20, 30), packet(2, 30, 40)].concat());
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1, 2, 1, 2, 1, 2], true), "{words:?}");
    let told = words.iter().filter(|word| word.contains("UUID of another trace")).count();
    assert_eq!(told, 1, "{words:?}");
    assert!(words.iter().all(|word| word.starts_with("warning: ")), "{words:?}");
}

#[test]
fn an_event_behind_the_end_of_its_packet_is_read_with_a_warning() {
    let dir = write(PACKETS, &packet(1, 5, 15));
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1, 2], true));
    assert!(matches!(&words[..], [word] if word.contains("later than the end of its packet")), "{words:?}");
}

#[test]
fn events_out_of_order_are_read_with_one_warning_a_stream() {
    let times = [10, 30, 20, 40, 15, 50];
    let stream: Vec<u8> = times.iter().zip(1..).flat_map(|(time, a)| event(*time, a)).collect();
    let dir = write(PLAIN, &stream);
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1, 2, 3, 4, 5, 6], true));
    let [word] = &words[..] else { panic!("{words:?}") };
    assert!(word.starts_with("warning: ") && word.contains("stream, byte 2"), "{word}");
    assert!(word.contains("an event is earlier than the one before it"), "{word}");
    // A range has those that are in it, whatever is between them.
    let trace = Trace::open(dir.path()).expect("a trace");
    let mut events = trace.events(Range { from: 15, to: 30 });
    let mut seen = Vec::new();
    while let Some(entry) = events.next() {
        let Entry::Event(record) = entry else { panic!("no loss here") };
        seen.push(record.time());
    }
    assert_eq!(seen, [30, 20, 15]);
}

#[test]
fn packets_out_of_order_are_read_with_a_warning() {
    let dir = write(PACKETS, &[packet(1, 9, 20), packet(1, 5, 20)].concat());
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1, 2, 1, 2], true), "{words:?}");
    let told = |what: &str| words.iter().filter(|word| word.contains(what)).count();
    assert_eq!(told("stream, byte 62: packets are not in the order of time"), 1, "{words:?}");
    assert_eq!((told("an event is earlier than the one before it"), words.len()), (1, 2), "{words:?}");
}

#[test]
fn a_packet_of_a_crashed_program_without_an_end_is_read_with_a_warning() {
    let dir = write(PACKETS, &packet(1, 5, 0));
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1, 2], true));
    assert!(matches!(&words[..], [word] if word.contains("a packet has no end")), "{words:?}");
}

#[test]
fn odd_metadata_are_a_warning_with_their_place() {
    let dir = write(&format!("{PLAIN}\nstruct s {{ string a; }}\nevent {{ name = f; id = 1; }};"), &[]);
    assert!(Trace::open(dir.path()).is_err(), "two events, and none in the header");
    let odd = PLAIN.replace("name = c;", "name = c; vendor = 1;");
    let dir = write(&odd, &event(10, 1));
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1], true));
    let place = "metadata: metadata line 2, column 23: unknown attribute of a clock; it is not used";
    assert!(
        matches!(&words[..], [word] if word.starts_with("warning: ") && word.ends_with(place)),
        "{words:?}"
    );
}

#[test]
fn times_that_nanoseconds_cannot_tell_are_an_error() {
    let slow = PLAIN.replace("name = c;", "name = c; freq = 1;");
    let dir = write(&slow, &[event(10, 1), event(9_223_372_036, 2)].concat());
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good, words), (vec![1, 2], true, vec![]));
    let dir = write(&slow, &[event(10, 1), event(9_223_372_037, 2)].concat());
    let (seen, good, words) = read(dir.path());
    assert_eq!((seen, good), (vec![1, 2], false));
    assert!(matches!(&words[..], [word] if word.contains("too late to show")), "{words:?}");
}

#[test]
fn more_streams_than_descriptors_are_read() {
    let dir = write(PLAIN, &event(0, 0));
    for stream in 0..2047 {
        fs::write(dir.path().join(format!("s{stream}")), event(stream, 1)).expect("written");
    }
    let trace = Trace::open(dir.path()).expect("a trace");
    let mut events = trace.events(Range::ALL);
    let mut seen = 0;
    let mut most = 0;
    while let Some(Entry::Event(_)) = events.next() {
        if seen % 256 == 0 {
            most = most.max(fs::read_dir("/proc/self/fd").expect("descriptors").count());
        }
        seen += 1;
    }
    assert!(events.problems().is_empty(), "{:?}", events.problems());
    assert_eq!(seen, 2048);
    assert!(most < 600, "{most} descriptors, of which a shell gives 1,024");
}

#[test]
fn faults_are_errors_or_warnings() {
    assert!(Fault::LateEvent.is_warning() && Fault::ForeignUuid.is_warning() && Fault::NoEnd.is_warning());
    assert!(!Fault::CutEvent.is_warning() && !Fault::CutShort { missing: 1 }.is_warning());
}
