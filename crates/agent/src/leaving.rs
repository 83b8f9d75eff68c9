//! Notices when a program's main thread leaves by `pthread_exit` while others go on.
//!
//! The C library ends such a process when its last thread returns. Ours would be that thread, and it never returns: so
//! it must know when nobody else is left. It looks only once the main thread has left, which the destructor of a thread-specific value tells.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use mote_sys::{fd, process};

/// The key of a thread-specific value, plus one; 0 before there is one. glibc runs the destructors of such values when
/// the main thread calls `pthread_exit`, and no other hooks.
static KEY: AtomicU32 = AtomicU32::new(0);
static LEFT: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn left(_: *mut c_void) {
    LEFT.store(true, Ordering::Release);
}

/// Watches the calling thread, which is the process's main thread: from another one it cannot be seen, so that it is taken for having left, and looked for
/// every time. Called with the control path held, or in a child that has one thread.
pub(crate) fn watch() {
    let is_main = process::tid() == process::pid();
    LEFT.store(!is_main, Ordering::Relaxed);
    if !is_main {
        return;
    }
    if KEY.load(Ordering::Relaxed) == 0 {
        let mut key = 0;
        // SAFETY: the destructor stays mapped: this object is kept (`keep`).
        if unsafe { libc::pthread_key_create(&mut key, Some(left)) } != 0 {
            return;
        }
        KEY.store(key + 1, Ordering::Relaxed);
    }
    let key = KEY.load(Ordering::Relaxed) - 1;
    // SAFETY: the key exists; the value is only compared with null.
    unsafe { libc::pthread_setspecific(key, (&raw const LEFT).cast()) };
}

/// Whether the main thread has left and nobody but the calling thread is there.
pub(crate) fn is_last() -> bool {
    LEFT.load(Ordering::Acquire) && leader_and_one()
}

/// Whether `/proc/self/stat` shows a dead leader and two threads: that one and the caller (proc_pid_stat(5)).
fn leader_and_one() -> bool {
    let mut text = [0; 512];
    let Ok(file) = fd::open(c"/proc/self/stat", libc::O_RDONLY, 0) else { return false };
    let Ok(len) = fd::read(&file, &mut text) else { return false };
    let text = text.get(..len).unwrap_or(&[]);
    let Some(name_end) = text.iter().rposition(|byte| *byte == b')') else { return false };
    // Field 3, the state, is the first behind the name; field 20 is the number of threads.
    let mut fields = text.get(name_end + 2..).unwrap_or(&[]).split(|byte| *byte == b' ');
    fields.next() == Some(b"Z") && fields.nth(16) == Some(b"2")
}
