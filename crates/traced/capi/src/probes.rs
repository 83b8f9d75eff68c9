//! Probes of C programs: functions that they connect to their declared events.

use core::ffi::{c_int, c_void};
use mote_layout::site::SiteRecord;
use mote_rcu::library::{self, Section};
use private::{NewProbe, Probes};
use probe::__private as private;
use probe::{Connection, Event};

/// Begins a section in which probes stay: what [`mote_probes_leave`] ends.
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub extern "C" fn mote_probes_enter() -> usize {
    library::enter().into_raw()
}

/// Ends such a section.
///
/// # Safety
/// `section` was begun by the calling thread and has not been ended.
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_probes_leave(section: usize) {
    if let Some(section) = Section::from_raw(section) {
        // SAFETY: the caller's promise.
        unsafe { library::exit(section) };
    }
}

/// Connects a function to an event. Returns the connection; null, and an error in `errno`, when that cannot be done.
///
/// # Safety
/// `first..end` must be the section of site records of the calling object, `event` and `probes` of one of its declared
/// events. `call` may be called by any thread as the event's calls do it, with `data`, until it was disconnected and
/// [`mote_wait_for_probes`] has returned 1.
///
/// # Signal safety
/// Not for handlers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_connect_(
    first: *const SiteRecord,
    end: *const SiteRecord,
    event: *const Event,
    probes: *const Probes,
    call: *const (),
    data: *mut c_void,
) -> *mut () {
    // SAFETY: `event-of-header`.
    let event = unsafe { &*event };
    // SAFETY: those of the event: `event-of-header`.
    let probes = unsafe { &*probes };
    let new = NewProbe { call, data: data.cast(), moved: None };
    // SAFETY: the caller's promise.
    match unsafe { private::connect_bare((first, end), event, probes, new) } {
        Ok(connection) => connection.into_raw(),
        Err(why) => {
            // SAFETY: of the calling thread.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: as above.
            unsafe { errno.write(why.errno()) };
            core::ptr::null_mut()
        }
    }
}

/// Takes a probe out.
///
/// # Safety
/// `connection` is null, or of [`mote_connect_`] and not used any more.
///
/// # Signal safety
/// Not for handlers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_disconnect(connection: *mut ()) {
    // SAFETY: the caller's promise.
    if let Some(connection) = unsafe { Connection::from_raw(connection) } {
        connection.disconnect();
    }
}

/// Waits until no thread is in a probe that was disconnected before. 1; or 0 at once inside of a probe.
///
/// # Signal safety
/// Not for handlers.
#[unsafe(no_mangle)]
pub extern "C" fn mote_wait_for_probes() -> c_int {
    c_int::from(probe::wait_for_probes())
}
