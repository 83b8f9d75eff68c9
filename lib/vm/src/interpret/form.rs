//! The interpreter's own form of a program: 16 bytes for each slot, decoded and checked once.
//!
//! Each slot has its step, so that jumps need no translation. A step whose work takes in that of the next slot jumps
//! over it; the next slot keeps its own step, for jumps that lead there.

use mote_bpf::op::{AluOp, Cond, Operand, Width};

/// One step: what to do, with what.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The operation.
    pub(crate) code: Code,
    /// Destination, or left side.
    pub(crate) dst: u8,
    /// Source, or base of an address.
    pub(crate) src: u8,
    /// Where jumps lead, in steps from behind this one; offset of memory accesses.
    pub(crate) to: i32,
    /// A constant, extended as the operation wants it; a function's address.
    pub(crate) low: u32,
    /// Its upper half. Of a load with something else: the offset of the access.
    pub(crate) high: u32,
}

const _: () = assert!(size_of::<Step>() == 16);

impl Step {
    /// A step without operands.
    pub(crate) const fn new(code: Code) -> Step {
        Step { code, dst: 0, src: 0, to: 0, low: 0, high: 0 }
    }

    /// With this constant.
    pub(crate) const fn with(self, value: u64) -> Step {
        Step { low: value as u32, high: (value >> 32) as u32, ..self }
    }

    /// The constant.
    #[inline(always)]
    pub(crate) const fn value(&self) -> u64 {
        self.low as u64 | (self.high as u64) << 32
    }
}

macro_rules! codes {
    (
        alu { $($op:ident: $r64:ident $i64:ident $r32:ident $i32:ident,)* }
        branch { $($cond:ident: $jr64:ident $ji64:ident $jr32:ident $ji32:ident $load:ident,)* }
        plain { $($plain:ident,)* }
    ) => {
        /// What a step does. `R`: the second operand is a register; `I`: a constant.
        #[repr(u8)]
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($r64, $i64, $r32, $i32,)*
            $($jr64, $ji64, $jr32, $ji32, $load,)*
            $($plain,)*
        }

        /// The code of an operation; `None` for those that only move with a sign.
        pub(super) fn alu(op: AluOp, width: Width, src: Operand) -> Option<Code> {
            Some(match (op, width, src) {
                $(
                    (AluOp::$op, Width::W64, Operand::Reg(_)) => Code::$r64,
                    (AluOp::$op, Width::W64, Operand::Imm(_)) => Code::$i64,
                    (AluOp::$op, Width::W32, Operand::Reg(_)) => Code::$r32,
                    (AluOp::$op, Width::W32, Operand::Imm(_)) => Code::$i32,
                )*
                _ => return None,
            })
        }

        /// The code of a branch.
        pub(super) fn branch(cond: Cond, width: Width, src: Operand) -> Code {
            match (cond, width, src) {
                $(
                    (Cond::$cond, Width::W64, Operand::Reg(_)) => Code::$jr64,
                    (Cond::$cond, Width::W64, Operand::Imm(_)) => Code::$ji64,
                    (Cond::$cond, Width::W32, Operand::Reg(_)) => Code::$jr32,
                    (Cond::$cond, Width::W32, Operand::Imm(_)) => Code::$ji32,
                )*
            }
        }

        /// The code of an 8-byte load and a branch that compares it with a constant.
        pub(super) fn load_branch(cond: Cond) -> Code {
            match cond {
                $(Cond::$cond => Code::$load,)*
            }
        }
    };
}

codes! {
    alu {
        Add: Add64R Add64I Add32R Add32I,
        Sub: Sub64R Sub64I Sub32R Sub32I,
        Mul: Mul64R Mul64I Mul32R Mul32I,
        Div: Div64R Div64I Div32R Div32I,
        SDiv: SDiv64R SDiv64I SDiv32R SDiv32I,
        Mod: Mod64R Mod64I Mod32R Mod32I,
        SMod: SMod64R SMod64I SMod32R SMod32I,
        Or: Or64R Or64I Or32R Or32I,
        And: And64R And64I And32R And32I,
        Xor: Xor64R Xor64I Xor32R Xor32I,
        Lsh: Lsh64R Lsh64I Lsh32R Lsh32I,
        Rsh: Rsh64R Rsh64I Rsh32R Rsh32I,
        Arsh: Arsh64R Arsh64I Arsh32R Arsh32I,
        Mov: Mov64R Mov64I Mov32R Mov32I,
    }
    branch {
        Eq: Eq64R Eq64I Eq32R Eq32I LoadEq,
        Ne: Ne64R Ne64I Ne32R Ne32I LoadNe,
        Gt: Gt64R Gt64I Gt32R Gt32I LoadGt,
        Ge: Ge64R Ge64I Ge32R Ge32I LoadGe,
        Lt: Lt64R Lt64I Lt32R Lt32I LoadLt,
        Le: Le64R Le64I Le32R Le32I LoadLe,
        Set: Set64R Set64I Set32R Set32I LoadSet,
        SGt: SGt64R SGt64I SGt32R SGt32I LoadSGt,
        SGe: SGe64R SGe64I SGe32R SGe32I LoadSGe,
        SLt: SLt64R SLt64I SLt32R SLt32I LoadSLt,
        SLe: SLe64R SLe64I SLe32R SLe32I LoadSLe,
    }
    plain {
        Sx8W64, Sx16W64, Sx32W64, Sx8W32, Sx16W32,
        Neg64, Neg32, Swap16, Swap32, Swap64,
        Load8, Load16, Load32, Load64, LoadS8, LoadS16, LoadS32,
        Store8, Store16, Store32, Store64, Put8, Put16, Put32, Put64,
        Atomic32, Atomic64, Acquire, Release,
        // Two instructions in one, as filters have them all the time.
        LoadAdd, LoadXor8, LoadXor16, LoadXor32, LoadXor64, LoadEqR, LoadNeR, OrNe,
        Jump, Wide, Call, CallFaulting, CallLocal, TailCall, Exit, Return, Second,
    }
}
