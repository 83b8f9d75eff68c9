//! RCU for programs that have an allocator and threads: [`mote_rcu`], and what frees for you.
//!
//! - [`Rcu`]: a value that readers see whole while it is replaced; safe.
//! - [`defer`], [`call`]: work after a grace period, by a thread of this crate; [`barrier`] waits for it.
//! - [`Queue`], [`Stack`], [`List`], [`HashMap`]: the data structures that people take liburcu for, with owned values.
//!
//! Everything of [`mote_rcu`] is here as well, with its contract, its flavours and its progress classes. This is a
//! crate of its own because `mote_rcu` runs inside foreign programs, without an allocator, and cargo builds a crate
//! with all features that any crate of the workspace asks for.
//!
//! ```
//! use mote_reclaim::{Expedited, Rcu, Thread};
//! let table: Rcu<Vec<u32>, Expedited> = Rcu::new(vec![1]);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let thread = Thread::<Expedited>::register()?;
//!         let guard = thread.read();
//!         assert_eq!(table.dereference(&guard)[0], 1);
//!         Ok::<_, mote_reclaim::RegisterError>(())
//!     });
//!     scope.spawn(|| {
//!         let old = table.swap(vec![1, 2]);
//!         assert_eq!(old.synchronize(), [1]);
//!     });
//! });
//! ```
//!
//! # Progress
//! | operation | class |
//! |---|---|
//! | [`Rcu::dereference`] | wait-free |
//! | [`Rcu::assign`], [`Rcu::swap`] | as the allocator and [`call`] |
//! | [`Rcu::update`] | lock-free, as the allocator and [`call`] |
//! | [`call`], [`defer`] | wait-free below the bound ([`set_bound`]); above it they wait, unless inside a section |
//! | [`barrier`] | blocks |
//! | [`Queue`] | enqueue wait-free, dequeue lock-free |
//! | [`Stack`] | lock-free |
//! | [`List`] | readers wait-free, updaters block each other |
//! | [`HashMap`] | lookup wait-free, updates lock-free |
//!
//! # Fork
//! The child of fork(3) works, with the one thread that it has: handlers of pthread_atfork(3), registered before
//! `main`, make all flavours and all queues of callbacks right again. A raw clone(2) without the C library does not
//! work.
//!
//! `unsafe` allowed: see `docs/soundness/reclaim.md`.
#![cfg(not(loom))]

mod cell;
mod fork;
mod worker;

pub use cell::{Rcu, Retired};
pub use mote_rcu::*;
use worker::free_later;
pub use worker::{barrier, call, defer, pending, reclaim_per_cpu, set_bound, start_reclaimer};

pub mod hash;
mod list;
mod queue;
mod stack;
mod thread;

pub use hash::HashMap;
pub use list::{Element, Iter as ListIter, List, Updater};
pub use queue::{Dequeued, Queue};
pub use stack::{Stack, Taken};
