//! Where a recorder sends a thread of this process when it runs already and is in no session (`inject`).
//!
//! The thread waits in a system call, which the recorder has interrupted. One change of its registers leads it to code
//! of ours ([`crate::arch`]), with the nonce of `mote_layout::join` in one of them. What becomes of the call is the
//! kernel's affair: the code puts everything back by itself, and goes to the instruction of the call, or behind it. It
//! needs no tracer, so a recorder may be killed at any moment.

use core::cell::UnsafeCell;
use mote_agent::Interrupted;
use mote_layout::join;
use mote_layout::site::SiteRecord;

/// The words that are shared with the recorder, and a stack.
#[repr(C, align(4096))]
pub(crate) struct Area(UnsafeCell<[u8; join::AREA_BYTES]>);
// SAFETY: it is reached by its address only, as `mote_layout::join` says.
unsafe impl Sync for Area {}
pub(crate) static AREA: Area = Area(UnsafeCell::new([0; join::AREA_BYTES]));

unsafe extern "C" {
    #[link_name = "__start_mote_sites"]
    static FIRST: SiteRecord;
    #[link_name = "__stop_mote_sites"]
    static END: SiteRecord;
}

pub(crate) unsafe extern "C" fn enter_here(frame: *mut Interrupted) {
    let area = AREA.0.get().cast();
    // SAFETY: 1. the code that calls this has taken the memory and blocked signals; 2. the frame is its own; 3. the
    // section symbols are made by the linker for this object.
    unsafe { mote_agent::enter(area, frame, (&raw const FIRST, &raw const END)) };
}
