//! Programs by index: where tail calls go.
//!
//! The map itself, which processes share, holds numbers. What a number means is each process's own affair: a table of
//! slots, into which it put programs that it verified and loaded itself. So another process can choose among them and
//! nothing else.

use crate::Program;
use core::ptr;
use mote_sync::atomic::{AtomicPtr, Ordering};

/// A place for a program that others may go on with.
#[derive(Debug, Default)]
pub struct ProgramSlot(AtomicPtr<Program>);

impl ProgramSlot {
    /// An empty one.
    pub const fn new() -> ProgramSlot {
        ProgramSlot(AtomicPtr::new(ptr::null_mut()))
    }

    /// Puts a program in, or empties the slot.
    ///
    /// # Safety
    /// 1. `program` was verified in the environment of all programs that have a map with this slot (or is as harmless
    ///    there).
    /// 2. It is dropped, after it was replaced here, only when no run is under way that began before (a grace period).
    pub unsafe fn set(&self, program: Option<&Program>) {
        let program = program.map_or(ptr::null_mut(), |program| ptr::from_ref(program).cast_mut());
        self.0.store(program, Ordering::Release);
    }

    /// The program.
    ///
    /// # Safety
    /// The caller runs a program of a map with this slot; the reference is not kept beyond that run.
    pub(crate) unsafe fn get(&self) -> Option<&Program> {
        let program = self.0.load(Ordering::Acquire);
        // SAFETY: null, or alive while the run lasts by promise 2 at `set`.
        unsafe { program.as_ref() }
    }
}
