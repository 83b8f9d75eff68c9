//! The reader of a ring buffer.

use super::memory::Memory;
use super::memory::Words;
use super::ring::{Look, Ring};

/// Reads the records of a ring buffer in their order. There should be only one at a time: two would give each record
/// to one of them, or cut in two.
#[derive(Debug)]
pub struct Consumer {
    ring: Ring<Words>,
    position: u64,
}

/// What [`Consumer::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A record of this many bytes; they are in the buffer.
    Record(usize),
    /// Nothing yet.
    Empty,
    /// The next record is not finished by this thread (its id, as its process sees it). If that thread is gone:
    /// [`Consumer::abandon`].
    Busy(u32),
    /// The next record has this many bytes, more than the buffer.
    TooSmall(usize),
    /// The ring buffer holds nonsense, which another process wrote. It stays so.
    Damaged,
}

impl Consumer {
    pub(crate) fn new(ring: Ring<Words>) -> Consumer {
        Consumer { ring, position: ring.consumed() }
    }

    /// Copies the next record into `buffer`, if there is one, and frees its room.
    pub fn next(&mut self, buffer: &mut [u8]) -> Next {
        loop {
            let (at, len) = match self.ring.look(self.position) {
                Look::Record(at, len) => (at, len),
                Look::Empty => return Next::Empty,
                Look::Busy(thread) => return Next::Busy(thread),
                Look::Damaged => return Next::Damaged,
            };
            if self.ring.is_discarded(self.position) {
                self.position = self.ring.release(self.position, len);
                continue;
            }
            let Some(record) = buffer.get_mut(..len as usize) else { return Next::TooSmall(len as usize) };
            copy_out(self.ring.memory, at, record);
            self.position = self.ring.release(self.position, len);
            return Next::Record(len as usize);
        }
    }

    /// Gives up a record that is [`Next::Busy`]: it will be skipped.
    ///
    /// To be used when the writer is known to be gone. If it is not, what it still writes may end up in later records.
    pub fn abandon(&mut self) {
        self.ring.abandon(self.position);
    }
}

/// Copies words of a map into bytes.
pub(crate) fn copy_out(memory: impl Memory, at: usize, bytes: &mut [u8]) {
    for (i, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = memory.peek(at + i).to_le_bytes();
        chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
    }
}

/// Copies bytes into words of a map, zeros behind the last.
pub(crate) fn copy_in(memory: impl Memory, at: usize, bytes: &[u8]) {
    for (i, chunk) in bytes.chunks(8).enumerate() {
        memory.put(at + i, super::key::word(chunk));
    }
}
