//! The thread table: whose events are recorded, and what is remembered of each thread.
//!
//! # Where a thread is
//! At `tid % entries`, or at one of the [`PROBES`]` - 1` entries behind, cyclically. A first entry of whose threads one had to go elsewhere is marked
//! ([`DISPLACED`], for ever): only then is the search continued there.
//!
//! By the thread's id as the kernel counts (that of the outermost pid namespace). The recorder may have another one for it ([`SEEN`]), and the thread itself, too
//! ([`OWN`]); whoever claims an entry stores both.
//!
//! # Who writes what
//! Programs on `sched_process_fork`, `exec`, `exit` and `free` claim and free entries; the recorder claims those of what it follows, with the same
//! compare-and-swap on [`TID`]. The thread's own words ([`SYSCALL_TIME`] and on) are written by programs that run in that thread, or are about it while
//! it cannot run.
//!
//! # When a thread is forgotten
//! When its task is freed, not when it exits: its last events come in between. Until then its id may be given to another thread (which
//! takes that many forks that it does not happen); the entry holds the task, so that the right one is freed. Not every such event is seen
//! (with Linux 6.18 one in a thousand was seen by no program, and none was counted as missed). So whoever finds all places taken may have that of a thread
//! which has exited [`GONE_NS`] ago.

use crate::map::{Layout, State};
use mote_sys::{Errno, Result};
use std::path::Path;

/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 64;
/// log2 of it.
pub const ENTRY_BITS: u32 = 6;
/// Entries at which a thread may be.
pub const PROBES: u32 = 8;

/// Offset of the thread's id, 32 bits; 0 in a free entry.
pub const TID: i16 = 0;
/// Offset of [`TRACED`] and [`LAUNCHING`], 32 bits.
pub const FLAGS: i16 = 4;
/// Offset of the mark that a thread of this place is elsewhere, 32 bits. Belongs to the place, not to the thread in it.
pub const DISPLACED: i16 = 8;
/// Offset of the number of the process's cooperation area, 32 bits; 0 for none.
pub const INDEX: i16 = 12;
/// Offset of the time at which the running system call began, 64 bits; 0 when none does, or it was not seen. Of a thread that has exited: when.
pub const SYSCALL_TIME: i16 = 16;
/// Offset of its number, 64 bits.
pub const SYSCALL: i16 = 24;
/// Offset of the thread's id as the recorder's pid namespace has it, 32 bits; 0 when nobody has looked.
pub const SEEN: i16 = 32;
/// Offset of the id that the thread knows itself by (gettid(2): that of its own pid namespace), 32 bits; 0 when nobody has looked.
pub const OWN: i16 = 36;
/// Offset of two words that are free for programs which are attached beside; 0 at first.
pub const SPARE: i16 = 40;
/// Offset of the address of the task, once it exits, 64 bits.
pub const TASK: i16 = 56;

/// So long after its exit a thread has no more events.
pub const GONE_NS: u64 = 1_000_000_000;

/// Its events are recorded, and its children are followed.
pub const TRACED: u32 = 1;
/// Its children are followed.
pub const LAUNCHING: u32 = 2;

/// The offset in the state map of the entry at `place`.
const fn offset(layout: &Layout, place: u32) -> usize {
    (layout.threads() + ((place & (layout.threads - 1)) << ENTRY_BITS)) as usize
}

const fn word(entry: usize, at: i16) -> usize {
    entry + at as usize
}

impl State {
    /// The entry of a thread: its offset in the map.
    pub fn find(&self, tid: u32) -> Option<usize> {
        let places = (0..PROBES).map(|probe| offset(&self.layout(), tid.wrapping_add(probe)));
        places.into_iter().find(|entry| self.memory().load32(word(*entry, TID)) == tid && tid != 0)
    }

    /// The entry of the thread that the recorder's pid namespace has under this id, where that is not the kernel's.
    ///
    /// # Cost
    /// Goes through the table.
    pub fn find_seen(&self, tid: u32) -> Option<usize> {
        let entries = (0..self.layout().threads).map(|place| offset(&self.layout(), place));
        let is_it = |entry: &usize| {
            self.memory().load32(word(*entry, SEEN)) == tid
                && self.memory().load32(word(*entry, TID)) != 0
                && self.memory().load64(word(*entry, TASK)) == 0
        };
        entries.into_iter().find(is_it).filter(|_| tid != 0)
    }

    /// Makes an entry for a thread, or gives the one that it has, and sets these flags in it.
    ///
    /// # Errors
    /// `ENOSPC` when all places for it are taken.
    pub fn follow(&self, tid: u32, flags: u32) -> Result<usize> {
        let entry = self.claim(tid)?;
        self.set_flags(entry, flags);
        Ok(entry)
    }

