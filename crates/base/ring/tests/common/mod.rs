//! A channel with its writer and its readers in one process, for the tests of single steps.
#![allow(dead_code, unreachable_pub, missing_docs)]

use mote_layout::record::{PREFIX_BYTES, split};
use mote_ring::atomic_writer::AtomicWriter;
use mote_ring::reader::{Channel, Chunk, Look, Reader};
use mote_ring::rseq_writer::RseqWriter;
use mote_ring::writer::{Payload, Write};
use mote_ring::{Clock, Fragment, Geometry, Mode, Outcome, Record, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rseq,
    Atomic,
}

/// The writers that can be had here.
pub fn kinds() -> Vec<Kind> {
    if mote_sync::rseq::find() {
        vec![Kind::Rseq, Kind::Atomic]
    } else {
        mote_skip::skip("the rseq writer: the C library has registered no restartable sequences");
        vec![Kind::Atomic]
    }
}

/// Four sub-buffers of 4 KiB, one shared ring.
pub fn small(mode: Mode) -> Geometry {
    let cpus = mote_sys::process::possible_cpus().expect("the number of CPUs");
    Geometry { cpus, shared: 1, sub_bits: 12, count_bits: 2, mode, clock: Clock::Tsc }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub tag: u16,
    pub thread: u32,
    pub payload: Vec<u8>,
}

pub struct Lab {
    pub channel: Channel,
    pub writer: Writer,
    pub kind: Kind,
    /// The ring that the writer writes to; the thread stays on its CPU.
    pub ring: u32,
}

impl Lab {
    pub fn new(kind: Kind, geometry: Geometry) -> Lab {
        let channel = Channel::make(geometry, 0..geometry.rings()).expect("memory");
        let writer = Writer::map(channel.memfd(), geometry).expect("address space");
        let ring = match kind {
            Kind::Rseq => stay(),
            Kind::Atomic => geometry.cpus,
        };
        Lab { channel, writer, kind, ring }
    }

    pub fn reader(&self) -> Reader<'_> {
        self.channel.reader(self.ring).expect("a ring")
    }

    /// Writes a record; the tag is its length.
    pub fn write(&self, thread: u32, payload: &[u8]) -> Outcome {
        let len = payload.len();
        let mut words = vec![0u64; len / 8 + 1];
        for (word, bytes) in words.iter_mut().zip(payload.chunks(8)) {
            let mut whole = [0xee; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        self.write_payload(len as u16, thread, Payload::Words { from: words.as_ptr().cast(), len })
    }

    /// Writes a record of fragments.
    pub fn write_parts(&self, thread: u32, parts: &[&[u8]]) -> Outcome {
        let list: Vec<_> =
            parts.iter().map(|part| Fragment { from: part.as_ptr(), len: part.len() }).collect();
        let len = list.iter().map(|part| part.len).sum();
        self.write_payload(len as u16, thread, Payload::Fragments { list: &list, len })
    }

    fn write_payload(&self, tag: u16, thread: u32, payload: Payload<'_>) -> Outcome {
        let record = Record { tag, thread, payload };
        match self.kind {
            // SAFETY: the callers' payloads are readable, words whole.
            Kind::Rseq => unsafe { RseqWriter.write(&self.writer, record) },
            // SAFETY: as above.
            Kind::Atomic => unsafe { AtomicWriter.write(&self.writer, record) },
        }
    }

    /// Writes `word` where the ring's control words have offset `offset`, as a hostile process would.
    pub fn scribble(&self, offset: u64, word: u64) {
        let at = self.channel.geometry().control_offset(self.ring) + offset;
        mote_sys::fd::write_at(self.channel.memfd(), &word.to_le_bytes(), at).expect("a write to the memfd");
    }

    /// Fills the ring with records of 100 bytes until one is lost. Returns how many went in.
    pub fn fill(&self) -> (u32, Outcome) {
        let mut count = 0;
        loop {
            match self.write(count, &[count as u8; 100]) {
                Outcome::Written => count += 1,
                lost => return (count, lost),
            }
            assert!(count < 1_000_000, "the ring never gets full");
        }
    }
}

/// Keeps the calling thread on the CPU where it is and returns that CPU.
pub fn stay() -> u32 {
    let cpu = mote_sync::rseq::cpu_hint().expect("a registered thread");
    let mut mask = [0u64; 16];
    mask[cpu as usize / 64] = 1 << (cpu % 64);
    // SAFETY: the mask is readable for its size.
    let bound = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), (&raw const mask).cast()) };
    assert_eq!(bound, 0, "sched_setaffinity");
    mote_sync::rseq::cpu_hint().expect("a registered thread")
}

/// The bytes of a chunk, which no writer has overwritten.
pub fn bytes_of(reader: &Reader<'_>, chunk: Chunk) -> Vec<u8> {
    let mut bytes = vec![0; chunk.len()];
    assert!(reader.copy(chunk, &mut bytes), "overwritten meanwhile");
    bytes
}

/// The records in `bytes`, whose tags are their lengths.
pub fn records(mut bytes: &[u8]) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut before = 0;
    while !bytes.is_empty() {
        let (tag, time) = split(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")));
        assert!(time >= before, "time goes back");
        before = time;
        let thread = u32::from_le_bytes(bytes[8..PREFIX_BYTES].try_into().expect("4 bytes"));
        let end = PREFIX_BYTES + usize::from(tag);
        all.push(Seen { tag, thread, payload: bytes[PREFIX_BYTES..end].to_vec() });
        bytes = &bytes[end..];
    }
    all
}

/// Reads and releases everything that is there, without a gap.
pub fn read_all(reader: &mut Reader<'_>) -> Vec<Seen> {
    let mut all = Vec::new();
    loop {
        match reader.look() {
            Look::Ready(chunk) => {
                all.extend(records(&bytes_of(reader, chunk)));
                reader.release(chunk);
            }
            Look::Empty => return all,
            other => panic!("{other:?}"),
        }
    }
}
