//! One table of eBPF cases for all engines: our interpreter, our JIT, and the running kernel.
//!
//! | module | job |
//! |---|---|
//! | [`case`] | cases, from two kinds of files |
//! | [`ours`] | runs a program on our engines |
//! | [`kernel`] | runs a program in the kernel, by `BPF_PROG_TEST_RUN` |
//! | [`compare`] | runs a program on all, and tells whether they agree |
//! | [`shrink`] | a smaller program that goes wrong in the same way |
//! | [`hex`] | bytes as text |
//! | [`plugin`] | the protocol of the public conformance suite, for the binary `bpf-run` |
#![deny(unsafe_code)]

pub mod case;
pub mod compare;
pub mod hex;
pub mod kernel;
pub mod ours;
pub mod plugin;
pub mod shrink;

use mote_bpf::environment::STEPS_MAX;
use mote_bpf::{Insn, MapShape};

/// What a program is run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The program's instructions, the halves of 16-byte ones included.
    pub insns: Vec<Insn>,
    /// `r1` points to these bytes, `r2` is their number.
    pub memory: Vec<u8>,
    /// Shapes of the maps that its instructions name by their index here.
    pub maps: Vec<MapShape>,
    /// What the first values of its maps are at the start, in their order; zeros where nothing is said.
    pub initial: Vec<Vec<u8>>,
    /// Most instructions that a run may take, by our verifier's count.
    pub steps_max: u32,
}

impl Input {
    /// A program without maps, within the usual bound.
    pub fn new(insns: Vec<Insn>, memory: Vec<u8>) -> Input {
        Input { insns, memory, maps: Vec::new(), initial: Vec::new(), steps_max: STEPS_MAX }
    }

    /// The first value of a map at the start, if it is not zeros.
    fn first_value(&self, map: usize) -> Option<Vec<u8>> {
        let mut value = self.initial.get(map).filter(|value| !value.is_empty())?.clone();
        value.resize(self.maps.get(map)?.value_bytes as usize, 0);
        Some(value)
    }
}

/// What a program leaves when it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The value in `r0`, with which it ended.
    pub r0: u64,
    /// The bytes that `r1` pointed to, as they are after the run.
    pub memory: Vec<u8>,
    /// Of each map that is an array, all values after; nothing of other maps.
    pub arrays: Vec<Vec<u8>>,
}

/// What became of a program on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It ran.
    Ran(Outcome),
    /// The verifier, or the loader, did not take it, for this reason.
    Refused(String),
    /// It ended with a fault.
    Faulted(String),
    /// The engine is not there, for this reason.
    Missing(String),
}

impl Answer {
    /// What it left, if it ran.
    pub fn outcome(&self) -> Option<&Outcome> {
        if let Answer::Ran(outcome) = self { Some(outcome) } else { None }
    }
}
