//! The handler of SIGSEGV and SIGBUS.
//!
//! # Signal safety
//! Own code, no system call unless a signal is handed on; no lock, no allocation, `errno` untouched. It needs a few hundred bytes of
//! stack beside the kernel's frame, and so fits wherever that does.

use super::{access, chain, image};
use core::ffi::{c_int, c_void};
use libc::{greg_t, siginfo_t, ucontext_t};
use mote_jit::x86_64::Registers;
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
    // SAFETY: SA_SIGINFO: the kernel, or who calls us as the handler before its own, passes a whole siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: and the ucontext of the interrupted code, which is ours to change until we return.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    // Codes above 0 are the kernel's: an instruction failed. Others were sent by somebody.
    if code > 0 && (serve_clock(registers) || serve(registers)) {
        return;
    }
    // SAFETY: the three arguments are those that the kernel gave.
    unsafe { chain::hand_on(LEVEL, number, info, context) };
}

/// Sends the thread on if it may not read the time-stamp counter, and tried to in code of ours. Makes no system call: that may be forbidden, too.
fn serve_clock(registers: &mut [greg_t; 23]) -> bool {
    if registers[libc::REG_TRAPNO as usize] != tsc::TRAP {
        return false;
    }
    let ip = &mut registers[libc::REG_RIP as usize];
    let resume = tsc::resume(*ip as u64);
    resume.inspect(|resume| *ip = *resume as greg_t).is_some()
}

/// Sends the thread on if it failed in an access or in machine code of ours.
fn serve(registers: &mut [greg_t; 23]) -> bool {
    let ip = registers[libc::REG_RIP as usize] as u64;
    if let Some(resume) = access::resume(ip) {
        registers[libc::REG_RIP as usize] = resume as greg_t;
        registers[libc::REG_RDX as usize] = access::FAULT;
        return true;
    }
    const SAVED: [c_int; 4] = [libc::REG_RBX, libc::REG_R13, libc::REG_R14, libc::REG_R15];
    let now = Registers {
        rip: ip,
        rsp: registers[libc::REG_RSP as usize] as u64,
        rbp: registers[libc::REG_RBP as usize] as u64,
        saved: SAVED.map(|at| registers[at as usize] as u64),
    };
    // SAFETY: these are the registers of this very thread, which is in this handler.
    let Some(caller) = (unsafe { image::unwind(now) }) else { return false };
    registers[libc::REG_RIP as usize] = caller.rip as greg_t;
    registers[libc::REG_RSP as usize] = caller.rsp as greg_t;
    registers[libc::REG_RBP as usize] = caller.rbp as greg_t;
    for (at, value) in SAVED.into_iter().zip(caller.saved) {
        registers[at as usize] = value as greg_t;
    }
    registers[libc::REG_RAX as usize] = 0;
    registers[libc::REG_RDX as usize] = super::Fault::Memory as greg_t;
    true
}
