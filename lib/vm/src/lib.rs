//! Runs verified eBPF inside of any process.
//!
//! | module | job |
//! |---|---|
//! | [`setup`] | what a program is loaded with |
//! | [`program`] | a program, ready to run |
//! | [`entry`] | how the engines are entered, by callers and by tail calls |
//! | [`interpret`] | the interpreter |
//! | [`code`] | machine code of the crate `jit`, and its memory |
//! | [`fault`] | memory that cannot be read ends the program, not the process |
//! | [`map`] | maps, in memory that processes share |
//! | [`placed`] | a map together with its mapping |
//! | [`helper`] | the functions that programs call |
//! | [`workspace`] | memory for the verifier |
#![cfg_attr(not(loom), no_std)]
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
#![cfg_attr(loom, allow(dead_code))]

#[cfg(all(test, not(loom)))]
extern crate std;

#[cfg(not(loom))]
mod arch;
#[cfg(not(loom))]
pub mod code;
#[cfg(not(loom))]
pub mod entry;
#[cfg(not(loom))]
pub mod fault;
#[cfg(not(loom))]
pub mod helper;
#[cfg(not(loom))]
mod interpret;
pub mod map;
#[cfg(not(loom))]
pub mod placed;
#[cfg(not(loom))]
pub mod program;
#[cfg(not(loom))]
pub mod setup;
#[cfg(not(loom))]
mod touch;
#[cfg(not(loom))]
pub mod workspace;

#[cfg(not(loom))]
pub use {
    entry::{Engine, Returned},
    fault::{Fault, watch_clock},
    helper::{FaultingFn, HelperFn, note_process},
    map::{Consumer, Cursor, Map, MapError, Next, ProgramSlot, Update},
    program::Program,
    setup::{Choice, LoadError, Setup},
    workspace::{WorkspaceGuard, workspace},
};

/// Copies bytes from where they may not be readable, for helpers of the application.
///
/// # Errors
/// [`Fault::Memory`]; some bytes are copied then.
///
/// # Safety
/// `bytes` bytes from `to` on are writable. A program was loaded before, or a fault is one.
#[cfg(not(loom))]
pub unsafe fn copy(to: *mut u8, from: u64, bytes: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { fault::copy(to, from, bytes) }
}

/// Bytes of a text before its NUL, wherever it lies.
///
/// # Errors
/// [`Fault::Memory`].
///
/// # Safety
/// It reads up to the first NUL, or the first page that cannot be read. A program was loaded before, or a fault is one.
#[cfg(not(loom))]
pub unsafe fn text_len(at: *const u8) -> Result<usize, Fault> {
    // SAFETY: the caller's promise.
    unsafe { helper::until_nul(at as u64) }
}
