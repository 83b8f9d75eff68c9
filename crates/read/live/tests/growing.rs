//! A recording that is read while it is made: packets, streams and events come while the reader reads, and what it
//! reads is what it would have read at the end.

#[path = "../../timeline/examples/make_trace/build.rs"]
mod build;

use build::{EPOCH, Plan};
use mote_ctf::Schema;
use mote_journal::Fact;
use mote_layout::packet::{CONTENT_SIZE_AT, PacketHeader, STREAM_PER_CPU, TIMESTAMP_END_AT};
use mote_layout::record;
use mote_live::{Growing, Growth, NoGrowth};
use mote_timeline::{Entry, Events, Facts, Part, Range, Storage, Trace};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Id of the trace, as in the metadata.
const UUID: [u8; 16] = *b"mote make_trace!";

/// Time, stream, class name and the first field of an event; of a loss, how many events.
type Seen = (i64, usize, String, i128);

fn seen(entry: &Entry<'_>) -> Seen {
    match entry {
        Entry::Event(record) => {
            let event = record.event().expect("an event");
            let payload = event.payload();
            let value = payload.integer("a").or_else(|| payload.integer("n")).unwrap_or(-1);
            (record.time(), record.stream_index(), record.name().to_owned(), value)
        }
        Entry::Loss(loss) => (loss.time, 0, "lost".to_owned(), i128::from(loss.loss.events)),
    }
}

fn read(events: &mut Events<'_>, into: &mut Vec<Seen>) {
    while let Some(entry) = events.next() {
        into.push(seen(&entry));
    }
    assert!(events.problems().is_empty(), "{:?}", events.problems());
}

/// A packet, and when it begins.
#[derive(Debug)]
struct Packet {
    begin: i64,
    bytes: Vec<u8>,
}

fn packets(path: &Path) -> VecDeque<Packet> {
    let mut rest = fs::read(path).expect("readable");
    let mut packets = VecDeque::new();
    while !rest.is_empty() {
        let word = |at: usize| u64::from_le_bytes(*rest[at..].first_chunk().expect("a header"));
        let begin = (EPOCH + word(TIMESTAMP_END_AT - 8)).cast_signed();
        let behind = rest.split_off((word(CONTENT_SIZE_AT + 8) / 8) as usize);
        packets.push_back(Packet { begin, bytes: std::mem::replace(&mut rest, behind) });
    }
    packets
}

/// What is still to come.
struct World {
    packets: Vec<VecDeque<Packet>>,
    streams: Vec<Growing>,
    seed: u64,
}

impl World {
    fn new(dir: &Path, streams: u32) -> World {
        let packets = (0..streams).map(|stream| packets(&dir.join(format!("stream_{stream}")))).collect();
        World { packets, streams: (0..streams).map(|_| Growing::new()).collect(), seed: 7 }
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) as usize % below
    }

    /// A few packets arrive, of any streams.
    fn some_arrive(&mut self) {
        for _ in 0..self.random(4) {
            let stream = self.random(self.streams.len());
            if let Some(packet) = self.packets[stream].pop_front() {
                self.streams[stream].add(&packet.bytes);
            }
        }
    }

    /// Up to when everything has arrived.
    fn until(&self) -> i64 {
        let begins = self.packets.iter().filter_map(|packets| Some(packets.front()?.begin));
        begins.min().map_or(i64::MAX, |begin| begin - 1)
    }

    fn is_over(&self) -> bool {
        self.packets.iter().all(VecDeque::is_empty)
    }

    fn storage(&self, stream: usize) -> (PathBuf, Box<dyn Storage>) {
        (PathBuf::from(format!("stream_{stream}")), Box::new(self.streams[stream].clone()))
    }
}

fn recording(plan: &Plan) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    build::build(dir.path(), plan).expect("built");
    dir
}

fn whole(dir: &Path) -> Vec<Seen> {
    let trace = Trace::open(dir).expect("it opens");
    let mut all = Vec::new();
    read(&mut trace.events(Range::ALL), &mut all);
    all
}

