//! eBPF programs made by code.
//!
//! [`Build`] is the way to write them: by values, places and conditions. A value is in a register for as long as
//! somebody holds it; the builder knows which registers a call changes, and tells of a value that is read after it was
//! lost. A [`Place`] knows size and sign of the member that it is; a [`Test`] decides without a label in the ordinary
//! case.
//!
//! ```
//! use mote_builder::{Build, Builder, Field, field};
//! use mote_bpf::{Reg, helper};
//!
//! /// What the program is given.
//! #[repr(C)]
//! struct Context { bytes: u32, count: u32 }
//! /// What it keeps: how often there were many bytes, and when that was last.
//! #[repr(C)]
//! struct Seen { times: u64, last: u64 }
//!
//! const BYTES: Field<Context, u32> = field!(Context, bytes);
//!
//! let mut b = Builder::new();
//! let context = b.pin(Reg::R1).to::<Context>();
//! b.when(context.at(BYTES).gt(1500), |b| {
//!     // In a saved register: it is read behind a call.
//!     let seen = b.keep(mote_builder::map_value(0, 64)).to::<Seen>();
//!     b.add_atomically(seen.at(field!(Seen, times)), 1);
//!     let now = b.invoke(helper::KTIME_GET_NS, ());
//!     b.put(seen.at(field!(Seen, last)), now);
//! });
//! b.exit_with(0);
//! assert_eq!(b.finish().unwrap().len(), 10);
//! ```
//!
//! # Registers
//! | | are taken by | until |
//! |---|---|---|
//! | `r0` to `r5` | [`Build::get`], and what expressions need on their way | the value is dropped, or at a call |
//! | `r6` to `r9` | [`Build::keep`] | the value is dropped |
//!
//! A function ([`Build::function`]) has registers and a frame of its own. Nothing is moved to the stack behind one's
//! back: a program that needs more registers than there are is refused, and keeps something in a [`Local`] then.
//!
//! # Refused
//! [`Builder::finish`] returns the first mistake, with its place in the source: a value that is read after a call took
//! its register, or before it was set on all ways; too many values; a frame that is too large; instructions that no way
//! leads to.
//!
//! # One by one
//! Below are the instructions themselves, by register and label, for what passes on code that is there already. Offsets
//! are worked out by [`Builder::finish`], which also makes long jumps of those that do not fit 16 bits: `goto` has a
//! 32-bit form in one slot; a far branch becomes its opposite over such a `goto`.

#![forbid(unsafe_code)]

mod build;
mod call;
mod emit;
mod evaluate;
mod expr;
mod place;
mod registers;
mod slots;

pub use build::Build;
pub use call::Arguments;
pub use expr::{Expr, Test, map, map_value};
pub use place::{Field, Local, Memory, Place, Pointer, Scalar};
pub use registers::Value;

use mote_bpf::Insn;
use mote_bpf::environment::STACK_BYTES;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Op, Operand, Order, Size, Wide, Width};
use registers::{Known, Registers};
use std::panic::Location;

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
    /// A value is read, or changed, that is not in its register any more: a call or another value has it.
    Lost {
        /// Where it was.
        reg: Reg,
        /// Where it is read, in the source.
        at: &'static Location<'static>,
    },
    /// A value is read that was not set, on one way at least.
    Unset {
        /// Where it is to be.
        reg: Reg,
        /// Where it is read, in the source.
        at: &'static Location<'static>,
    },
    /// More values than registers.
    NoRegister {
        /// Of those that survive calls, or of the others.
        saved: bool,
        /// Where one more is asked for, in the source.
        at: &'static Location<'static>,
    },
    /// A certain register is asked for that another value has.
    Taken {
        /// Which.
        reg: Reg,
        /// Where it is asked for, in the source.
        at: &'static Location<'static>,
    },
    /// More bytes of the frame than there are.
    Frame {
        /// How many.
        bytes: usize,
        /// Where they are asked for, in the source.
        at: &'static Location<'static>,
    },
    /// Instructions behind a jump or an end, which no way leads to.
    Unreachable {
        /// Where they are written, in the source.
        at: &'static Location<'static>,
    },
    /// The code before a function goes on into it.
    FallsInto {
        /// Where the function is written, in the source.
        at: &'static Location<'static>,
    },
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildError::Unbound(Label(n)) => write!(f, "label {n} is jumped to and nowhere; bind it"),
            BuildError::Rebound(Label(n)) => write!(f, "label {n} is at two places; bind it once"),
            BuildError::TooLong(n) => write!(f, "program has {n} instructions; 65536 are the most"),
            BuildError::Offset => write!(f, "jump by a number of slots; jump to a label"),
            BuildError::Lost { reg, at } => {
                write!(
                    f,
                    "{at}: {reg} does not hold this value any more; keep it in a register that survives calls"
                )
            }
            BuildError::Unset { reg, at } => {
                write!(f, "{at}: the value of {reg} was not set on all ways here; set it before they part")
            }
            BuildError::NoRegister { saved: true, at } => {
                write!(f, "{at}: more than 4 values survive calls; drop one, or store one in the frame")
            }
            BuildError::NoRegister { saved: false, at } => {
                write!(f, "{at}: more than 6 values at a time; drop one, or store one in the frame")
            }
            BuildError::Taken { reg, at } => write!(f, "{at}: {reg} has another value; drop that before"),
            BuildError::Frame { bytes, at } => {
                write!(f, "{at}: the frame would have {bytes} bytes; {STACK_BYTES} are the most")
            }
            BuildError::Unreachable { at } => {
                write!(f, "{at}: no way leads to these instructions; remove them")
            }
            BuildError::FallsInto { at } => {
                write!(f, "{at}: the code before goes on into this function; end it before")
            }
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
    /// Of each label, what is known on all ways that lead there so far.
    ways: Vec<Option<Known>>,
    registers: Registers,
    /// Offset of the lowest byte of the frame that was given out.
    frame: i16,
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

    fn place_label(&mut self, label: Label) {
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(self.items.len()),
            Some(Some(_)) => self.fail(BuildError::Rebound(label)),
            None => self.fail(BuildError::Unbound(label)),
        }
    }

    /// A way leads from here to the label.
    fn arrive(&mut self, label: Label) {
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
            Op::Alu { dst, .. }
            | Op::Neg { dst, .. }
            | Op::End { dst, .. }
            | Op::Wide { dst, .. }
            | Op::Load { dst, .. } => self.registers.lose(dst),
            Op::Atomic { op: AtomicOp::CmpXchg, .. } => self.registers.lose(Reg::R0),
            Op::Atomic { op: AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor, .. } => {}
            Op::Atomic { op: AtomicOp::StoreRelease, .. } | Op::Store { .. } => {}
            Op::Atomic { reg, .. } => self.registers.lose(reg),
            Op::Call { .. } => self.registers.call(),
            Op::Exit => self.registers.here = None,
            Op::Jump { .. } | Op::Branch { .. } | Op::CallLocal { .. } => {}
        }
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

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests;
