//! The number of items, counted on several cache lines, so that threads that insert on different CPUs do not share one.

use core::fmt;
use mote_sync::atomic::{AtomicUsize, Ordering};
use mote_sync::{Padded, rseq};
use std::boxed::Box;

/// CPUs beyond share. A model runs on any CPU and must always do the same.
const STRIPES: usize = if cfg!(loom) { 1 } else { 16 };

/// See the module. Sums wrap around below zero, because one thread may count down what another has counted up.
pub(super) struct Count {
    /// What the stripes have been emptied of.
    sum: Padded<AtomicUsize>,
    stripes: Box<[Padded<AtomicUsize>; STRIPES]>,
}

impl Count {
    pub(super) fn new() -> Count {
        rseq::find();
        Count {
            sum: Padded(AtomicUsize::new(0)),
            stripes: Box::new(std::array::from_fn(|_| Padded(AtomicUsize::new(0)))),
        }
    }

    /// Counts one up. The sum, whenever a stripe has come to `batch`.
    #[inline]
    pub(super) fn up(&self, batch: usize) -> Option<usize> {
        self.add(1, batch)
    }

    /// Counts one down, as [`Count::up`].
    #[inline]
    pub(super) fn down(&self, batch: usize) -> Option<usize> {
        self.add(usize::MAX, batch)
    }

    fn add(&self, one: usize, batch: usize) -> Option<usize> {
        let stripe = &self.stripes[rseq::cpu_hint().unwrap_or(0) as usize % STRIPES];
        let here = stripe.fetch_add(one, Ordering::Relaxed).wrapping_add(one);
        if (here as isize).unsigned_abs() < batch {
            return None;
        }
        let moved = stripe.swap(0, Ordering::Relaxed);
        let sum = self.sum.fetch_add(moved, Ordering::Relaxed).wrapping_add(moved);
        Some(not_below_zero(sum))
    }

    /// The sum; exact when no thread counts meanwhile.
    pub(super) fn sum(&self) -> usize {
        let stripes = self.stripes.iter().map(|stripe| stripe.load(Ordering::Relaxed));
        not_below_zero(stripes.fold(self.sum.load(Ordering::Relaxed), usize::wrapping_add))
    }
}

fn not_below_zero(sum: usize) -> usize {
    usize::try_from(sum as isize).unwrap_or(0)
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Count").field(&self.sum()).finish()
    }
}
