//! Has a library deal out quotas ([`crate::Quota`]), in the thread that listens.

use crate::registry::{Function, Site};
use crate::{hold, session};
use core::sync::atomic::{AtomicPtr, Ordering};

/// What deals out quotas: called with the control path held; returns in how many milliseconds it is to be called again,
/// and never, if that is `None`.
pub type Dealer = fn(&mut Dealing<'_>) -> Option<i32>;

/// How functions are switched for a dealer.
pub struct Dealing<'d>(&'d mut dyn FnMut(&mut dyn Iterator<Item = Site>));

impl Dealing<'_> {
    /// Has probes where functions are wanted and not paused, and nowhere else.
    pub fn switch(&mut self, functions: &mut dyn Iterator<Item = &'static Function>) {
        (self.0)(&mut functions.map(Site::Function));
    }
}

static DEALER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Has `dealer` called by the thread that listens, from now on.
///
/// It must return a number for as long as it has something to do while the process is in a session.
pub fn deal_by(dealer: Dealer) {
    DEALER.store(dealer as *mut (), Ordering::Release);
}

/// Does something while no dealer works.
pub fn without_dealer<R>(work: impl FnOnce() -> R) -> R {
    let _held = hold::control();
    work()
}

/// Lets the dealer work; returns when it is to be called again, and whether sites could not be switched for now.
pub(crate) fn deal() -> (Option<i32>, bool) {
    let dealer = DEALER.load(Ordering::Acquire);
    if dealer.is_null() {
        return (None, false);
    }
    // SAFETY: `deal_by` stores nothing but such functions.
    let dealer = unsafe { core::mem::transmute::<*mut (), Dealer>(dealer) };
    let mut guard = hold::control();
    let mut is_blocked = false;
    let again = dealer(&mut Dealing(&mut |sites| is_blocked |= session::switch(&mut guard, sites)));
    drop(guard);
    (again, is_blocked)
}
