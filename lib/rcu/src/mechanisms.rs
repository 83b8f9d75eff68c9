//! How each flavour works: its domain, its threads' words, its sections, its fence.
//!
//! Nothing names this module: code elsewhere goes through the traits of [`crate::flavor`].

use crate::domain::Domain;
use crate::error::RegisterError;
use crate::flavor::{Expedited, Flavor, General, Library, Qsbr, Registered, Signal, sealed};
use crate::library;
use crate::membarrier::{self, FenceByKernel};
use crate::phases::{self, ByReader, ByUpdater, FenceInReader};
use crate::qsbr::{self, QuiescentStates};
use crate::registry::Registry;
use crate::signals::{self, FenceBySignal};
use crate::slot::{GUARDED, Slot};
use crate::tls::thread_word;

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
            static REGISTRY: Registry = Registry::new();
            static DOMAIN: Domain<$protocol> = Domain::new(&REGISTRY);
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

    fn prepare() -> Result<(), RegisterError> {
        membarrier::prepare(Self::domain());
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

    fn prepare() -> Result<(), RegisterError> {
        signals::prepare()
    }
}
marked!(Signal, ByUpdater);

impl sealed::Sealed for Library {}
impl Flavor for Library {
    common!(4, FenceByKernel, library_word);
    type Section = library::Section;

    #[inline(always)]
    unsafe fn exit(section: library::Section) {
        library::end::<GUARDED>(section);
    }

    fn prepare() -> Result<(), RegisterError> {
        membarrier::prepare(Self::domain());
        Ok(())
    }
}
