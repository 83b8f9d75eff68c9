//! The thread that listens to the sessions.
//!
//! It has all signals blocked, a descriptor table of its own with nothing in it but the sessions' sockets, and makes no
//! system call until a session speaks or dies, unless something is left to be done: filters to be freed, sites that
//! could not be patched before, a session that did not listen. So a program may close every descriptor that it did not
//! open, and the thread holds none of the program's open; and it may lock itself in (`locked`). The thread ends when
//! the last session does.

use crate::hold::INTERNAL;
use crate::link::Links;
use crate::{dealing, leaving, locked, own_work, session, stack, trust, waiting};
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Wait};
use mote_sys::{Errno, process, signal, tsc};
use mote_wire::{Message, SESSIONS_MAX};

/// Sizes of the thread's stack to be tried: the C library takes a program's static thread-local storage from it, and
/// `mote_patch::apply` needs 16 KiB. Only what is touched costs memory.
const STACK_BYTES: [usize; 3] = [256 << 10, 2 << 20, 32 << 20];
/// How often the thread looks at what it has waited for in vain, in milliseconds.
const LOOK_MS: i32 = 1000;
/// No time limit.
const FOREVER: i32 = -1;
/// How soon after a change it looks whether the filters that were replaced can be freed, and sites patched that could
/// not be, in milliseconds.
const TIDY_MS: i32 = 1;

/// What the thread has to say about its sockets: nothing yet, taken, or not to be had.
static TAKEN: AtomicU32 = AtomicU32::new(0);
const TAKEN_OVER: u32 = 1;
const SHARED: u32 = 2;
/// Its id.
static THREAD: AtomicU32 = AtomicU32::new(0);
/// The sockets for the thread that starts, by the session's number.
static HANDED: [AtomicI32; SESSIONS_MAX] = [const { AtomicI32::new(-1) }; SESSIONS_MAX];

/// Starts the thread, which takes over the links' sockets. Without it no thread disarms when a
/// session dies: events are then counted as lost in full rings until the process ends.
pub(crate) fn listen(links: Links) {
    TAKEN.store(0, Ordering::Relaxed);
    for (to, raw) in HANDED.iter().zip(links.raw()) {
        to.store(raw, Ordering::Relaxed);
    }
    let started = spawn(run, core::ptr::null_mut());
    while started && TAKEN.load(Ordering::Acquire) == 0 {
        let _ = process::futex_wait(&TAKEN, 0);
    }
    if !started || TAKEN.load(Ordering::Acquire) == SHARED {
        // The sockets stay open: the thread has them, or the sessions must not take us for gone.
        links.0.into_iter().flatten().for_each(core::mem::forget);
    }
    // Else the thread has its own table: this closes ours only.
    if started {
        locked::until_asleep(THREAD.load(Ordering::Relaxed));
    }
}

/// What a thread of ours runs, with its argument.
pub(crate) type Work = extern "C" fn(*mut c_void) -> *mut c_void;

/// Runs `work` on a new detached thread with all signals blocked but `TRAPS` and the C library's own.
pub(crate) fn spawn(work: Work, argument: *mut c_void) -> bool {
    STACK_BYTES.into_iter().any(|bytes| spawn_with(bytes, work, argument))
}

