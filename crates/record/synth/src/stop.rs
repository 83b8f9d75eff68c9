//! Ending a program before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often is looked whether the program is to end.
const LOOK: Duration = Duration::from_millis(20);

/// A flag that is set when a program is to end.
pub type Stop = Arc<AtomicBool>;

/// Does something when a program is to end, while the engine waits for the program.
#[derive(Debug)]
pub(crate) struct Stopper {
    is_over: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Stopper {
    /// Does it, in a thread of its own, from when the flag is set until the engine is over, again and again: what is to
    /// end may start something else. Nothing where there is no flag.
    pub(crate) fn new(flag: Option<Stop>, end: impl Fn() + Send + 'static) -> Stopper {
        let is_over = Stop::default();
        let over = Arc::clone(&is_over);
        let thread = flag.map(|flag| {
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if flag.load(Ordering::Relaxed) {
                        end();
                    }
                    std::thread::park_timeout(LOOK);
                }
            })
        });
        Stopper { is_over, thread }
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
