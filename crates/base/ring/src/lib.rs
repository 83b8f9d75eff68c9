//! The ring: shared memory into which the threads of one CPU write records, and from which one
//! consumer in another process reads them.
//!
//! A channel is one sealed memfd that holds the rings of all CPUs, shared by all the processes of a
//! session ([`geometry`] says what lies where). Two kinds of writer never share a ring:
//!
//! - [`rseq_writer`]: a record is one restartable sequence that ends with the store of `pos`. Nothing
//!   is ever reserved without being committed, so a thread that is stopped or killed leaves a whole
//!   ring.
//! - [`atomic_writer`]: reserve and commit with compare-and-swap (Desnoyers 2009, chapter 5), for
//!   threads that have no rseq registration.
//!
//! [`speculation`] holds records of which it is not known yet whether they are wanted.
//!
//! [`Writer`] is what a traced process has of a channel; [`reader`] is the consumer's side, which
//! trusts nothing that it finds in the shared memory.
//!
//! The ring knows neither events nor CTF: a record is a tag, a time, a thread and bytes.
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

#[cfg(feature = "shared")]
extern crate alloc;

mod arch;
pub mod atomic_writer;
pub mod control;
pub mod direct;
mod either;
pub mod geometry;
#[cfg(any(loom, shuttle))]
pub mod model;
pub mod reader;
pub mod rseq_writer;
mod sequence;
pub mod speculation;
pub mod threads;
pub mod timing;
pub mod writer;
mod writes;

pub use direct::Direct;
pub use geometry::{Clock, Geometry, Mode};
pub use writer::{Fragment, Outcome, Record, Writer};