fn spawn_with(stack_bytes: usize, work: Work, argument: *mut c_void) -> bool {
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
    // A thread that blocks `TRAPS` keeps `patch` from using breakpoints.
    let mask = signal::block(!(signal::TRAPS | INTERNAL));
    let mut thread = 0;
    // SAFETY: the caller gives an argument for `work`; no memory of this frame goes there.
    let failed = unsafe { libc::pthread_create(&mut thread, attributes.as_ptr(), work, argument) };
    signal::set_mask(mask);
    // SAFETY: the attributes are initialised, and used no more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    failed == 0
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    process::set_comm(c"mote-agent");
    own_work::set_own_work(true);
    // It may have inherited that from a thread of the program, and blocks the signal by which others get over it.
    tsc::enable();
    let mut links = Links::default();
    for (to, raw) in links.0.iter_mut().zip(&HANDED) {
        let raw = raw.load(Ordering::Relaxed);
        *to = (raw >= 0).then(|| Fd::from_raw(raw));
    }
    let own_table = fd::unshare_all_but(&mut links.raw()).is_ok();
    session::find_at_once(&mut links);
    session::ask_again(&mut links, false);
    let mut watch = own_table.then(locked::Watch::new);
    watch.iter_mut().for_each(|watch| watch.tell(links.raw()));
    let is_busy = session::tidy() || session::has_lost(&links) || waiting::is_any();
    THREAD.store(process::tid() as u32, Ordering::Relaxed);
    TAKEN.store(if own_table { TAKEN_OVER } else { SHARED }, Ordering::Release);
    process::futex_wake(&TAKEN, 1);
    let mut patience = if is_busy { TIDY_MS } else { FOREVER };
    let mut waited = 0;
    while session::is_joined() || waiting::is_any() {
        let mut polled = links.raw().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let (again, is_blocked) = dealing::deal();
        if is_blocked {
            (patience, waited) = (TIDY_MS, 0);
        }
        let left = if patience == FOREVER { i32::MAX } else { patience - waited };
        let (wait, is_short) = match again {
            Some(soon) if soon < left => (soon, true),
            _ => (if patience == FOREVER { FOREVER } else { left }, false),
        };
        let woken = socket::wait_any(&mut polled, wait);
        waited = if is_short && woken == Ok(0) { waited.saturating_add(wait) } else { 0 };
        if let Some(watch) = watch.take_if(|watch| watch.is_locked_in()) {
            watch.stay();
            return core::ptr::null_mut();
        }
        match woken {
            Ok(0) if leaving::is_last(1) => return core::ptr::null_mut(),
            Ok(0) if is_short => {}
            Ok(0) => {
                session::find_lost(&mut links);
                session::ask_again(&mut links, true);
                let is_busy = session::tidy() || session::has_lost(&links) || waiting::is_any();
                // A thread that stays in a filter for long must not keep us busy.
                patience = if is_busy { (2 * patience).min(LOOK_MS) } else { FOREVER };
            }
            Err(Errno(libc::EINTR | libc::ENOMEM)) => {}
            // A sandbox that answers errors: without waiting there is nothing for us to do.
            Err(_) => return core::ptr::null_mut(),
            Ok(_) => {
                for number in (0..SESSIONS_MAX).zip(&polled).filter(|(_, polled)| polled.revents != 0) {
                    if !session::let_in(number.0, &mut links) && serve(number.0, &mut links) == Next::End {
                        return core::ptr::null_mut();
                    }
                    patience = TIDY_MS;
                }
            }
        }
        watch.iter_mut().for_each(|watch| watch.tell(links.raw()));
    }
    session::farewell();
    core::ptr::null_mut()
}

/// What the thread does after a message.
#[derive(PartialEq, Eq)]
enum Next {
    Listen,
    /// The thread ends: no session is left to listen to.
    End,
}

/// Does what a session says in one message; leaves it when it has ended.
fn serve(number: usize, links: &mut Links) -> Next {
    let Some(socket) = links.0.get(number).and_then(Option::as_ref) else { return Next::Listen };
    let mut buffer = [0; 512];
    match socket::receive(socket.raw(), &mut buffer, Wait::No) {
        // No other sender is listened to; what came with it is closed.
        Ok(received) if received.len > 0 && !trust::is_from(number, &received) => return Next::Listen,
        Ok(mut received) if received.len > 0 => {
            match Message::decode(buffer.get(..received.len).unwrap_or(&[])) {
                Ok(Message::Stop | Message::Refused(_)) => leave(number, links),
                Ok(Message::Filters { generation }) => {
                    session::install(number, socket, generation, &received.fds);
                }
                Ok(Message::Renew(geometry)) => session::renew(number, socket, geometry, &received.fds),
                Ok(Message::Cooperate { slots }) => session::cooperate(number, slots, &received.fds),
                Ok(Message::Join { place }) => {
                    session::join_another(place, received.fds.iter_mut().find_map(Option::take), links);
                }
                Ok(Message::Look { agents }) if leaving::is_last(agents) => return Next::End,
                Ok(Message::MayCall) => tsc::allow_calls(),
                Ok(Message::Replaces { find }) => stack::take_replaces(find),
                _ => {}
            }
        }
        Err(Errno(libc::EINTR | libc::EAGAIN)) => {}
        _ => leave(number, links),
    }
    Next::Listen
}

fn leave(number: usize, links: &mut Links) {
    session::leave(number);
    // Closed when all is off: that is what the session waits for.
    if let Some(place) = links.0.get_mut(number) {
        *place = None;
    }
}
