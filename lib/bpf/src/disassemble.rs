//! Instructions as text, in the syntax of the kernel and of LLVM.
//!
//! | kind | text |
//! |---|---|
//! | arithmetic | `r0 += r1`, `w0 s/= 5`, `r0 = -r0`, `r0 = (s8)r1`, `r0 = be16 r0` |
//! | constants | `r1 = 0x1122334455667788 ll`, `r1 = map[idx:0] ll`, `r1 = map[idx:0]+16 ll` |
//! | memory | `r0 = *(u32 *)(r1 + 8)`, `*(u8 *)(r10 - 1) = 5` |
//! | atomics | `lock *(u64 *)(r1 + 0) += r2`, `r2 = atomic_fetch_add((u64 *)(r1 + 0), r2)`, `r0 = cmpxchg_64(r1 + 0, r0, r2)` |
//! | jumps | `goto +3`, `gotol +70000`, `if w1 s< 5 goto -2` |
//! | calls | `call map_lookup_elem`, `call 4711`, `call pc+7`, `exit` |
//! | what is no instruction | `.quad 0x00000000000000ff` |
//!
//! `w0` is the lower half of `r0`. The assembler reads all of it back to the same bytes.

use crate::environment::Environment;
use crate::helper::BUILTIN;
use crate::insn::{Insn, Reg};
use crate::op::{AluOp, AtomicOp, Cond, DecodeError, Op, Operand, Order, Size, Wide, Width, decode};
use core::fmt::{Display, Formatter, Result};

/// One instruction as text; made by [`line`].
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    what: core::result::Result<Op, DecodeError>,
    first: Insn,
    environment: Option<&'a Environment<'a>>,
}

impl Line<'_> {
    /// Slots of 8 bytes that it takes: 2 for 16-byte loads, else 1.
    pub fn slots(&self) -> usize {
        self.what.map_or(1, |op| op.slots())
    }
}

/// The first instruction of `insns` as text, or nothing when there is none. Helpers have their names from the
/// environment, or else from the tables of [`crate::helper`].
pub fn line<'a>(insns: &[Insn], environment: Option<&'a Environment<'a>>) -> Option<Line<'a>> {
    let first = *insns.first()?;
    Some(Line { what: decode(insns), first, environment })
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.what {
            // A short distance in the long form.
            Ok(Op::Jump { offset }) if self.first.code == 6 => write!(f, "gotol {offset:+}"),
            Ok(op) => write_op(f, &op, self.environment),
            Err(_) => write!(f, ".quad 0x{:016x}", u64::from_le_bytes(self.first.to_bytes())),
        }
    }
}

/// A whole program as text: a line for each instruction, with its slot.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// The program's instructions, the halves of 16-byte ones included.
    pub insns: &'a [Insn],
    /// Where names of helpers come from, as for [`line`].
    pub environment: Option<&'a Environment<'a>>,
}

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut slot = 0;
        while let Some(line) = line(self.insns.get(slot..).unwrap_or(&[]), self.environment) {
            writeln!(f, "{slot:4}: {line}")?;
            slot += line.slots();
        }
        Ok(())
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_op(f, self, None)
    }
}

fn write_op(f: &mut Formatter<'_>, op: &Op, environment: Option<&Environment<'_>>) -> Result {
    match *op {
        Op::Alu { width, op, dst, src } => write_alu(f, width, op, dst, src),
        Op::Neg { width, dst } => write!(f, "{0} = -{0}", Half(width, dst)),
        Op::End { order, bits, dst } => {
            let name = match order {
                Order::Little => "le",
                Order::Big => "be",
                Order::Swap => "bswap",
            };
            write!(f, "{dst} = {name}{bits} {dst}")
        }
        Op::Wide { dst, value: Wide::Value(value) } => write!(f, "{dst} = 0x{value:x} ll"),
        Op::Wide { dst, value: Wide::Map(map) } => write!(f, "{dst} = map[idx:{map}] ll"),
        Op::Wide { dst, value: Wide::MapValue { map, offset } } => {
            write!(f, "{dst} = map[idx:{map}]+{offset} ll")
        }
        Op::Load { dst, src, off, size, signed } => {
            let sign = if signed { 's' } else { 'u' };
            write!(f, "{dst} = *({sign}{} *)({})", bits(size), Place(src, off))
        }
        Op::Store { dst, off, size, src } => {
            write!(f, "*(u{} *)({}) = {}", bits(size), Place(dst, off), Value(Width::W64, src))
        }
        Op::Atomic { op, base, off, size, reg } => write_atomic(f, op, Place(base, off), size, reg),
        Op::Jump { offset } if i16::try_from(offset).is_ok() => write!(f, "goto {offset:+}"),
        Op::Jump { offset } => write!(f, "gotol {offset:+}"),
        Op::Branch { width, cond, dst, src, offset } => {
            let (left, right) = (Half(width, dst), Value(width, src));
            write!(f, "if {left} {} {right} goto {offset:+}", condition(cond))
        }
        Op::Call { helper } => match helper_name(helper, environment) {
            Some(name) => write!(f, "call {name}"),
            None => write!(f, "call {helper}"),
        },
        Op::CallLocal { offset } => write!(f, "call pc{offset:+}"),
        Op::Exit => f.write_str("exit"),
    }
}

