//! A futex lock for the control path of the traced process.
//!
//! Never taken on a probe. Its only reason to exist beside `std::sync::Mutex` is that it is
//! `no_std`, has no poisoning, and can be released in the child of a fork by the thread that
//! took it in the parent.

use core::sync::atomic::{AtomicU32, Ordering};
use mote_sys::process;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Mutual exclusion; blocks by futex(2).
#[derive(Debug, Default)]
pub struct Lock(AtomicU32);

/// Proof that the lock is held; releases it when dropped.
#[derive(Debug)]
pub struct Guard<'a>(&'a Lock);

impl Lock {
    /// A free lock.
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Waits until the lock is free and takes it.
    ///
    /// # Signal safety
    /// Not callable from a signal handler: the interrupted thread may hold it.
    pub fn hold(&self) -> Guard<'_> {
        // Acquire pairs with the release in `release`.
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
                let _ = process::futex_wait(&self.0, CONTENDED);
            }
        }
        Guard(self)
    }

    /// Takes the lock if it is free.
    ///
    /// # Signal safety
    /// Callable from a handler, which must not keep the lock when it returns.
    pub fn try_hold(&self) -> Option<Guard<'_>> {
        let taken = self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Guard(self))
    }

    /// Releases a lock whose guard was forgotten, as a pthread_atfork handler must.
    ///
    /// Releasing a lock that is free does nothing.
    pub fn release(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            process::futex_wake(&self.0, 1);
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
