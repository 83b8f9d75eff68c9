//! The table in which each thread leaves its name before its first record.
//!
//! Records carry a thread id only. A thread that is about to write its first record puts its process,
//! name and the time here; the consumer takes the entries out. It is a bounded queue of many
//! producers and one consumer with a sequence number in each entry (after Dmitry Vyukov's bounded queue): an
//! entry with sequence `n` is free for ticket `n`, one with `n + 1` holds the data of ticket `n`.
//! When it is full the thread stays nameless, which is counted and loses no event. An entry whose thread was killed
//! before it was filled holds up those behind it until the consumer passes over it ([`ThreadTable::skip`]).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Entries of the table, a power of two: threads that find it full have no name in the recording.
pub const ENTRIES: usize = 2048;
/// Bytes of the table, a multiple of the page size.
pub const TABLE_BYTES: usize = 128 << 10;

/// What a thread says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// Thread id, as in its records.
    pub tid: u32,
    /// Process id, as the process sees it.
    pub pid: u32,
    /// When, in ticks of the channel's clock.
    pub time: u64,
    /// The thread's name as of `PR_SET_NAME`, NUL-terminated.
    pub comm: [u8; 16],
}

#[repr(C)]
struct Entry {
    sequence: AtomicU64,
    ids: AtomicU64,
    time: AtomicU64,
    comm: [AtomicU64; 2],
}

/// The table, in shared memory. Zero bytes are an empty table.
#[repr(C, align(128))]
pub struct ThreadTable {
    tail: AtomicU64,
    _line: [u64; 15],
    head: AtomicU64,
    nameless: AtomicU32,
    _line2: [u64; 14],
    entries: [Entry; ENTRIES],
}
const _: () = assert!(size_of::<ThreadTable>() <= TABLE_BYTES);

impl ThreadTable {
    /// Leaves a name; false when the table is full, or the consumer did not wait for it.
    ///
    /// # Signal safety
    /// Callable from a handler. Lock-free: a thread that is stopped in here delays only the consumer.
    pub fn push(&self, name: &ThreadName) -> bool {
        let mut ticket = self.tail.load(Ordering::Relaxed);
        loop {
            let entry = self.entry(ticket);
            // Sequences are stored relative to the entry's index, so that zeroed memory is empty.
            let lap = ticket / ENTRIES as u64;
            // Acquire pairs with the release in `pop`: the entry's words have been read.
            let sequence = entry.sequence.load(Ordering::Acquire);
            let moved = if sequence == 2 * lap {
                let next = ticket.wrapping_add(1);
                match self.tail.compare_exchange(ticket, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return entry.leave(name, lap),
                    Err(now) => now,
                }
            } else if sequence < 2 * lap {
                return self.count_nameless();
            } else {
                self.tail.load(Ordering::Relaxed)
            };
            if moved == ticket {
                // Filled, and yet no thread's: another process has written nonsense here.
                return self.count_nameless();
            }
            ticket = moved;
        }
    }

    /// The entry of a ticket.
    fn entry(&self, ticket: u64) -> &Entry {
        #[expect(clippy::indexing_slicing, reason = "modulo the number of entries: there is one")]
        &self.entries[ticket as usize % ENTRIES]
    }

    fn count_nameless(&self) -> bool {
        self.nameless.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Takes the oldest name out. One consumer only.
    pub fn pop(&self) -> Option<ThreadName> {
        let ticket = self.head.load(Ordering::Relaxed);
        let entry = self.entry(ticket);
        let lap = ticket / ENTRIES as u64;
        if entry.sequence.load(Ordering::Acquire) != 2 * lap + 1 {
            return None;
        }
        let name = entry.read();
        entry.sequence.store(2 * lap + 2, Ordering::Release);
        self.head.store(ticket.wrapping_add(1), Ordering::Relaxed);
        Some(name)
    }

    /// Whether no thread has taken an entry that is not emptied yet. For the consumer.
    pub fn is_empty(&self) -> bool {
        self.tail.load(Ordering::Relaxed) == self.head.load(Ordering::Relaxed)
    }

    /// Passes over the oldest entry if a thread has taken it and not left its name: it was killed in between, or is
    /// stopped there. Returns whether it did. For the consumer, when [`ThreadTable::pop`] has found nothing for long
    /// though the table was not empty.
    ///
    /// A thread that was only stopped stays nameless; should the table come around meanwhile, the name of
    /// another thread may be mixed with its own.
    pub fn skip(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        let ticket = self.head.load(Ordering::Relaxed);
        let entry = self.entry(ticket);
        let lap = ticket / ENTRIES as u64;
        let skipped = entry
            .sequence
            .compare_exchange(2 * lap, 2 * lap + 2, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if skipped {
            self.nameless.fetch_add(1, Ordering::Relaxed);
            self.head.store(ticket.wrapping_add(1), Ordering::Relaxed);
        }
        skipped
    }

    /// Threads that found the table full.
    pub fn nameless(&self) -> u32 {
        self.nameless.load(Ordering::Relaxed)
    }
}

impl Entry {
    /// Fills in a name and hands the entry over; false when the consumer has passed over it.
    fn leave(&self, name: &ThreadName, lap: u64) -> bool {
        self.fill(name);
        // Release pairs with the acquire in `pop`.
        self.sequence.compare_exchange(2 * lap, 2 * lap + 1, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn fill(&self, name: &ThreadName) {
        self.ids.store(u64::from(name.pid) << 32 | u64::from(name.tid), Ordering::Relaxed);
        self.time.store(name.time, Ordering::Relaxed);
        for (word, bytes) in self.comm.iter().zip(name.comm.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }

    fn read(&self) -> ThreadName {
        let ids = self.ids.load(Ordering::Relaxed);
        let mut comm = [0; 16];
        for (bytes, word) in comm.as_chunks_mut().0.iter_mut().zip(&self.comm) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        ThreadName { tid: ids as u32, pid: (ids >> 32) as u32, time: self.time.load(Ordering::Relaxed), comm }
    }
}
