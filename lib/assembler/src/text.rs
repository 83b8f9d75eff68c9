//! Programs from text: one instruction a line.
//!
//! Two syntaxes are read, and may be mixed: that of the kernel and LLVM, which [`mote_bpf::disassemble`] writes, and
//! that of ubpf and of the public conformance suite (`mov32 r0, 5`, `ldxw r0, [r1+4]`, `jeq r1, r2, +3`). What stands
//! in the text is what comes out: nothing is made longer or shorter, so that a program's text assembles to the same
//! bytes.
//!
//! ```
//! let insns = mote_assembler::text::assemble(
//!     "    r2 = *(u32 *)(r1 + 8)   // comments: //, # or ;
//!          r0 = 0
//!          if r2 <= 1500 goto out
//!          r0 = 1
//!     out: exit",
//!     None,
//! );
//! assert_eq!(insns.unwrap().len(), 5);
//! ```
//!
//! A name before a colon is a label; a number before one, as listings have it, is ignored. Where no label `exit` is, it
//! is the first `exit` of the program (as in the conformance suite).

mod cursor;
mod kernel;
mod mnemonic;
mod statement;
mod token;

use mote_bpf::Insn;
use mote_bpf::environment::{Environment, INSNS_MAX};
use mote_bpf::helper::BUILTIN;
use mote_bpf::op::{Op, encode};
use statement::{Result, Statement, Target, Trouble};
use std::collections::HashMap;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in it, from 1, in characters.
    pub column: usize,
    /// What was expected and found.
    pub message: String,
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for TextError {}

/// Statements and labels of a text, each statement with its line and first slot.
#[derive(Default)]
struct Text<'a> {
    statements: Vec<(usize, usize, Statement<'a>)>,
    labels: HashMap<&'a str, usize>,
    /// Slot of the first `exit`.
    first_exit: Option<usize>,
    slots: usize,
}

/// Assembles a text. Helpers have their numbers from the environment, or else from the tables of [`mote_bpf::helper`].
///
/// # Errors
/// [`TextError`] of the first line that is wrong.
pub fn assemble(
    text: &str,
    environment: Option<&Environment<'_>>,
) -> std::result::Result<Vec<Insn>, TextError> {
    let mut read = Text::default();
    for (line, content) in (1..).zip(text.lines()) {
        read.line(line, content).map_err(|trouble| at(line, trouble))?;
    }
    let mut insns = Vec::with_capacity(read.slots);
    for (line, slot, statement) in &read.statements {
        read.emit(*slot, *statement, environment, &mut insns).map_err(|trouble| at(*line, trouble))?;
    }
    Ok(insns)
}

fn at(line: usize, trouble: Trouble) -> TextError {
    TextError { line, column: trouble.column, message: trouble.message }
}

impl<'a> Text<'a> {
    /// Reads labels and the statement of a line.
    fn line(&mut self, line: usize, content: &'a str) -> Result<()> {
        let mut cursor = cursor::Cursor::new(token::tokens(content)?, content);
        while let Some((name, column)) = cursor.label() {
            if name.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            if self.labels.insert(name, self.slots).is_some() {
                return Err(Trouble { column, message: format!("label `{name}` is there already") });
            }
        }
        if cursor.at_end() {
            return Ok(());
        }
        let column = cursor.column();
        let statement = kernel::statement(&mut cursor)?;
        cursor.end()?;
        if matches!(statement, Statement::Plain(Op::Exit)) {
            self.first_exit.get_or_insert(self.slots);
        }
        self.statements.push((line, self.slots, statement));
        self.slots += statement.slots();
        if self.slots > INSNS_MAX {
            return Err(Trouble { column, message: format!("more than {INSNS_MAX} instructions") });
        }
        Ok(())
    }

    fn emit(
        &self,
        slot: usize,
        statement: Statement<'a>,
        environment: Option<&Environment<'_>>,
        insns: &mut Vec<Insn>,
    ) -> Result<()> {
        let op = match statement {
            Statement::Plain(op) => op,
            Statement::Quad(bytes) => {
                insns.push(Insn::from_bytes(bytes.to_le_bytes()));
                return Ok(());
            }
            Statement::Branch(Op::Branch { width, cond, dst, src, .. }, to) => {
                Op::Branch { width, cond, dst, src, offset: self.offset(slot, to)? }
            }
            Statement::Branch(op, _) => op,
            Statement::Goto(to) => Op::Jump { offset: i32::from(self.offset::<i16>(slot, to)?) },
            Statement::GotoLong(to) => {
                insns.push(Insn::new(0x06, 0, 0, 0, self.offset(slot, to)?));
                return Ok(());
            }
            Statement::CallLocal(to) => Op::CallLocal { offset: self.offset(slot, to)? },
            Statement::CallName { name, column } if self.labels.contains_key(name) => {
                Op::CallLocal { offset: self.offset(slot, Target::Name { name, column })? }
            }
            Statement::CallName { name, column } => Op::Call { helper: helper(name, column, environment)? },
        };
        let (first, second) = encode(&op);
        insns.push(first);
        insns.extend(second);
        Ok(())
    }

    /// The distance from behind a slot to a target.
    fn offset<N: TryFrom<i64>>(&self, slot: usize, to: Target<'a>) -> Result<N> {
        let (distance, column) = match to {
            Target::Offset(offset) => (offset, 1),
            Target::Name { name, column } => {
                let place = self.place(name).ok_or_else(|| Trouble {
                    column,
                    message: format!(
                        "expected a label or an offset (`+3`), found `{name}`, which is nowhere"
                    ),
                })?;
                (place as i64 - slot as i64 - 1, column)
            }
        };
        N::try_from(distance).map_err(|_| Trouble {
            column,
            message: format!("{distance:+} is too far for this jump; use gotol"),
        })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.labels.get(name).copied().or(self.first_exit.filter(|_| name == "exit"))
    }
}

fn helper(name: &str, column: usize, environment: Option<&Environment<'_>>) -> Result<u32> {
    let short = name.strip_prefix("bpf_").unwrap_or(name);
    let own = environment.map_or(&[][..], |environment| environment.helpers);
    let mut all = own.iter().chain(BUILTIN);
    all.find(|helper| helper.name == short || helper.name == name).map(|helper| helper.id).ok_or_else(|| {
        Trouble { column, message: format!("expected a helper or a label, found `{name}`, which is neither") }
    })
}

#[cfg(test)]
mod tests;
