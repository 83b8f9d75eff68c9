//! The thread that listens to the session.
//!
//! It has all signals blocked, a descriptor table of its own with nothing in it but the session's socket,
//! and does nothing until the session speaks or dies, but look once a second whether it is the only one left, and
//! free filters. So a program may close every descriptor that it did not open,
//! and the thread holds none of the program's open.

use crate::hold::INTERNAL;
use crate::link::Link;
use crate::{leaving, session};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Wait};
use mote_sys::{Errno, process, signal};
use mote_wire::Message;

/// Sizes of the thread's stack to be tried: the C library takes a program's static thread-local storage from it, and
/// `mote_text::apply` needs 16 KiB. Only what is touched costs memory.
const STACK_BYTES: [usize; 3] = [256 << 10, 2 << 20, 32 << 20];
/// How often the thread looks whether it is the last one, in milliseconds.
const LOOK_MS: i32 = 1000;
/// How soon after a change it looks whether the filters that were replaced can be freed, in milliseconds.
const TIDY_MS: i32 = 1;

/// What the thread has to say about its socket: nothing yet, taken, or not to be had.
static TAKEN: AtomicU32 = AtomicU32::new(0);
const TAKEN_OVER: u32 = 1;
const SHARED: u32 = 2;

/// Starts the thread, which takes over the link's socket. Without the thread nobody disarms when the
/// session dies: events are then counted as lost in full rings until the process ends.
pub(crate) fn listen(link: Link) {
    let socket = link.0.into_raw();
    TAKEN.store(0, Ordering::Relaxed);
    if !STACK_BYTES.into_iter().any(|stack| spawn(socket, stack)) {
        // The socket stays open: the session must not take us for gone.
        return;
    }
    while TAKEN.load(Ordering::Acquire) == 0 {
        let _ = process::futex_wait(&TAKEN, 0);
    }
    if TAKEN.load(Ordering::Acquire) == TAKEN_OVER {
        // The thread has its own table: this closes ours only.
        drop(Fd::from_raw(socket));
    }
}

/// Starts [`run`] on a new detached thread with all signals blocked but SIGTRAP and the C library's own.
fn spawn(socket: i32, stack_bytes: usize) -> bool {
    let mut attributes = core::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: initialises the attributes.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the attributes are initialised.
    unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack_bytes) };
    // SAFETY: the attributes are initialised.
    unsafe {
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
    }
    // SIGTRAP stays open: a thread that blocks it keeps `text` from using breakpoints.
    let mask = signal::block(!(signal::bit(libc::SIGTRAP) | INTERNAL));
    let mut thread = 0;
    // SAFETY: `run` takes the descriptor's number as its argument, and no memory of this frame.
    let failed = unsafe {
        libc::pthread_create(
            &mut thread,
            attributes.as_ptr(),
            run,
            core::ptr::without_provenance_mut(socket as usize),
        )
    };
    signal::set_mask(mask);
    // SAFETY: the attributes are initialised, and used no more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    failed == 0
}

extern "C" fn run(socket: *mut c_void) -> *mut c_void {
    process::set_comm(c"mote-agent");
    let socket = Fd::from_raw(socket as usize as i32);
    let own_table = fd::unshare_all_but(&socket).is_ok();
    TAKEN.store(if own_table { TAKEN_OVER } else { SHARED }, Ordering::Release);
    process::futex_wake(&TAKEN, 1);
    let mut buffer = [0; 512];
    let mut patience = LOOK_MS;
    loop {
        match socket::wait_readable(socket.raw(), patience) {
            Ok(false) if leaving::is_last() => return core::ptr::null_mut(),
            Ok(false) => {
                // A thread that stays in a filter for long must not keep us busy.
                patience = if session::tidy() { (2 * patience).min(LOOK_MS) } else { LOOK_MS };
                continue;
            }
            Err(Errno(libc::EINTR)) => continue,
            Ok(true) | Err(_) => {}
        }
        match socket::receive(socket.raw(), &mut buffer, Wait::No) {
            Ok(received) if received.len > 0 => {
                let bytes = buffer.get(..received.len).unwrap_or(&[]);
                match Message::decode(bytes) {
                    Ok(Message::Stop) => break,
                    Ok(Message::Filters { generation }) => {
                        session::install(&socket, generation, &received.fds);
                        patience = TIDY_MS;
                    }
                    _ => {}
                }
            }
            Err(Errno(libc::EINTR | libc::EAGAIN)) => {}
            _ => break,
        }
    }
    session::end();
    core::ptr::null_mut()
}
