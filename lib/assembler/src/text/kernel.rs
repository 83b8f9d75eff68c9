//! The syntax of the kernel and LLVM: `r0 += r1`, `if w1 s< 5 goto out`, `*(u32 *)(r1 + 8) = r2`.

use super::cursor::{Cursor, size};
use super::mnemonic;
use super::statement::{Result, Statement, Target, Trouble};
use super::token::Kind;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Op, Operand, Order, Size, Wide, Width};

/// The statement of a line that has one.
pub(super) fn statement<'a>(line: &mut Cursor<'a>) -> Result<Statement<'a>> {
    if let Some((width, dst)) = line.any_reg() {
        return assignment(line, width, dst).map(Statement::Plain);
    }
    if line.symbol("*") {
        return store(line).map(Statement::Plain);
    }
    let Some(Kind::Word(word)) = line.peek() else { return line.expected("an instruction") };
    let column = line.column();
    line.skip();
    match word {
        "if" => branch(line),
        "goto" => Ok(Statement::Goto(line.target()?)),
        "gotol" => Ok(Statement::GotoLong(line.target()?)),
        "call" => call(line),
        "exit" => Ok(Statement::Plain(Op::Exit)),
        "lock" if line.symbol("*") => locked(line).map(Statement::Plain),
        "store_release" => store_release(line).map(Statement::Plain),
        ".quad" | ".8byte" => Ok(Statement::Quad(line.imm64()?)),
        _ => mnemonic::statement(line, word, column),
    }
}

fn assignment(line: &mut Cursor<'_>, width: Width, dst: Reg) -> Result<Op> {
    let Some(Kind::Symbol(symbol)) = line.peek() else { return line.expected("`=`, `+=` or the like") };
    if symbol == "=" {
        line.skip();
        return value(line, width, dst);
    }
    let Some(op) = arithmetic(symbol) else { return line.expected("`=`, `+=` or the like") };
    line.skip();
    Ok(Op::Alu { width, op, dst, src: line.operand(width)? })
}

fn arithmetic(symbol: &str) -> Option<AluOp> {
    Some(match symbol {
        "+=" => AluOp::Add,
        "-=" => AluOp::Sub,
        "*=" => AluOp::Mul,
        "/=" => AluOp::Div,
        "s/=" => AluOp::SDiv,
        "%=" => AluOp::Mod,
        "s%=" => AluOp::SMod,
        "|=" => AluOp::Or,
        "&=" => AluOp::And,
        "^=" => AluOp::Xor,
        "<<=" => AluOp::Lsh,
        ">>=" => AluOp::Rsh,
        "s>>=" => AluOp::Arsh,
        _ => return None,
    })
}

/// What follows `r0 =`.
fn value(line: &mut Cursor<'_>, width: Width, dst: Reg) -> Result<Op> {
    let column = line.column();
    match line.peek() {
        Some(Kind::Symbol("*")) => {
            line.skip();
            load(line, width, dst, column)
        }
        Some(Kind::Symbol("(")) => {
            line.skip();
            extension(line, width, dst)
        }
        Some(Kind::Word(word)) if !matches!(word.as_bytes(), [b'r' | b'w', b'0'..=b'9', ..] | b"fp") => {
            line.skip();
            named(line, width, dst, word, column)
        }
        Some(Kind::Word(_)) => Ok(Op::Alu { width, op: AluOp::Mov, dst, src: line.operand(width)? }),
        _ => constant(line, width, dst),
    }
}

/// `5`, `-5`, `0x1122334455667788 ll`, `-r0`.
fn constant(line: &mut Cursor<'_>, width: Width, dst: Reg) -> Result<Op> {
    let (start, column) = (line.mark(), line.column());
    if line.symbol("-") && matches!(line.peek(), Some(Kind::Word(_))) {
        return line.same(width, dst).map(|()| Op::Neg { width, dst });
    }
    line.reset(start);
    if line.imm64().is_ok() && line.word_is("ll") {
        line.reset(start);
        let value = Wide::Value(line.imm64()?);
        line.skip();
        return wide(width, dst, value, column);
    }
    line.reset(start);
    Ok(Op::Alu { width, op: AluOp::Mov, dst, src: Operand::Imm(line.imm()?) })
}

