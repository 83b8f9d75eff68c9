//! Threads that may not read the time-stamp counter, of a program whose handler of SIGSEGV has nothing else to do
//! (`mote_vm::fault` with filters).
//!
//! # Signal safety
//! No system call unless a signal is handed on; no lock, no allocation, `errno` untouched.

use core::ffi::{c_int, c_void};
use libc::siginfo_t;
use mote_sync::Lock;
use mote_sys::signal::Registers;
use mote_sys::signal::chain::{Chain, Handler, Installed, LEVELS};
use mote_sys::tsc;

static INSTALLING: Lock = Lock::new();
static FAULTS: Chain = Chain::new(libc::SIGSEGV);

/// Our handler of each level.
const HANDLERS: [Handler; LEVELS] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
];

/// Makes sure that SIGSEGV comes to us, for threads that may not read the time-stamp counter; false when it cannot.
///
/// # Cost
/// Two system calls.
pub(crate) fn watch_clock() -> bool {
    let _one_at_a_time = INSTALLING.hold();
    // SAFETY: `on_fault` may run at any moment on any thread.
    unsafe { FAULTS.install(&HANDLERS) != Installed::Refused }
}

extern "C" fn on_fault<const LEVEL: usize>(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: SA_SIGINFO: the kernel, or a handler that calls us as the one before it, passes a whole siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: and the frame of the interrupted code, which is ours to change until we return.
    let registers = unsafe { Registers::of(context) };
    // Codes above 0 are the kernel's: an instruction failed. Others were sent by a process.
    if code > 0
        && registers.is_denied_counter()
        && let Some(resume) = tsc::resume(registers.ip())
    {
        return registers.set_ip(resume);
    }
    // SAFETY: the arguments are those that the kernel gave.
    unsafe { FAULTS.hand_on(LEVEL, info, context, 0) };
}
