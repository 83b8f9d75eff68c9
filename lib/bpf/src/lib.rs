//! eBPF: the instruction set, what a program may rely on, and the verifier.
//!
//! | module | job |
//! |---|---|
//! | [`insn`] | an instruction as it is stored: 8 bytes |
//! | [`op`] | an instruction as it is meant; decoding and encoding |
//! | [`map`] | shapes of maps |
//! | [`mod@bucket`] | buckets of log-linear histograms |
//! | [`helper`] | functions that programs may call, with their signatures |
//! | [`disassemble`] | an instruction as text |
//! | [`table`] | arrays that no index can miss |
//! | [`environment`] | what a program finds when it starts |
//! | [`verify`] | shows that a program is harmless, or says why not |
//!
//! Source: RFC 9669, and the v4 additions of Linux 6.6 to 6.14 (`Documentation/bpf/standardization`).
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

pub mod bucket;
pub mod disassemble;
pub mod environment;
pub mod helper;
pub mod insn;
pub mod map;
pub mod op;
pub mod table;
pub mod verify;

pub use environment::{Entry, Environment, Word};
pub use helper::Helper;
pub use insn::{Insn, Reg};
pub use map::{MapKind, MapShape};
pub use op::Op;
