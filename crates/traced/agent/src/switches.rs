//! Switches of the program's own: immediate values (Desnoyers 2009, sections 8.2 and 8.3) for its own branches.
//!
//! A switch is a word, and sites that are a NOP while it is off and a jump while it is on. They lie in the same section
//! as those of events, and are patched in the same way, when the program says so: no session is needed, and no thread
//! of ours.
//!
//! # Parties
//! Threads that go through sites, or read the word; threads that flip, one at a time, with the control path held.
//! # State
//! Between two flips all sites are as the word says. In a flip sites change first, then the words: sites that test the
//! word instead of being patched follow when all others are changed. A flip that fails leaves all as it was.

use crate::change::{self, ChangeError, Sites};
use crate::registry::{self, Range};
use core::sync::atomic::{AtomicU32, Ordering};
use mote_patch::Edit;

/// State of a switch, which its sites lead to. `mote.h` has the same.
#[repr(C)]
#[derive(Debug)]
pub struct Switch {
    on: AtomicU32,
}

impl Switch {
    /// A switch that is off.
    pub const fn new() -> Switch {
        Switch { on: AtomicU32::new(0) }
    }

    /// Whether it is on: a load, where a site would be a NOP or a jump.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) != 0
    }
}

impl Default for Switch {
    fn default() -> Switch {
        Switch::new()
    }
}

/// Turns switches on and off, all of them or none. What is later in the list goes before what is earlier.
///
/// When it returns, every pass through a site that starts afterwards, on any thread, goes the new way. While it runs,
/// passes go the old way or the new one, each site by itself.
///
/// Waits for a session that is being joined at this moment, up to two seconds; and as long for threads that a
/// breakpoint would kill.
///
/// # Errors
/// Sites cannot be changed here, or not now. All are as they were.
///
/// # Safety
/// `own` must be the bounds of the section of site records of the caller's object, which stays mapped until it is
/// removed.
///
/// # Signal safety
/// Not for handlers, nor for probes.
pub unsafe fn flip(
    own: Sites,
    wanted: impl Iterator<Item = (&'static Switch, bool)> + Clone,
) -> Result<(), ChangeError> {
    let attempt = |_: &mut _| {
        // SAFETY: the caller's promise.
        unsafe { change::know(own) }?;
        change::apply(&mut edits(wanted.clone()))?;
        wanted.clone().for_each(|(switch, on)| switch.on.store(u32::from(on), Ordering::Release));
        Ok(())
    };
    let take_back = |_: &mut _| {
        let before = wanted.clone().map(|(switch, _)| (switch, switch.is_on()));
        // What can be changed in one direction can be changed in the other.
        let _ = change::apply(&mut edits(before));
    };
    change::persist(attempt, take_back)
}

/// What is to be done to sites so that these switches are on or off.
fn edits(wanted: impl Iterator<Item = (&'static Switch, bool)> + Clone) -> impl Iterator<Item = Edit> {
    registry::objects().flat_map(Range::switch_sites).filter_map(move |site| {
        let is_its =
            |(switch, _): &(&'static Switch, bool)| core::ptr::from_ref(*switch).addr() == site.switch();
        let (_, on) = wanted.clone().filter(is_its).last()?;
        site.edit(on)
    })
}
