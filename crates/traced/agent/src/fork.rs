//! What happens around fork.
//!
//! The child shares the rings, whose mappings it inherits, and all its sites are armed as its parent's were: its events
//! go on at once. It has lost the listening thread and the sockets, so it says hello by itself, to each of its
//! sessions, and starts a thread of its own. A session that is not there any more it leaves. No preload is needed:
//! `pthread_atfork` is the C library's own hook.
//!
//! # The thread that a child makes
//! `pthread_create` is not async-signal-safe, and POSIX asks for no more in the child of a process that had several
//! threads. C libraries give more, and run the handlers of a child when they have put themselves in order:
//! - glibc has by then made new the locks that other threads may have held: of malloc, which fork itself takes, of
//!   stacks (`__reclaim_stacks`), of attributes, and of thread-local storage (`dl_load_tls_lock`, glibc 2.35 and where
//!   bug 28357 was mended). Stacks of threads that are no more are there to be used again: ours of the parent, too, so
//!   that making the child's allocates nothing.
//! - musl (1.2.2 on) holds all of its locks across fork, and lets them go before the handlers run.
//!
//! What remains: an allocator in the C library's place that registers handlers after ours still has its locks held when
//! ours runs, since children run them in the order in which they were registered. It would wait for itself only if it
//! were asked for memory there, which it is not while the parent's stack can be used again. Later is no better: no
//! moment of a child is known to be safe that this one is not, a probe must not make threads, and a child without the
//! thread would not notice that its session has died.

use crate::{channel, control, hold, session, waiting};
use core::sync::atomic::{AtomicBool, Ordering};

static WATCHING: AtomicBool = AtomicBool::new(false);

/// Asks the C library to call us around every fork of this process.
pub(crate) fn watch() {
    if !WATCHING.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers live as long as this object, which is never unloaded once it is traced or changes sites
        // for the program (`keep`; the C library drops handlers of unloaded objects).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

/// No thread may be in the middle of a handshake or of patching when the address space is copied.
unsafe extern "C" fn prepare() {
    hold::fork_prepare();
    mote_patch::fork_prepare();
}

unsafe extern "C" fn parent() {
    mote_patch::fork_done();
    hold::fork_done();
}

unsafe extern "C" fn child() {
    // SAFETY: this is the child, which has one thread, and it is in no filter: no thread has read since fork.
    unsafe { mote_rcu::library::after_fork() };
    if session::has_begun() {
        // SAFETY: as above; signals are blocked until `hold::fork_done`.
        unsafe { channel::after_fork() };
    }
    mote_patch::fork_done();
    hold::fork_done();
    if !session::has_begun() {
        // Only the program itself changes sites here (`change`).
        return;
    }
    let links = session::after_fork();
    if session::is_joined() || waiting::is_any() {
        control::listen(links);
    }
}
