//! The way in for a process that runs already: what a thread does that a recorder has sent here (`probe/src/join.rs`,
//! `inject`).
//!
//! The thread was taken out of a system call that it waits in. It may hold locks of the program, and other threads may
//! hold locks and wait for it: so it waits for no other thread. It makes a thread with `pthread_create` and goes back.
//! That thread does the rest; it may wait for the dynamic linker, an allocator or another thread in our control path as
//! any thread of the program may, and the program goes on meanwhile.
//!
//! `pthread_create` itself takes the allocator's lock and those of the C library's list of threads, each for a moment.
//! A recorder does not choose threads that may hold one (`inject/src/thread.rs`).

pub use crate::arch::Interrupted;
use crate::hold::INTERNAL;
use crate::{control, joining, own_work};
use core::ffi::c_void;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use mote_layout::join::{self, restart};
use mote_layout::site::SiteRecord;
use mote_sys::mem::Mapping;
use mote_sys::{process, signal, time};

/// How often, and with which pause, the new thread looks whether the other one has left.
const LEAVING_TRIES: u32 = 1000;
const LEAVING_NS: u64 = 100_000;

/// What the thread that does the work has to know; lies in a mapping of its own.
struct Errand {
    area: *mut u8,
    nonce: u64,
    sites: (*const SiteRecord, *const SiteRecord),
    place: [u8; join::PLACE_BYTES],
}

/// Has a thread of ours join the session that `area` names, and decides how the interrupted call goes on.
///
/// # Safety
/// 1. `area` is the memory that `mote_layout::join` describes, taken by the calling thread, with all signals blocked.
/// 2. `frame` is the calling thread's, and no other thread's.
/// 3. `sites` are the bounds of the object's section of site records.
pub unsafe fn enter(area: *mut u8, frame: *mut Interrupted, sites: (*const SiteRecord, *const SiteRecord)) {
    // SAFETY: 2.
    let frame = unsafe { &mut *frame };
    // SAFETY: of the calling thread, for its life.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    // SAFETY: 1 and 3.
    if !unsafe { send(area, frame.nonce, sites) } {
        // SAFETY: 1.
        unsafe { answer(area, frame.nonce, -i64::from(libc::EAGAIN)) };
    }
    // SAFETY: as above.
    unsafe { errno.write(before) };
    // SAFETY: 1; the words are inside of the memory, and aligned.
    let kind = unsafe { area.wrapping_add(join::KIND).cast::<u64>().read_volatile() };
    if ends_call(kind, signal::pending() & !frame.mask) {
        frame.end_call(libc::EINTR);
    }
}

/// Starts the thread that does the work.
///
/// # Safety
/// As `enter`.
unsafe fn send(area: *mut u8, nonce: u64, sites: (*const SiteRecord, *const SiteRecord)) -> bool {
    let Ok(memory) = Mapping::private(size_of::<Errand>()) else { return false };
    // SAFETY: the words are inside of the memory; whatever a recorder writes there meanwhile, it is bytes.
    let place = unsafe { area.wrapping_add(join::PLACE).cast::<[u8; join::PLACE_BYTES]>().read_volatile() };
    let errand = memory.leak().cast::<Errand>();
    // SAFETY: fresh memory of the right size; pages are aligned for any type.
    unsafe { errand.write(Errand { area, nonce, sites, place }) };
    if control::spawn(run, errand.cast()) {
        return true;
    }
    // SAFETY: leaked above, and no other code has it.
    drop(unsafe { Mapping::adopt(errand.cast(), size_of::<Errand>()) });
    false
}

