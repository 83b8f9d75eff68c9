//! Probes of the program's own, connected to events that [`tracepoint!`](crate::tracepoint) has declared.

use crate::constructor::sites;
use core::alloc::Layout;
use core::mem::ManuallyDrop;
use mote_agent::{ChangeError, Connection, Event, Moved, NewProbe, Probes};

/// Connects a probe to an event: what [`tracepoint!`](crate::tracepoint) makes of `NAME.connect(...)`.
///
/// # Errors
/// As `mote_agent::connect`; the probe is dropped.
///
/// # Safety
/// `probes` are those of `event`. `call` is a function that [`Probes::each`] of them is used with, and may be called by
/// any thread with the address of a `F` that lives for the call.
pub unsafe fn connect<F: Send + Sync + 'static>(
    event: &'static Event,
    probes: &'static Probes,
    probe: F,
    call: *const (),
) -> Result<Connection, ChangeError> {
    let mut probe = ManuallyDrop::new(probe);
    let moved = Moved { layout: Layout::new::<F>(), end: end::<F> };
    let new = NewProbe { call, data: (&raw mut probe).cast(), moved: Some(moved) };
    // SAFETY:
    // 1. the section is that of this object, which stays mapped while its code runs, as its statics do;
    // 2. the caller's promise; `F` is `Send` and `Sync`, and lies there until it is moved.
    let connected = unsafe { mote_agent::connect(sites(), event, probes, new) };
    if connected.is_err() {
        // SAFETY: it was not moved.
        unsafe { ManuallyDrop::drop(&mut probe) };
    }
    connected
}

/// Drops a probe.
///
/// # Safety
/// A `F` is there, which no thread uses any more.
unsafe fn end<F>(probe: *mut ()) {
    // SAFETY: the caller's promise.
    unsafe { probe.cast::<F>().drop_in_place() };
}
