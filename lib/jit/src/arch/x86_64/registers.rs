//! Where the registers of programs are.

use super::asm::Gpr;
use mote_bpf::Reg;
use mote_bpf::table::ByReg;

/// The register of the processor that a register of a program is in.
pub(super) fn gpr(reg: Reg) -> Gpr {
    const MAP: ByReg<Gpr> = ByReg([
        Gpr::RAX,
        Gpr::RDI,
        Gpr::RSI,
        Gpr::RDX,
        Gpr::RCX,
        Gpr::R8,
        Gpr::RBX,
        Gpr::R13,
        Gpr::R14,
        Gpr::R15,
        Gpr::RBP,
    ]);
    MAP[reg]
}
