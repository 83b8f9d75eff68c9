//! The lock of grace periods: a futex, or loom's mutex in a model.

#[cfg(not(loom))]
pub(crate) use mote_sync::Lock;

#[cfg(loom)]
pub(crate) use model::Lock;

#[cfg(loom)]
mod model {
    use loom::sync::{Mutex, MutexGuard};

    #[derive(Debug)]
    pub(crate) struct Lock(Mutex<()>);

    impl Lock {
        pub(crate) fn new() -> Lock {
            Lock(Mutex::new(()))
        }

        pub(crate) fn hold_unless(&self, needless: impl Fn() -> bool) -> Option<MutexGuard<'_, ()>> {
            (!needless()).then(|| self.0.lock().unwrap())
        }

        pub(crate) fn try_hold(&self) -> Option<MutexGuard<'_, ()>> {
            self.0.try_lock().ok()
        }
    }
}
