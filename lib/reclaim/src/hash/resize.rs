//! Growing and shrinking, in small steps, by threads that insert and remove.
//!
//! # Parties
//! Updaters. One at a time is the *helper*: it holds `job` and does a step; the others go on without waiting.
//! # States
//! *Resting*. *Growing*: the next table is being linked; when all its buckets are, the order goes up. *Leaving*: the
//! order went down, and a grace period passes, after which no thread starts from the last table. *Unlinking*: its
//! buckets are being unlinked; then it is freed after another grace period.
//! # Progress
//! No operation waits for a resize. A helper that stops in the middle (or died with a fork) holds up resizing and
//! nothing else.

use super::buckets::{self, Buckets, MOST_ORDER, State};
use super::count::Count;
use crate::{Flavor, Guard, defer};
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(loom)]
use loom::sync::Mutex;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::Mutex;

/// Buckets that a helper links or unlinks in a step.
const STEP: usize = 16;
/// An order that has fewer buckets for each item than this grows: then nine of ten items are the first in their
/// buckets. A bucket is eight bytes, so that these are 32 to 64 bytes for each item.
const FEWEST: usize = 4;
/// An order that has more buckets for each item than this shrinks.
const MOST: usize = 16;
/// Greatest number of items that a CPU counts for itself.
const MOST_BATCH: usize = 1024;

/// The buckets of a hash table, as many as its items need.
#[derive(Debug)]
pub(super) struct Resized {
    pub(super) buckets: Buckets,
    count: Count,
    /// It does not shrink below.
    least_order: usize,
    job: Mutex<Job>,
}

#[derive(Debug)]
enum Job {
    Resting,
    Growing { order: usize, next: usize },
    Leaving { order: usize, left: Arc<AtomicBool> },
    Unlinking { order: usize, next: usize },
}

impl Resized {
    /// Room for `items` before it grows.
    pub(super) fn new(items: usize) -> Resized {
        let wanted = items.saturating_mul(FEWEST).checked_next_power_of_two().unwrap_or(usize::MAX);
        let buckets = Buckets::new(wanted.trailing_zeros() as usize);
        Resized {
            count: Count::new(),
            least_order: buckets.state().order(),
            job: Mutex::new(Job::Resting),
            buckets,
        }
    }

    pub(super) fn items(&self) -> usize {
        self.count.sum()
    }

    /// An item was inserted.
    #[inline]
    pub(super) fn inserted<F: Flavor>(&self, guard: &Guard<'_, F>) {
        let state = self.buckets.state();
        let order = state.order();
        if let Some(items) = self.count.up(batch(order))
            && items > (1 << order) / FEWEST
        {
            self.consider::<F>();
        }
        if state.is_changing() {
            self.help(guard);
        }
    }

    /// An item was removed.
    #[inline]
    pub(super) fn removed<F: Flavor>(&self, guard: &Guard<'_, F>) {
        let state = self.buckets.state();
        let order = state.order();
        if let Some(items) = self.count.down(batch(order))
            && items < (1 << order) / MOST
        {
            self.consider::<F>();
        }
        if state.is_changing() {
            self.help(guard);
        }
    }

    /// Begins what is needed, if nothing is going on.
    #[cold]
    fn consider<F: Flavor>(&self) {
        if let Ok(mut job) = self.job.try_lock()
            && matches!(*job, Job::Resting)
        {
            self.begin::<F>(&mut job);
        }
    }

    /// Finds out what to do next. The state changes under the lock of `job` only.
    fn begin<F: Flavor>(&self, job: &mut Job) {
        let (items, order) = (self.items(), self.buckets.state().order());
        *job = if items > (1 << order) / FEWEST && order < MOST_ORDER && self.buckets.allocate(order + 1) {
            self.buckets.set(State::changing(order));
            Job::Growing { order: order + 1, next: 0 }
        } else if items < (1 << order) / MOST && order > self.least_order {
            self.buckets.set(State::changing(order - 1));
            let left = Arc::new(AtomicBool::new(false));
            let gone = left.clone();
            defer::<F>(move || gone.store(true, Ordering::Release));
            Job::Leaving { order, left }
        } else {
            self.buckets.set(State::resting(order));
            Job::Resting
        };
    }

    /// Does a step of what is going on, if anything is and no other thread does.
    #[cold]
    fn help<F: Flavor>(&self, _guard: &Guard<'_, F>) {
        let Ok(mut job) = self.job.try_lock() else { return };
        match &mut *job {
            Job::Resting => {}
            Job::Growing { order, next } => {
                // SAFETY: `grow` has allocated the table; the holder of `job` links it, each bucket once, in the
                // guard's section.
                let link = |index| unsafe { self.buckets.populate(*order, index) };
                if is_last_step(*order, next, link) {
                    self.buckets.set(State::changing(*order));
                    self.begin::<F>(&mut job);
                }
            }
            Job::Leaving { order, left } => {
                if left.load(Ordering::Acquire) {
                    *job = Job::Unlinking { order: *order, next: 0 };
                }
            }
            Job::Unlinking { order, next } => {
                // SAFETY: the order is lower, and a grace period has passed since; the holder of `job` unlinks, in the
                // guard's section.
                let unlink = |index| unsafe { self.buckets.unlink(*order, index) };
                if is_last_step(*order, next, unlink) {
                    let table = self.buckets.take(*order);
                    defer::<F>(move || drop(table));
                    self.begin::<F>(&mut job);
                }
            }
        }
    }
}

/// Does the next few of table `order`; true when they were the last.
fn is_last_step(order: usize, next: &mut usize, each: impl Fn(usize)) -> bool {
    let end = buckets::len(order).min(*next + STEP);
    (*next..end).for_each(each);
    *next = end;
    end == buckets::len(order)
}

/// How many items a CPU counts before it looks at the sum.
fn batch(order: usize) -> usize {
    ((1 << order) / 64).clamp(1, MOST_BATCH)
}
