//! What the lock-free parts stand on: atomics behind one alias, the thread's rseq area, thread-local words, a futex
//! lock, lists that only grow, padding.
#![cfg_attr(not(any(loom, shuttle)), no_std)]
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

mod arch;
pub mod atomic;
mod futex;
mod list;
mod lock;
mod padded;
pub mod rseq;
pub mod thread;

pub use list::{List, Listed, Next};
pub use lock::{Guard, Lock};
pub use padded::Padded;
