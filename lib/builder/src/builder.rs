//! A program in the making: instructions, labels, and what is known of registers.

use crate::error::{BuildError, Label};
use crate::registers::{Known, Registers};
use crate::slots::{self, Item};
use mote_bpf::Insn;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AtomicOp, Cond, Op, Operand, Width};

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) items: Vec<Item>,
    /// Of each label, the item that it is before.
    pub(crate) labels: Vec<Option<usize>>,
    /// Of each label, what is known on all ways that lead there so far.
    pub(crate) ways: Vec<Option<Known>>,
    pub(crate) registers: Registers,
    /// Offset of the lowest byte of the frame that was given out.
    pub(crate) frame: i16,
    /// Registers that instructions of values have changed, a bit for each: see [`Builder::take_changed`].
    pub(crate) changed: u16,
    pub(crate) error: Option<BuildError>,
}

impl Builder {
    /// A program without instructions, maps and functions.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A label for a place to come: see [`Builder::bind`].
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        self.ways.push(None);
        Label(self.labels.len() - 1)
    }

    /// A label for the place before the next instruction. Scratch values do not live on behind it: a jump back would
    /// not have them.
    pub fn here(&mut self) -> Label {
        let known = self.registers.here.map(|known| known.saved());
        self.registers.here = known;
        self.labels.push(Some(self.items.len()));
        self.ways.push(known);
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub fn bind(&mut self, label: Label) {
        self.arrive(label);
        self.registers.here = self.ways.get(label.0).copied().flatten();
        self.place_label(label);
    }

    /// Puts a label before the next instruction, behind which no value is read that was made before: so places that are
    /// written later may jump back there, whatever they hold.
    pub fn bind_last(&mut self, label: Label) {
        if let Some(ways) = self.ways.get_mut(label.0) {
            *ways = Some(Known::default());
        }
        self.registers.here = Some(Known::default());
        self.place_label(label);
    }

    pub(crate) fn place_label(&mut self, label: Label) {
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(self.items.len()),
            Some(Some(_)) => self.fail(BuildError::Rebound(label)),
            None => self.fail(BuildError::Unbound(label)),
        }
    }

    /// A way leads from here to the label.
    pub(crate) fn arrive(&mut self, label: Label) {
        let (Some(here), Some(there)) = (self.registers.here, self.ways.get_mut(label.0)) else { return };
        match *there {
            // It lies behind: what is known there is not open any more.
            Some(known) if self.labels.get(label.0).copied().flatten().is_some() => {
                let agreed = self.registers.agrees(&known);
                self.try_or(agreed);
            }
            Some(known) => *there = Some(known.and(&here)),
            None => *there = Some(here),
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

    /// Appends any instruction that does not jump; for those that do there are [`Builder::jump`], [`Builder::branch`]
    /// and [`Builder::call_local`].
    pub fn op(&mut self, op: Op) {
        if matches!(op, Op::Jump { .. } | Op::Branch { .. } | Op::CallLocal { .. }) {
            self.fail(BuildError::Offset);
        }
        self.items.push(Item::Plain(op));
        match op {
            Op::Call { .. } => self.registers.call(),
            Op::Exit => self.registers.here = None,
            _ => {
                if let Some(reg) = changed_by(&op) {
                    self.registers.lose(reg);
                }
            }
        }
    }

    /// Puts no value into these registers from here on, a bit for each: instructions that were written one by one have
    /// something there. Arguments of calls, and their results, go where they have to.
    pub fn withhold(&mut self, registers: u16) {
        self.registers.withheld = registers;
    }

    /// Puts values into these registers only where no other is free, from here on, a bit for each: what instructions
    /// that were written one by one have left there may be read again.
    pub fn avoid(&mut self, registers: u16) {
        self.registers.avoided = registers;
    }

    /// Whether a value that was not dropped yet is in this register here.
    pub fn is_held(&self, reg: Reg) -> bool {
        !self.registers.is_free(reg)
    }

    /// Registers that the instructions of values have changed since this was asked last, a bit for each.
    pub fn take_changed(&mut self) -> u16 {
        std::mem::take(&mut self.changed)
    }

    /// `goto label`
    pub fn jump(&mut self, to: Label) {
        self.arrive(to);
        self.registers.here = None;
        self.items.push(Item::Jump(to));
    }

    /// `if dst COND src goto label`, 64 bits.
    pub fn branch(&mut self, cond: Cond, dst: Reg, src: impl Into<Operand>, to: Label) {
        self.arrive(to);
        self.items.push(Item::Branch { width: Width::W64, cond, dst, src: src.into(), to });
    }

    /// `if dst COND src goto label`, the low 32 bits.
    pub fn branch32(&mut self, cond: Cond, dst: Reg, src: impl Into<Operand>, to: Label) {
        self.arrive(to);
        self.items.push(Item::Branch { width: Width::W32, cond, dst, src: src.into(), to });
    }

    /// Calls the function of this program that begins at the label.
    pub fn call_local(&mut self, function: Label) {
        // Nothing but its arguments is there when it begins.
        if let Some(known @ None) = self.ways.get_mut(function.0) {
            *known = Some(Known::default());
        }
        self.registers.call();
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
        let places = slots::places(&self.items, &self.labels)?;
        Ok(slots::encode_all(&self.items, &self.labels, &places))
    }

    pub(crate) fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }
}

/// The register that an instruction changes; a call changes more.
pub(crate) fn changed_by(op: &Op) -> Option<Reg> {
    match *op {
        Op::Alu { dst, .. }
        | Op::Neg { dst, .. }
        | Op::End { dst, .. }
        | Op::Wide { dst, .. }
        | Op::Load { dst, .. } => Some(dst),
        Op::Atomic { op: AtomicOp::CmpXchg, .. } => Some(Reg::R0),
        Op::Atomic { op: AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor, .. } => None,
        Op::Atomic { op: AtomicOp::StoreRelease, .. } | Op::Store { .. } => None,
        Op::Atomic { reg, .. } => Some(reg),
        Op::Call { .. } | Op::Exit => None,
        Op::Jump { .. } | Op::Branch { .. } | Op::CallLocal { .. } => None,
    }
}
