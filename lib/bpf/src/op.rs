//! An instruction as it is meant; decoding and encoding.
//!
//! All that reads programs (verifier, interpreter, JIT, disassembler) reads them through [`decode`], so that all agree
//! on what an instruction is.

use crate::insn::Reg;

/// Whether an operation works on 64 bits, or on the low 32 of which the upper become 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

/// Bytes of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    B,
    /// 2 bytes.
    H,
    /// 4 bytes.
    W,
    /// 8 bytes.
    DW,
}

impl Size {
    /// 1, 2, 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            Size::B => 1,
            Size::H => 2,
            Size::W => 4,
            Size::DW => 8,
        }
    }
}

/// The second operand: a register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant, extended by its sign to 64 bits.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Operand {
        Operand::Imm(imm)
    }
}

/// Operations with two operands (RFC 9669, section 4.1), signed ones and moves with a sign included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AluOp {
    /// `dst += src`
    Add,
    /// `dst -= src`
    Sub,
    /// `dst *= src`
    Mul,
    /// `dst /= src`, unsigned; 0 when `src` is 0.
    Div,
    /// `dst /= src`, signed, towards 0; 0 when `src` is 0; the smallest number when divided by -1.
    SDiv,
    /// `dst %= src`, unsigned; `dst` stays when `src` is 0 (its low 32 bits, for `W32`).
    Mod,
    /// `dst %= src`, signed, with the sign of `dst`.
    SMod,
    /// `dst |= src`
    Or,
    /// `dst &= src`
    And,
    /// `dst ^= src`
    Xor,
    /// `dst <<= src`, modulo the width.
    Lsh,
    /// `dst >>= src`, with zeros.
    Rsh,
    /// `dst >>= src`, with the sign.
    Arsh,
    /// `dst = src`
    Mov,
    /// `dst = src`, the low 8 bits extended by their sign. From a register only, as the next two.
    MovSx8,
    /// `dst = src`, the low 16 bits extended by their sign.
    MovSx16,
    /// `dst = src`, the low 32 bits extended by their sign; `W64` only.
    MovSx32,
}

impl AluOp {
    /// All operations, in the order of this enumeration.
    pub const ALL: [AluOp; 17] = [
        AluOp::Add,
        AluOp::Sub,
        AluOp::Mul,
        AluOp::Div,
        AluOp::SDiv,
        AluOp::Mod,
        AluOp::SMod,
        AluOp::Or,
        AluOp::And,
        AluOp::Xor,
        AluOp::Lsh,
        AluOp::Rsh,
        AluOp::Arsh,
        AluOp::Mov,
        AluOp::MovSx8,
        AluOp::MovSx16,
        AluOp::MovSx32,
    ];
}

/// Conditions of branches. Names as in the kernel: `S` for signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `&`, not 0
    Set,
    /// signed `>`
    SGt,
    /// signed `>=`
    SGe,
    /// signed `<`
    SLt,
    /// signed `<=`
    SLe,
}

impl Cond {
    /// All conditions, in the order of this enumeration.
    pub const ALL: [Cond; 11] = [
        Cond::Eq,
        Cond::Ne,
        Cond::Gt,
        Cond::Ge,
        Cond::Lt,
        Cond::Le,
        Cond::Set,
        Cond::SGt,
        Cond::SGe,
        Cond::SLt,
        Cond::SLe,
    ];
}

/// Atomic operations; memory is at `base + off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// `memory += reg`, `W` and `DW` only, as the next nine.
    Add,
    /// `memory |= reg`
    Or,
    /// `memory &= reg`
    And,
    /// `memory ^= reg`
    Xor,
    /// As `Add`; `reg` becomes what was there.
    FetchAdd,
    /// As `Or`; `reg` becomes what was there.
    FetchOr,
    /// As `And`; `reg` becomes what was there.
    FetchAnd,
    /// As `Xor`; `reg` becomes what was there.
    FetchXor,
    /// `reg` and memory change places.
    Xchg,
    /// If memory is `r0`, it becomes `reg`; `r0` becomes what was there.
    CmpXchg,
    /// `reg = memory`, with acquire ordering; all sizes.
    LoadAcquire,
    /// `memory = reg`, with release ordering; all sizes.
    StoreRelease,
}

