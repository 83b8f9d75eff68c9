//! What an object consists of, for programs that run it.

use mote_bpf::{Insn, MapShape};

/// A program of an object, with all functions that it calls behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the function that it begins with.
    pub name: String,
    /// Name of the section that the function lies in: what the program is for, by convention of libbpf.
    pub section: String,
    /// Instructions in which maps are named by their index in [`super::Object::maps`].
    pub insns: Vec<Insn>,
}

/// A map of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Name of the variable, or of the section.
    pub name: String,
    /// Its shape, which is sound.
    pub shape: MapShape,
    /// What its one value begins with, for sections of variables; else empty, as for `.bss`, which is zeros.
    pub initial: Vec<u8>,
}
