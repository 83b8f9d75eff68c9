//! Where the lock sleeps: futex(2), or what stands for it in loom's and shuttle's models.

pub(crate) use place::Place;

#[cfg(not(any(loom, shuttle)))]
mod place {
    use crate::atomic::AtomicU32;
    use mote_sys::process;

    /// Nothing: the kernel finds the sleepers of a word by its address.
    #[derive(Debug)]
    pub(crate) struct Place;

    impl Place {
        pub(crate) const fn new() -> Place {
            Place
        }

        /// Sleeps until woken, if the word is `expected`; may wake for nothing.
        pub(crate) fn wait(&self, word: &AtomicU32, expected: u32) {
            let _ = process::futex_wait(word, expected);
        }

        /// Wakes one that sleeps.
        pub(crate) fn wake_one(&self, word: &AtomicU32) {
            process::futex_wake(word, 1);
        }
    }
}

/// The kernel's promise (futex(2)): for threads that wake, comparing the word and going to sleep are one step. Nothing
/// else is promised: the word is loaded relaxed.
#[cfg(any(loom, shuttle))]
mod place {
    use crate::atomic::{AtomicU32, Ordering};
    #[cfg(loom)]
    use loom::sync::{Condvar, Mutex};
    #[cfg(shuttle)]
    use shuttle::sync::{Condvar, Mutex};

    #[derive(Debug)]
    pub(crate) struct Place {
        bucket: Mutex<()>,
        sleepers: Condvar,
    }

    impl Place {
        pub(crate) fn new() -> Place {
            Place { bucket: Mutex::new(()), sleepers: Condvar::new() }
        }

        pub(crate) fn wait(&self, word: &AtomicU32, expected: u32) {
            let Ok(bucket) = self.bucket.lock() else { return };
            if word.load(Ordering::Relaxed) == expected {
                drop(self.sleepers.wait(bucket));
            }
        }

        pub(crate) fn wake_one(&self, _: &AtomicU32) {
            let Ok(_bucket) = self.bucket.lock() else { return };
            self.sleepers.notify_one();
        }
    }
}
