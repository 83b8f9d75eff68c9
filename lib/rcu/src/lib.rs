//! Userspace RCU: readers never wait, updaters wait for readers (Desnoyers 2009, chapter 6).
//!
//! Readers follow pointers inside *read sections*. An updater publishes a new version of what a pointer leads to, waits
//! for a *grace period*, in which all sections that had begun come to their end, and then frees the old version.
//!
//! This crate needs neither an allocator nor threads of its own, so that it runs inside foreign programs. Owning cells,
//! freeing by a thread and data structures are in `mote_reclaim`, which re-exports all of this.
//!
//! # The contract
//! **Publication** (equation 6.2). `A -> D => for all i, j: I_i -> R_j`. When a `dereference` D reads what an `assign`
//! A has published, everything that was done to the object before A (`I_i`) is seen by whatever follows D's pointer
//! (`R_j`).
//!
//! **Grace period** (equation 6.1). `exists a, b: S_a -> M_b => for all i, j: S_i -> D_j`. For a section of statements
//! `S`, and an updater that does `M`, then [`synchronize`], then `D`: if any part of the section runs before any of
//! `M`, all of it runs before all of `D`. The same holds for what is done before [`start_poll`] and after
//! [`Token::is_done`] has said true, and for what is done before [`Callbacks::call`] and in the callback.
//!
//! Updaters among themselves use what they like: a lock, or [`Pointer::compare_exchange`].
//!
//! # Choosing a flavour
//! | flavour | reader | updater | the program must |
//! |---|---|---|---|
//! | [`Qsbr`] | nothing | a fence | register threads that say [`quiescent`](Thread::quiescent) now and then |
//! | [`General`] | two stores, a fence | a fence | register threads |
//! | [`Expedited`] | two stores | membarrier(2) | register threads |
//! | [`Signal`] | two stores | a signal to each thread | register threads, give up a signal |
//! | [`Library`] | two stores, one thread-local load | membarrier(2) | nothing |
//!
//! ```
//! use mote_rcu::{Expedited, Pointer, Thread, synchronize};
//! static LIMIT: Pointer<u32> = Pointer::new(std::ptr::null_mut());
//!
//! let mut first = 7;
//! LIMIT.assign(&mut first);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let thread = Thread::<Expedited>::register()?;
//!         let guard = thread.read();
//!         // SAFETY: what is published stays until a grace period after it was replaced.
//!         assert!(unsafe { LIMIT.dereference(&guard) }.is_none_or(|limit| *limit == 7));
//!         Ok::<_, mote_rcu::RegisterError>(())
//!     });
//!     scope.spawn(|| {
//!         LIMIT.assign(std::ptr::null_mut());
//!         synchronize::<Expedited>();
//!         // Here no thread looks at `first` any more.
//!     });
//! });
//! ```
//!
//! # Progress
//! | operation | class |
//! |---|---|
//! | `read`, dropping a guard, `quiescent`, `offline` | wait-free, a handful of instructions |
//! | a thread's first section of [`Library`], `register` | lock-free, a few system calls |
//! | `dereference`, `assign`, `swap` of a [`Pointer`] | wait-free |
//! | [`start_poll`] | wait-free |
//! | [`Token::is_done`] | non-blocking: it waits for no reader and no updater |
//! | [`Callbacks::call`] | wait-free |
//! | [`synchronize`], [`Callbacks::run`] | block |
//!
//! # What types cannot stop
//! [`synchronize`] inside a section of the same flavour waits for itself: a panic in debug builds, a hang in release
//! builds. A guard that is forgotten holds grace periods up for ever, also when its thread is dead by then. Neither is
//! unsound.
//!
//! # Signals, fork, threads
//! Sections may begin and end in handlers, wherever they interrupt the thread, also in the middle of `read` or of an
//! update. Threads may end without unregistering; in a section, or online (QSBR), only if the program says that it
//! leaks no guards ([`end_guards_of_the_dead`]). The child of a fork works with the one thread that it has, once it has
//! been told: by [`library::after_fork`], or for all flavours by `mote_reclaim`.
#![no_std]
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
#![cfg_attr(loom, allow(unreachable_pub, dead_code, reason = "a model has no flavours, only their core"))]

#[cfg(loom)]
extern crate std;

/// Constructors are constant, except loom's.
macro_rules! const_unless_loom {
    ($(#[$doc:meta])* $vis:vis fn $($rest:tt)*) => {
        $(#[$doc])*
        #[cfg(not(loom))]
        $vis const fn $($rest)*
        $(#[$doc])*
        #[cfg(loom)]
        $vis fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

#[cfg(not(loom))]
pub mod callback;
mod domain;
mod error;
#[cfg(not(loom))]
mod flavor;
#[cfg(not(loom))]
mod grace;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
pub mod library;
mod lock;
#[cfg(not(loom))]
mod mechanisms;
#[cfg(not(loom))]
mod membarrier;
mod phases;
#[cfg(not(loom))]
mod pointer;
mod qsbr;
mod registry;
#[cfg(not(loom))]
mod signals;
mod slot;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
mod tls;
mod wait;

pub use error::RegisterError;
#[cfg(not(loom))]
pub use {
    callback::{Callbacks, Head, Run},
    flavor::{Expedited, Flavor, General, Library, Qsbr, Registered, Signal},
    grace::{Token, start_poll, synchronize},
    guard::Guard,
    pointer::Pointer,
    signals::choose as choose_signal,
    thread::{Thread, end_guards_of_the_dead},
};

#[cfg(loom)]
pub mod model;
