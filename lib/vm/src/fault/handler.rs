//! The handler of SIGSEGV and SIGBUS.
//!
//! # Signal safety
//! Own code, no system call unless a signal is handed on; no lock, no allocation, `errno` untouched. It needs a few
//! hundred bytes of stack beside the kernel's frame, and so fits wherever that does.

use super::{access, chain, image};
use crate::arch;
use core::ffi::{c_int, c_void};
use libc::siginfo_t;
use mote_sys::signal::Registers;
use mote_sys::tsc;

/// Makes sure that both signals come to us; false when they cannot, and then nothing may be run that relies on it.
///
/// # Cost
/// Two system calls when nothing changed.
pub(crate) fn watch() -> bool {
    chain::install()
}

/// Makes sure that SIGSEGV comes to us, for threads that may not read the time-stamp counter; false when it cannot.
///
/// # Cost
/// Two system calls.
pub fn watch_clock() -> bool {
    chain::install_one()
}

/// The handler of level `LEVEL`, of both signals.
pub(super) extern "C" fn on_fault<const LEVEL: usize>(
    number: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: SA_SIGINFO: the kernel, or a handler that calls us as the one before it, passes a whole siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: and the frame of the interrupted code, which is ours to change until we return.
    let registers = unsafe { Registers::of(context) };
    // Codes above 0 are the kernel's: an instruction failed. Others were sent by a process.
    if code > 0 && (serve_clock(registers) || serve(registers)) {
        return;
    }
    // SAFETY: the three arguments are those that the kernel gave.
    unsafe { chain::hand_on(LEVEL, number, info, context) };
}

/// Sends the thread on if it may not read the time-stamp counter, and tried to in code of ours. Makes no system call:
/// that may be forbidden, too.
fn serve_clock(registers: &mut Registers) -> bool {
    if !registers.is_denied_counter() {
        return false;
    }
    let resume = tsc::resume(registers.ip());
    resume.inspect(|resume| registers.set_ip(*resume)).is_some()
}

/// Sends the thread on if it failed in an access or in machine code of ours.
fn serve(registers: &mut Registers) -> bool {
    if let Some(resume) = access::resume(registers.ip()) {
        arch::fail_access(registers, resume);
        return true;
    }
    // SAFETY: these are the registers of this very thread, which is in this handler.
    let Some(caller) = (unsafe { image::unwind(arch::in_program(registers)) }) else { return false };
    arch::leave_program(registers, &caller, super::Fault::Memory);
    true
}