/// What a 16-byte load gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// A number.
    Value(u64),
    /// The map of this index in the environment (`BPF_PSEUDO_MAP_IDX`).
    Map(u32),
    /// The address in the first value of an array map, at an offset (`BPF_PSEUDO_MAP_IDX_VALUE`).
    MapValue {
        /// Index of the map in the environment.
        map: u32,
        /// Offset in its first value.
        offset: u32,
    },
}

/// How bytes are turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To little-endian: only cuts off the upper bits here.
    Little,
    /// To big-endian.
    Big,
    /// Always turned round.
    Swap,
}

/// An instruction. Offsets of jumps and local calls count 8-byte slots from behind the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Arithmetic and moves.
    Alu {
        /// 32 or 64 bits.
        width: Width,
        /// Operation.
        op: AluOp,
        /// First operand, and result.
        dst: Reg,
        /// Second operand.
        src: Operand,
    },
    /// `dst = -dst`
    Neg {
        /// 32 or 64 bits.
        width: Width,
        /// Operand and result.
        dst: Reg,
    },
    /// Turns the low `bits` round, and makes the others 0.
    End {
        /// How.
        order: Order,
        /// 16, 32 or 64.
        bits: u8,
        /// Operand and result.
        dst: Reg,
    },
    /// A 64-bit constant: the instruction that takes two slots.
    Wide {
        /// Result.
        dst: Reg,
        /// What it gives.
        value: Wide,
    },
    /// `dst = memory at src + off`
    Load {
        /// Result.
        dst: Reg,
        /// Address.
        src: Reg,
        /// Added to the address.
        off: i16,
        /// Bytes.
        size: Size,
        /// Extended by its sign, else by zeros.
        signed: bool,
    },
    /// `memory at dst + off = src`
    Store {
        /// Address.
        dst: Reg,
        /// Added to the address.
        off: i16,
        /// Bytes.
        size: Size,
        /// What is stored; its low bytes.
        src: Operand,
    },
    /// An atomic operation.
    Atomic {
        /// Operation.
        op: AtomicOp,
        /// Address.
        base: Reg,
        /// Added to the address.
        off: i16,
        /// Bytes.
        size: Size,
        /// Operand, and result of those that fetch.
        reg: Reg,
    },
    /// Goes on elsewhere.
    Jump {
        /// Slots.
        offset: i32,
    },
    /// Goes on elsewhere if `dst COND src`.
    Branch {
        /// 32 or 64 bits are compared.
        width: Width,
        /// Condition.
        cond: Cond,
        /// Left side.
        dst: Reg,
        /// Right side.
        src: Operand,
        /// Slots.
        offset: i16,
    },
    /// Calls a helper. `r1` to `r5` hold anything after.
    Call {
        /// Its number.
        helper: u32,
    },
    /// Calls a function of the program, which gets a stack frame of its own.
    CallLocal {
        /// Slots.
        offset: i32,
    },
    /// Ends the function or the program.
    Exit,
}

impl Op {
    /// Slots that it takes: 2 for [`Op::Wide`], else 1.
    pub const fn slots(&self) -> usize {
        if matches!(self, Op::Wide { .. }) { 2 } else { 1 }
    }
}

/// Why an instruction cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The code means no instruction.
    Code(u8),
    /// There is no such register.
    Register(u8),
    /// A field that the instruction does not use is not 0, or has a value without a meaning.
    Field,
    /// The second half of a 16-byte instruction is missing or is another instruction.
    Half,
    /// An old packet access (`BPF_ABS`, `BPF_IND`), which no program for mote has.
    Legacy,
    /// A kind of 16-byte load that only a loader can resolve (a map's descriptor, a variable, a function's address).
    Unresolved(u8),
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            DecodeError::Code(code) => write!(f, "unknown operation 0x{code:02x}"),
            DecodeError::Register(number) => write!(f, "there is no register r{number}"),
            DecodeError::Field => {
                write!(f, "a field that is not used is not zero, or has a value without a meaning")
            }
            DecodeError::Half => write!(f, "the second half of a 16-byte instruction is missing"),
            DecodeError::Legacy => write!(f, "legacy packet access is not supported"),
            DecodeError::Unresolved(kind) => {
                write!(f, "16-byte load of kind {kind} must be resolved by a loader first")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

mod decode;
mod encode;

pub use decode::decode;
pub use encode::encode;
