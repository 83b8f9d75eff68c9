//! A futex lock for the control path of the traced process.
//!
//! One word: free, held, or held and a thread may sleep. A thread that has slept does not know whether others still do,
//! so it takes the lock as `CONTENDED` (Drepper, *Futexes are tricky*, 2011, mutex 2). `tests/loom_lock.rs` runs it
//! through all interleavings.
//!
//! Never taken on a probe. Its only reason to exist beside `std::sync::Mutex` is that it is
//! `no_std`, has no poisoning, and can be released in the child of a fork by the thread that
//! took it in the parent.

use crate::atomic::{AtomicU32, Ordering};
use crate::futex::Place;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Mutual exclusion; blocks by futex(2).
#[derive(Debug)]
pub struct Lock {
    state: AtomicU32,
    sleepers: Place,
}

impl Default for Lock {
    fn default() -> Lock {
        Lock::new()
    }
}

/// Proof that the lock is held; releases it when dropped.
#[derive(Debug)]
pub struct Guard<'a>(&'a Lock);

impl Lock {
    /// A lock that no thread holds.
    #[cfg(not(any(loom, shuttle)))]
    pub const fn new() -> Lock {
        Lock { state: AtomicU32::new(FREE), sleepers: Place::new() }
    }

    /// A lock that no thread holds.
    #[cfg(any(loom, shuttle))]
    pub fn new() -> Lock {
        Lock { state: AtomicU32::new(FREE), sleepers: Place::new() }
    }

    /// Waits until the lock is free and takes it.
    ///
    /// # Signal safety
    /// Not callable from a signal handler: the interrupted thread may hold it.
    pub fn hold(&self) -> Guard<'_> {
        loop {
            if let Some(guard) = self.hold_unless(|| false) {
                return guard;
            }
        }
    }

    /// As [`Lock::hold`], but goes without the lock once `needless` says so, which is asked whenever it has to wait.
    /// The lock is not fair: for a thread that waits for something that each holder may do, others need not leave it a
    /// turn.
    pub fn hold_unless(&self, needless: impl Fn() -> bool) -> Option<Guard<'_>> {
        // Acquire pairs with the release in `release`.
        if self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
                // A thread that goes leaves `CONTENDED`, so the holder wakes the next one, as it was to wake us.
                if needless() {
                    return None;
                }
                self.sleepers.wait(&self.state, CONTENDED);
            }
        }
        Some(Guard(self))
    }

    /// Takes the lock if it is free.
    ///
    /// # Signal safety
    /// Callable from a handler, which must not keep the lock when it returns.
    pub fn try_hold(&self) -> Option<Guard<'_>> {
        let taken = self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Guard(self))
    }

    /// Whether a thread holds it.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::SeqCst) != FREE
    }

    /// Releases a lock whose guard was forgotten, as a pthread_atfork handler must.
    ///
    /// Releasing a lock that is free does nothing.
    pub fn release(&self) {
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            self.sleepers.wake_one(&self.state);
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
