//! The registration of a thread as a reader.

use crate::error::RegisterError;
use crate::flavor::{Expedited, Flavor, General, Qsbr, Registered, Signal};
use crate::guard::Guard;
use crate::qsbr;
use crate::slot::Slot;
use core::marker::PhantomData;
use mote_sys::{process, signal};

/// The calling thread, registered as a reader of flavour `F` for as long as this lives.
///
/// A thread that ends outside of sections (QSBR: offline) without dropping it is noticed by the next updater that waits
/// for it, and its slot is used again. One that ends inside of a section holds grace periods up: see
/// [`end_guards_of_the_dead`].
#[derive(Debug)]
pub struct Thread<F: Registered> {
    slot: &'static Slot,
    flavor: PhantomData<fn() -> F>,
    /// It is of this thread only.
    here: PhantomData<*mut ()>,
}

/// The time in which a QSBR thread reads nothing; ends when it is dropped. No other thread is given one: forgotten, it
/// would leave a thread offline that has its handle back.
struct Offline<'t>(&'t mut Thread<Qsbr>);

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
    /// A few system calls, and a look at one word for each 64 threads; sometimes 64 system calls more, to find the
    /// slots of the dead.
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

    /// Does `work` offline: grace periods do not wait for the thread while it sleeps or blocks. Online again
    /// afterwards, also when `work` panics.
    ///
    /// ```
    /// use mote_rcu::{Qsbr, Thread};
    /// let mut thread = Thread::<Qsbr>::register()?;
    /// let line = thread.offline(|| "a line that a person has typed");
    /// # Ok::<_, mote_rcu::RegisterError>(())
    /// ```
    ///
    /// There is nothing to read with meanwhile:
    /// ```compile_fail,E0502
    /// # use mote_rcu::{Qsbr, Thread};
    /// # let mut thread = Thread::<Qsbr>::register()?;
    /// thread.offline(|| thread.read());
    /// # Ok::<_, mote_rcu::RegisterError>(())
    /// ```
    ///
    /// # Cost
    /// Two stores, a load and a fence; wait-free.
    #[inline]
    pub fn offline<T>(&mut self, work: impl FnOnce() -> T) -> T {
        qsbr::offline(self.slot);
        let _online_again = Offline(self);
        work()
    }

    /// Waits for a grace period, with this thread offline. See [`synchronize`](crate::synchronize).
    pub fn synchronize(&mut self) {
        let slot = self.slot;
        self.offline(|| Qsbr::domain().synchronize(Some(slot)));
    }
}

impl Drop for Offline<'_> {
    fn drop(&mut self) {
        qsbr::online(self.0.slot, &Qsbr::domain().gp);
    }
}

/// From here on grace periods of `F` do not wait for threads that died in a section, or online ([`Qsbr`]) without
/// unregistering.
///
/// By default they do, for ever, as for any guard that is forgotten: a guard that is leaked in safe code may have given
/// other threads references without end (`Box::leak`). Threads that die outside of sections hold nothing up in any
/// case, nor do sections that were begun without a guard ([`library::enter`](crate::library::enter)).
///
/// ```
/// use mote_rcu::{Qsbr, Thread, end_guards_of_the_dead, synchronize};
/// // SAFETY: nothing here leaks a guard with which a pointer was dereferenced.
/// unsafe { end_guards_of_the_dead::<Qsbr>() };
/// let died_online = || std::mem::forget(Thread::<Qsbr>::register());
/// std::thread::spawn(died_online).join().expect("an end without a word");
/// synchronize::<Qsbr>();
/// ```
///
/// # Safety
/// What was dereferenced with a guard of `F` is not used any more, by any thread, once the guard's thread is dead.
pub unsafe fn end_guards_of_the_dead<F: Flavor>() {
    F::domain().registry.end_guards_of_the_dead();
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
    /// The guard is dropped before the thread says that it is quiescent, goes offline or unregisters: in a handler,
    /// before it returns.
    #[inline(always)]
    pub unsafe fn try_read() -> Option<Guard<'static, Qsbr>> {
        Self::is_reading().then(|| Guard::of(()))
    }
}
