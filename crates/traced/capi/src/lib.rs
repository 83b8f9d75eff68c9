//! `libmote.so` and `libmote.a`: what `include/mote.h` calls.
//!
//! The header makes the same event sites, states and descriptions as the Rust macros; the functions here lead to the
//! same probe. Every object (program or shared library) that carries events announces them by
//! [`mote_add_object`] in a constructor that the header gives it, and takes them back when it is unloaded.
//!
//! Build: `cargo build --profile library -p mote-capi`, then `target/library/libmote.so` and `libmote.a`.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]

mod arch;
pub mod cooperate;
#[cfg(feature = "functions")]
pub mod functions;
pub mod probes;
pub mod switches;

use arch::keep_constructor;
use core::ffi::c_int;
use mote_layout::site::SiteRecord;
use mote_ring::{Direct, Fragment};
use probe::__private as private;
use probe::Event;

/// Records an event whose packed fields are `len` bytes at `fields`, if it is on.
///
/// # Safety
/// `event` must be an event of the header; `len` bytes at `fields`, rounded up to whole 8-byte words, must be readable.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Bench `event_cost`, case `two_ints/c`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_record(event: *const Event, fields: *const u8, len: usize) {
    // SAFETY: `event-of-header`.
    let event = unsafe { &*event };
    // SAFETY: `payload-readable`.
    event.noting_here(|| unsafe { probe::record(event, fields, len) });
}

/// Records an event whose packed fields, 16 bytes at most, are the first `len` bytes of `first` and then `second`;
/// `direct` is what the event's state says of the shortest way, not 0.
///
/// # Safety
/// `direct` must be what an event of the header had in `direct` when it was on, and `len` at most 16.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Bench `event_cost`, case `two_ints/c`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_record_packed(first: u64, second: u64, direct: u64, len: usize) {
    // SAFETY: the caller's promise.
    let to = unsafe { Direct::of_some(direct) };
    // SAFETY: the caller's promise.
    unsafe { private::record_packed(first, second, to, len) };
}

/// As [`mote_record`], for an event that [`mote_judge`] has let through with this verdict.
///
/// # Safety
/// As [`mote_record`].
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_record_judged(
    event: *const Event,
    fields: *const u8,
    len: usize,
    verdict: u64,
) {
    // SAFETY: `event-of-header`.
    let event = unsafe { &*event };
    // SAFETY: `payload-readable`.
    event.noting_here(|| unsafe { private::record_judged(event, fields, len, verdict) });
}

/// Asks the event's filter about an occurrence whose context is `words`. 0: it is not to be recorded.
///
/// # Safety
/// `event` must be an event of the header; `words` must point to the words of its description (`mote_layout::context`).
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Bench `filter`, case `int_false/c`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_judge(event: *const Event, words: *const u64) -> u64 {
    // SAFETY: `event-of-header`.
    let event = unsafe { &*event };
    // SAFETY: the caller's promise.
    event.noting_here(|| unsafe { event.judge(words) })
}

/// Bytes of a text before its NUL; `usize::MAX` when it cannot be read up to there. For events that have a filter:
/// others trust the program.
///
/// # Safety
/// No other thread changes the text meanwhile. While no filter was ever loaded, `text` must be readable.
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_text_len(text: *const u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { private::text_len(text) }.unwrap_or(usize::MAX)
}

/// Counts an event that cannot be judged because a text cannot be read. Returns as [`mote_judge`]: 0, and it is lost,
/// or it is kept, with something else in place of the text.
///
/// # Safety
/// `event` must be an event of the header.
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_fault(event: *const Event) -> u64 {
    // SAFETY: `event-of-header`.
    let event = unsafe { &*event };
    event.fault()
}

/// Records an event whose packed fields, `len` bytes together, lie in `count` fragments, if it is on, where `verdict`
/// says (1: in the ring).
///
/// # Safety
/// `event` must be an event of the header; `count` fragments at `list` must be readable, and what they point to.
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_record_fragments(
    event: *const Event,
    list: *const Fragment,
    count: usize,
    len: usize,
    verdict: u64,
) {
    // SAFETY: `event-of-header`.
    let event = unsafe { &*event };
    // SAFETY: `payload-readable`.
    let list = unsafe { core::slice::from_raw_parts(list, count) };
    // SAFETY: `payload-readable`, and `lengths-do-not-wrap`.
    event.noting_here(|| unsafe { private::record_fragments(event, list, len, verdict) });
}

/// Announces the event sites of an object: its section `mote_sites`. Once per object is enough; more does no harm.
///
/// # Safety
/// `first..end` must be the section of the calling object, which stays mapped until [`mote_remove_object`].
///
/// # Cost
/// Some 100 ns in a process that is not traced; else one exchange of messages with the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_add_object(first: *const SiteRecord, end: *const SiteRecord) {
    keep_constructor();
    // SAFETY: `own-section`.
    unsafe { private::add_object(first, end) };
}

/// Forgets an object's sites: it is about to be unloaded.
#[unsafe(no_mangle)]
pub extern "C" fn mote_remove_object(first: *const SiteRecord) {
    private::remove_object(first);
}

/// 1 when the process is part of a session, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn mote_is_traced() -> c_int {
    c_int::from(probe::is_traced())
}

/// A bug of ours must not end the program: the thread that met it sleeps.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        let _ = mote_sys::time::sleep(u64::from(u32::MAX));
    }
}
