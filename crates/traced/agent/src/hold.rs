//! The lock of the control path, held with signals blocked.
//!
//! A signal handler may fork or load a library; it must not find its own thread in the middle of a handshake. Probes
//! never take this lock.

use core::sync::atomic::{AtomicU64, Ordering};
use mote_sync::Lock;
use mote_sys::signal;

static LOCK: Lock = Lock::new();
/// The signal mask of a thread that is in fork, until it is out of it.
static FORK_MASK: AtomicU64 = AtomicU64::new(0);

/// Signals that the C library sends to its own threads (SIGCANCEL, SIGSETXID): setuid(2) waits until every thread has
/// taken them.
pub(crate) const INTERNAL: u64 = signal::bit(32) | signal::bit(33);

/// Signals that a thread gets for what it does itself; blocked, they kill.
const SYNCHRONOUS: u64 = signal::chain::SYNCHRONOUS | signal::bit(libc::SIGABRT);

/// Proof that the control path is ours; gives it back when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    mask: u64,
}

/// Waits for the control path.
///
/// # Signal safety
/// Not for handlers.
pub(crate) fn control() -> Control {
    let mask = signal::block(!(SYNCHRONOUS | INTERNAL));
    core::mem::forget(LOCK.hold());
    Control { mask }
}

impl Drop for Control {
    fn drop(&mut self) {
        LOCK.release();
        signal::set_mask(self.mask);
    }
}

/// Whether a thread has the control path.
pub(crate) fn is_held() -> bool {
    LOCK.is_held()
}

/// Takes the control path for a fork.
pub(crate) fn fork_prepare() {
    let control = control();
    FORK_MASK.store(control.mask, Ordering::Relaxed);
    core::mem::forget(control);
}

/// Gives it back, in the parent and in the child.
pub(crate) fn fork_done() {
    drop(Control { mask: FORK_MASK.load(Ordering::Relaxed) });
}
