//! Running processes that other recordings have promised to send to us. A promise is no proof: what counts is that the
//! process itself says hello, and the kernel says that it does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a process may take from the promise to its hello: on a busy machine its agent's thread may have no CPU for
/// long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The processes, by their ids. Copies are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awaited(Arc<Mutex<Vec<Promise>>>);

#[derive(Debug)]
struct Promise {
    pid: i32,
    /// `None` while the others are being asked.
    until: Option<Instant>,
}

impl Awaited {
    /// Other recordings will be asked for a process. It may come before their answer.
    pub(crate) fn asks(&self, pid: i32) {
        self.with(|all| all.push(Promise { pid, until: None }));
    }

    /// A recording has promised a process.
    pub(crate) fn promised(&self, pid: i32) {
        let until = Some(Instant::now() + PATIENCE);
        self.with(|all| {
            all.iter_mut().filter(|promise| promise.pid == pid).for_each(|promise| promise.until = until);
        });
    }

    /// A process has said hello, or it was told why it does not.
    pub(crate) fn came(&self, pid: i32) {
        self.with(|all| all.retain(|promise| promise.pid != pid));
    }

    /// Those that have not come in time, or, also without a promise, at all; each is told once.
    pub(crate) fn take_missing(&self, at_all: bool) -> Vec<i32> {
        let now = Instant::now();
        let is_missing = |promise: &mut Promise| at_all || promise.until.is_some_and(|until| until < now);
        self.with(|all| all.extract_if(.., is_missing).map(|promise| promise.pid).collect())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Promise>) -> T) -> T {
        // What is in it is whole whoever has failed.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_promised_and_has_not_come_is_missing_once() {
        let awaited = Awaited::default();
        (1..=4).for_each(|pid| awaited.asks(pid));
        awaited.came(1);
        (1..=3).for_each(|pid| awaited.promised(pid));
        awaited.came(2);
        assert_eq!(awaited.take_missing(false), [0; 0], "there is time");
        assert_eq!(
            awaited.take_missing(true),
            [3, 4],
            "one came before the promise, one after it; at the end a promise is not asked for"
        );
        assert_eq!(awaited.take_missing(true), [0; 0]);
    }
}
