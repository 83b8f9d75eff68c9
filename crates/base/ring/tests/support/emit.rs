//! One thread that writes records, and its signal handlers, which write too.

use super::board::{Board, STREAMS_OF_THREAD, count};
use super::random::Random;
use super::record::{self, LEN_MAX};
use super::scenario::Kind;
use mote_layout::record::PREFIX_BYTES;
use mote_ring::atomic_writer::AtomicWriter;
use mote_ring::direct::{Piece, Row, Shape, WriteTo};
use mote_ring::reader::Channel;
use mote_ring::rseq_writer::RseqWriter;
use mote_ring::timing::{Noted, Noting, Now, Timing};
use mote_ring::writer::{Payload, Write};
use mote_ring::{Clock, Direct, Fragment, Geometry, Mode, Outcome, Record, Writer};
use mote_sync::thread;
use mote_sys::fd::Fd;
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Signals whose handlers write, in the order of their streams.
pub const SIGNALS: [i32; STREAMS_OF_THREAD - 1] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];
/// Most fragments of a record.
const FRAGMENTS: usize = 6;

/// What the writers of a process share.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub writer: &'static Writer,
    /// Rings that nobody reads, for the records whose time others have.
    pub beside: Option<&'static Writer>,
    pub board: &'a Board,
    pub kind: Kind,
    pub sub_bytes: usize,
}

/// One stream: a thread outside of handlers, or one of its handlers.
struct Stream {
    sequence: u64,
    random: Random,
    words: Vec<u64>,
}

/// A thread that writes.
pub struct Emitter<'a> {
    site: Site<'a>,
    first: usize,
    streams: [UnsafeCell<Stream>; STREAMS_OF_THREAD],
    /// Set while the thread is in a record of its own stream.
    inside: AtomicBool,
}

thread_local! {
    static CURRENT: Cell<*const Emitter<'static>> = const { Cell::new(ptr::null()) };
}

impl<'a> Emitter<'a> {
    /// `None` when all streams have been used.
    pub fn new(site: Site<'a>, seed: u64) -> Option<Emitter<'a>> {
        let first = site.board.enter()?;
        let stream = |number| Stream {
            sequence: 0,
            random: Random::new(seed ^ (first + number) as u64),
            words: vec![0; LEN_MAX / 8 + 2],
        };
        let streams = std::array::from_fn(|number| UnsafeCell::new(stream(number)));
        Some(Emitter { site, first, streams, inside: AtomicBool::new(false) })
    }

    /// Runs `work` with the handlers writing too.
    pub fn serve(&self, work: impl FnOnce()) {
        CURRENT.set(ptr::from_ref(self).cast());
        work();
        CURRENT.set(ptr::null());
    }

    /// Writes one record of the thread's own stream.
    pub fn emit(&self) {
        self.inside.store(true, Relaxed);
        // SAFETY: stream 0 is used here only, which no handler calls.
        unsafe { self.emit_as(0) };
        self.inside.store(false, Relaxed);
    }

    /// # Safety
    /// Nobody else is in the stream `number`.
    unsafe fn emit_as(&self, number: usize) {
        // SAFETY: the caller's promise.
        let stream = unsafe { &mut *self.streams[number].get() };
        let sequence = stream.sequence;
        stream.sequence += 1;
        let payload_max = self.site.sub_bytes - PREFIX_BYTES - 16;
        let len = length(&mut stream.random, payload_max);
        let id = self.first + number;
        record::fill(&mut stream.words, id, sequence, len);
        let counts = self.site.board.counts(id);
        count(&counts.begun);
        let bytes = stream.words.as_ptr().cast::<u8>();
        let mut list = [Fragment { from: bytes, len: 0 }; FRAGMENTS];
        let payload = if len < 3000 && stream.random.once_in(2) {
            Payload::Words { from: bytes, len }
        } else {
            Payload::Fragments { list: cut(&mut list, bytes, len, &mut stream.random), len }
        };
        let record =
            Record { tag: record::tag(sequence, len), thread: record::thread(id, sequence), payload };
        // SAFETY: the payload is in `words`, which has a word more than it needs.
        match unsafe { self.write(record, &mut stream.random) } {
            Outcome::Written => count(&counts.written),
            Outcome::Lost(cause) => count(&counts.lost[cause as usize]),
            Outcome::NotHere => count(&counts.refused),
        }
    }

    /// # Safety
    /// As [`Write::write`].
    unsafe fn write(&self, record: Record<'_>, random: &mut Random) -> Outcome {
        let channel = self.site.writer;
        match self.site.kind {
            // SAFETY: the caller's promise.
            Kind::Rseq => unsafe { RseqWriter.write(channel, record) },
            // SAFETY: the caller's promise.
            Kind::Atomic => unsafe { AtomicWriter.write(channel, record) },
            // SAFETY: the caller's promise.
            Kind::Either => unsafe { channel.write(record) },
            // SAFETY: the caller's promise.
            Kind::Direct => unsafe { self.write_direct(record, random) },
        }
    }

    /// # Safety
    /// As [`Write::write`].
    unsafe fn write_direct(&self, record: Record<'_>, random: &mut Random) -> Outcome {
        let to = Direct::to(self.site.writer, record.tag);
        let beside = self.site.beside.and_then(|beside| Direct::to(beside, 0)).filter(|_| random.once_in(2));
        let (Some(to), Payload::Words { from, len }) = (to, record.payload) else {
            // SAFETY: the caller's promise.
            return unsafe { RseqWriter.write(self.site.writer, record) };
        };
        thread::set_id(record.thread);
        // SAFETY: the caller's promise.
        let short = (len <= 24).then(|| unsafe { Short::cut(from, len, random) });
        let is_written = match (short, beside) {
            (Some(short), Some(beside)) => {
                let moment = Cell::new(to.look());
                short.write_to(beside, Noting(&moment)) && short.write_to(to, Noted(&moment))
            }
            (Some(short), None) => short.write_to(to, Now),
            // SAFETY: the caller's promise.
            (None, _) => unsafe { to.write_words(from, len) },
        };
        match is_written {
            true => Outcome::Written,
            // SAFETY: the caller's promise.
            false => unsafe { to.write_otherwise(from, len) },
        }
    }
}

/// A short payload: nothing, two words, or three pieces.
enum Short {
    Nothing,
    Two([u64; 2]),
    Pieces([Piece; 3]),
}

/// Two whole words.
struct Words;

impl Shape for Words {
    const LEN: usize = 16;
    const SECOND_AT: usize = 8;
}

/// Three pieces.
struct Three;

impl Row for Three {
    const COUNT: usize = 3;
}

impl Short {
    /// # Safety
    /// As [`Write::write`]; `len` is at most 24.
    unsafe fn cut(from: *const u8, len: usize, random: &mut Random) -> Short {
        let mut bytes = [0; 32];
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if len == 0 {
            return Short::Nothing;
        }
        if len == 16 && random.once_in(2) {
            return Short::Two([word(0), word(8)]);
        }
        let first = len.saturating_sub(16).max(random.below(len.min(8) as u64 + 1) as usize);
        let second =
            (len - first).saturating_sub(8).max(random.below((len - first).min(8) as u64 + 1) as usize);
        let piece = |at: usize, len: usize| Piece {
            value: if len == 8 { word(at) } else { word(at) & ((1 << (8 * len)) - 1) },
            len: len as u64,
        };
        Short::Pieces([piece(0, first), piece(first, second), piece(first + second, len - first - second)])
    }
}

impl WriteTo for Short {
    fn write_to<T: Timing>(&self, to: Direct, timing: T) -> bool {
        match self {
            Short::Nothing => to.write_none(timing),
            Short::Two([first, second]) => to.write_two::<Words>(timing, *first, *second),
            // SAFETY: three pieces, of 8 bytes at most.
            Short::Pieces(pieces) => unsafe { to.write_pieces::<Three>(timing, pieces.as_ptr()) },
        }
    }
}

/// The channel in `memfd`, for good.
pub fn map(memfd: &Fd, geometry: Geometry) -> &'static Writer {
    Box::leak(Box::new(Writer::map(memfd, geometry).expect("address space for the rings")))
}

