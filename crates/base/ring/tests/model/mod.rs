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
    /// The tags of each chunk, and what was lost before it.
    chunks: Vec<(Vec<u16>, u64)>,
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
                        let before = self.tags.len();
                        self.records(&bytes);
                        self.chunks.push((self.tags[before..].to_vec(), chunk.lost));
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

/// Writes the records with these tags; returns those that were lost.
fn write_all(model: &Model, tags: &[u16]) -> Vec<u16> {
    tags.iter().copied().filter(|tag| write(model, *tag) != Outcome::Written).collect()
}

/// Before each chunk as many were lost as it says: not less than what its threads had lost before they wrote what is in
/// front of it, and not more than what they had not lost only after they wrote what is behind.
fn check_gaps(chunks: &[(Vec<u16>, u64)], lists: &[&[u16]], lost: &[u16]) {
    let place = |tag: u16| {
        let of = |list: &&[u16]| list.iter().position(|other| *other == tag);
        lists.iter().enumerate().find_map(|(list, tags)| Some((list, of(tags)?))).unwrap()
    };
    for (at, (_, told)) in chunks.iter().enumerate() {
        let (front, behind) = chunks.split_at(at);
        let tags = |chunks: &[(Vec<u16>, u64)]| chunks.iter().flat_map(|(tags, _)| tags.clone()).collect();
        let (front, behind): (Vec<u16>, Vec<u16>) = (tags(front), tags(behind));
        let before = |a: u16, b: u16| place(a).0 == place(b).0 && place(a).1 < place(b).1;
        let least = lost.iter().filter(|lost| front.iter().any(|tag| before(**lost, *tag))).count() as u64;
        let later = lost.iter().filter(|lost| behind.iter().any(|tag| before(*tag, **lost))).count() as u64;
        let most = lost.len() as u64 - later;
        assert!((least..=most).contains(told), "{told} lost before {behind:?}, not {least} to {most}");
    }
}

/// Writes each list of tags from a thread of its own beside a reader; then reads the rest. Returns the reader's
/// findings and the writers' losses.
pub(crate) fn run<const N: usize>(
    mode: Mode,
    before: &'static [u16],
    lists: [&'static [u16]; N],
    looks: usize,
) -> (Found, u64, u64) {
    let model = Model::new(mode);
    let mut refused = write_all(model, before);
    let writers = lists.map(|tags| thread::spawn(move || write_all(model, tags)));
    let mut reader = model.reader();
    let mut found = Found::default();
    found.look(&mut reader, looks);
    for writer in writers {
        refused.extend(writer.join().unwrap());
    }
    found.look(&mut reader, 12);
    let told = lost(&reader);
    if mode == Mode::Discard {
        let all: Vec<&[u16]> = [before].into_iter().chain(lists).collect();
        check_gaps(&found.chunks, &all, &refused);
    }
    (found, refused.len() as u64, told)
}
