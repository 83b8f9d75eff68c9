//! Probes in functions of the program: what a recorder calls that has loaded this library into it. Not in `mote.h`.

use core::ffi::{CStr, c_char, c_long};
use probe::__private as private;

/// Takes in the plan in the file `path` (`mote_layout::functions`). Returns how many functions it has, or an error
/// number below 0.
///
/// # Safety
/// `path` must be a text with a NUL; the plan must be true of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_load_functions(path: *const c_char) -> c_long {
    // SAFETY: `text-ends`.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: the caller's promise.
    match unsafe { mote_hook::load(path) } {
        Ok(count) => count as c_long,
        Err(why) => -c_long::from(why.0),
    }
}

/// Joins the session at `place`, as the environment would name it. Returns 0, or an error number below 0.
///
/// # Safety
/// `place` must be a text with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_join_(place: *const c_char) -> c_long {
    // SAFETY: `text-ends`.
    private::join(unsafe { CStr::from_ptr(place) }.to_bytes())
}
