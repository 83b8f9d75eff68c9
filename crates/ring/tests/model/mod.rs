//! What the model checkers run: writers of one small ring beside its reader, which checks what it finds.

#[cfg(loom)]
use loom::thread;
use mote_layout::record::{PREFIX_BYTES, split};
use mote_ring::atomic_writer::AtomicWriter;
use mote_ring::geometry::Mode;
use mote_ring::model::{Model, lost};
use mote_ring::reader::{Look, Reader};
use mote_ring::writer::{Outcome, Payload, Record, Write};
#[cfg(shuttle)]
use shuttle::thread;

/// A record of one grain: the prefix, and 4 bytes that repeat its tag.
const BYTES: usize = PREFIX_BYTES + 4;

fn write(model: &Model, tag: u16) -> Outcome {
    let word = u64::from(tag);
    let payload = Payload::Words { from: (&raw const word).cast(), len: 4 };
    // SAFETY: 8 bytes can be read there.
    unsafe { AtomicWriter.write(model.writer(), Record { tag, thread: 7, payload }) }
}

/// What a reader has found.
#[derive(Default)]
pub(crate) struct Found {
    /// Their tags, in order.
    pub(crate) tags: Vec<u16>,
    /// Records that were overwritten before they were read; at least.
    pub(crate) overwritten: u64,
}

impl Found {
    /// Looks `times` times and checks what is there.
    fn look(&mut self, reader: &mut Reader<'_>, times: usize) {
        for _ in 0..times {
            match reader.look() {
                Look::Ready(chunk) => {
                    let mut bytes = vec![0; chunk.len()];
                    if reader.copy(chunk, &mut bytes) {
                        self.records(&bytes);
                    } else {
                        self.overwritten += (chunk.len() / BYTES) as u64;
                    }
                    reader.release(chunk);
                }
                Look::Overwritten(bytes) => self.overwritten += bytes.div_ceil(BYTES as u64),
                Look::Empty => {}
                Look::Damaged => panic!("a ring of honest writers contradicts itself"),
            }
        }
    }

    fn records(&mut self, bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(BYTES), "whole records only");
        let mut last = 0;
        for record in bytes.chunks_exact(BYTES) {
            let (tag, time) = split(u64::from_le_bytes(record[..8].try_into().unwrap()));
            assert_eq!(record[8..12], 7u32.to_le_bytes(), "torn");
            assert_eq!(record[12..16], u32::from(tag).to_le_bytes(), "torn");
            assert!(time >= last, "times decrease");
            last = time;
            assert!(!self.tags.contains(&tag), "twice");
            self.tags.push(tag);
        }
    }
}

/// Writes each list of tags from a thread of its own beside a reader; then reads the rest. Answers the reader's findings and the writers' losses.
pub(crate) fn run<const N: usize>(
    mode: Mode,
    before: &[u16],
    lists: [&'static [u16]; N],
    looks: usize,
) -> (Found, u64, u64) {
    let model = Model::new(mode);
    let mut refused = before.iter().filter(|tag| write(model, **tag) != Outcome::Written).count() as u64;
    let writers = lists.map(|tags| {
        thread::spawn(move || {
            tags.iter().filter(|tag| write(model, **tag) != Outcome::Written).count() as u64
        })
    });
    let mut reader = model.reader();
    let mut found = Found::default();
    found.look(&mut reader, looks);
    for writer in writers {
        refused += writer.join().unwrap();
    }
    found.look(&mut reader, 12);
    let told = lost(&reader);
    (found, refused, told)
}
