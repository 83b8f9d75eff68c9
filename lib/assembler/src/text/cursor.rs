//! Where the parser is in a line, and the pieces that both syntaxes share.

use super::statement::{Result, Target, Trouble};
use super::token::{Kind, Token};
use mote_bpf::insn::Reg;
use mote_bpf::op::{Operand, Size, Width};

/// The tokens of a line, and which is next.
pub(super) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    end_column: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: Vec<Token<'a>>, line: &str) -> Cursor<'a> {
        let end_column = line.trim_end().chars().count() + 1;
        Cursor { tokens, next: 0, end_column }
    }

    pub(super) fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.next).map(|token| token.kind)
    }

    pub(super) fn at_end(&self) -> bool {
        self.next >= self.tokens.len()
    }

    /// Column of the next token.
    pub(super) fn column(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end_column, |token| token.column)
    }

    pub(super) fn skip(&mut self) {
        self.next += 1;
    }

    /// Where it is, for [`Cursor::reset`].
    pub(super) fn mark(&self) -> usize {
        self.next
    }

    pub(super) fn reset(&mut self, mark: usize) {
        self.next = mark;
    }

    /// What is next is not what was expected.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        let message = match self.tokens.get(self.next) {
            Some(token) => format!("expected {what}, found `{}`", token.text),
            None => format!("expected {what}, found the end of the line"),
        };
        Err(Trouble { column: self.column(), message })
    }

    /// Takes a symbol if it is next.
    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let is = self.peek() == Some(Kind::Symbol(symbol));
        self.next += usize::from(is);
        is
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.symbol(symbol) { Ok(()) } else { self.expected(&format!("`{symbol}`")) }
    }

    /// Takes a word if it is next.
    pub(super) fn word_is(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(Kind::Word(word));
        self.next += usize::from(is);
        is
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// A label, or the slot's number in a listing, and the colon behind it.
    pub(super) fn label(&mut self) -> Option<(&'a str, usize)> {
        let first = *self.tokens.get(self.next)?;
        let colon = self.tokens.get(self.next + 1)?.kind == Kind::Symbol(":");
        if !colon || matches!(first.kind, Kind::Symbol(_)) {
            return None;
        }
        self.next += 2;
        Some((first.text, first.column))
    }

    /// A register or its lower half, if one is next.
    pub(super) fn any_reg(&mut self) -> Option<(Width, Reg)> {
        let Some(Kind::Word(word)) = self.peek() else { return None };
        let half = half(word)?;
        self.next += 1;
        Some(half)
    }

    pub(super) fn reg_of(&mut self, width: Width) -> Result<Reg> {
        let name = if width == Width::W64 { "a register (r0 to r10)" } else { "a lower half (w0 to w10)" };
        match self.peek() {
            Some(Kind::Word(word)) if half(word).is_some_and(|(found, _)| found == width) => {
                self.next += 1;
                half(word).map_or_else(|| self.expected(name), |(_, reg)| Ok(reg))
            }
            _ => self.expected(name),
        }
    }

    pub(super) fn reg(&mut self) -> Result<Reg> {
        self.reg_of(Width::W64)
    }

    /// This register again, as in `r1 = be16 r1`.
    pub(super) fn same(&mut self, width: Width, reg: Reg) -> Result<()> {
        let letter = if width == Width::W64 { 'r' } else { 'w' };
        let start = self.next;
        if self.reg_of(width).is_ok_and(|found| found == reg) {
            return Ok(());
        }
        self.next = start;
        self.expected(&format!("`{letter}{}`, the same register", reg.number()))
    }

    /// A number with its sign; true when it was in hexadecimal.
    pub(super) fn number(&mut self) -> Result<(i128, bool)> {
        let start = self.next;
        let minus = self.symbol("-");
        if !minus {
            self.symbol("+");
        }
        let Some(Kind::Number { magnitude, hex }) = self.peek() else {
            self.next = start;
            return self.expected("a number");
        };
        self.next += 1;
        let magnitude = i128::from(magnitude);
        Ok((if minus { -magnitude } else { magnitude }, hex))
    }

    /// A 32-bit constant; in hexadecimal, its bits.
    pub(super) fn imm(&mut self) -> Result<i32> {
        let (start, column) = (self.next, self.column());
        let (value, hex) = self.number()?;
        let bits = u32::try_from(value).ok().filter(|_| hex).map(|bits| bits as i32);
        i32::try_from(value).ok().or(bits).ok_or_else(|| {
            self.next = start;
            let message = format!("expected a number of 32 bits (-2147483648 to 2147483647), found {value}");
            Trouble { column, message }
        })
    }

    /// A number that fits.
    pub(super) fn fitting<N: TryFrom<i128>>(&mut self, what: &str) -> Result<N> {
        let column = self.column();
        let (value, _) = self.number()?;
        N::try_from(value).map_err(|_| Trouble { column, message: format!("expected {what}, found {value}") })
    }

    /// A 64-bit constant, signed or not.
    pub(super) fn imm64(&mut self) -> Result<u64> {
        let column = self.column();
        let (value, _) = self.number()?;
        let signed = i64::try_from(value).ok().map(|value| value as u64);
        u64::try_from(value).ok().or(signed).ok_or_else(|| Trouble {
            column,
            message: format!("expected a number of 64 bits, found {value}"),
        })
    }

    /// A register of this width, or a constant.
    pub(super) fn operand(&mut self, width: Width) -> Result<Operand> {
        match self.peek() {
            Some(Kind::Word(_)) => self.reg_of(width).map(Operand::Reg),
            Some(_) => self.imm().map(Operand::Imm),
            None => self.expected("a register or a number"),
        }
    }

    /// `r1 + 8`, `r10 - 8`, `r1`
    pub(super) fn place(&mut self) -> Result<(Reg, i16)> {
        let reg = self.reg()?;
        let minus = match self.peek() {
            Some(Kind::Symbol("+")) => false,
            Some(Kind::Symbol("-")) => true,
            _ => return Ok((reg, 0)),
        };
        self.skip();
        let column = self.column();
        let (value, _) = self.number()?;
        let value = if minus { -value } else { value };
        let message = format!("expected an offset of 16 bits (-32768 to 32767), found {value}");
        Ok((reg, i16::try_from(value).map_err(|_| Trouble { column, message })?))
    }

    /// `+3`, `-2`, or a label.
    pub(super) fn target(&mut self) -> Result<Target<'a>> {
        let column = self.column();
        match self.peek() {
            Some(Kind::Word(name)) => {
                self.skip();
                Ok(Target::Name { name, column })
            }
            Some(_) => {
                let offset = self.fitting("an offset of 32 bits")?;
                self.comment_of_objdump()?;
                Ok(Target::Offset(offset))
            }
            None => self.expected("a label or an offset (`+3`)"),
        }
    }

    /// `<LBB0_2>`, `<main+0x10>`: llvm-objdump says where an offset leads.
    fn comment_of_objdump(&mut self) -> Result<()> {
        if self.symbol("<") {
            while !matches!(self.peek(), None | Some(Kind::Symbol(">"))) {
                self.skip();
            }
            self.expect(">")?;
        }
        Ok(())
    }
}

fn half(word: &str) -> Option<(Width, Reg)> {
    if word == "fp" {
        return Some((Width::W64, Reg::R10));
    }
    let (width, number) = match (word.strip_prefix('r'), word.strip_prefix('w')) {
        (Some(number), _) => (Width::W64, number),
        (_, Some(number)) => (Width::W32, number),
        _ => return None,
    };
    let canonical = number == "10" || number.len() == 1;
    Some((width, Reg::new(number.parse().ok().filter(|_| canonical)?)?))
}

/// The size of this many bits.
pub(super) fn size(bits: &str) -> Option<Size> {
    Some(match bits {
        "8" => Size::B,
        "16" => Size::H,
        "32" => Size::W,
        "64" => Size::DW,
        _ => return None,
    })
}
