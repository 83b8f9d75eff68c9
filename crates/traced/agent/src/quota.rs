//! Functions whose calls are recorded only so often: their probes are taken away when a quota is spent, and come back
//! with the next one (iProbe, section IV-B, where a leaky bucket is the budget of samples). What deals out quotas is
//! called by `dealing`.
//!
//! # Parties
//! Probes, which take from a quota; the thread of ours that listens, which deals them out, with the control path held.

use crate::registry::Function;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// How often calls of a function may be recorded.
#[derive(Debug, Default)]
pub struct Quota {
    /// How many more. Below 1: none; probes pass by.
    pub left: AtomicI32,
    /// How many calls have passed by.
    pub passed: AtomicU32,
    /// How many quotas there have been, this one included.
    pub round: AtomicU32,
    /// Since when there is this one: the time-stamp counter; 0 until that is looked at.
    pub since: AtomicU64,
    /// When the last call of it began.
    pub spent: AtomicU64,
    /// What samples had taken then, and how long the process had run, in nanoseconds.
    pub took: AtomicU64,
    /// See above.
    pub ran: AtomicU64,
    /// Its probe was taken away.
    pub is_paused: AtomicBool,
    /// A session wanted it when its place was patched last.
    pub(crate) was_wanted: AtomicBool,
    /// The next one in a list of such functions.
    pub next: AtomicPtr<Function>,
}

impl Quota {
    /// The quota of a function that has not been given one: no call is left.
    pub const fn new() -> Quota {
        Quota {
            left: AtomicI32::new(0),
            passed: AtomicU32::new(0),
            round: AtomicU32::new(0),
            since: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            took: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
            was_wanted: AtomicBool::new(false),
            next: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// The function's place is about to be patched, and a session wants it or none does. What is left when it comes to
    /// be wanted again is another quota: there has been no probe meanwhile.
    pub(crate) fn want(&self, is_wanted: bool) {
        if !self.was_wanted.swap(is_wanted, Ordering::Relaxed) && is_wanted {
            self.round.fetch_add(1, Ordering::Relaxed);
            self.since.store(0, Ordering::Relaxed);
        }
    }
}
