//! Labels, and why no program came of what was written.

use mote_bpf::environment::STACK_BYTES;
use mote_bpf::insn::Reg;
use std::panic::Location;

/// A place in a program, or one to come. It belongs to the builder that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub(crate) usize);

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
        /// The register that had the value.
        reg: Reg,
        /// Where it is read, in the source.
        at: &'static Location<'static>,
    },
    /// A value is read that was not set, on one way at least.
    Unset {
        /// The register that is to have the value.
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
        /// The register.
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
