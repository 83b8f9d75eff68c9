//! Another process writes anything it likes into the channel: readers and writers go on, end, and stay inside their
//! mapping.
//!
//! Each mapping has pages without access before and behind it, so that a step outside is a SIGSEGV.

#[path = "support/child.rs"]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod child;
mod common;
#[path = "support/random.rs"]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod random;

use common::small;
use mote_ring::atomic_writer::AtomicWriter;
use mote_ring::control::{CONTROL_BYTES, SLOT_BYTES};
use mote_ring::reader::{Channel, Chunk, Look, Reader};
use mote_ring::rseq_writer::RseqWriter;
use mote_ring::threads::ThreadName;
use mote_ring::writer::{Payload, Write};
use mote_ring::{Clock, Fragment, Geometry, Mode, Record, Writer};
use mote_sys::mem::Mapping;
use random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const GUARD: usize = 16 * PAGE;

/// Maps `len` bytes without access where nothing is yet: at an address, or (0) anywhere.
fn guard(at: usize, len: usize) {
    let fixed = if at != 0 { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: it replaces nothing.
    unsafe { libc::mmap(at as *mut _, len, libc::PROT_NONE, flags, -1, 0) };
}

/// Whether no thread may touch the `GUARD` bytes at an address, if need be from now on.
fn fenced(at: usize) -> bool {
    (at..at + GUARD).step_by(PAGE).for_each(|page| guard(page, PAGE));
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut closed = maps.lines().filter(|line| line.contains(" ---p ")).map(range);
    closed.any(|range| range.start <= at && at + GUARD <= range.end)
}

/// The addresses of a line of `/proc/self/maps`.
fn range(line: &str) -> std::ops::Range<usize> {
    let (from, rest) = line.split_once('-').expect("a range");
    let until = rest.split(' ').next().expect("an end");
    let address = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
    address(from)..address(until)
}

/// Makes something whose shared memory is `len` bytes, until it has guards on both sides: at most `slack` bytes of its
/// own lie between that memory and the guard behind. What is made in vain stays, and fills the holes that older
/// mappings left.
fn guarded<T>(len: usize, slack: usize, make: impl Fn() -> (T, usize)) -> T {
    for _ in 0..500 {
        guard(0, GUARD);
        let (made, base) = make();
        let end = base + len;
        if (end..=end + slack).step_by(PAGE).any(fenced) && fenced(base - GUARD) {
            return made;
        }
        std::mem::forget(made);
    }
    panic!("no place between guards");
}

fn guarded_channel(geometry: Geometry) -> Channel {
    guarded(geometry.total_bytes() as usize, 0, || {
        let channel = Channel::make(geometry, 0..geometry.rings()).expect("memory");
        let base = std::ptr::from_ref(channel.threads()) as usize;
        (channel, base)
    })
}

/// Where channels' files are mapped in this process.
fn mappings() -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    maps.lines().filter(|line| line.contains("memfd:mote-channel")).map(|line| range(line).start).collect()
}

/// The shared words of a channel, as a hostile process has them mapped.
struct Scribbler {
    memory: Mapping,
    words: Vec<usize>,
    geometry: Geometry,
    random: Random,
}

