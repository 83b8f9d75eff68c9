//! Whether threads are in code that is to be taken away, or may come to it. That none comes to it anew is known
//! before: each is looked at once.

use crate::arch::interrupted;
use crate::error::Error;
use crate::image;
use crate::stop::Stopped;
use crate::target::{Patience, Target, apart, is_ours, signals};
use crate::thread::Call;
use mote_layout::stubs::{RETURNS_AT, SLOT, WORDS};
use mote_symbol::mapped;
use mote_sys::signal::TRAPS;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// How long threads are waited for: they may have to wait for a CPU.
const LEAVING: Duration = Duration::from_millis(500);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(2);

/// Code that is to be taken away, and code that leads there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving {
    /// By address.
    code: Vec<Range<u64>>,
    /// A thread that is in it may be about to go there.
    library: Vec<Range<u64>>,
    /// So may one that is here; but calls return to here as well.
    stubs: Range<u64>,
    /// How far from a thread's pointer the words lie by which it is seen that the library's code works on its calls,
    /// wherever the thread is then (`mote_layout::stubs`).
    tops: [u64; WORDS],
}

impl Leaving {
    /// Code that nothing else leads to.
    pub(crate) fn new(mut code: Vec<Range<u64>>) -> Leaving {
        code.sort_unstable_by_key(|range| range.start);
        Leaving { code, ..Leaving::default() }
    }

    /// Code that the library leads to, which is there, and the stubs there; `tops` lie so far from thread pointers.
    pub(crate) fn of_library(
        code: Vec<Range<u64>>,
        library: Vec<Range<u64>>,
        stubs: Range<u64>,
        tops: [u64; WORDS],
    ) -> Leaving {
        Leaving { library, stubs, tops, ..Leaving::new(code) }
    }

    fn has(&self, address: u64) -> bool {
        let behind = self.code.partition_point(|range| range.start <= address);
        let last = behind.checked_sub(1).and_then(|last| self.code.get(last));
        last.is_some_and(|range| range.contains(&address))
    }

    fn leads_there(&self, address: u64) -> bool {
        self.library.iter().any(|range| range.contains(&address))
    }

    /// Whether a stopped thread is elsewhere, and goes elsewhere.
    ///
    /// What handlers of signals have interrupted is found by the signals' frames, up to 256 KiB above.
    fn is_without(&self, target: &Target, stopped: &Stopped, mappings: &[Range<u64>]) -> bool {
        let at = stopped.instruction();
        // One of the library's own waits in it.
        let waits = || stopped.is_in_call() && is_ours(target.pid(), stopped.tid());
        let is_in = self.has(at) || self.stubs.contains(&at) || self.leads_there(at) && !waits();
        let [top, before] = self.tops.map(|distance| match distance {
            0 => 0,
            distance => stopped.own_word(target.memory(), distance),
        });
        // Its calls are worked on, by code that may be anybody's; or a handler is about to be told of a breakpoint.
        if top == 0 && before != 0 || signals(target.pid(), stopped.tid(), "SigPnd:") & TRAPS != 0 {
            return false;
        }
        if is_in || stopped.words().into_iter().any(|word| self.has(word)) {
            return false;
        }
        let stack = stopped.stack(target, mappings);
        let is_call =
            |at: u64| self.stubs.contains(&at) && (at - self.stubs.start) % SLOT as u64 != RETURNS_AT as u64;
        !interrupted(stopped.stack_pointer(), &stack).any(|(at, registers)| {
            let is_in = self.has(at) || self.leads_there(at) || is_call(at);
            is_in || registers.iter().any(|word| self.has(*word))
        })
    }

    /// Waits until each thread of a process was seen elsewhere, for half a second at most; false when that was too
    /// short.
    ///
    /// # Errors
    /// The process has ended, or has too many threads.
    ///
    /// # Cost
    /// Stops each thread for some 0.1 ms at a time.
    pub(crate) fn wait(&self, target: &Target, patience: &Patience<'_>) -> Result<bool, Error> {
        let (mut elsewhere, patience) = (BTreeSet::new(), &patience.at_most(LEAVING));
        loop {
            let (threads, mappings) = (target.all_threads()?, image::mappings(target.pid().unsigned_abs()));
            // A child that shares the memory for a moment (vfork) is in it for its parent, which waits.
            if !threads.iter().any(|tid| has_child(target.pid(), *tid)) {
                for tid in threads.iter().filter(|tid| !elsewhere.contains(*tid)).copied().collect::<Vec<_>>()
                {
                    let look = || {
                        let stopped = Stopped::stop(tid, patience).ok()??;
                        Some(self.is_without(target, &stopped, &mappings))
                    };
                    if apart(look).flatten() == Some(true) {
                        elsewhere.insert(tid);
                    }
                }
                // Those that were made meanwhile have come from threads that were not seen yet.
                if target.all_threads()?.iter().all(|tid| elsewhere.contains(tid)) {
                    return Ok(true);
                }
            }
            if patience.is_over() {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether a thread waits for a child that has its memory.
pub(crate) fn has_child(pid: i32, tid: i32) -> bool {
    let line = mapped::table(&format!("/proc/{pid}/task/{tid}/syscall"));
    let calls = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    Call::parse(&line).is_some_and(|call| calls.contains(&call.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_ranges() {
        let code = vec![0x5000..0x6000, 0x1000..0x2000];
        let leaving = Leaving::of_library(code, vec![0x9000..0xa000, 0xb000..0xc000], 0..0, [0; WORDS]);
        for (address, is_in) in [(0, false), (0x1000, true), (0x1fff, true), (0x2000, false), (0x5abc, true)]
        {
            assert_eq!(leaving.has(address), is_in, "{address:#x}");
        }
        assert!(!leaving.has(0x9000) && leaving.leads_there(0x9000) && !leaving.leads_there(0xa000));
    }
}
