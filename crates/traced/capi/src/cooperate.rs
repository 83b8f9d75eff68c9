//! Thresholds, the state of threads, and shared words for C: the last part of `mote.h`.

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::sync::atomic::{AtomicU64, Ordering};
use probe::__private::cooperate::{self, Words};
use probe::__private::layout::{READABLE_BYTES, STATE_BYTES, UNSET_NS, threshold_ns, threshold_word};
use probe::Scope;

const EINVAL: c_int = 22;

/// From which duration on a system call of the calling thread is worth recording. 1 when a session will know, else 0.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Bench `kernel`, case `set_threshold/c`.
#[unsafe(no_mangle)]
pub extern "C" fn mote_set_threshold(syscall: c_uint, ns: u64) -> c_int {
    cooperate::set_threshold(syscall, threshold_word(ns)).into()
}

/// What the calling thread has set last, in nanoseconds; `MOTE_DEFAULT` when nothing.
#[unsafe(no_mangle)]
pub extern "C" fn mote_threshold(syscall: c_uint) -> u64 {
    threshold_ns(cooperate::threshold(syscall)).unwrap_or(UNSET_NS)
}

/// As [`mote_set_threshold`], for threads of the process that have none of their own.
#[unsafe(no_mangle)]
pub extern "C" fn mote_set_process_threshold(syscall: c_uint, ns: u64) -> c_int {
    cooperate::set_process_threshold(syscall, threshold_word(ns)).into()
}

/// Wants the kernel's events for so long. 1, or 0 when no session has any.
#[unsafe(no_mangle)]
pub extern "C" fn mote_open_kernel(ns: u64, scope: c_int) -> c_int {
    let scope = match scope {
        0 => Scope::Thread,
        1 => Scope::System,
        2 => Scope::Process,
        _ => return 0,
    };
    cooperate::open_window(scope, ns).into()
}

/// `struct mote_thread_state`: sixteen words, in the order of the layout.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadState([u64; STATE_BYTES / 8]);
const _: () = assert!(READABLE_BYTES > STATE_BYTES);

/// Copies the state of the calling thread. 1, or 0 (and zeros) while no session publishes it.
///
/// # Safety
/// `into` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_thread_state(into: *mut ThreadState) -> c_int {
    let mut copy = ThreadState([0; STATE_BYTES / 8]);
    let state = cooperate::thread_state();
    if let Some(state) = state {
        copy.0.iter_mut().zip(state.all()).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    }
    // SAFETY: `result-writable`.
    unsafe { into.write(copy) };
    state.is_some().into()
}

/// `struct mote_shared_map`
#[repr(C)]
#[derive(Debug)]
pub struct SharedMap {
    words: *const AtomicU64,
    count: usize,
    shared: c_int,
}

/// `struct mote_thread_map`
#[repr(C)]
#[derive(Debug)]
pub struct ThreadMap {
    at: u32,
    count: u32,
    shared: c_int,
}

/// # Safety
/// `name` must be null or NUL-terminated.
unsafe fn share(name: *const c_char, words: usize, each_thread: bool) -> Result<Words, c_int> {
    let count = u32::try_from(words).map_err(|_| EINVAL)?;
    if name.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: `text-ends`.
    let name = unsafe { CStr::from_ptr(name) };
    probe::__private::share(name.to_bytes(), count, each_thread).map_err(|errno| errno.0)
}

/// Opens words by their name. 0, or an error number.
///
/// # Safety
/// `map` must be writable, `name` null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_shared_map_open(
    map: *mut SharedMap,
    name: *const c_char,
    words: usize,
) -> c_int {
    // SAFETY: `text-ends`.
    match unsafe { share(name, words, false) } {
        Ok(words) => {
            let (from, count) = (words.of_all.as_ptr(), words.of_all.len());
            // SAFETY: `result-writable`.
            unsafe { map.write(SharedMap { words: from, count, shared: words.is_shared.into() }) };
            0
        }
        Err(errno) => errno,
    }
}

/// Opens words that each thread has of its own. 0, or an error number.
///
/// # Safety
/// `map` must be writable, `name` null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_thread_map_open(
    map: *mut ThreadMap,
    name: *const c_char,
    words: usize,
) -> c_int {
    // SAFETY: `text-ends`.
    match unsafe { share(name, words, true) } {
        Ok(Words { at, count, is_shared, .. }) => {
            // SAFETY: `result-writable`.
            unsafe { map.write(ThreadMap { at, count, shared: is_shared.into() }) };
            0
        }
        Err(errno) => errno,
    }
}

/// A word of the calling thread; null when there is none of this index, or too many threads have words.
///
/// # Safety
/// `map` must be null or point to a map that was opened.
///
/// # Signal safety
/// Callable from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mote_thread_map_word(map: *const ThreadMap, index: usize) -> *const AtomicU64 {
    // SAFETY: the caller's promise.
    let word = unsafe { map.as_ref() }.and_then(|map| {
        let index = u32::try_from(index).ok().filter(|index| *index < map.count)?;
        cooperate::slot()?.words.get(map.at.checked_add(index)? as usize)
    });
    word.map_or(core::ptr::null(), core::ptr::from_ref)
}