/// The metadata of a recording, with the first `classes` event classes.
fn schema(dir: &Path, classes: usize) -> Schema {
    let mut class =
        mote_ctf::read::metadata(&fs::read(dir.join("metadata")).expect("readable")).expect("sound");
    class.streams.iter_mut().for_each(|stream| stream.events.truncate(classes));
    let text = mote_ctf::write::tsdl(&class).expect("written");
    Schema::parse(text.as_bytes()).expect("sound")
}

fn part(dir: &Path, classes: usize, streams: Vec<(PathBuf, Box<dyn Storage>)>) -> Part {
    Part { dir: PathBuf::new(), schema: schema(dir, classes), facts: None, streams }
}

#[test]
fn packets_arrive_while_the_reader_reads() {
    for lost in [0, 3] {
        let plan = Plan { streams: 5, packet_bytes: 500, lost, journal: false, ..Plan::default() };
        let dir = recording(&plan);
        let mut world = World::new(dir.path(), plan.streams);
        let streams = (0..5).map(|stream| world.storage(stream)).collect();
        let trace = Trace::of(vec![part(dir.path(), 2, streams)]);
        let mut events = trace.events(Range::ALL);
        let (mut all, mut looks) = (Vec::new(), 0);
        while !world.is_over() {
            world.some_arrive();
            let until = world.until();
            events.arrived(until);
            let before = all.len();
            read(&mut events, &mut all);
            assert!(all.iter().all(|(time, ..)| *time <= until), "nothing too early");
            looks += usize::from(all.len() > before);
        }
        events.arrived(i64::MAX);
        read(&mut events, &mut all);
        assert!(looks > 50, "it was read in pieces: {looks}");
        assert!(all.is_sorted_by_key(|(time, ..)| *time));
        assert_eq!(all, whole(dir.path()));
        events.seek(Range::ALL);
        let mut again = Vec::new();
        read(&mut events, &mut again);
        assert_eq!(again, all, "it can be read again from the beginning");
    }
}

/// The packets of a stream with ten events each; those from `second_from` on are of both kinds in turn.
fn made(stream: u32, events: u64, second_from: u64) -> VecDeque<Packet> {
    let mut packets = VecDeque::new();
    let (mut time, mut sequence) = (1000 + u64::from(stream), 0);
    let numbers: Vec<u64> = (0..events).collect();
    for numbers in numbers.chunks(10) {
        let (mut records, begin) = (Vec::new(), time + 1);
        for n in numbers {
            time += 1 + (n * 37 + u64::from(stream) * 11) % 50;
            let is_second = time >= second_from && n % 2 == 0;
            let time = if records.is_empty() { begin } else { time };
            records.extend(record::header(time, u16::from(is_second)).to_le_bytes());
            records.extend((1000 + stream).to_le_bytes());
            if is_second {
                records.extend(n.to_le_bytes());
                records.extend(b"text\0");
            } else {
                records.extend((*n as u32).to_le_bytes());
                records.extend([0; 8]);
            }
        }
        let content = records.len() as u64;
        let (class, lost) = (STREAM_PER_CPU, Default::default());
        let header = PacketHeader {
            uuid: UUID,
            stream_class: class,
            stream,
            begin,
            end: time,
            content,
            sequence,
            cpu: stream,
            lost,
        };
        let bytes = [header.encode().as_slice(), &records].concat();
        sequence += 1;
        packets.push_back(Packet { begin: (EPOCH + begin).cast_signed(), bytes });
    }
    packets
}

