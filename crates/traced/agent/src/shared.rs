//! What filters share with their session besides the channel: the board, and the pool of speculations.
//!
//! # Invariants
//! `board-mapped`: a session's `board` is null or points to a shared mapping of at least `board::BYTES`; its `memory`
//! and `pool` are set before that, and dropped a grace period after it was set to null. Probes look at them inside of
//! read sections.

use crate::channel::Channel;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use mote_layout::Cause;
use mote_layout::context::{DROP, SPECULATE};
use mote_ring::speculation::Pool;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_wire::bundle::PoolPlace;
use mote_wire::{SESSIONS_MAX, board};

/// The shared memory of one session.
struct Shared {
    board: AtomicPtr<u8>,
    rest: UnsafeCell<Rest>,
}

struct Rest {
    /// Points into `memory`.
    pool: Option<Pool<'static>>,
    memory: Option<Mapping>,
}

// SAFETY: `board-mapped`.
unsafe impl Sync for Shared {}
static ALL: [Shared; SESSIONS_MAX] = [const {
    Shared {
        board: AtomicPtr::new(core::ptr::null_mut()),
        rest: UnsafeCell::new(Rest { pool: None, memory: None }),
    }
}; SESSIONS_MAX];

/// Maps board and pool of a session. To be called once for it, with the control path held.
///
/// # Errors
/// `EINVAL` when the pool is not sound; as mmap(2).
pub(crate) fn map(session: usize, memfd: &Fd, place: PoolPlace) -> Result<()> {
    let shared = ALL.get(session).ok_or(Errno(libc::EINVAL))?;
    let end = if place.sizes.slots == 0 { 0 } else { place.offset as usize + place.sizes.bytes() };
    let memory = Mapping::shared(memfd, end.max(board::BYTES))?;
    memory.keep_out_of_core_dumps();
    let board = memory.base();
    // SAFETY: `board-mapped`: `board` is null, so no thread reads; the control path is the caller's.
    let rest = unsafe { &mut *shared.rest.get() };
    // Both stay where they are until `unmap`.
    let memory: *const Mapping = rest.memory.insert(memory);
    if place.sizes.slots > 0 {
        // SAFETY: the mapping stays longer than the pool (`unmap`).
        let memory: &'static Mapping = unsafe { &*memory };
        rest.pool = Some(Pool::of(memory, place.offset as usize, place.sizes).ok_or(Errno(libc::EINVAL))?);
    }
    // Release pairs with the acquire in `board`.
    shared.board.store(board, Ordering::Release);
    Ok(())
}

/// Hides a session's memory. [`unmap`] comes a grace period later.
pub(crate) fn hide(session: usize) {
    if let Some(shared) = ALL.get(session) {
        shared.board.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// Unmaps a session's memory, with the control path held.
///
/// # Safety
/// It has been hidden for a grace period.
pub(crate) unsafe fn unmap(session: usize) {
    if let Some(shared) = ALL.get(session) {
        // SAFETY: `board-mapped`: no thread reads any more; the control path is the caller's.
        let rest = unsafe { &mut *shared.rest.get() };
        rest.pool = None;
        rest.memory = None;
    }
}

/// Puts zeros in the place of a session's memory, with the control path held: it is another process's.
///
/// # Errors
/// `ENOMEM`; it stays as it was then.
pub(crate) fn forsake(session: usize) -> Result<()> {
    // SAFETY: as there.
    with_memory(session, |base, len| unsafe { Mapping::replace_by_zeros(base, len) })
}

/// Maps another file in the place of a session's memory, with the control path held.
///
/// # Errors
/// As mmap(2); it stays as it was then.
pub(crate) fn go_over(session: usize, memfd: &Fd) -> Result<()> {
    // SAFETY: as there.
    with_memory(session, |base, len| unsafe { Mapping::replace(base, memfd, 0, len) })
}

/// Puts something else in the place of a session's memory, if it has some: of board and pool there are references to
/// atomics only, and what others write there is not believed.
fn with_memory(session: usize, replace: impl FnOnce(*mut u8, usize) -> Result<()>) -> Result<()> {
    let shared = ALL.get(session).ok_or(Errno(libc::EINVAL))?;
    // SAFETY: `board-mapped`: with the control path held no other code changes it; probes read it, too.
    let rest = unsafe { &*shared.rest.get() };
    rest.memory.as_ref().map_or(Ok(()), |memory| replace(memory.base(), memory.len()))
}

/// The session's board, once it is mapped.
fn board(session: usize) -> Option<*mut u8> {
    let board = ALL.get(session)?.board.load(Ordering::Acquire);
    (!board.is_null()).then_some(board)
}

/// The pool of speculations, if the session has one. In a read section, which the result must not outlive.
pub(crate) fn pool(session: usize) -> Option<Pool<'static>> {
    board(session)?;
    // SAFETY: `board-mapped`: it is not written any more while this section lasts.
    unsafe { (*ALL.get(session)?.rest.get()).pool }
}

/// Adds one to a 64-bit word of the board, if there is one. Returns whether there is. In a read section.
pub(crate) fn count(session: usize, offset: usize) -> bool {
    let Some(board) = board(session) else { return false };
    // SAFETY: `board-mapped`; offsets are constants of `board`, multiples of 8 and inside of it.
    let word = unsafe { &*board.wrapping_add(offset).cast::<AtomicU64>() };
    word.fetch_add(1, Ordering::Relaxed);
    true
}

/// Adds one to a 32-bit word of the board, if there is one.
fn count_fault(session: usize, offset: usize) {
    let Some(board) = board(session) else { return };
    // SAFETY: `board-mapped`; `board::faults_of` gives multiples of 4 inside of the board.
    let word = unsafe { &*board.wrapping_add(offset).cast::<AtomicU32>() };
    word.fetch_add(1, Ordering::Relaxed);
}

/// Counts a fault of an event's filter and says what becomes of the event. In a read section.
#[cold]
#[inline(never)]
pub(crate) fn faulted(channel: &Channel, id: u16, keep: bool) -> u64 {
    let session = channel.session;
    count_fault(session, board::faults_of(id));
    if keep {
        count(session, board::FAULTS_KEPT);
        return SPECULATE;
    }
    count(session, board::FAULTS_DROPPED);
    channel.writer.lose(Cause::FilterFault);
    DROP
}
