//! Registers of threads that have met a fault.

use crate::Fault;
use libc::greg_t;
use mote_jit::native;
use mote_sys::signal::Registers;

// Places in the frame of a signal.
const RAX: usize = libc::REG_RAX as usize;
const RBX: usize = libc::REG_RBX as usize;
const RDX: usize = libc::REG_RDX as usize;
const RSP: usize = libc::REG_RSP as usize;
const RBP: usize = libc::REG_RBP as usize;
const R13: usize = libc::REG_R13 as usize;
const R14: usize = libc::REG_R14 as usize;
const R15: usize = libc::REG_R15 as usize;

/// Lets a thread go on at `resume` whose access has failed: `rdx`, which was 0, says so.
pub(crate) fn fail_access(registers: &mut Registers, resume: u64) {
    registers.set_ip(resume);
    registers.context().uc_mcontext.gregs[RDX] = super::access::FAILED;
}

/// The registers that frames say something of.
pub(crate) fn in_program(registers: &mut Registers) -> native::Registers {
    let rip = registers.ip();
    let all = &registers.context().uc_mcontext.gregs;
    native::Registers {
        rip,
        rsp: all[RSP] as u64,
        rbp: all[RBP] as u64,
        saved: [all[RBX] as u64, all[R13] as u64, all[R14] as u64, all[R15] as u64],
    }
}

/// Lets a thread go on in the program's caller, to which the program has returned this fault.
pub(crate) fn leave_program(registers: &mut Registers, caller: &native::Registers, fault: Fault) {
    registers.set_ip(caller.rip);
    let all = &mut registers.context().uc_mcontext.gregs;
    all[RSP] = caller.rsp as greg_t;
    all[RBP] = caller.rbp as greg_t;
    [all[RBX], all[R13], all[R14], all[R15]] = caller.saved.map(|word| word as greg_t);
    all[RAX] = 0;
    all[RDX] = fault as greg_t;
}
