//! What a flavour can do, under one name for all.

use mote_reclaim::*;

/// A flavour under torture.
pub trait Subject: Flavor {
    const NAME: &'static str;
    /// A thread that reads.
    type Reader;

    fn register() -> Self::Reader;
    /// Runs `before`, then `body` in a section.
    fn section(reader: &mut Self::Reader, before: impl FnOnce(), body: impl FnOnce(&Guard<'_, Self>));
    /// Runs `body` in a section that others have begun and ended in.
    fn nested_section(reader: &mut Self::Reader, body: impl FnOnce(&Guard<'_, Self>));
    /// Begins a section that never ends, but by the thread's death.
    fn die_inside(reader: Self::Reader);
    /// Waits for a grace period; the thread is registered.
    fn wait(reader: &mut Self::Reader);
    /// Runs `body` in a section of a signal handler, if the thread can read at all.
    fn in_handler(body: impl FnOnce(&Guard<'_, Self>));
}

impl Subject for Library {
    const NAME: &'static str = "library";
    type Reader = ();

    fn register() {}

    fn section((): &mut (), before: impl FnOnce(), body: impl FnOnce(&Guard<'_, Library>)) {
        before();
        body(&library::read());
    }

    fn nested_section((): &mut (), body: impl FnOnce(&Guard<'_, Library>)) {
        let outer = library::read();
        let inner = library::read();
        drop(outer);
        drop(library::read());
        body(&inner);
    }

    fn die_inside((): ()) {
        std::mem::forget(library::read());
    }

    fn wait((): &mut ()) {
        synchronize::<Library>();
    }

    fn in_handler(body: impl FnOnce(&Guard<'_, Library>)) {
        body(&library::read());
    }
}

macro_rules! registered {
    ($flavor:ty, $name:literal) => {
        impl Subject for $flavor {
            const NAME: &'static str = $name;
            type Reader = Thread<$flavor>;

            fn register() -> Thread<$flavor> {
                Thread::register().expect("room for a reader")
            }

            fn section(
                reader: &mut Thread<$flavor>,
                before: impl FnOnce(),
                body: impl FnOnce(&Guard<'_, $flavor>),
            ) {
                before();
                body(&reader.read());
            }

            fn nested_section(reader: &mut Thread<$flavor>, body: impl FnOnce(&Guard<'_, $flavor>)) {
                let outer = reader.read();
                let inner = reader.read();
                drop(outer);
                drop(reader.read());
                body(&inner);
            }

            fn die_inside(reader: Thread<$flavor>) {
                std::mem::forget(reader.read());
                std::mem::forget(reader);
            }

            fn wait(_: &mut Thread<$flavor>) {
                synchronize::<$flavor>();
            }

            fn in_handler(body: impl FnOnce(&Guard<'_, $flavor>)) {
                if let Some(guard) = <$flavor>::try_read() {
                    body(&guard);
                }
            }
        }
    };
}
registered!(General, "general");
registered!(Expedited, "expedited");
registered!(Signal, "signal");

impl Subject for Qsbr {
    const NAME: &'static str = "qsbr";
    type Reader = Thread<Qsbr>;

    fn register() -> Thread<Qsbr> {
        Thread::register().expect("room for a reader")
    }

    fn section(reader: &mut Thread<Qsbr>, before: impl FnOnce(), body: impl FnOnce(&Guard<'_, Qsbr>)) {
        reader.offline(before);
        body(&reader.read());
    }

    fn nested_section(reader: &mut Thread<Qsbr>, body: impl FnOnce(&Guard<'_, Qsbr>)) {
        let outer = reader.read();
        drop(reader.read());
        body(&outer);
        drop(outer);
        reader.quiescent();
    }

    fn die_inside(reader: Thread<Qsbr>) {
        std::mem::forget(reader);
    }

    fn wait(reader: &mut Thread<Qsbr>) {
        reader.synchronize();
    }

    fn in_handler(body: impl FnOnce(&Guard<'_, Qsbr>)) {
        // SAFETY: dropped before the handler returns.
        if let Some(guard) = unsafe { Qsbr::try_read() } {
            body(&guard);
        }
    }
}
