//! Grace periods of a flavour, for updaters.

use crate::domain::Ticket;
use crate::flavor::Flavor;
use core::fmt;
use core::marker::PhantomData;

/// Waits until all read sections of flavour `F` that have begun are over.
///
/// The grace-period guarantee (equation 6.1): if any part of a section runs before anything that the caller did before
/// this call, all of that section runs before anything that the caller does after it. Callers at the same time share
/// the work.
///
/// Never call it inside a read section, or from a QSBR thread that is online (use
/// [`Thread::synchronize`](crate::Thread::synchronize)): it would wait for its own caller for ever. Not for signal
/// handlers either.
///
/// # Panics
/// In debug builds when the calling thread is in a read section, or online.
///
/// # Cost
/// Blocks on readers and on other updaters. Without readers: bench `rcu`, cases `sync/...`.
pub fn synchronize<F: Flavor>() {
    debug_assert!(!F::is_reading(), "synchronize inside a read section waits for itself");
    F::domain().synchronize(F::slot());
}

/// Begins a grace period of flavour `F` without waiting for it.
///
/// # Cost
/// A fence and a load; wait-free.
///
/// # Signal safety
/// Callable from a handler and inside a read section.
pub fn start_poll<F: Flavor>() -> Token<F> {
    Token { ticket: F::domain().ticket(), flavor: PhantomData }
}

/// A grace period that was begun by [`start_poll`].
pub struct Token<F> {
    ticket: Ticket,
    flavor: PhantomData<fn() -> F>,
}

impl<F: Flavor> Token<F> {
    /// True once all read sections that had begun at [`start_poll`] are over; then [`synchronize`]'s guarantee holds
    /// for what was done before `start_poll` and what is done after this.
    ///
    /// Each call moves the grace period on as far as it goes without waiting, so that polling alone gets it done.
    ///
    /// # Cost
    /// One load when it is over; else the flavour's fence for all threads at its beginning, and a look at each thread.
    /// Non-blocking.
    ///
    /// # Signal safety
    /// Callable from a handler and inside a read section.
    pub fn is_done(&self) -> bool {
        F::domain().poll(self.ticket, F::slot())
    }
}

impl<F> Clone for Token<F> {
    fn clone(&self) -> Token<F> {
        *self
    }
}

impl<F> Copy for Token<F> {}

impl<F> fmt::Debug for Token<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ticket.fmt(f)
    }
}
