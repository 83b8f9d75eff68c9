//! Values of an interrupted program: its registers, and its memory.

use crate::code::Code;
use crate::slot;
use mote_bpf::op::Size;
use mote_bpf::{Reg, helper};
use mote_catalog::event::Operand;

/// Where memory is read to: the second word of [`slot::VALUE`].
const MEMORY: i16 = slot::VALUE - 8;

/// Loads the value of `operand` into `dst`, one of the scratch registers, extended by zeros; memory that cannot be read
/// is 0.
///
/// `r6` is the context: the registers. The scratch registers are used up.
pub(crate) fn value(code: &mut Code<'_>, operand: &Operand, dst: Reg) {
    let b = &mut code.b;
    match *operand {
        Operand::Constant(value) => b.constant(dst, value.cast_unsigned()),
        Operand::Register(offset) => b.load(Size::DW, dst, Reg::R6, offset.cast_signed()),
        Operand::Memory { base, index, displacement, bytes } => {
            b.load(Size::DW, Reg::R3, Reg::R6, base.cast_signed());
            if let Some((index, factor)) = index {
                b.load(Size::DW, Reg::R1, Reg::R6, index.cast_signed());
                b.mul(Reg::R1, i32::from(factor));
                b.add(Reg::R3, Reg::R1);
            }
            b.constant(Reg::R1, displacement.cast_unsigned());
            b.add(Reg::R3, Reg::R1);
            // What is read may be shorter than a word; after a fault the helper has written zeros.
            b.store(Size::DW, Reg::R10, MEMORY, 0);
            b.mov(Reg::R1, Reg::R10);
            b.add(Reg::R1, i32::from(MEMORY));
            b.mov(Reg::R2, i32::from(bytes.clamp(1, 8)));
            b.call(helper::PROBE_READ_USER);
            b.load(Size::DW, dst, Reg::R10, MEMORY);
        }
    }
}
