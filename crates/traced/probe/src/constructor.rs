//! Runs before `main`: joins the sessions that the environment names.

use core::ffi::{c_char, c_int};
use mote_layout::site::SiteRecord;

unsafe extern "C" {
    #[link_name = "__start_mote_sites"]
    static FIRST: SiteRecord;
    #[link_name = "__stop_mote_sites"]
    static END: SiteRecord;
    /// The C library's; not every one passes it to constructors.
    static environ: *const *const c_char;
}

/// Entry in `.init_array`, early, so that constructors of the program can be traced. Every site refers
/// to it, which makes the linker keep it.
#[used]
#[unsafe(link_section = ".init_array.00101")]
pub static CONSTRUCTOR: mote_agent::Constructor = before_main;

unsafe extern "C" fn before_main(
    _count: c_int,
    _arguments: *const *const c_char,
    _environment: *const *const c_char,
) {
    crate::arch::keep_join();
    // SAFETY: the C library has set it before it calls constructors.
    let environment = unsafe { environ };
    // SAFETY: `environ` is a NULL-terminated array of strings; the section symbols are made by the linker for this
    // object.
    unsafe { mote_agent::start(environment, &raw const FIRST, &raw const END) };
}

/// Bounds of this object's section of site records.
pub(crate) fn sites() -> (*const SiteRecord, *const SiteRecord) {
    (&raw const FIRST, &raw const END)
}

/// Joins the session at `place`, for a recorder that has loaded the library. Returns 0, or an error number below 0.
///
/// On a thread that may wait for the dynamic linker.
pub fn join(place: &[u8]) -> i64 {
    let (first, end) = sites();
    // SAFETY: the section symbols are made by the linker for this object.
    unsafe { mote_agent::join(place, first, end) }
}

/// Adds the sites of an object that shares this copy of the library.
///
/// # Safety
/// As `mote_agent::add_object`.
pub unsafe fn add_object(first: *const SiteRecord, end: *const SiteRecord) {
    // SAFETY: the caller's promise.
    unsafe { mote_agent::add_object(first, end) };
}

/// Forgets the sites of such an object.
pub fn remove_object(first: *const SiteRecord) {
    mote_agent::remove_object(first);
}
