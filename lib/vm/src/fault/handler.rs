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

// Places of registers in a frame of a signal.
const RAX: usize = libc::REG_RAX as usize;
const RBX: usize = libc::REG_RBX as usize;
const RDX: usize = libc::REG_RDX as usize;
const RSP: usize = libc::REG_RSP as usize;
const RBP: usize = libc::REG_RBP as usize;
const RIP: usize = libc::REG_RIP as usize;
const TRAPNO: usize = libc::REG_TRAPNO as usize;
const R13: usize = libc::REG_R13 as usize;
const R14: usize = libc::REG_R14 as usize;
const R15: usize = libc::REG_R15 as usize;

/// Sends the thread on if it may not read the time-stamp counter, and tried to in code of ours. Makes no system call: that may be forbidden, too.
fn serve_clock(registers: &mut [greg_t; 23]) -> bool {
    if registers[TRAPNO] != tsc::TRAP {
        return false;
    }
    let ip = &mut registers[RIP];
    let resume = tsc::resume(*ip as u64);
    resume.inspect(|resume| *ip = *resume as greg_t).is_some()
}

/// Sends the thread on if it failed in an access or in machine code of ours.
fn serve(registers: &mut [greg_t; 23]) -> bool {
    let ip = registers[RIP] as u64;
    if let Some(resume) = access::resume(ip) {
        registers[RIP] = resume as greg_t;
        registers[RDX] = access::FAULT;
        return true;
    }
    let now = Registers {
        rip: ip,
        rsp: registers[RSP] as u64,
        rbp: registers[RBP] as u64,
        saved: [registers[RBX] as u64, registers[R13] as u64, registers[R14] as u64, registers[R15] as u64],
    };
    // SAFETY: these are the registers of this very thread, which is in this handler.
    let Some(caller) = (unsafe { image::unwind(now) }) else { return false };
    registers[RIP] = caller.rip as greg_t;
    registers[RSP] = caller.rsp as greg_t;
    registers[RBP] = caller.rbp as greg_t;
    [registers[RBX], registers[R13], registers[R14], registers[R15]] =
        caller.saved.map(|word| word as greg_t);
    registers[RAX] = 0;
    registers[RDX] = super::Fault::Memory as greg_t;
    true
}
