//! Programs by index: where tail calls go.
//!
//! The map itself, which processes share, holds numbers. What a number means is each process's own affair: a table of
//! slots, into which it put programs that it verified and loaded itself. So another process can choose among them and
//! nothing else.

use crate::entry::Target;
use core::ptr;
use mote_sync::atomic::{AtomicPtr, Ordering};

/// A place for a program that others may go on with.
#[derive(Debug, Default)]
pub struct ProgramSlot(AtomicPtr<Target>);

impl ProgramSlot {
    /// A slot without a program: a tail call to it fails, and the caller goes on.
    pub const fn new() -> ProgramSlot {
        ProgramSlot(AtomicPtr::new(ptr::null_mut()))
    }

    /// Replaces what the slot leads to; [`ProgramSlot::set`] is for users.
    pub(crate) fn store(&self, target: Option<&Target>) {
        let target = target.map_or(ptr::null_mut(), |target| ptr::from_ref(target).cast_mut());
        self.0.store(target, Ordering::Release);
    }

    /// Where the program of this slot is entered.
    ///
    /// # Safety
    /// The caller runs a program of a map with this slot; the reference is not kept beyond that run.
    pub(crate) unsafe fn get(&self) -> Option<&Target> {
        let target = self.0.load(Ordering::Acquire);
        // SAFETY: null, or alive while the run lasts by promise 2 at `set`.
        unsafe { target.as_ref() }
    }
}