    /// Sets flags of an entry.
    pub(crate) fn set_flags(&self, entry: usize, flags: u32) {
        self.memory().set_bits32(word(entry, FLAGS), flags);
    }

    /// Notes what the recorder calls the thread, and what it calls itself.
    pub(crate) fn set_ids(&self, entry: usize, seen: u32, own: u32) {
        self.memory().store32(word(entry, SEEN), seen);
        self.memory().store32(word(entry, OWN), own);
    }

    /// What the recorder calls the thread at a place of the table.
    pub(crate) fn seen_at(&self, place: u32) -> u32 {
        self.seen(offset(&self.layout(), place))
    }

    /// The thread's id as the recorder sees it.
    fn seen(&self, entry: usize) -> u32 {
        match self.memory().load32(word(entry, SEEN)) {
            0 => self.memory().load32(word(entry, TID)),
            seen => seen,
        }
    }

    /// Frees the entries of threads that are gone, of which the kernel did not tell.
    fn sweep(&self) {
        for place in 0..self.layout().threads {
            let entry = offset(&self.layout(), place);
            let tid = self.seen(entry);
            let exited = self.memory().load64(word(entry, TASK)) != 0;
            if exited && !Path::new(&format!("/proc/{tid}")).exists() {
                self.memory().store32(word(entry, FLAGS), 0);
                self.free(entry);
            }
        }
    }

    fn claim(&self, tid: u32) -> Result<usize> {
        self.try_claim(tid).or_else(|_| {
            self.sweep();
            self.try_claim(tid)
        })
    }

    fn try_claim(&self, tid: u32) -> Result<usize> {
        for probe in 0..PROBES {
            if let Some(entry) = self.find(tid) {
                return Ok(entry);
            }
            let entry = offset(&self.layout(), tid.wrapping_add(probe));
            if self.memory().exchange32(word(entry, TID), 0, tid).is_ok() {
                if probe > 0 {
                    self.memory().store32(word(offset(&self.layout(), tid), DISPLACED), 1);
                }
                return Ok(entry);
            }
        }
        Err(Errno(libc::ENOSPC))
    }

    /// Clears flags of a thread; without any it is forgotten.
    pub fn clear(&self, tid: u32, flags: u32) {
        self.find(tid).into_iter().for_each(|entry| self.clear_flags(entry, flags));
    }

    /// The same of an entry.
    pub(crate) fn clear_flags(&self, entry: usize, flags: u32) {
        self.memory().clear_bits32(word(entry, FLAGS), flags);
        if self.memory().load32(word(entry, FLAGS)) == 0 {
            self.free(entry);
        }
    }

    fn free(&self, entry: usize) {
        self.memory().store32(word(entry, INDEX), 0);
        for at in (SYSCALL_TIME..ENTRY_BYTES as i16).step_by(8) {
            self.memory().store64(word(entry, at), 0);
        }
        self.memory().store32(word(entry, TID), 0);
    }

    /// Number of the cooperation area in an entry.
    pub fn index(&self, entry: usize) -> u32 {
        self.memory().load32(word(entry, INDEX))
    }

    /// Sets it.
    pub fn set_index(&self, entry: usize, index: u32) {
        self.memory().store32(word(entry, INDEX), index);
    }

    /// All threads that are in the table, with the system call in which each one is: its number and since when.
    pub fn threads(&self) -> impl Iterator<Item = Thread> + '_ {
        (0..self.layout().threads).filter_map(|place| {
            let entry = offset(&self.layout(), place);
            let tid = self.memory().load32(word(entry, TID));
            let since = self.memory().load64(word(entry, SYSCALL_TIME));
            let number = self.memory().load64(word(entry, SYSCALL)) as u32;
            let flags = self.memory().load32(word(entry, FLAGS));
            let exiting = self.memory().load64(word(entry, TASK)) != 0;
            (tid != 0).then_some(Thread {
                tid: self.seen(entry),
                flags,
                exiting,
                syscall: (since != 0).then_some((number, since)),
            })
        })
    }
}

/// A thread in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id, as the recorder sees it.
    pub tid: u32,
    /// [`TRACED`], [`LAUNCHING`].
    pub flags: u32,
    /// Whether it has exited, and only its last events are waited for.
    pub exiting: bool,
    /// The system call in which it is, and since when (CLOCK_MONOTONIC, ns); known where durations are recorded.
    pub syscall: Option<(u32, u64)>,
}