fn wide(width: Width, dst: Reg, value: Wide, column: usize) -> Result<Op> {
    match width {
        Width::W64 => Ok(Op::Wide { dst, value }),
        Width::W32 => Err(needs_whole(column)),
    }
}

fn needs_whole(column: usize) -> Trouble {
    Trouble { column, message: "expected a 32-bit value, found one for a whole register (r0 to r10)".into() }
}

/// `(s8)r1`, behind the parenthesis.
fn extension(line: &mut Cursor<'_>, width: Width, dst: Reg) -> Result<Op> {
    let op = match (line.peek(), width) {
        (Some(Kind::Word("s8")), _) => AluOp::MovSx8,
        (Some(Kind::Word("s16")), _) => AluOp::MovSx16,
        (Some(Kind::Word("s32")), Width::W64) => AluOp::MovSx32,
        _ => return line.expected("s8, s16 or (into a whole register) s32"),
    };
    line.skip();
    line.expect(")")?;
    Ok(Op::Alu { width, op, dst, src: Operand::Reg(line.reg_of(width)?) })
}

/// `(u32 *)`; true for `s32`.
fn cast(line: &mut Cursor<'_>) -> Result<(bool, Size)> {
    line.expect("(")?;
    let Some(Kind::Word(word)) = line.peek() else { return line.expected("a type (u8 to u64, s8 to s32)") };
    let found = match (word.strip_prefix('u'), word.strip_prefix('s')) {
        (Some(bits), _) => size(bits).map(|size| (false, size)),
        (_, Some(bits)) => size(bits).map(|size| (true, size)),
        _ => None,
    };
    let Some(found) = found else { return line.expected("a type (u8 to u64, s8 to s32)") };
    line.skip();
    line.expect("*")?;
    line.expect(")")?;
    Ok(found)
}

fn unsigned_cast(line: &mut Cursor<'_>) -> Result<Size> {
    let column = line.column();
    match cast(line)? {
        (false, size) => Ok(size),
        (true, _) => Err(Trouble { column, message: "expected an unsigned type, found a signed one".into() }),
    }
}

/// `(r1 + 8)`
fn address(line: &mut Cursor<'_>) -> Result<(Reg, i16)> {
    line.expect("(")?;
    let place = line.place()?;
    line.expect(")")?;
    Ok(place)
}

fn load(line: &mut Cursor<'_>, width: Width, dst: Reg, column: usize) -> Result<Op> {
    let (signed, size) = cast(line)?;
    let (src, off) = address(line)?;
    // A load of 4 bytes or less leaves zeros above, so that both names are right; one with a sign fills the register.
    if width == Width::W32 && (signed || size == Size::DW) {
        return Err(needs_whole(column));
    }
    if signed && size == Size::DW {
        return Err(Trouble { column, message: "expected u64: there is nothing to extend".into() });
    }
    Ok(Op::Load { dst, src, off, size, signed })
}

/// `*(u32 *)(r1 + 8) = r2`, behind the star.
fn store(line: &mut Cursor<'_>) -> Result<Op> {
    let size = unsigned_cast(line)?;
    let (dst, off) = address(line)?;
    line.expect("=")?;
    let half = size != Size::DW && matches!(line.peek(), Some(Kind::Word(word)) if word.starts_with('w'));
    let src = line.operand(if half { Width::W32 } else { Width::W64 })?;
    Ok(Op::Store { dst, off, size, src })
}

/// The operand of an atomic operation: `w1` is right for all but 8 bytes, `r1` always.
fn stored(line: &mut Cursor<'_>, size: Size) -> Result<Reg> {
    match line.peek() {
        Some(Kind::Word(word)) if size != Size::DW && word.starts_with('w') => line.reg_of(Width::W32),
        _ => line.reg(),
    }
}

