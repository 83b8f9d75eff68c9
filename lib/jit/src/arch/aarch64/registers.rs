//! Where the registers of programs are.

use super::asm::Gpr;
use mote_bpf::Reg;
use mote_bpf::table::ByReg;

/// The register of the processor that a register of a program is in.
pub(super) fn gpr(reg: Reg) -> Gpr {
    const MAP: ByReg<u8> = ByReg([7, 0, 1, 2, 3, 4, 19, 20, 21, 22, 25]);
    Gpr(MAP[reg])
}
