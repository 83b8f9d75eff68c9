//! Switches of C programs.

use core::ffi::c_int;
use mote_layout::site::SiteRecord;
use private::BareSwitch;
use probe::__private as private;

/// A switch, and how it is to be turned: `struct mote_flip`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flip {
    which: *const BareSwitch,
    on: c_int,
}

/// Turns switches, all of them or none. Returns 0 or an error number.
///
/// # Safety
/// `first..end` must be the section of site records of the calling object; `count` elements at `list` must be readable,
/// and lead to switches of `MOTE_SWITCH`, which live as long as the object.
///
/// # Signal safety
/// Not for handlers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_flip_(
    first: *const SiteRecord,
    end: *const SiteRecord,
    list: *const Flip,
    count: usize,
) -> c_int {
    let wanted = (0..count).filter_map(|index| {
        // SAFETY: the caller's promise.
        let flip = unsafe { list.wrapping_add(index).read() };
        // SAFETY: as above; the library forgets the object's sites before it is unmapped.
        Some((unsafe { flip.which.as_ref() }?, flip.on != 0))
    });
    // SAFETY: as above.
    match unsafe { private::flip_bare((first, end), wanted) } {
        Ok(()) => 0,
        Err(why) => why.errno(),
    }
}
