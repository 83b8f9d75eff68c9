//! What types cannot stop says so: in debug builds a wait for oneself is a panic, not a hang.

use mote_reclaim::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(debug_assertions)]
fn registered<F: Registered>() -> Thread<F> {
    Thread::register().expect("a free slot")
}

/// True when `misuse` panics.
#[cfg(debug_assertions)]
fn panics(misuse: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(misuse)).is_err()
}

#[cfg(debug_assertions)]
fn waiting_inside_a_section_panics<F: Registered>() {
    std::thread::spawn(|| {
        let thread = registered::<F>();
        let guard = thread.read();
        assert!(panics(synchronize::<F>), "synchronize inside a section");
        assert!(panics(barrier::<F>), "barrier inside a section");
        let callbacks = Callbacks::<F>::new();
        let head = Head::new();
        // SAFETY: `head` outlives its callback, which does nothing.
        unsafe { callbacks.call((&head).into(), nothing) };
        assert!(panics(|| _ = callbacks.run()), "running callbacks inside a section");
        drop(guard);
    })
    .join()
    .expect("all of them panic");
}

/// A callback.
///
/// # Safety
/// None.
#[cfg(debug_assertions)]
unsafe fn nothing(_: std::ptr::NonNull<Head>) {}

#[cfg(debug_assertions)]
#[test]
fn waiting_for_oneself_panics_in_debug_builds() {
    waiting_inside_a_section_panics::<General>();
    waiting_inside_a_section_panics::<Expedited>();
    waiting_inside_a_section_panics::<Signal>();
    // A QSBR thread that is online is as if in a section, also without a guard.
    waiting_inside_a_section_panics::<Qsbr>();
    let online = registered::<Qsbr>();
    assert!(panics(synchronize::<Qsbr>), "synchronize of a thread that is online");
    drop(online);
    synchronize::<Qsbr>();
}

/// A barrier in a callback would wait for that callback. It panics in the worker, which goes on; without debug
/// assertions it returns.
#[test]
fn a_barrier_in_a_callback_hangs_nobody() {
    let (tell, told) = std::sync::mpsc::channel();
    defer::<General>(move || {
        let panicked = catch_unwind(AssertUnwindSafe(barrier::<General>)).is_err();
        let _ = tell.send(panicked);
    });
    assert_eq!(told.recv(), Ok(cfg!(debug_assertions)));
    barrier::<General>();
}
