//! One patcher at a time, and none across a fork.
//!
//! # Parties
//! Threads that patch, or that fork.
//!
//! # State
//! `LOCK`: 0 free, 1 held, 2 held and a thread may sleep on it (futex).
//! `FORK_MASK`, `FORKING`: belong to the holder that is forking.
//!
//! # Ordering
//! L1. What a holder did happens before the next holder's start (release at the end, acquire at the start).
//!
//! # Progress
//! Blocking. The holder runs with all but the synchronous signals blocked, so no handler can leave it by
//! `longjmp`, and none can come back for the lock.
//!
//! # Fork, exec
//! [`fork_prepare`] and [`fork_done`] in `pthread_atfork` handlers keep a fork from copying half-patched text. A
//! child made behind their back calls [`crate::reset_after_fork`]. exec ends it all.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use mote_sys::signal::chain::SYNCHRONOUS;
use mote_sys::{process, signal};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

static LOCK: AtomicU32 = AtomicU32::new(FREE);
static FORK_MASK: AtomicU64 = AtomicU64::new(0);
static FORKING: AtomicBool = AtomicBool::new(false);

/// The right to patch text, and the calling thread's signals blocked. Ends when dropped.
#[derive(Debug)]
#[must_use = "the lock is held as long as the guard lives"]
pub struct PatchGuard {
    mask: u64,
    /// The mask is this thread's: not `Send`.
    thread: PhantomData<*mut ()>,
}

/// Waits until no other thread patches, and keeps others from it while the guard lives.
///
/// [`crate::apply`] takes the lock itself: calling it while the guard lives waits forever.
///
/// # Signal safety
/// Not for handlers. Signals that arrive meanwhile are delivered when the guard is dropped.
pub fn lock() -> PatchGuard {
    let mask = signal::block(!SYNCHRONOUS);
    let free = LOCK.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed); // L1
    if free.is_err() {
        while LOCK.swap(CONTENDED, Ordering::Acquire) != FREE {
            // An error means that the word changed or a signal came: look again.
            let _ = process::futex_wait(&LOCK, CONTENDED);
        }
    }
    PatchGuard { mask, thread: PhantomData }
}

impl Drop for PatchGuard {
    fn drop(&mut self) {
        if LOCK.swap(FREE, Ordering::Release) == CONTENDED {
            process::futex_wake(&LOCK, 1); // L1
        }
        signal::set_mask(self.mask);
    }
}

/// Takes the lock for a fork: call it in the prepare handler of `pthread_atfork`.
pub fn fork_prepare() {
    let guard = lock();
    FORK_MASK.store(guard.mask, Ordering::Relaxed);
    FORKING.store(true, Ordering::Relaxed);
    core::mem::forget(guard);
}

/// Gives back what [`fork_prepare`] took: call it in the parent and in the child handler.
///
/// Without a `fork_prepare` before it does nothing. Call it on the thread that prepared.
pub fn fork_done() {
    if FORKING.swap(false, Ordering::Relaxed) {
        let mask = FORK_MASK.load(Ordering::Relaxed);
        drop(PatchGuard { mask, thread: PhantomData });
    }
}

/// Frees the lock, whichever thread held it. For [`crate::reset_after_fork`].
pub(crate) fn free() {
    FORKING.store(false, Ordering::Relaxed);
    LOCK.store(FREE, Ordering::Release);
}
