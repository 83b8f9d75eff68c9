//! Making eBPF programs.
//!
//! | module | job |
//! |---|---|
//! | [`builder`] | generated code: labels, jumps of any length, local functions |
//! | [`elf`] | objects that clang compiled |
//! | [`fuzz_entry`] | entry points for a fuzzer |
//! | [`random`] | random programs that verifiers accept, for comparing engines |
//! | [`text`] | text: the syntaxes of the kernel and LLVM, and of ubpf |
//!
//! World **O**.
#![forbid(unsafe_code)]

pub mod builder;
pub mod elf;
pub mod fuzz_entry;
pub mod random;
pub mod text;

pub use builder::{Builder, Label};
