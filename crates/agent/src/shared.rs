//! What filters share with the session besides the channel: the board, and the pool of speculations.
//!
//! # Invariants
//! agent-I3: `BOARD` is null or points to a leaked shared mapping of at least `board::BYTES`; `POOL` is set before `BOARD`, once, and only
//! read after.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use mote_ring::speculation::Pool;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_wire::board;
use mote_wire::bundle::PoolPlace;

struct Known(UnsafeCell<Option<Pool<'static>>>);
// SAFETY: agent-I3.
unsafe impl Sync for Known {}
static POOL: Known = Known(UnsafeCell::new(None));
static BOARD: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// Maps board and pool. To be called once, with the control path held.
///
/// # Errors
/// `EINVAL` when the pool is not sound; as mmap(2).
pub(crate) fn map(memfd: &Fd, place: PoolPlace) -> Result<()> {
    let end = if place.sizes.slots == 0 { 0 } else { place.offset as usize + place.sizes.bytes() };
    let memory = Mapping::shared(memfd, end.max(board::BYTES))?;
    memory.keep_out_of_core_dumps();
    let at = Mapping::private(size_of::<Mapping>())?.leak().cast::<Mapping>();
    // SAFETY: fresh memory of the right size; pages are aligned for any type.
    unsafe { at.write(memory) };
    // SAFETY: just written, and never freed.
    let memory: &'static Mapping = unsafe { &*at };
    if place.sizes.slots > 0 {
        let pool = Pool::of(memory, place.offset as usize, place.sizes).ok_or(Errno(libc::EINVAL))?;
        // SAFETY: agent-I3: `BOARD` is still null, so nobody reads; the control path is the caller's.
        unsafe { POOL.0.get().write(Some(pool)) };
    }
    // Release pairs with the acquire in `board`.
    BOARD.store(memory.base(), Ordering::Release);
    Ok(())
}

/// The board, once it is mapped.
fn board() -> Option<*mut u8> {
    let board = BOARD.load(Ordering::Acquire);
    (!board.is_null()).then_some(board)
}

/// The pool of speculations, if the session has one.
pub(crate) fn pool() -> Option<Pool<'static>> {
    board()?;
    // SAFETY: agent-I3: it is not written any more.
    unsafe { *POOL.0.get() }
}

/// Adds one to a 64-bit word of the board, if there is one. Answers whether there is.
pub(crate) fn count(offset: usize) -> bool {
    let Some(board) = board() else { return false };
    // SAFETY: agent-I3; offsets are constants of `board`, multiples of 8 and inside of it.
    let word = unsafe { &*board.wrapping_add(offset).cast::<AtomicU64>() };
    word.fetch_add(1, Ordering::Relaxed);
    true
}

/// Adds one to a 32-bit word of the board, if there is one.
pub(crate) fn count_fault(offset: usize) {
    let Some(board) = board() else { return };
    // SAFETY: agent-I3; `board::faults_of` gives multiples of 4 inside of the board.
    let word = unsafe { &*board.wrapping_add(offset).cast::<AtomicU32>() };
    word.fetch_add(1, Ordering::Relaxed);
}
