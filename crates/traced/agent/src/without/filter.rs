//! No filter.

pub(crate) use super::clock::watch_clock;
use core::ffi::CStr;
pub(crate) use mote_rcu::library::{read, read_again};

/// What a filter runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "no filter runs")]
pub(crate) enum Engine {
    Jit,
    Interpreter,
}

/// Notes the process's id for filters.
pub(crate) fn note_process(_pid: u32) {}

/// A filter, of which there is none: no gate leads to one, and no destination has one.
#[derive(Debug)]
pub(crate) enum Filter {}

impl Filter {
    /// Whether events at which it has a fault are to be kept.
    pub(crate) fn keeps_on_fault(&self) -> bool {
        match *self {}
    }

    /// What it runs on.
    pub(crate) fn engine(&self) -> Engine {
        match *self {}
    }

    /// Whether the program would drop the event at once.
    ///
    /// # Safety
    /// None; as with filters.
    pub(crate) unsafe fn drops_at_once(&self, _: *const u64) -> bool {
        match *self {}
    }

    /// What the program answers for a context.
    ///
    /// # Safety
    /// None; as with filters.
    pub(crate) unsafe fn run(&self, _: *const u64) -> Result<u64, core::convert::Infallible> {
        match *self {}
    }

    /// Whether an event at which there was a fault is to be kept, and can be.
    ///
    /// # Safety
    /// None; as with filters.
    pub(crate) unsafe fn can_keep(&self, _: *const u64) -> bool {
        match *self {}
    }
}

/// Bytes of a text before its NUL. No filter was ever loaded.
///
/// # Safety
/// `text` must be readable, and no other thread changes it meanwhile.
pub(crate) unsafe fn text_len(text: *const u8) -> Option<usize> {
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(text.cast()) }.count_bytes())
}
