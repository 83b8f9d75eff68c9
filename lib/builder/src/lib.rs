//! Generated code: instructions appended one after another, jumps to labels.
//!
//! Offsets are worked out by [`Builder::finish`], which also makes long jumps of those that do not fit 16 bits: `goto` has a
//! 32-bit form in one slot; a far branch becomes its opposite over such a `goto`.
//!
//! ```
//! use mote_builder::Builder;
//! use mote_bpf::{Reg, op::{Cond, Size}};
//!
//! let mut b = Builder::new();
//! let out = b.label();
//! b.load(Size::DW, Reg::R2, Reg::R1, 0);
//! b.mov(Reg::R0, 0);
//! b.branch(Cond::Le, Reg::R2, 1500, out);
//! b.mov(Reg::R0, 1);
//! b.bind(out);
//! b.exit();
//! assert_eq!(b.finish().unwrap().len(), 5);
//! ```

#![forbid(unsafe_code)]

mod emit;
mod place;

use mote_bpf::Insn;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Op, Operand, Order, Size, Wide, Width};

/// A place in a program, or one to come. It belongs to the builder that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// Why no program came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// This label is jumped to, and is nowhere (or of another builder).
    Unbound(Label),
    /// This label is at two places.
    Rebound(Label),
    /// More instructions than [`mote_bpf::environment::INSNS_MAX`].
    TooLong(usize),
    /// A jump by a number of slots among those to labels: its length would not be known.
    Offset,
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildError::Unbound(Label(n)) => write!(f, "label {n} is jumped to and nowhere; bind it"),
            BuildError::Rebound(Label(n)) => write!(f, "label {n} is at two places; bind it once"),
            BuildError::TooLong(n) => write!(f, "program has {n} instructions; 65536 are the most"),
            BuildError::Offset => write!(f, "jump by a number of slots; jump to a label"),
        }
    }
}

impl std::error::Error for BuildError {}

/// One instruction, of which the offset may be missing.
#[derive(Clone, Copy, Debug)]
enum Item {
    Plain(Op),
    Jump(Label),
    Branch { width: Width, cond: Cond, dst: Reg, src: Operand, to: Label },
    Call(Label),
}

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    items: Vec<Item>,
    /// Of each label, the item that it is before.
    labels: Vec<Option<usize>>,
    error: Option<BuildError>,
}

impl Builder {
    /// An empty program.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A label for a place to come: see [`Builder::bind`].
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// A label for the place before the next instruction.
    pub fn here(&mut self) -> Label {
        self.labels.push(Some(self.items.len()));
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub fn bind(&mut self, label: Label) {
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(self.items.len()),
            Some(Some(_)) => self.fail(BuildError::Rebound(label)),
            None => self.fail(BuildError::Unbound(label)),
        }
    }

    /// Instructions so far, each counted once.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True before the first instruction.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Appends any instruction that does not jump; for those that do there are [`Builder::jump`], [`Builder::branch`] and
    /// [`Builder::call_local`].
    pub fn op(&mut self, op: Op) {
        if matches!(op, Op::Jump { .. } | Op::Branch { .. } | Op::CallLocal { .. }) {
            self.fail(BuildError::Offset);
        }
        self.items.push(Item::Plain(op));
    }

    /// `goto label`
    pub fn jump(&mut self, to: Label) {
        self.items.push(Item::Jump(to));
    }

    /// `if dst COND src goto label`, 64 bits.
    pub fn branch(&mut self, cond: Cond, dst: Reg, src: impl Into<Operand>, to: Label) {
        self.items.push(Item::Branch { width: Width::W64, cond, dst, src: src.into(), to });
    }

    /// `if dst COND src goto label`, the low 32 bits.
    pub fn branch32(&mut self, cond: Cond, dst: Reg, src: impl Into<Operand>, to: Label) {
        self.items.push(Item::Branch { width: Width::W32, cond, dst, src: src.into(), to });
    }

    /// Calls the function of this program that begins at the label.
    pub fn call_local(&mut self, function: Label) {
        self.items.push(Item::Call(function));
    }

    /// The finished program.
    ///
    /// # Errors
    /// [`BuildError`], the first one.
    pub fn finish(self) -> Result<Vec<Insn>, BuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let places = place::places(&self.items, &self.labels)?;
        Ok(place::encode_all(&self.items, &self.labels, &places))
    }

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests;
