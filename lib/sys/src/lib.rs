//! The one funnel for system calls and mappings.
//!
//! Raw system calls in own assembly: nothing here touches `errno`, allocates, or needs the C
//! library to be initialised, so all of it may run inside of any process, in a signal
//! handler, and before `main`. Every call returns `Result<_, Errno>`.
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

mod arch;
pub mod bpf;
pub mod extable;
pub mod fd;
pub mod mem;
pub mod membarrier;
pub mod mount;
pub mod perf;
pub mod perf_count;
pub mod perf_ring;
pub mod process;
pub mod ptrace;
pub mod raw;
pub mod signal;
pub mod socket;
pub mod tasks;
pub mod terminal;
pub mod thread;
pub mod time;
pub mod trial;
pub mod tsc;
pub mod uffd;
pub mod user;

pub use raw::Errno;

/// What a system call answers.
pub type Result<T> = core::result::Result<T, Errno>;