/// `lock *(u64 *)(r1 + 0) += r2`, behind the star.
fn locked(line: &mut Cursor<'_>) -> Result<Op> {
    let size = word_size(line)?;
    let (base, off) = address(line)?;
    let op = match line.peek() {
        Some(Kind::Symbol("+=")) => AtomicOp::Add,
        Some(Kind::Symbol("|=")) => AtomicOp::Or,
        Some(Kind::Symbol("&=")) => AtomicOp::And,
        Some(Kind::Symbol("^=")) => AtomicOp::Xor,
        _ => return line.expected("`+=`, `|=`, `&=` or `^=`"),
    };
    line.skip();
    Ok(Op::Atomic { op, base, off, size, reg: stored(line, size)? })
}

/// `(u32 *)` or `(u64 *)`
fn word_size(line: &mut Cursor<'_>) -> Result<Size> {
    let column = line.column();
    match unsigned_cast(line)? {
        size @ (Size::W | Size::DW) => Ok(size),
        _ => Err(Trouble { column, message: "expected u32 or u64, found a smaller type".into() }),
    }
}

fn store_release(line: &mut Cursor<'_>) -> Result<Op> {
    line.expect("(")?;
    let size = unsigned_cast(line)?;
    let (base, off) = address(line)?;
    line.expect(",")?;
    let reg = stored(line, size)?;
    line.expect(")")?;
    Ok(Op::Atomic { op: AtomicOp::StoreRelease, base, off, size, reg })
}

/// `r0 = be16 r0`, `r1 = map[idx:0] ll`, and the atomic operations that return something.
fn named(line: &mut Cursor<'_>, width: Width, dst: Reg, word: &str, column: usize) -> Result<Op> {
    if let Some((order, bits)) = byte_order(word) {
        if width == Width::W32 {
            return Err(needs_whole(column));
        }
        line.same(width, dst)?;
        return Ok(Op::End { order, bits, dst });
    }
    let fetch = match word.strip_prefix("atomic").map(|rest| rest.strip_prefix("64").unwrap_or(rest)) {
        Some("_fetch_add") => AtomicOp::FetchAdd,
        Some("_fetch_or") => AtomicOp::FetchOr,
        Some("_fetch_and") => AtomicOp::FetchAnd,
        Some("_fetch_xor") => AtomicOp::FetchXor,
        Some("_xchg") => AtomicOp::Xchg,
        Some("_cmpxchg") => AtomicOp::CmpXchg,
        _ => return other(line, width, dst, word, column),
    };
    line.expect("(")?;
    let size = word_size(line)?;
    let place = address(line)?;
    exchange(line, fetch, size, place, (width, dst))
}

fn other(line: &mut Cursor<'_>, width: Width, dst: Reg, word: &str, column: usize) -> Result<Op> {
    let (op, size) = match word {
        "map" => return map(line, width, dst, column),
        "load_acquire" => {
            line.expect("(")?;
            let size = unsigned_cast(line)?;
            let (base, off) = address(line)?;
            line.expect(")")?;
            if width == Width::W32 && size == Size::DW {
                return Err(needs_whole(column));
            }
            return Ok(Op::Atomic { op: AtomicOp::LoadAcquire, base, off, size, reg: dst });
        }
        "xchg_64" => (AtomicOp::Xchg, Size::DW),
        "xchg32_32" => (AtomicOp::Xchg, Size::W),
        "cmpxchg_64" => (AtomicOp::CmpXchg, Size::DW),
        "cmpxchg32_32" => (AtomicOp::CmpXchg, Size::W),
        _ => {
            let message = format!("expected a value (a register, a number, `*(u32 *)(..)`), found `{word}`");
            return Err(Trouble { column, message });
        }
    };
    line.expect("(")?;
    let place = line.place()?;
    exchange(line, op, size, place, (width, dst))
}

