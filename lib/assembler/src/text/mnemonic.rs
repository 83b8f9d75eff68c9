//! The syntax of ubpf and of the public conformance suite: `mov32 r0, 5`, `ldxw r0, [r1+4]`, `jeq r1, r2, +3`,
//! `lock fetch add [r10-8], r1`. Registers may be written `%r0`.

use super::cursor::Cursor;
use super::kernel::byte_order;
use super::statement::{Result, Statement, Trouble};
use super::token::Kind;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Op, Operand, Size, Wide, Width};

/// The statement that begins with `word`, which has been taken.
pub(super) fn statement<'a>(line: &mut Cursor<'a>, word: &str, column: usize) -> Result<Statement<'a>> {
    match word {
        "ja" => return Ok(Statement::Goto(line.target()?)),
        "ja32" => return Ok(Statement::GotoLong(line.target()?)),
        "lock" => return locked(line).map(Statement::Plain),
        "lddw" => return wide(line).map(Statement::Plain),
        _ => {}
    }
    if let Some((order, bits)) = byte_order(word) {
        return Ok(Statement::Plain(Op::End { order, bits, dst: line.reg()? }));
    }
    if let Some(access) = access(word) {
        return memory(line, access).map(Statement::Plain);
    }
    if let Some((op, width)) = extension(word) {
        let dst = line.reg()?;
        line.expect(",")?;
        let src = Operand::Reg(line.reg()?);
        return Ok(Statement::Plain(Op::Alu { width, op, dst, src }));
    }
    let (name, width) = match (word.strip_suffix("32"), word.strip_suffix("64")) {
        (Some(name), _) => (name, Width::W32),
        (_, Some(name)) => (name, Width::W64),
        _ => (word, Width::W64),
    };
    if name == "neg" {
        return Ok(Statement::Plain(Op::Neg { width, dst: line.reg()? }));
    }
    if let Some(op) = arithmetic(name) {
        let dst = line.reg()?;
        line.expect(",")?;
        return Ok(Statement::Plain(Op::Alu { width, op, dst, src: line.operand(Width::W64)? }));
    }
    if let Some(cond) = condition(name) {
        return branch(line, width, cond);
    }
    Err(Trouble { column, message: format!("expected an instruction, found `{word}`") })
}

fn arithmetic(name: &str) -> Option<AluOp> {
    Some(match name {
        "add" => AluOp::Add,
        "sub" => AluOp::Sub,
        "mul" => AluOp::Mul,
        "div" => AluOp::Div,
        "sdiv" => AluOp::SDiv,
        "mod" => AluOp::Mod,
        "smod" => AluOp::SMod,
        "or" => AluOp::Or,
        "and" => AluOp::And,
        "xor" => AluOp::Xor,
        "lsh" => AluOp::Lsh,
        "rsh" => AluOp::Rsh,
        "arsh" => AluOp::Arsh,
        "mov" => AluOp::Mov,
        _ => return None,
    })
}

/// `movsx1632` takes 16 bits to 32.
fn extension(word: &str) -> Option<(AluOp, Width)> {
    Some(match word.strip_prefix("movsx")? {
        "832" => (AluOp::MovSx8, Width::W32),
        "864" => (AluOp::MovSx8, Width::W64),
        "1632" => (AluOp::MovSx16, Width::W32),
        "1664" => (AluOp::MovSx16, Width::W64),
        "3264" => (AluOp::MovSx32, Width::W64),
        _ => return None,
    })
}

fn condition(name: &str) -> Option<Cond> {
    Some(match name {
        "jeq" => Cond::Eq,
        "jne" => Cond::Ne,
        "jgt" => Cond::Gt,
        "jge" => Cond::Ge,
        "jlt" => Cond::Lt,
        "jle" => Cond::Le,
        "jset" => Cond::Set,
        "jsgt" => Cond::SGt,
        "jsge" => Cond::SGe,
        "jslt" => Cond::SLt,
        "jsle" => Cond::SLe,
        _ => return None,
    })
}

fn branch<'a>(line: &mut Cursor<'a>, width: Width, cond: Cond) -> Result<Statement<'a>> {
    let dst = line.reg()?;
    line.expect(",")?;
    let src = line.operand(Width::W64)?;
    line.expect(",")?;
    Ok(Statement::Branch(Op::Branch { width, cond, dst, src, offset: 0 }, line.target()?))
}

fn wide(line: &mut Cursor<'_>) -> Result<Op> {
    let dst = line.reg()?;
    line.expect(",")?;
    Ok(Op::Wide { dst, value: Wide::Value(line.imm64()?) })
}

/// Loads and stores.
enum Access {
    Load(Size, bool),
    StoreImm(Size),
    StoreReg(Size),
}

fn access(word: &str) -> Option<Access> {
    let size = |letters| {
        Some(match letters {
            "b" => Size::B,
            "h" => Size::H,
            "w" => Size::W,
            "dw" => Size::DW,
            _ => return None,
        })
    };
    if let Some(letters) = word.strip_prefix("ldxs") {
        return size(letters).filter(|size| *size != Size::DW).map(|size| Access::Load(size, true));
    }
    if let Some(letters) = word.strip_prefix("ldx") {
        return size(letters).map(|size| Access::Load(size, false));
    }
    if let Some(letters) = word.strip_prefix("stx") {
        return size(letters).map(Access::StoreReg);
    }
    size(word.strip_prefix("st")?).map(Access::StoreImm)
}

fn memory(line: &mut Cursor<'_>, access: Access) -> Result<Op> {
    if let Access::Load(size, signed) = access {
        let dst = line.reg()?;
        line.expect(",")?;
        let (src, off) = address(line)?;
        return Ok(Op::Load { dst, src, off, size, signed });
    }
    let (dst, off) = address(line)?;
    line.expect(",")?;
    Ok(match access {
        Access::StoreReg(size) => Op::Store { dst, off, size, src: Operand::Reg(line.reg()?) },
        Access::StoreImm(size) | Access::Load(size, _) => {
            Op::Store { dst, off, size, src: Operand::Imm(line.imm()?) }
        }
    })
}

/// `[r1+4]`
fn address(line: &mut Cursor<'_>) -> Result<(Reg, i16)> {
    line.expect("[")?;
    let place = line.place()?;
    line.expect("]")?;
    Ok(place)
}

/// `fetch add32 [r10-8], r1`, behind `lock`.
fn locked(line: &mut Cursor<'_>) -> Result<Op> {
    let fetch = line.word_is("fetch");
    let Some(Kind::Word(word)) = line.peek() else {
        return line.expected("add, or, and, xor, xchg, cmpxchg");
    };
    let (name, size) = word.strip_suffix("32").map_or((word, Size::DW), |name| (name, Size::W));
    let op = match (name, fetch) {
        ("add", false) => AtomicOp::Add,
        ("or", false) => AtomicOp::Or,
        ("and", false) => AtomicOp::And,
        ("xor", false) => AtomicOp::Xor,
        ("add", true) => AtomicOp::FetchAdd,
        ("or", true) => AtomicOp::FetchOr,
        ("and", true) => AtomicOp::FetchAnd,
        ("xor", true) => AtomicOp::FetchXor,
        ("xchg", _) => AtomicOp::Xchg,
        ("cmpxchg", _) => AtomicOp::CmpXchg,
        _ => return line.expected("add, or, and, xor, xchg, cmpxchg"),
    };
    line.skip();
    let (base, off) = address(line)?;
    line.expect(",")?;
    Ok(Op::Atomic { op, base, off, size, reg: line.reg()? })
}
