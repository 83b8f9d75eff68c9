//! The five flavours: which side pays for the order between a reader and an updater.
//!
//! | flavour | a reader pays | an updater pays | asks of the program |
//! |---|---|---|---|
//! | [`Qsbr`] | nothing | a fence | each registered thread says [`quiescent`](crate::Thread::quiescent) now and then |
//! | [`General`] | two stores and a fence | a fence | registration |
//! | [`Expedited`] | two stores | membarrier(2) | registration |
//! | [`Signal`] | two stores | a signal to each thread | registration, one signal number |
//! | [`Library`] | two stores, a thread-local load | membarrier(2) | nothing |
//!
//! Each flavour is one set of readers and grace periods for the whole program (for each object that links this crate
//! statically): a guard of one flavour does not protect from grace periods of another.
//!
//! Here is what flavours are, for code that serves any of them; how each one works is in [`crate::mechanisms`].

use crate::domain::{Domain, Protocol};
use crate::error::RegisterError;
use crate::slot::Slot;

/// Readers whose threads say when they are in no section; reading costs nothing. Thesis, section 6.4.2.
#[derive(Debug)]
pub enum Qsbr {}
/// Readers that fence; works everywhere. Thesis, section 6.4.3.
#[derive(Debug)]
pub enum General {}
/// Readers without fences: the updater has the kernel fence all threads (membarrier(2)).
#[derive(Debug)]
pub enum Expedited {}
/// Readers without fences: the updater sends each a signal. Thesis, section 6.4.4; for kernels without membarrier(2).
#[derive(Debug)]
pub enum Signal {}
/// As [`Expedited`], but threads need no registration: what a library inside a foreign program uses.
#[derive(Debug)]
pub enum Library {}

/// A flavour of RCU: [`Qsbr`], [`General`], [`Expedited`], [`Signal`] or [`Library`].
pub trait Flavor: sealed::Sealed + Sized + 'static {
    #[doc(hidden)]
    type Protocol: Protocol;
    /// What ends a section.
    #[doc(hidden)]
    type Section: Copy + core::fmt::Debug;
    #[doc(hidden)]
    fn domain() -> &'static Domain<Self::Protocol>;
    /// Its place among the flavours.
    #[doc(hidden)]
    const NUMBER: usize;
    /// The calling thread's slot, if it has one.
    #[doc(hidden)]
    fn slot() -> Option<&'static Slot>;
    /// # Safety
    /// `slot` is the calling thread's, or it has none.
    #[doc(hidden)]
    unsafe fn set_slot(slot: Option<&'static Slot>);
    /// Ends a section.
    ///
    /// # Safety
    /// The calling thread has begun `section` and not ended it.
    #[doc(hidden)]
    unsafe fn exit(section: Self::Section);
    /// To be done before the first reader of a thread.
    #[doc(hidden)]
    fn prepare() -> Result<(), RegisterError> {
        Ok(())
    }
    /// True when a grace period cannot end before the calling thread has done something: it is in a read section, or
    /// online.
    #[doc(hidden)]
    fn is_reading() -> bool {
        Self::slot().is_some_and(Slot::is_reading)
    }
}

/// A flavour whose threads register: all but [`Library`]. See [`Thread`](crate::Thread).
pub trait Registered: Flavor {
    /// Begins a section.
    ///
    /// # Safety
    /// `slot` is the calling thread's.
    #[doc(hidden)]
    unsafe fn enter(slot: &'static Slot) -> Self::Section;
    /// The thread registers.
    ///
    /// # Safety
    /// `slot` is the calling thread's.
    #[doc(hidden)]
    unsafe fn come(_slot: &Slot) {}
    /// The thread is about to unregister.
    ///
    /// # Safety
    /// As for `come`; the thread is in no section that it began by its handle.
    #[doc(hidden)]
    unsafe fn leave(_slot: &Slot) {}
}

pub(crate) mod sealed {
    pub trait Sealed {}
}
