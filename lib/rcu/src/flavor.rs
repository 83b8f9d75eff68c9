//! The five flavours: who pays for the order between a reader and an updater.
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

use crate::domain::{Domain, Protocol};
use crate::phases::{self, ByReader, ByUpdater, FenceByKernel, FenceInReader};
use crate::qsbr::{self, QuiescentStates};
use crate::signals::{self, FenceBySignal};
use crate::slot::{GUARDED, Slot};
use crate::tls::thread_word;

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
    fn prepare() -> Result<(), crate::RegisterError> {
        Ok(())
    }
    /// True when a grace period cannot end before the calling thread has done something: it is in a read section, or online.
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

mod sealed {
    pub trait Sealed {}
}

thread_word!(qsbr_word, "qsbr");
thread_word!(general_word, "general");
thread_word!(expedited_word, "expedited");
thread_word!(signal_word, "signal");
thread_word!(library_word, "library");

/// What all flavours have alike.
macro_rules! common {
    ($number:literal, $protocol:ty, $word:ident) => {
        const NUMBER: usize = $number;
        type Protocol = $protocol;

        #[inline(always)]
        fn domain() -> &'static Domain<$protocol> {
            static DOMAIN: Domain<$protocol> = Domain::new();
            &DOMAIN
        }

        #[inline(always)]
        fn slot() -> Option<&'static Slot> {
            let slot: *const Slot = core::ptr::with_exposed_provenance($word::get());
            // SAFETY: the word is 0 or what `set_slot` has stored: a slot, which lives as long as the process.
            unsafe { slot.as_ref() }
        }

        unsafe fn set_slot(slot: Option<&'static Slot>) {
            $word::set(slot.map_or(0, |slot| core::ptr::from_ref(slot).expose_provenance()));
        }
    };
}

impl sealed::Sealed for Qsbr {}
impl Flavor for Qsbr {
    common!(0, QuiescentStates, qsbr_word);
    type Section = ();

    #[inline(always)]
    unsafe fn exit((): ()) {}
}

impl Registered for Qsbr {
    #[inline(always)]
    unsafe fn enter(_: &'static Slot) {}

    unsafe fn come(slot: &Slot) {
        qsbr::online(slot, &Self::domain().gp);
    }

    unsafe fn leave(slot: &Slot) {
        qsbr::offline(slot);
    }
}

/// The rest of a flavour whose registered readers mark their sections.
macro_rules! marked {
    ($flavor:ty, $order:ty) => {
        impl Registered for $flavor {
            #[inline(always)]
            unsafe fn enter(slot: &'static Slot) -> &'static Slot {
                phases::enter::<$order, GUARDED>(slot, &Self::domain().gp);
                slot
            }
        }
    };
}

impl sealed::Sealed for General {}
impl Flavor for General {
    common!(1, FenceInReader, general_word);
    type Section = &'static Slot;

    #[inline(always)]
    unsafe fn exit(slot: &'static Slot) {
        phases::exit::<GUARDED>(slot);
    }
}
marked!(General, ByReader);

impl sealed::Sealed for Expedited {}
impl Flavor for Expedited {
    common!(2, FenceByKernel, expedited_word);
    type Section = &'static Slot;

    #[inline(always)]
    unsafe fn exit(slot: &'static Slot) {
        phases::exit::<GUARDED>(slot);
    }

    fn prepare() -> Result<(), crate::RegisterError> {
        crate::membarrier::prepare(Self::domain());
        Ok(())
    }
}
marked!(Expedited, ByUpdater);

impl sealed::Sealed for Signal {}
impl Flavor for Signal {
    common!(3, FenceBySignal, signal_word);
    type Section = &'static Slot;

    #[inline(always)]
    unsafe fn exit(slot: &'static Slot) {
        phases::exit::<GUARDED>(slot);
    }

    fn prepare() -> Result<(), crate::RegisterError> {
        signals::prepare()
    }
}
marked!(Signal, ByUpdater);

impl sealed::Sealed for Library {}
impl Flavor for Library {
    common!(4, FenceByKernel, library_word);
    type Section = crate::library::Section;

    #[inline(always)]
    unsafe fn exit(section: crate::library::Section) {
        crate::library::end::<GUARDED>(section);
    }

    fn prepare() -> Result<(), crate::RegisterError> {
        crate::membarrier::prepare(Self::domain());
        Ok(())
    }
}
