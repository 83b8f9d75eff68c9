//! One method for each kind of instruction.

use crate::builder::Builder;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, AtomicOp, Op, Operand, Order, Size, Wide, Width};

macro_rules! arithmetic {
    ($($name:ident, $name32:ident, $op:ident, $text:literal;)*) => {
        impl Builder {
            $(
                #[doc = concat!("`", $text, "`, 64 bits.")]
                pub fn $name(&mut self, dst: Reg, src: impl Into<Operand>) {
                    self.alu(Width::W64, AluOp::$op, dst, src);
                }

                #[doc = concat!("`", $text, "`, the low 32 bits; the upper become 0.")]
                pub fn $name32(&mut self, dst: Reg, src: impl Into<Operand>) {
                    self.alu(Width::W32, AluOp::$op, dst, src);
                }
            )*
        }
    };
}

arithmetic! {
    add, add32, Add, "dst += src";
    sub, sub32, Sub, "dst -= src";
    mul, mul32, Mul, "dst *= src";
    div, div32, Div, "dst /= src";
    sdiv, sdiv32, SDiv, "dst s/= src";
    modulo, modulo32, Mod, "dst %= src";
    smodulo, smodulo32, SMod, "dst s%= src";
    or, or32, Or, "dst |= src";
    and, and32, And, "dst &= src";
    xor, xor32, Xor, "dst ^= src";
    lsh, lsh32, Lsh, "dst <<= src";
    rsh, rsh32, Rsh, "dst >>= src";
    arsh, arsh32, Arsh, "dst s>>= src";
    mov, mov32, Mov, "dst = src";
}

impl Builder {
    /// Arithmetic, or a move. A sign-extending move takes a register.
    pub fn alu(&mut self, width: Width, op: AluOp, dst: Reg, src: impl Into<Operand>) {
        self.op(Op::Alu { width, op, dst, src: src.into() });
    }

    /// `dst = -dst`
    pub fn neg(&mut self, width: Width, dst: Reg) {
        self.op(Op::Neg { width, dst });
    }

    /// Turns the low `bits` (16, 32 or 64) round.
    pub fn byte_order(&mut self, order: Order, bits: u8, dst: Reg) {
        self.op(Op::End { order, bits, dst });
    }

    /// `dst = value` in as few slots as it takes: one where 32 bits and an extension do, else two.
    pub fn constant(&mut self, dst: Reg, value: u64) {
        self.op(Builder::constant_op(dst, value));
    }

    pub(crate) fn constant_op(dst: Reg, value: u64) -> Op {
        let mov = |width, value: i32| Op::Alu { width, op: AluOp::Mov, dst, src: value.into() };
        if let Ok(value) = i32::try_from(value as i64) {
            mov(Width::W64, value)
        } else if let Ok(value) = u32::try_from(value) {
            mov(Width::W32, value as i32)
        } else {
            Op::Wide { dst, value: Wide::Value(value) }
        }
    }

    /// `dst = map`, by its index in the environment.
    pub fn map(&mut self, dst: Reg, map: u32) {
        self.op(Op::Wide { dst, value: Wide::Map(map) });
    }

    /// `dst =` address at an offset in the first value of an array map.
    pub fn map_value(&mut self, dst: Reg, map: u32, offset: u32) {
        self.op(Op::Wide { dst, value: Wide::MapValue { map, offset } });
    }

    /// `dst = *(uN *)(src + off)`, extended by zeros.
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, off: i16) {
        self.op(Op::Load { dst, src, off, size, signed: false });
    }

    /// `dst = *(sN *)(src + off)`, extended by its sign; not of 8 bytes.
    pub fn load_signed(&mut self, size: Size, dst: Reg, src: Reg, off: i16) {
        self.op(Op::Load { dst, src, off, size, signed: !matches!(size, Size::DW) });
    }

    /// `*(uN *)(dst + off) = src`
    pub fn store(&mut self, size: Size, dst: Reg, off: i16, src: impl Into<Operand>) {
        self.op(Op::Store { dst, off, size, src: src.into() });
    }

    /// An atomic operation on memory at `base + off`.
    pub fn atomic(&mut self, op: AtomicOp, size: Size, base: Reg, off: i16, reg: Reg) {
        self.op(Op::Atomic { op, base, off, size, reg });
    }

    /// Calls a helper by its number (`mote_bpf::helper`).
    pub fn call(&mut self, helper: u32) {
        self.op(Op::Call { helper });
    }

    /// Ends the function or the program.
    pub fn exit(&mut self) {
        self.op(Op::Exit);
    }
}