fn helper_name<'a>(id: u32, environment: Option<&Environment<'a>>) -> Option<&'a str> {
    let known = environment.and_then(|environment| environment.helper(id));
    known.or_else(|| BUILTIN.iter().find(|helper| helper.id == id)).map(|helper| helper.name)
}

fn write_alu(f: &mut Formatter<'_>, width: Width, op: AluOp, dst: Reg, src: Operand) -> Result {
    let (dst, src) = (Half(width, dst), Value(width, src));
    let symbol = match op {
        AluOp::Add => "+=",
        AluOp::Sub => "-=",
        AluOp::Mul => "*=",
        AluOp::Div => "/=",
        AluOp::SDiv => "s/=",
        AluOp::Mod => "%=",
        AluOp::SMod => "s%=",
        AluOp::Or => "|=",
        AluOp::And => "&=",
        AluOp::Xor => "^=",
        AluOp::Lsh => "<<=",
        AluOp::Rsh => ">>=",
        AluOp::Arsh => "s>>=",
        AluOp::Mov => "=",
        AluOp::MovSx8 => return write!(f, "{dst} = (s8){src}"),
        AluOp::MovSx16 => return write!(f, "{dst} = (s16){src}"),
        AluOp::MovSx32 => return write!(f, "{dst} = (s32){src}"),
    };
    write!(f, "{dst} {symbol} {src}")
}

fn write_atomic(f: &mut Formatter<'_>, op: AtomicOp, at: Place, size: Size, reg: Reg) -> Result {
    let (bits, width) = (bits(size), if size == Size::DW { Width::W64 } else { Width::W32 });
    let (reg, zero) = (Half(width, reg), Half(width, Reg::R0));
    let form = if size == Size::DW { "_64" } else { "32_32" };
    match op {
        AtomicOp::Add => write!(f, "lock *(u{bits} *)({at}) += {reg}"),
        AtomicOp::Or => write!(f, "lock *(u{bits} *)({at}) |= {reg}"),
        AtomicOp::And => write!(f, "lock *(u{bits} *)({at}) &= {reg}"),
        AtomicOp::Xor => write!(f, "lock *(u{bits} *)({at}) ^= {reg}"),
        AtomicOp::FetchAdd => write!(f, "{reg} = atomic_fetch_add((u{bits} *)({at}), {reg})"),
        AtomicOp::FetchOr => write!(f, "{reg} = atomic_fetch_or((u{bits} *)({at}), {reg})"),
        AtomicOp::FetchAnd => write!(f, "{reg} = atomic_fetch_and((u{bits} *)({at}), {reg})"),
        AtomicOp::FetchXor => write!(f, "{reg} = atomic_fetch_xor((u{bits} *)({at}), {reg})"),
        AtomicOp::Xchg => write!(f, "{reg} = xchg{form}({at}, {reg})"),
        AtomicOp::CmpXchg => write!(f, "{zero} = cmpxchg{form}({at}, {zero}, {reg})"),
        AtomicOp::LoadAcquire => write!(f, "{reg} = load_acquire((u{bits} *)({at}))"),
        AtomicOp::StoreRelease => write!(f, "store_release((u{bits} *)({at}), {reg})"),
    }
}

