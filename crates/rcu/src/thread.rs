//! The registration of a thread as a reader.

use crate::flavor::{Expedited, Flavor, General, Qsbr, Registered, Signal};
use crate::guard::Guard;
use crate::slot::Slot;
use crate::{RegisterError, qsbr};
use core::marker::PhantomData;
use mote_sys::{process, signal};

/// The calling thread, registered as a reader of flavour `F` for as long as this lives.
///
/// A thread that ends without dropping it is noticed by the next updater that waits for it, and its slot is used again.
#[derive(Debug)]
pub struct Thread<F: Registered> {
    slot: &'static Slot,
    flavor: PhantomData<fn() -> F>,
    /// It is of this thread only.
    here: PhantomData<*mut ()>,
}

/// The time in which a QSBR thread reads nothing; ends when it is dropped.
#[derive(Debug)]
#[must_use = "the thread is online again when this is dropped"]
pub struct Offline<'t> {
    slot: &'static Slot,
    thread: PhantomData<&'t mut Thread<Qsbr>>,
}

/// Takes a slot for the calling thread and notes it in its thread-local word.
pub(crate) fn claim<F: Flavor>() -> Result<&'static Slot, RegisterError> {
    F::prepare()?;
    // A handler that reads for the first time in the middle of this would take a second slot.
    let mask = signal::block(!0);
    let claimed = match F::slot() {
        Some(slot) => Ok(slot),
        None => F::domain().registry.claim(process::pid(), process::tid()).ok_or(RegisterError::NoRoom),
    };
    if let Ok(slot) = claimed {
        // SAFETY: this thread has just claimed it, or had it before.
        unsafe { F::set_slot(Some(slot)) };
    }
    signal::set_mask(mask);
    claimed
}

impl<F: Registered> Thread<F> {
    /// Registers the calling thread. A QSBR thread is online from here on.
    ///
    /// # Errors
    /// It is registered already; there is no room; the signal flavour's signal is in use.
    ///
    /// # Cost
    /// A few system calls, and a look at one word for each 64 threads; sometimes 64 system calls more, to find the slots of the dead.
    pub fn register() -> Result<Thread<F>, RegisterError> {
        if F::slot().is_some() {
            return Err(RegisterError::Already);
        }
        let slot = claim::<F>()?;
        // SAFETY: this thread has just claimed it.
        unsafe { F::come(slot) };
        Ok(Thread { slot, flavor: PhantomData, here: PhantomData })
    }

    /// Begins a read section.
    ///
    /// # Cost
    /// Wait-free; bench `rcu`, cases `read/...`. QSBR: nothing at all.
    #[inline(always)]
    pub fn read(&self) -> Guard<'_, F> {
        // SAFETY: the slot is this thread's, which `self` never leaves.
        Guard::of(unsafe { F::enter(self.slot) })
    }
}

impl<F: Registered> Drop for Thread<F> {
    fn drop(&mut self) {
        // SAFETY: the slot is this thread's; guards borrow `self`.
        unsafe { F::leave(self.slot) };
        if self.slot.is_reading() {
            // A guard of `try_read` lives on: the slot stays until the thread is dead.
            return;
        }
        // In this order: a handler that finds the slot in the thread's word may use it.
        // SAFETY: from here on the thread has none.
        unsafe { F::set_slot(None) };
        F::domain().registry.release(self.slot);
    }
}

impl Thread<Qsbr> {
    /// Says that the thread is in no read section at this moment, which `&mut` proves.
    ///
    /// # Cost
    /// Two loads, and a store when a grace period has begun since the last time. Wait-free.
    #[inline]
    pub fn quiescent(&mut self) {
        qsbr::quiescent(self.slot, &Qsbr::domain().gp);
    }

    /// Says that the thread reads nothing for a while: before it sleeps or blocks.
    #[inline]
    pub fn offline(&mut self) -> Offline<'_> {
        qsbr::offline(self.slot);
        Offline { slot: self.slot, thread: PhantomData }
    }

    /// Waits for a grace period, with this thread offline. See [`synchronize`](crate::synchronize).
    pub fn synchronize(&mut self) {
        let slot = self.slot;
        let _offline = self.offline();
        Qsbr::domain().synchronize(Some(slot));
    }
}

impl Drop for Offline<'_> {
    fn drop(&mut self) {
        qsbr::online(self.slot, &Qsbr::domain().gp);
    }
}

/// The readers of code that has no [`Thread`] at hand, such as a signal handler.
macro_rules! reads_anywhere {
    ($($flavor:ty),*) => {$(
        impl $flavor {
            /// Begins a read section of the calling thread; `None` when it is not registered.
            ///
            /// # Signal safety
            /// Callable from a handler, wherever it interrupts the thread.
            #[inline(always)]
            pub fn try_read() -> Option<Guard<'static, $flavor>> {
                // SAFETY: `slot` gives the calling thread's.
                Self::slot().map(|slot| Guard::of(unsafe { Self::enter(slot) }))
            }
        }
    )*};
}
reads_anywhere!(General, Expedited, Signal);

impl Qsbr {
    /// Begins a read section of the calling thread; `None` when it is not registered, or offline.
    ///
    /// # Safety
    /// The guard is dropped before the thread says that it is quiescent, goes offline or unregisters: in a handler, before
    /// it returns.
    #[inline(always)]
    pub unsafe fn try_read() -> Option<Guard<'static, Qsbr>> {
        Self::is_reading().then(|| Guard::of(()))
    }
}
