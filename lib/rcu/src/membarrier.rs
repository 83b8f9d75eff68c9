//! The updater's fence for all threads by membarrier(2), and what to do without it.

use crate::domain::{Domain, Protocol};
use crate::phases::protocol;
use crate::slot::{FENCE, GUARDED, Slot};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use mote_sys::membarrier;

const UNKNOWN: u32 = 0;
const WORKS: u32 = 1;
/// The kernel never had it: all readers have fenced from the beginning.
const ABSENT: u32 = 2;
/// It has failed later (a sandbox): readers fence from now on, but some may have begun without.
const LOST: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Time in which any processor has emptied its store buffer, or taken a timer interrupt.
const DRAIN_NS: u64 = 10_000_000;

/// The expedited and the library flavour's: the updater calls membarrier(2) (Linux 4.14).
#[derive(Debug)]
pub enum FenceByKernel {}

impl Protocol for FenceByKernel {
    /// Until the kernel has been asked, readers fence.
    const FIRST: usize = FENCE | GUARDED;
    const PHASES: u64 = protocol::PHASES;

    fn advance(gp: &AtomicUsize) -> usize {
        protocol::advance(gp)
    }

    fn is_old(word: usize, gp: usize) -> bool {
        protocol::is_old(word, gp)
    }

    fn fence_all(domain: &Domain<Self>, own: Option<&Slot>) {
        fence(Ordering::SeqCst);
        if !domain.registry.is_alone(own) {
            fence_all(domain);
        }
    }
}

/// Asks the kernel once; from then on readers of `domain` fence only if they must.
///
/// Only before that, and after, are both right: updaters always call membarrier(2) once it works.
pub(crate) fn prepare(domain: &Domain<FenceByKernel>) {
    if state() == WORKS {
        domain.gp.fetch_and(!FENCE, Ordering::Relaxed);
    }
}

/// Makes all threads of the process pass a full memory barrier.
fn fence_all(domain: &Domain<FenceByKernel>) {
    match state() {
        WORKS => {
            if membarrier::fence_all().is_err() {
                STATE.store(LOST, Ordering::Relaxed);
                drain(domain);
            }
        }
        LOST => drain(domain),
        _ => fence(Ordering::SeqCst),
    }
}

fn state() -> u32 {
    let state = STATE.load(Ordering::Relaxed);
    if state != UNKNOWN {
        return state;
    }
    let found = if membarrier::register_fence_all().is_ok() { WORKS } else { ABSENT };
    // All must go by the same result.
    match STATE.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => found,
        Err(state) => state,
    }
}

/// The sandbox has taken membarrier(2) away. A section that began without a fence is ordered by time.
#[cold]
fn drain(domain: &Domain<FenceByKernel>) {
    domain.gp.fetch_or(FENCE, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let began = mote_sys::tsc::monotonic_by_call();
    while mote_sys::tsc::monotonic_by_call() - began < DRAIN_NS {
        let _ = mote_sys::time::sleep(DRAIN_NS);
    }
}
