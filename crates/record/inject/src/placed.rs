//! Code that lies in a process for a while, where none of its own is.

use crate::error::Error;
use crate::image::Room;
use crate::stop::{Sent, Stopped};
use crate::target::{Patience, Target, apart};
use crate::thread::Call;
use mote_symbol::mapped;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Where it lies.
pub(crate) struct Placed<'p> {
    pub(crate) target: &'p Target,
    pub(crate) room: &'p Room,
}

impl Placed<'_> {
    /// Writes the code, once all of it is known.
    pub(crate) fn put(&self, code: &[u8]) -> Result<(), Error> {
        self.write_at(self.room.address, code)
    }

    /// Puts back what was there, while no thread is in it.
    pub(crate) fn put_back(&self) -> Result<(), Error> {
        self.write_at(self.room.address, &self.room.before)
    }

    /// Its addresses.
    pub(crate) fn code(&self) -> Range<u64> {
        self.room.address..self.room.address + self.room.before.len() as u64
    }

    /// Puts back what was where the code is now, once no thread is in it, or will be: the one that was sent takes
    /// signals with its last instructions, and comes back there from their handlers.
    pub(crate) fn remove(&self, patience: &Patience<'_>, sent: &Sent) -> Result<(), Error> {
        const LOOKS: u32 = 200;
        /// So often a thread that runs is not stopped: it may be about to wait.
        const QUIET: u32 = 3;
        let code = self.code();
        // A thread that cannot be looked at now, as it takes a signal or another recorder has stopped it, may be in it.
        let may_be_in = |tid: i32, look: u32| {
            let line = mapped::table(&format!("/proc/{}/task/{tid}/syscall", self.target.pid()));
            let at = Call::place(&line).map(|(stack, at)| (at, stack));
            // It runs: only a stop tells where.
            let stopped = || {
                let stopped = Stopped::stop(tid, patience).ok()??;
                Some((stopped.instruction(), stopped.stack_pointer()))
            };
            let at = if at.is_none() && look >= QUIET { apart(stopped).flatten() } else { at };
            let Some((at, stack)) = at else { return true };
            // Of others, an earlier recorder may have sent one that has not come yet.
            let end = if tid == sent.tid { sent.stack_pointer() } else { 0 };
            code.contains(&at) || self.returns_to(&code, stack, end)
        };
        // One that was elsewhere does not come here any more.
        let mut elsewhere = BTreeSet::new();
        for look in 0..LOOKS {
            let threads = self.target.threads()?;
            for tid in &threads {
                if !elsewhere.contains(tid) && !may_be_in(*tid, look) {
                    elsewhere.insert(*tid);
                }
            }
            if threads.iter().all(|tid| elsewhere.contains(tid)) {
                return self.put_back();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // What is there does no harm.
        Ok(())
    }

    /// Whether an address of `code` lies on a stack, from `stack` on: up to `end`, or, where that is not on it, as far
    /// as the frame of a signal.
    fn returns_to(&self, code: &Range<u64>, stack: u64, end: u64) -> bool {
        const FAR: u64 = 256 << 10;
        const FRAME: u64 = 16 << 10;
        let len = end.checked_sub(stack).filter(|len| *len <= FAR).unwrap_or(FRAME);
        let mut bytes = vec![0; len as usize];
        let read = self.target.memory().read_at(&mut bytes, stack).unwrap_or(0);
        let words = bytes.get(..read).unwrap_or_default().as_chunks().0;
        words.iter().any(|word| code.contains(&u64::from_le_bytes(*word)))
    }

    /// Writes into the process.
    pub(crate) fn write_at(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = self.target.memory().write_all_at(bytes, address);
        written.map_err(|_| self.target.why_not())
    }
}
