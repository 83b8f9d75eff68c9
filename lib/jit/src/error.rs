//! Why a program has no machine code.

use core::fmt;
use mote_bpf::op::DecodeError;

/// Why a program has no machine code. Of verified programs only [`Error::Room`] and [`Error::Far`] can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The instruction of this slot cannot be decoded.
    Insn(u32, DecodeError),
    /// The jump or call of this slot leads out of its function, or into the middle of an instruction.
    Target(u32),
    /// The instruction of this slot is the last of a function and goes on.
    RunsOut(u32),
    /// The functions are not in order, too many, or begin in the middle of an instruction.
    Functions,
    /// The instruction of this slot calls a helper that is not there.
    Helper(u32),
    /// The instruction of this slot names a map that is not there.
    Map(u32),
    /// The instruction of this slot is a tail call of a local function.
    TailCall(u32),
    /// The buffer, the workspace or the frames are too small.
    Room,
    /// A jump does not reach its target.
    Far,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Insn(slot, why) => write!(f, "instruction {slot}: {why}"),
            Error::Target(slot) => write!(f, "instruction {slot} leads to no instruction of its function"),
            Error::RunsOut(slot) => write!(f, "instruction {slot} runs out of its function"),
            Error::Functions => write!(f, "the program has too many functions, or they are not in order"),
            Error::Helper(slot) => write!(f, "instruction {slot} calls an unknown helper"),
            Error::Map(slot) => write!(f, "instruction {slot} names an unknown map"),
            Error::TailCall(slot) => write!(f, "instruction {slot} is a tail call in a local function"),
            Error::Room => write!(f, "no room for the machine code"),
            Error::Far => write!(f, "a jump of the machine code does not reach its target"),
        }
    }
}

impl core::error::Error for Error {}