/// `, r2)`, or `, r0, r2)` of a cmpxchg; the result goes where it must.
fn exchange(
    line: &mut Cursor<'_>,
    op: AtomicOp,
    size: Size,
    (base, off): (Reg, i16),
    (width, dst): (Width, Reg),
) -> Result<Op> {
    line.expect(",")?;
    let reg = if op == AtomicOp::CmpXchg {
        if dst != Reg::R0 {
            let message = format!("expected r0 to take the result, found r{}", dst.number());
            return Err(Trouble { column: line.column(), message });
        }
        line.same(width, dst)?;
        line.expect(",")?;
        stored(line, size)?
    } else {
        line.same(width, dst)?;
        dst
    };
    line.expect(")")?;
    if (size == Size::DW) != (width == Width::W64) {
        let message = "expected r0 to r10 for 64 bits, w0 to w10 for 32".into();
        return Err(Trouble { column: 1, message });
    }
    Ok(Op::Atomic { op, base, off, size, reg })
}

pub(super) fn byte_order(word: &str) -> Option<(Order, u8)> {
    let split = word.find(|c: char| c.is_ascii_digit())?;
    let order = match &word[..split] {
        "le" => Order::Little,
        "be" => Order::Big,
        "bswap" | "swap" => Order::Swap,
        _ => return None,
    };
    match &word[split..] {
        "16" => Some((order, 16)),
        "32" => Some((order, 32)),
        "64" => Some((order, 64)),
        _ => None,
    }
}

/// `[idx:0] ll`, `[idx:0]+16 ll`
fn map(line: &mut Cursor<'_>, width: Width, dst: Reg, column: usize) -> Result<Op> {
    line.expect("[")?;
    if line.word_is("idx") {
        line.expect(":")?;
    }
    let map = line.fitting("a map's index")?;
    line.expect("]")?;
    let value = if line.symbol("+") {
        Wide::MapValue { map, offset: line.fitting("an offset of 32 bits")? }
    } else {
        Wide::Map(map)
    };
    if !line.word_is("ll") {
        return line.expected("`ll`");
    }
    wide(width, dst, value, column)
}

fn branch<'a>(line: &mut Cursor<'a>) -> Result<Statement<'a>> {
    let Some((width, dst)) = line.any_reg() else { return line.expected("a register") };
    let cond = match line.peek() {
        Some(Kind::Symbol("==")) => Cond::Eq,
        Some(Kind::Symbol("!=")) => Cond::Ne,
        Some(Kind::Symbol(">")) => Cond::Gt,
        Some(Kind::Symbol(">=")) => Cond::Ge,
        Some(Kind::Symbol("<")) => Cond::Lt,
        Some(Kind::Symbol("<=")) => Cond::Le,
        Some(Kind::Symbol("&")) => Cond::Set,
        Some(Kind::Symbol("s>")) => Cond::SGt,
        Some(Kind::Symbol("s>=")) => Cond::SGe,
        Some(Kind::Symbol("s<")) => Cond::SLt,
        Some(Kind::Symbol("s<=")) => Cond::SLe,
        _ => return line.expected("a comparison (`==`, `<`, `s<`, `&`, ..)"),
    };
    line.skip();
    let src = line.operand(width)?;
    if !line.word_is("goto") {
        return line.expected("`goto`");
    }
    Ok(Statement::Branch(Op::Branch { width, cond, dst, src, offset: 0 }, line.target()?))
}

/// `call 5`, `call map_lookup_elem`, `call bpf_map_lookup_elem#1`, `call pc+7`, `call helper 5`, `call local function`.
fn call<'a>(line: &mut Cursor<'a>) -> Result<Statement<'a>> {
    let column = line.column();
    if line.word_is("local") {
        return Ok(Statement::CallLocal(line.target()?));
    }
    if line.word_is("pc") {
        let offset: i32 = line.fitting("an offset of 32 bits")?;
        return Ok(Statement::CallLocal(Target::Offset(offset.into())));
    }
    line.word_is("helper");
    match line.peek() {
        Some(Kind::Word(name)) => {
            line.skip();
            if line.symbol("#") {
                return Ok(Statement::Plain(Op::Call { helper: line.fitting("a helper's number")? }));
            }
            Ok(Statement::CallName { name, column })
        }
        _ => Ok(Statement::Plain(Op::Call { helper: line.fitting("a helper's name or number")? })),
    }
}
