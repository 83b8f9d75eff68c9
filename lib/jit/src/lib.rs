//! eBPF to machine bytes, in a caller's buffer.
//!
//! | module | job |
//! |---|---|
//! | `plan` | what the machine code of an instruction depends on: jump targets, functions, live registers |
//! | `fuse` | instructions that become one: a load and its compare, a move and its addition... |
//! | `layout` | the walk over the functions: places, short jumps, frames |
//! | [`x86_64`], [`aarch64`] | the emitters, file by file the same; [`native`] is this machine's |
//!
//! The machine code relies on what the verifier has shown. From instructions that were not verified it is still made
//! without a panic; whether it is harmless is then the caller's promise.
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod arch;
mod error;
mod fuse;
mod layout;
mod plan;
mod sink;
#[cfg(test)]
mod testing;

pub use arch::{aarch64, native, x86_64};
pub use error::Error;
pub use plan::{functions, workspace_words};

use mote_bpf::Insn;

/// A function of the program, as the verifier found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Slot of its first instruction.
    pub start: u32,
    /// Bytes of stack that it reaches below `r10`; 0 when it does not use the stack.
    pub stack_bytes: u32,
}

/// Most functions of a program.
pub const FUNCTIONS_MAX: usize = 256;

/// Where a map lies in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapPlace {
    /// What a reference to the map loads: helpers are given it.
    pub descriptor: u64,
    /// Address of its first value.
    pub values: u64,
}

/// Where a helper's machine code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperPlace {
    /// Address of its first instruction; it is called by the C convention of the processor.
    pub address: u64,
    /// It answers two words, the second of which ends the program with a fault when it is not 0.
    pub faults: bool,
}

/// What a program is made of.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The whole program as verified, with all functions.
    pub insns: &'a [Insn],
    /// Its functions in the order of their places; the first is the program itself.
    pub functions: &'a [Function],
    /// Its maps, by their index.
    pub maps: &'a [MapPlace],
    /// Finds helpers by number. That of [`mote_bpf::helper::TAIL_CALL`] takes the number of tail calls so far as a
    /// fourth argument, and returns an entry (or 0) and the third argument for it.
    pub helper: &'a dyn Fn(u32) -> Option<HelperPlace>,
    /// Address at which the code will run.
    pub base: u64,
}

/// How a function's frame is undone, for a handler that finds a thread in the middle of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Where it is entered, as an offset into the code.
    pub entry: u32,
    /// First byte behind the code that builds the frame.
    pub start: u32,
    /// First byte behind the body. What follows, up to the next entry, only ends the function.
    pub end: u32,
    /// Bytes between the frame pointer (or return address) and the registers saved below it.
    pub gap: u16,
    /// Which registers it saved; the meaning of the bits is the emitter's.
    pub saved: u16,
}

impl Frame {
    /// Whether the body of the function lies around this offset of the code.
    pub const fn covers(&self, offset: u32) -> bool {
        self.start <= offset && offset < self.end
    }
}

/// How much was written to the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Bytes of code; it is entered at the first.
    pub bytes: usize,
    /// Frames written, one for each function.
    pub frames: usize,
}