/// `r0`, or `w0` for its lower half.
struct Half(Width, Reg);

impl Display for Half {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Width::W32 => write!(f, "w{}", self.1.number()),
            Width::W64 => write!(f, "{}", self.1),
        }
    }
}

/// A second operand.
struct Value(Width, Operand);

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.1 {
            Operand::Reg(reg) => Half(self.0, reg).fmt(f),
            Operand::Imm(imm) => write!(f, "{imm}"),
        }
    }
}

/// An address: `r1 + 8`.
struct Place(Reg, i16);

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let sign = if self.1 < 0 { '-' } else { '+' };
        write!(f, "{} {sign} {}", self.0, self.1.unsigned_abs())
    }
}

fn bits(size: Size) -> usize {
    size.bytes() * 8
}

fn condition(cond: Cond) -> &'static str {
    match cond {
        Cond::Eq => "==",
        Cond::Ne => "!=",
        Cond::Gt => ">",
        Cond::Ge => ">=",
        Cond::Lt => "<",
        Cond::Le => "<=",
        Cond::Set => "&",
        Cond::SGt => "s>",
        Cond::SGe => "s>=",
        Cond::SLt => "s<",
        Cond::SLe => "s<=",
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[track_caller]
    fn check(insns: &[Insn], expect: &str) {
        assert_eq!(line(insns, None).expect("there is one").to_string(), expect);
    }

    #[test]
    fn every_kind_reads_as_elsewhere() {
        let one = |code, dst, src, off, imm| [Insn::new(code, dst, src, off, imm), Insn::default()];
        check(&one(0x0f, 0, 1, 0, 0), "r0 += r1");
        check(&one(0x34, 3, 0, 1, -5), "w3 s/= -5");
        check(&one(0xbf, 1, 2, 8, 0), "r1 = (s8)r2");
        check(&one(0x84, 1, 0, 0, 0), "w1 = -w1");
        check(&one(0xdc, 1, 0, 0, 16), "r1 = be16 r1");
        check(&one(0x18, 1, 5, 0, 3), "r1 = map[idx:3] ll");
        check(&one(0x61, 0, 1, 8, 0), "r0 = *(u32 *)(r1 + 8)");
        check(&one(0x91, 0, 10, -1, 0), "r0 = *(s8 *)(r10 - 1)");
        check(&one(0x7a, 10, 0, -8, 7), "*(u64 *)(r10 - 8) = 7");
        check(&one(0xdb, 1, 2, 0, 0), "lock *(u64 *)(r1 + 0) += r2");
        check(&one(0xc3, 1, 2, 0, 0x41), "w2 = atomic_fetch_or((u32 *)(r1 + 0), w2)");
        check(&one(0xdb, 1, 2, 4, 0xf1), "r0 = cmpxchg_64(r1 + 4, r0, r2)");
        check(&one(0xd3, 2, 1, 4, 0x100), "w2 = load_acquire((u8 *)(r1 + 4))");
        check(&one(0x05, 0, 0, 3, 0), "goto +3");
        check(&one(0x06, 0, 0, 0, -3), "gotol -3");
        check(&one(0xc6, 1, 0, -2, 5), "if w1 s< 5 goto -2");
        check(&one(0x85, 0, 0, 0, 1), "call map_lookup_elem");
        check(&one(0x85, 0, 0, 0, 4711), "call 4711");
        check(&one(0x85, 0, 1, 0, 7), "call pc+7");
        check(&one(0xff, 0, 0, 0, 0), ".quad 0x00000000000000ff");
        check(&[Insn::new(0x18, 1, 0, 0, 1)], ".quad 0x0000000100000118");
    }

    #[test]
    fn names_of_helpers_are_the_environments_first() {
        let helpers = [crate::Helper { id: 1, name: "mine", ..BUILTIN[0] }];
        let entry = crate::Entry::Memory { len: 0 };
        let environment = Environment { entry, maps: &[], helpers: &helpers, steps_max: 1 };
        let insns = [Insn::new(0x85, 0, 0, 0, 1), Insn::new(0x95, 0, 0, 0, 0)];
        let listing = Listing { insns: &insns, environment: Some(&environment) };
        assert_eq!(listing.to_string(), "   0: call mine\n   1: exit\n");
    }
}
