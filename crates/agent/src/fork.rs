//! What happens around fork.
//!
//! The child shares the rings, whose mappings it inherits, and all its sites are armed as its parent's were: its
//! events go on at once. It has lost the listening thread and the sockets, so it says hello by itself, to each of its sessions, and starts
//! a thread of its own. A session that is not there any more it leaves. No preload is needed: `pthread_atfork` is the C library's own hook.

use crate::{channel, control, hold, session, waiting};
use core::sync::atomic::{AtomicBool, Ordering};

static WATCHING: AtomicBool = AtomicBool::new(false);

/// Asks the C library to call us around every fork of this process.
pub(crate) fn watch() {
    if !WATCHING.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers live as long as this object, which is never unloaded once it is traced
        // (`session::join` runs in its constructor; the C library drops handlers of unloaded objects).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

/// Nobody may be in the middle of a handshake or of patching when the address space is copied.
unsafe extern "C" fn prepare() {
    hold::fork_prepare();
    mote_text::fork_prepare();
}

unsafe extern "C" fn parent() {
    mote_text::fork_done();
    hold::fork_done();
}

unsafe extern "C" fn child() {
    // SAFETY: this is the child, which has one thread, and it is in no filter: nobody has read since fork.
    unsafe { mote_rcu::library::after_fork() };
    // SAFETY: as above; signals are blocked until `hold::fork_done`.
    unsafe { channel::after_fork() };
    mote_text::fork_done();
    hold::fork_done();
    let links = session::after_fork();
    if session::is_joined() || waiting::is_any() {
        control::listen(links);
    }
}