extern "C" fn run(errand: *mut c_void) -> *mut c_void {
    process::set_comm(c"mote-agent");
    own_work::set_own_work(true);
    // It has inherited the other thread's, which has all of them blocked.
    signal::set_mask(!(signal::TRAPS | INTERNAL));
    let errand = errand.cast::<Errand>();
    // SAFETY: `send` has written it, and given it to this thread only.
    let Errand { area, nonce, sites: (first, end), place } = unsafe { errand.read() };
    // SAFETY: as above; it was copied.
    drop(unsafe { Mapping::adopt(errand.cast(), size_of::<Errand>()) });
    // In `pthread_create` the other thread blocks all signals for a moment, and sites cannot be patched while a thread
    // blocks SIGTRAP.
    // SAFETY: inside of the memory, aligned, and reached as an atomic and by other processes only.
    let busy = unsafe { AtomicU32::from_ptr(area.wrapping_add(join::BUSY).cast()) };
    for _ in 0..LEAVING_TRIES {
        if busy.load(Ordering::Acquire) == 0 {
            break;
        }
        let _ = time::sleep(LEAVING_NS);
    }
    let place = place.split(|byte| *byte == 0).next().unwrap_or(&[]);
    // SAFETY: `enter`'s caller has promised it.
    let joined = unsafe { joining::late(place, first, end) };
    // SAFETY: as above.
    unsafe { answer(area, nonce, joined) };
    core::ptr::null_mut()
}

/// Returns the recorder, unless another one asks now.
///
/// # Safety
/// `area` is the memory that `mote_layout::join` describes.
unsafe fn answer(area: *mut u8, nonce: u64, answer: i64) {
    // SAFETY: inside of the memory, aligned, and reached as atomics and by other processes only.
    let asked = unsafe { AtomicU64::from_ptr(area.wrapping_add(join::NONCE).cast()) };
    // SAFETY: as above.
    let text = unsafe { AtomicI64::from_ptr(area.wrapping_add(join::ANSWER).cast()) };
    // SAFETY: as above.
    let answered = unsafe { AtomicU64::from_ptr(area.wrapping_add(join::ANSWERED).cast()) };
    if asked.load(Ordering::Acquire) == nonce {
        text.store(answer, Ordering::Relaxed);
        // After the answer itself.
        answered.store(nonce, Ordering::Release);
    }
}

/// Whether a call that was interrupted so ends with `EINTR` when the thread takes these signals, as it would have
/// without us: they came while it was here, and their handlers run when it leaves (signal(7), "Interruption of system
/// calls").
fn ends_call(kind: u64, signals: u64) -> bool {
    let ends = |number: &i32| {
        let Ok(action) = signal::action(*number) else { return false };
        let has_handler = !matches!(action.handler, libc::SIG_DFL | libc::SIG_IGN);
        let restarts = action.flags & libc::SA_RESTART as u32 as u64 != 0;
        match kind {
            restart::SYS => has_handler && !restarts,
            // Of the other kind the kernel does it by itself when a handler has run.
            restart::NOHAND => has_handler,
            _ => false,
        }
    };
    (1..=64).filter(|number| signals & signal::bit(*number) != 0).any(|number| ends(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_sys::signal::{Action, bit, set_action};

    extern "C" fn nothing(_: i32) {}

    #[test]
    fn calls_end_as_they_would_have() {
        let handler = nothing as *const () as usize;
        let set = |signal, handler, flags| {
            // SAFETY: a handler that does nothing, or none.
            unsafe { set_action(signal, &Action::new(handler, flags, 0)) }.expect("a signal");
        };
        set(libc::SIGUSR1, handler, libc::SA_RESTART);
        set(libc::SIGUSR2, handler, 0);
        set(libc::SIGWINCH, libc::SIG_DFL, 0);
        set(libc::SIGURG, libc::SIG_IGN, 0);
        let cases = [
            (restart::SYS, libc::SIGUSR1, false),
            (restart::SYS, libc::SIGUSR2, true),
            (restart::NOHAND, libc::SIGUSR1, true),
            (restart::NOHAND, libc::SIGUSR2, true),
            (restart::NOHAND, libc::SIGWINCH, false),
            (restart::NOHAND, libc::SIGURG, false),
            (restart::NOINTR, libc::SIGUSR2, false),
            (restart::RESTARTBLOCK, libc::SIGUSR2, false),
        ];
        for (kind, number, expected) in cases {
            assert_eq!(ends_call(kind, bit(number)), expected, "kind {kind}, signal {number}");
        }
        assert!(!ends_call(restart::NOHAND, 0));
    }
}
