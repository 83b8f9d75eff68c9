//! Keeps this object loaded once it is traced.
//!
//! After that a thread of ours waits in its code, its SIGTRAP handler is installed and rings know its addresses:
//! `dlclose` must not unmap it. The dynamic linker is asked to never unload it (`RTLD_NODELETE`). Its functions are
//! weak, so that fully static programs link without it; nothing is unloaded there.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use mote_sys::weak_symbol;

type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
type Dladdr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;

/// Makes the object that holds this code stay for good. The main program stays anyway.
pub(crate) fn loaded() {
    let Some((dlopen, dladdr)) = functions() else { return };
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let here = loaded as fn() as *const c_void;
    // SAFETY: `dladdr` fills the struct, or answers 0 and leaves it zeroed.
    if unsafe { dladdr(here, info.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: zeroed at first; all zero bytes are a valid Dl_info.
    let info = unsafe { info.assume_init() };
    if !info.dli_fname.is_null() {
        // SAFETY: the name is the dynamic linker's own, NUL-terminated; RTLD_NOLOAD loads nothing new. For the main
        // program it finds nothing, which does no harm.
        unsafe { dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_NODELETE | libc::RTLD_LAZY) };
    }
}

fn functions() -> Option<(Dlopen, Dladdr)> {
    let (open, addr) = (weak_symbol!("dlopen"), weak_symbol!("dladdr"));
    if open.is_null() || addr.is_null() {
        return None;
    }
    // SAFETY: the symbol is the C library's `dlopen`.
    let open = unsafe { core::mem::transmute::<*const (), Dlopen>(open) };
    // SAFETY: the symbol is the C library's `dladdr`.
    let addr = unsafe { core::mem::transmute::<*const (), Dladdr>(addr) };
    Some((open, addr))
}
