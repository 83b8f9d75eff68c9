//! eBPF programs from text, and from objects that clang compiled.
//!
//! | module | job |
//! |---|---|
//! | [`elf`] | objects that clang compiled |
//! | [`fuzz_entry`] | entry points for a fuzzer |
//! | [`random`] | random programs that verifiers accept, for comparing engines |
//! | [`text`] | text: the syntaxes of the kernel and LLVM, and of ubpf |
#![forbid(unsafe_code)]

pub mod elf;
pub mod fuzz_entry;
pub mod random;
pub mod text;
