//! How a process comes to be in sessions: before `main`, or when a recorder sends a thread of it here.

use crate::environment::Place;
use crate::{control, fork, hold, keep, registry, session};
use mote_layout::site::SiteRecord;
use mote_sys::{Errno, Result};
use mote_wire::How;

/// Joins the sessions at `places`; where that fails the program goes on untraced.
pub(crate) fn at_start(places: impl Iterator<Item = Place>) {
    // Before anything refers to this object: a failed handshake leaves traces, too.
    keep::loaded();
    let _ = join(places, How::Start);
}

/// Joins a session in a process that runs already, on a thread of ours. Returns 0, or an error number below 0.
///
/// # Safety
/// `first..end` must be the object's section of site records.
pub(crate) unsafe fn late(place: &[u8], first: *const SiteRecord, end: *const SiteRecord) -> i64 {
    let Some(place) = Place::parse(place) else { return -i64::from(libc::EINVAL) };
    let guard = hold::control();
    // SAFETY: the caller's promise.
    unsafe { registry::add_sites(first, end) };
    drop(guard);
    // Waits for the dynamic linker; the thread that holds it up may wait for the control path.
    keep::loaded();
    match join(core::iter::once(place), How::Attach) {
        Ok(()) => 0,
        Err(Errno(errno)) => -i64::from(errno),
    }
}

fn join(places: impl Iterator<Item = Place>, how: How) -> Result<()> {
    // A process that forks before it listens must not leave its child without its own links.
    fork::watch();
    control::listen(session::join(places, how)?);
    Ok(())
}
