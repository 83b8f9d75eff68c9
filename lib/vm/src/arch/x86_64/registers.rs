//! Registers of threads that have met a fault.

use crate::Fault;
use libc::{REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP, REG_RBX, REG_RDX, REG_RSP, c_int, greg_t};
use mote_jit::native;
use mote_sys::signal::Registers;

/// A register in the frame of a signal.
fn general(registers: &mut Registers, register: c_int) -> &mut greg_t {
    &mut registers.context().uc_mcontext.gregs[register as usize]
}

/// Lets a thread go on at `resume` whose access has failed: `rdx`, which was 0, says so.
pub(crate) fn fail_access(registers: &mut Registers, resume: u64) {
    registers.set_ip(resume);
    *general(registers, REG_RDX) = super::access::FAILED;
}

/// The registers that frames say something of.
pub(crate) fn in_program(registers: &mut Registers) -> native::Registers {
    let rip = registers.ip();
    let mut get = |register| *general(registers, register) as u64;
    native::Registers {
        rip,
        rsp: get(REG_RSP),
        rbp: get(REG_RBP),
        saved: [REG_RBX, REG_R13, REG_R14, REG_R15].map(get),
    }
}

/// Lets a thread go on in the program's caller, to which the program has returned this fault.
pub(crate) fn leave_program(registers: &mut Registers, caller: &native::Registers, fault: Fault) {
    registers.set_ip(caller.rip);
    let [rbx, r13, r14, r15] = caller.saved;
    let words = [
        (REG_RSP, caller.rsp),
        (REG_RBP, caller.rbp),
        (REG_RBX, rbx),
        (REG_R13, r13),
        (REG_R14, r14),
        (REG_R15, r15),
        (REG_RAX, 0),
        (REG_RDX, fault as u64),
    ];
    for (register, word) in words {
        *general(registers, register) = word as greg_t;
    }
}