/// Rings of this process that nobody reads.
pub fn beside(cpus: u32) -> &'static Writer {
    let geometry =
        Geometry { cpus, shared: 1, sub_bits: 12, count_bits: 2, mode: Mode::Overwrite, clock: Clock::Tsc };
    let channel = Channel::make(geometry, 0..geometry.rings()).expect("memory for the rings");
    map(channel.memfd(), geometry)
}

/// Most are small, some large, few as large as can be, and very few too large.
fn length(random: &mut Random, payload_max: usize) -> usize {
    let max = payload_max.min(LEN_MAX) as u64;
    let len = match random.below(200) {
        0..90 => random.below(40),
        90..160 => random.below(300),
        160..190 => random.below(3000),
        190..198 => random.below(max + 1),
        198 => max - random.below(12),
        _ => payload_max as u64 + 1 + random.below(40),
    };
    len.min(LEN_MAX as u64) as usize
}

/// Cuts `len` bytes at `from` into fragments, some of them empty.
fn cut<'a>(
    list: &'a mut [Fragment; FRAGMENTS],
    from: *const u8,
    len: usize,
    random: &mut Random,
) -> &'a [Fragment] {
    let parts = 1 + random.below(FRAGMENTS as u64) as usize;
    let mut at = 0;
    for part in &mut list[..parts - 1] {
        let some = random.below((len - at) as u64 + 1) as usize;
        *part = Fragment { from: from.wrapping_add(at), len: some };
        at += some;
    }
    list[parts - 1] = Fragment { from: from.wrapping_add(at), len: len - at };
    &list[..parts]
}

extern "C" fn handler(signal: i32) {
    let emitter = CURRENT.get();
    let Some(number) = SIGNALS.iter().position(|one| *one == signal) else { return };
    if emitter.is_null() {
        return;
    }
    // SAFETY: `serve` keeps the emitter while it is set.
    let emitter = unsafe { &*emitter };
    if emitter.inside.load(Relaxed) {
        emitter.site.board.count_nested();
    }
    let interrupted = thread::id();
    // SAFETY: a signal is blocked while its handler runs, and the stream is that handler's.
    unsafe { emitter.emit_as(number + 1) };
    thread::set_id(interrupted);
}

/// Sets the handler for all [`SIGNALS`] of this process.
pub fn handle_signals() {
    for signal in SIGNALS {
        let action = mote_sys::signal::Action::new(handler as *const () as usize, libc::SA_RESTART, 0);
        // SAFETY: the handler is async-signal-safe: it touches the stack, its own stream, and atomics.
        unsafe { mote_sys::signal::set_action(signal, &action) }.expect("a handler");
    }
}