impl Scribbler {
    fn new(channel: &Channel, seed: u64, table: bool) -> Scribbler {
        let geometry = channel.geometry();
        let memory =
            Mapping::shared(channel.memfd(), geometry.total_bytes() as usize).expect("address space");
        let control = CONTROL_BYTES + SLOT_BYTES * geometry.sub_count() as usize;
        let rings = (0..geometry.rings()).map(|ring| geometry.control_offset(ring) as usize);
        let mut words: Vec<usize> = rings.flat_map(|at| (at..at + control).step_by(8)).collect();
        if table {
            words.extend((0..geometry.control_offset(0) as usize).step_by(8));
        }
        Scribbler { memory, words, geometry, random: Random::new(seed) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is a multiple of 8 inside the mapping, whose words are referred to as atomics only.
        unsafe { &*self.memory.base().wrapping_add(at).cast() }
    }

    /// Writes one word: nonsense, or something that is nearly right.
    fn scribble(&mut self) {
        let at = self.words[self.random.below(self.words.len() as u64) as usize];
        let near = self.random.below(40).wrapping_sub(20);
        let control =
            self.geometry.control_offset(self.random.below(self.geometry.rings().into()) as u32) as usize;
        let pos = self.word(control).load(Relaxed);
        let value = match self.random.below(10) {
            0 => self.random.next(),
            1 => near,
            2 => u64::MAX.wrapping_add(near),
            3 => (1u64 << 56).wrapping_add(near),
            4 => pos.wrapping_add(near),
            5 => pos.wrapping_add(self.geometry.sub_bytes()).wrapping_add(near),
            6 => pos | (self.geometry.sub_bytes() - 1),
            7 => (self.random.below(64) << self.geometry.sub_bits).wrapping_add(near),
            8 => self.word(control + 128).load(Relaxed).wrapping_add(self.geometry.sub_bytes()),
            _ => (self.random.next() << 40).wrapping_add(pos & 0xff_ffff_ffff),
        };
        let to = if self.random.once_in(2) { control } else { at };
        self.word(to).store(value, Relaxed);
    }
}

/// Does to a reader whatever a consumer might, and checks that the answers are possible.
fn use_reader(reader: &mut Reader<'_>, geometry: Geometry, buffer: &mut Vec<u8>, random: &mut Random) {
    match reader.look() {
        Look::Ready(chunk) => {
            let sub = |position| position >> geometry.sub_bits;
            assert!(chunk.from < chunk.to && sub(chunk.from) == sub(chunk.to - 1), "{chunk:?}");
            assert_eq!(chunk.from, reader.position());
            buffer.resize(chunk.len(), 0);
            let _ = reader.copy(chunk, buffer);
            match random.below(4) {
                0 => {}
                1 => reader.release(Chunk {
                    to: chunk.from + (chunk.to - chunk.from) / 2,
                    time_end: None,
                    ..chunk
                }),
                _ => reader.release(chunk),
            }
        }
        Look::Overwritten(_) => assert_eq!(geometry.mode, Mode::Overwrite),
        Look::Empty | Look::Damaged => {}
    }
    if random.once_in(20) {
        let _ = (reader.give_up(), reader.lost(), reader.written());
    }
    assert!(reader.backlog() <= geometry.ring_bytes());
}

fn geometries() -> impl Iterator<Item = Geometry> {
    let sizes = [(12, 1), (12, 6), (16, 3)];
    let modes = [Mode::Discard, Mode::Overwrite];
    sizes.into_iter().flat_map(move |(sub_bits, count_bits)| {
        modes.map(|mode| Geometry { cpus: 1, shared: 1, sub_bits, count_bits, mode, clock: Clock::Tsc })
    })
}

#[test]
fn a_reader_survives_any_words() {
    child::passes(|| {
        for (seed, geometry) in geometries().enumerate() {
            let channel = guarded_channel(geometry);
            let mut scribbler = Scribbler::new(&channel, seed as u64, false);
            let mut random = Random::new(!seed as u64);
            let mut buffer = Vec::new();
            let mut readers = [0, 1].map(|ring| channel.reader(ring).expect("a ring"));
            for _ in 0..60_000 {
                scribbler.scribble();
                for reader in &mut readers {
                    use_reader(reader, geometry, &mut buffer, &mut random);
                }
            }
        }
    });
}

#[test]
fn a_reader_survives_words_that_change_under_its_eyes() {
    child::passes(|| {
        for (seed, geometry) in geometries().enumerate() {
            let channel = guarded_channel(geometry);
            let mut scribbler = Scribbler::new(&channel, seed as u64, true);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        scribbler.scribble();
                    }
                });
                let mut random = Random::new(!seed as u64);
                let mut buffer = Vec::new();
                let mut readers = [0, 1].map(|ring| channel.reader(ring).expect("a ring"));
                let end = Instant::now() + Duration::from_millis(150);
                while Instant::now() < end {
                    for reader in &mut readers {
                        use_reader(reader, geometry, &mut buffer, &mut random);
                    }
                    let _ = (channel.threads().pop(), channel.threads().skip(), channel.threads().nameless());
                }
                over.store(true, Relaxed);
            });
        }
    });
}

/// Writes records of all kinds through both writers, whatever comes of them.
fn use_writer(writer: &Writer, geometry: Geometry, random: &mut Random, bytes: &[u8]) {
    let most = if random.once_in(4) { geometry.sub_bytes() + 100 } else { 200 };
    let len = random.below(most) as usize;
    let from = bytes.as_ptr();
    let parts = [Fragment { from, len: len / 3 }, Fragment { from, len: len - len / 3 }];
    let payload =
        if len < 300 { Payload::Words { from, len } } else { Payload::Fragments { list: &parts, len } };
    let record = Record { tag: 1, thread: random.next() as u32, payload };
    let _ = match random.below(3) {
        // SAFETY: the payload is of `bytes`, which are longer by a word.
        0 => unsafe { RseqWriter.write(writer, record) },
        // SAFETY: as above.
        1 => unsafe { AtomicWriter.write(writer, record) },
        // SAFETY: as above.
        _ => unsafe { writer.write(record) },
    };
}

#[test]
fn a_writer_survives_words_that_change_under_its_hands() {
    child::passes(|| {
        mote_sync::rseq::find();
        let cpus = small(Mode::Discard).cpus;
        for (seed, geometry) in geometries().enumerate() {
            let clock = if seed % 3 == 2 { Clock::Monotonic } else { Clock::Tsc };
            let geometry = Geometry { cpus, clock, ..geometry };
            let channel = Channel::make(geometry, 0..geometry.rings()).expect("memory");
            let mut scribbler = Scribbler::new(&channel, seed as u64, true);
            let map = || Writer::map(channel.memfd(), geometry).expect("address space");
            let writer = guarded_writer(geometry, map);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        scribbler.scribble();
                    }
                });
                let mut random = Random::new(!seed as u64);
                let bytes = vec![7; geometry.sub_bytes() as usize + 200];
                let end = Instant::now() + Duration::from_millis(150);
                while Instant::now() < end {
                    use_writer(&writer, geometry, &mut random, &bytes);
                    channel.threads().push(&ThreadName { tid: 1, pid: 2, time: 3, comm: [4; 16] });
                }
                over.store(true, Relaxed);
            });
        }
    });
}

/// The writer's own table of rings may lie between the channel and the guard behind it: to write over it ends outside
/// at the next record.
fn guarded_writer(geometry: Geometry, map: impl Fn() -> Writer) -> Writer {
    guarded(geometry.total_bytes() as usize, PAGE, || {
        let before = mappings();
        let writer = map();
        let fresh = mappings().into_iter().find(|at| !before.contains(at)).expect("a new mapping");
        (writer, fresh)
    })
}
