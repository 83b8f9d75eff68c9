//! Where the time of a record comes from: from the time-stamp counter, or from a record of the same event in another
//! ring, so that an event for two sessions reads the counter once.

use crate::control::Control;
use core::cell::Cell;

/// Where the time of a record comes from.
pub trait Timing: Copy {
    /// Which of the ways.
    #[doc(hidden)]
    const HOW: How;

    /// What the way needs.
    #[doc(hidden)]
    fn moment(self) -> *mut Moment;
}

/// The ways of [`Timing`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// [`Now`].
    Now,
    /// [`Noting`].
    Noting,
    /// [`Noted`].
    Noted,
}

/// The time is read.
#[derive(Clone, Copy, Debug)]
pub struct Now;

/// The time is read, and noted for the next record of the same event.
#[derive(Clone, Copy, Debug)]
pub struct Noting<'m>(pub &'m Cell<Moment>);

/// The time is the one that was noted, if nothing was written since into the ring that the record goes to.
#[derive(Clone, Copy, Debug)]
pub struct Noted<'m>(pub &'m Cell<Moment>);

impl Timing for Now {
    const HOW: How = How::Now;

    #[inline(always)]
    fn moment(self) -> *mut Moment {
        core::ptr::null_mut()
    }
}

impl Timing for Noting<'_> {
    const HOW: How = How::Noting;

    #[inline(always)]
    fn moment(self) -> *mut Moment {
        self.0.as_ptr()
    }
}

impl Timing for Noted<'_> {
    const HOW: How = How::Noted;

    #[inline(always)]
    fn moment(self) -> *mut Moment {
        self.0.as_ptr()
    }
}

/// How far a ring had come, and a time that was read after that: so all that was in the ring is from before.
///
/// One reading of the time serves two records in two rings (`models/rseq_ring.pml`, `SEEN`): a ring whose position is
/// the same has no later record. Rings are never freed, and positions never decrease, so the same words mean that.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub(crate) control: *const Control,
    pub(crate) pos: u64,
    pub(crate) time: u64,
}

impl Moment {
    /// The ring with these control words has come to `pos`; the time comes later.
    pub(crate) fn new(control: *const Control, pos: u64) -> Moment {
        Moment { control, pos, time: 0 }
    }
}
