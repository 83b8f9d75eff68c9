//! A process of which all threads are stopped for a moment.

use crate::arch::interrupted;
use crate::error::{Busy, Error};
use crate::image;
use crate::stop::Stopped;
use crate::target::{LOOK, Patience, Target, is_mote};
use mote_layout::join::RESTART_BYTES;
use mote_symbol::mapped;
use mote_sys::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// All threads of a process. They go on when this is dropped, on the thread that has stopped them, or when that ends.
pub(crate) struct Halted(BTreeMap<i32, Stopped>);

impl Halted {
    /// Stops all threads. One that is about to take a signal takes it, and is stopped in its handler.
    ///
    /// # Errors
    /// [`Error`]: one does not stop, or is traced by another.
    ///
    /// # Cost
    /// Some 0.1 ms, and 20 µs for each thread.
    pub(crate) fn new(target: &Target, patience: &Patience<'_>) -> Result<Halted, Error> {
        let (mut halted, mut ended) = (BTreeMap::new(), BTreeSet::new());
        loop {
            // One that is not known here can only have been made by one that was not stopped when it was looked.
            let mut asked = Vec::new();
            let new: Vec<i32> = target
                .all_threads()?
                .into_iter()
                .filter(|tid| !halted.contains_key(tid) && !ended.contains(tid))
                .collect();
            if new.is_empty() {
                return Ok(Halted(halted));
            }
            for tid in new {
                match Stopped::ask(tid) {
                    Ok(true) => asked.push(tid),
                    Ok(false) => {}
                    // The first one of a process may have ended before others.
                    Err(Errno(libc::EPERM)) if has_ended(tid) => {
                        ended.insert(tid);
                    }
                    // A debugger has it, or another recorder, for a moment: none is held meanwhile.
                    Err(Errno(libc::EPERM)) => {
                        let tracer = target.tracer_of(tid);
                        halted.clear();
                        if tracer != 0 && !is_mote(tracer) {
                            return Err(Error::Debugged(tracer));
                        }
                        patience.wait(Error::Locked(target.pid()))?;
                    }
                    Err(why) => return Err(Error::Forbidden(why)),
                }
            }
            let known = halted.len();
            for tid in asked {
                match Stopped::halted(tid, patience) {
                    Ok(stopped) => halted.extend(stopped.map(|stopped| (tid, stopped))),
                    Err(Errno(libc::ETIMEDOUT)) => {
                        return Err(Error::NoThread(Busy { unstoppable: true, ..Busy::default() }));
                    }
                    Err(why) => return Err(Error::Forbidden(why)),
                }
            }
            if patience.is_over() {
                return Err(Error::NoThread(Busy::default()));
            }
            // Each takes a signal.
            if halted.len() == known {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Has threads that stand at some addresses go on at others, where the same is done: `to` says where.
    pub(crate) fn lead_away(&mut self, target: &Target, to: impl Fn(u64) -> Option<u64>) {
        for stopped in self.0.values_mut() {
            if let Some(to) = to(stopped.instruction())
                && stopped.runs(target.memory())
            {
                // It stays where it is, and is found there.
                let _ = stopped.go_on_at(to);
            }
        }
    }

    /// At which of these addresses, which are sorted, threads stand, or come back to: with a call that is begun again,
    /// or from a handler.
    ///
    /// # Cost
    /// Reads up to 256 KiB of each thread's stack.
    pub(crate) fn stand_at(&self, target: &Target, addresses: &[u64]) -> BTreeSet<u64> {
        let is_one = |at: &u64| addresses.binary_search(at).is_ok();
        let mappings = image::mappings(target.pid().unsigned_abs());
        let mut found = BTreeSet::new();
        for stopped in self.0.values() {
            let at = stopped.instruction();
            let again = stopped.is_interrupted().then(|| at.wrapping_sub(RESTART_BYTES));
            found.extend([Some(at), again].into_iter().flatten().filter(is_one));
            let stack = stopped.stack(target, &mappings);
            found.extend(interrupted(stopped.stack_pointer(), &stack).map(|(at, _)| at).filter(is_one));
        }
        found
    }
}

fn has_ended(tid: i32) -> bool {
    mapped::state(tid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}
