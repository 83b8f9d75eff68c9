//! What a program is loaded with, and why it cannot be loaded.

use crate::code::Refused;
use crate::helper::{FaultingFn, Function, HelperFn, builtin};
use crate::map::Map;
use mote_bpf::op::DecodeError;
use mote_sys::Errno;

/// What a program is loaded with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<'a> {
    /// The maps, in the order and of the shapes of the environment.
    pub maps: &'a [Map],
    /// Helpers by number: others than the built-in ones, or instead of them.
    pub helpers: &'a [(u32, HelperFn)],
    /// The same, of those that can end the program with a fault.
    pub faulting: &'a [(u32, FaultingFn)],
    /// How the program is run.
    pub engine: Choice,
}

impl Setup<'_> {
    /// The helper of this number: the setup's own before the built-in one.
    pub(crate) fn helper(&self, id: u32) -> Option<Function> {
        let plain = self.helpers.iter().find(|(number, _)| *number == id);
        let faulting = self.faulting.iter().find(|(number, _)| *number == id);
        match (faulting, plain) {
            (Some((_, function)), _) => Some(Function::Faulting(*function)),
            (None, Some((_, function))) => Some(Function::Plain(*function)),
            (None, None) => builtin(id),
        }
    }
}

/// How a program may be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// As machine code, or else by the interpreter.
    #[default]
    Auto,
    /// As machine code only.
    Jit,
    /// By the interpreter only.
    Interpreter,
}

/// Why a program cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The instruction at this slot means nothing.
    Decode {
        /// Slot.
        at: usize,
        /// Why.
        error: DecodeError,
    },
    /// The instruction at this slot jumps outside, or into the middle of another.
    Target {
        /// Slot.
        at: usize,
    },
    /// The last instruction is neither `exit` nor a jump; or there is none, or more than
    /// [`INSNS_MAX`](mote_bpf::environment::INSNS_MAX).
    End,
    /// There is no helper of this number.
    Helper {
        /// Slot.
        at: usize,
        /// Number.
        helper: u32,
    },
    /// There is no map of this index.
    NoMap {
        /// Slot.
        at: usize,
        /// Index.
        index: u32,
    },
    /// The map of this index has another shape in the environment, or is missing.
    Map(usize),
    /// No memory.
    Memory(Errno),
    /// It cannot become machine code, as was asked.
    Jit(Refused),
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LoadError::Decode { at, error } => write!(f, "instruction {at}: {error}"),
            LoadError::Target { at } => {
                write!(f, "instruction {at} jumps outside the program, or into the middle of an instruction")
            }
            LoadError::End => {
                write!(f, "the program is empty, too long, or does not end with exit or a jump")
            }
            LoadError::Helper { at, helper } => {
                write!(f, "instruction {at}: no helper has the number {helper}")
            }
            LoadError::NoMap { at, index } => write!(f, "instruction {at}: there is no map {index}"),
            LoadError::Map(index) => {
                write!(f, "map {index} is not the one that the program was verified with")
            }
            LoadError::Memory(errno) => write!(f, "no memory for the program: {errno}"),
            LoadError::Jit(refused) => write!(f, "cannot be compiled: {refused}"),
        }
    }
}

impl core::error::Error for LoadError {}