/// The first stream is there from the beginning, the others come when they have a packet. The second kind of event
/// comes to the metadata before the first packet that has one, while other packets are half read.
#[test]
fn streams_and_events_come_while_the_reader_reads() {
    const STREAMS: u32 = 6;
    const SECOND_FROM: u64 = 9000;
    let dir = recording(&Plan { journal: false, ..Plan::default() });
    let all_packets: Vec<VecDeque<Packet>> =
        (0..STREAMS).map(|stream| made(stream, 1000, SECOND_FROM)).collect();
    let first_begins: Vec<i64> = all_packets.iter().map(|packets| packets[0].begin).collect();
    let mut world =
        World { packets: all_packets, streams: (0..STREAMS).map(|_| Growing::new()).collect(), seed: 9 };
    let mut trace = Trace::of(vec![part(dir.path(), 1, vec![world.storage(0)])]);
    let mut paused = trace.events(Range::ALL).pause();
    let (mut all, mut half_read) = (Vec::new(), false);
    let mut is_over = false;
    while !is_over {
        is_over = world.is_over();
        let mut growth = Growth::default();
        world.some_arrive();
        let is_second = |packets: &VecDeque<Packet>| {
            packets.front().is_none_or(|next| next.begin >= (EPOCH + SECOND_FROM - 700).cast_signed())
        };
        if trace.classes() == 1 && world.packets.iter().any(is_second) {
            growth.schema = Some(schema(dir.path(), 2));
            half_read = all.last().is_some_and(|(time, ..): &Seen| *time > first_begins[0] + 1000);
        }
        let known = trace.streams().len();
        let has_packet = |stream: &usize| world.streams[*stream].open().expect("open").size() > 0;
        growth.streams = (known..STREAMS as usize).take_while(has_packet).map(|s| world.storage(s)).collect();
        trace.extend(0, growth).expect("it grows");
        let mut events = trace.go_on(paused);
        let unknown = first_begins.iter().skip(trace.streams().len()).min();
        events.arrived(unknown.map_or(i64::MAX, |begin| begin - 1).min(world.until()));
        read(&mut events, &mut all);
        paused = events.pause();
    }
    assert!(half_read, "the metadata have grown while packets were read");
    assert_eq!((trace.streams().len(), trace.classes()), (STREAMS as usize, 2));
    let later = (0..STREAMS as usize).map(|stream| world.storage(stream)).collect();
    let at_the_end = Trace::of(vec![part(dir.path(), 2, later)]);
    let mut expected = Vec::new();
    read(&mut at_the_end.events(Range::ALL), &mut expected);
    assert_eq!(expected.len(), 6000);
    assert!(expected.iter().any(|(_, _, name, _)| name == "test:text"));
    assert_eq!(all, expected);
}

/// The journal of a recording that has just begun has no names; later it has.
#[test]
fn names_come_while_the_reader_reads() {
    let dir = recording(&Plan { streams: 1, ..Plan::default() });
    let path = dir.path().join(mote_journal::DIRECTORY).join(mote_journal::FILE);
    let journal = || mote_journal::read(fs::File::open(&path).map(std::io::BufReader::new).expect("there"));
    let facts = journal().expect("readable").facts;
    let begun = facts.iter().filter(|fact| !matches!(fact, Fact::Thread { .. } | Fact::End(_))).cloned();
    let stream = Growing::new();
    let storage: Box<dyn Storage> = Box::new(stream.clone());
    let part = Part { facts: Some(Facts::new(begun).0), ..part(dir.path(), 2, vec![("s".into(), storage)]) };
    let mut trace = Trace::of(vec![part]);
    let mut packets = packets(&dir.path().join("stream_0"));
    let mut next = |paused, trace: &mut Trace| {
        let mut events = Trace::go_on(trace, paused);
        stream.add(&packets.pop_front().expect("there are several").bytes);
        events.arrived(i64::MAX);
        let mut names = Vec::new();
        while let Some(entry) = events.next() {
            let Entry::Event(record) = entry else { continue };
            names.extend(record.named().map(|(named, _)| named.name.clone()));
        }
        (names, events.pause())
    };
    let paused = trace.events(Range::ALL).pause();
    let (names, paused) = next(paused, &mut trace);
    assert_eq!(names, [""; 0]);
    let growth = Growth { facts: Some(Facts::new(facts).0), ..Growth::default() };
    trace.extend(0, growth).expect("it grows");
    let (names, _) = next(paused, &mut trace);
    assert!(!names.is_empty() && names.iter().all(|name| name == "worker-0"), "{names:?}");
}

#[test]
fn metadata_that_do_not_continue_are_refused() {
    let dir = recording(&Plan { journal: false, ..Plan::default() });
    let mut trace = Trace::of(vec![part(dir.path(), 2, Vec::new())]);
    let growth = Growth { schema: Some(schema(dir.path(), 1)), ..Growth::default() };
    assert_eq!(trace.extend(0, growth), Err(NoGrowth));
    assert_eq!(trace.extend(1, Growth::default()), Err(NoGrowth), "there is one trace");
    assert_eq!(trace.classes(), 2);
}
