//! Tells unwinders the way through a stub: exceptions, threads that are cancelled, and backtraces come by calls whose
//! return address is one.
//!
//! The unwinder of GCC (`libgcc_s`), which C++, Rust and the C library use, takes in such descriptions at run time
//! (`__register_frame`). One describes all stubs: the frame of a stub is empty, and the address that it returns to lies
//! in its slot, whose address follows from the stub's own.

use crate::arch;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use mote_sys::mem::Mapping;
use mote_sys::weak_symbol;

type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Register = unsafe extern "C" fn(*const c_void);

static DONE: AtomicBool = AtomicBool::new(false);

/// Describes the stubs of the area, once. False when the process has no unwinder that could be told.
///
/// On a thread of ours: it may wait for the dynamic linker.
pub(crate) fn describe(area: usize, bytes: usize) -> bool {
    if DONE.load(Ordering::Acquire) {
        return true;
    }
    let (dlopen, dlsym) = (weak_symbol!("dlopen"), weak_symbol!("dlsym"));
    if dlopen.is_null() || dlsym.is_null() {
        return false;
    }
    // SAFETY: the symbol is the C library's `dlopen`.
    let dlopen = unsafe { core::mem::transmute::<*const (), Dlopen>(dlopen) };
    // SAFETY: the symbol is the C library's `dlsym`.
    let dlsym = unsafe { core::mem::transmute::<*const (), Dlsym>(dlsym) };
    // SAFETY: a name with a NUL. The library stays: what throws an exception loads it, too.
    let library = unsafe { dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return false;
    }
    // SAFETY: a handle of `dlopen`, and a name with a NUL.
    let register = unsafe { dlsym(library, c"__register_frame".as_ptr()) };
    let Ok(memory) = Mapping::private(arch::FRAMES_BYTES) else { return false };
    if register.is_null() {
        return false;
    }
    let frames = memory.leak();
    // SAFETY: fresh memory of this size.
    unsafe { frames.cast::<[u8; arch::FRAMES_BYTES]>().write(arch::frames(area, bytes)) };
    // SAFETY: libgcc's `__register_frame`.
    let register = unsafe { core::mem::transmute::<*mut c_void, Register>(register) };
    // SAFETY: descriptions that end with a zero, and stay.
    unsafe { register(frames.cast()) };
    DONE.store(true, Ordering::Release);
    true
}
