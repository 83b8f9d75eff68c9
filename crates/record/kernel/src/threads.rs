//! The thread table ([`mote_generate::threads`]), as the recorder reads and writes it.

use crate::map::State;
use mote_generate::state::Layout;
use mote_generate::threads::*;
use mote_sys::{Errno, Result};
use std::path::Path;

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
    pub fn find_recorder_tid(&self, tid: u32) -> Option<usize> {
        let entries = (0..self.layout().threads).map(|place| offset(&self.layout(), place));
        let is_it = |entry: &usize| {
            self.memory().load32(word(*entry, RECORDER_TID)) == tid
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
        self.memory().store32(word(entry, RECORDER_TID), seen);
        self.memory().store32(word(entry, VTID), own);
    }

    /// What the recorder calls the thread at a place of the table.
    pub fn recorder_tid_at(&self, place: u32) -> u32 {
        self.seen(offset(&self.layout(), place))
    }

    /// The thread's id as the recorder sees it.
    fn seen(&self, entry: usize) -> u32 {
        match self.memory().load32(word(entry, RECORDER_TID)) {
            0 => self.memory().load32(word(entry, TID)),
            seen => seen,
        }
    }

    /// Frees the entries of threads that are gone, whose end the kernel did not report.
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

    /// Sets the number of the cooperation area in an entry; 0 for none.
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
