//! What filters share with their session besides the channel: the counters, and the pool of speculations.
//!
//! # Invariants
//! `counters-mapped`: a session's `counters` is null or points to a shared mapping of at least
//! `filter_counters::BYTES`; its `memory` and `pool` are set before that, and dropped a grace period after it was set
//! to null. Probes look at them inside of read sections.

use crate::channel::Channel;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use mote_layout::context::{DROP, SPECULATE};
use mote_layout::packet_requests::{FREE, PacketRequests, READY, SLOTS, TAKEN};
use mote_loss::Cause;
use mote_ring::speculation::Pool;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_wire::bundle::PoolPlace;
use mote_wire::{SESSIONS_MAX, filter_counters};

/// The shared memory of one session.
struct Shared {
    counters: AtomicPtr<u8>,
    rest: UnsafeCell<Rest>,
}

struct Rest {
    /// Points into `memory`.
    pool: Option<Pool<'static>>,
    memory: Option<Mapping>,
}

// SAFETY: `counters-mapped`.
unsafe impl Sync for Shared {}
static ALL: [Shared; SESSIONS_MAX] = [const {
    Shared {
        counters: AtomicPtr::new(core::ptr::null_mut()),
        rest: UnsafeCell::new(Rest { pool: None, memory: None }),
    }
}; SESSIONS_MAX];

/// Maps counters and pool of a session. To be called once for it, with the control path held.
///
/// # Errors
/// `EINVAL` when the pool is not sound; as mmap(2).
pub(crate) fn map(session: usize, memfd: &Fd, place: PoolPlace) -> Result<()> {
    let shared = ALL.get(session).ok_or(Errno(libc::EINVAL))?;
    let end = if place.sizes.slots == 0 { 0 } else { place.offset as usize + place.sizes.bytes() };
    let memory = Mapping::shared(memfd, end.max(filter_counters::BYTES))?;
    memory.keep_out_of_core_dumps();
    let counters = memory.base();
    // SAFETY: `counters-mapped`: `counters` is null, so no thread reads; the control path is the caller's.
    let rest = unsafe { &mut *shared.rest.get() };
    // Both stay where they are until `unmap`.
    let memory: *const Mapping = rest.memory.insert(memory);
    if place.sizes.slots > 0 {
        // SAFETY: the mapping stays longer than the pool (`unmap`).
        let memory: &'static Mapping = unsafe { &*memory };
        rest.pool = Some(Pool::of(memory, place.offset as usize, place.sizes).ok_or(Errno(libc::EINVAL))?);
    }
    // Release pairs with the acquire in `counters`.
    shared.counters.store(counters, Ordering::Release);
    Ok(())
}

/// Hides a session's memory. [`unmap`] comes a grace period later.
pub(crate) fn hide(session: usize) {
    if let Some(shared) = ALL.get(session) {
        shared.counters.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// Unmaps a session's memory, with the control path held.
///
/// # Safety
/// It has been hidden for a grace period.
pub(crate) unsafe fn unmap(session: usize) {
    if let Some(shared) = ALL.get(session) {
        // SAFETY: `counters-mapped`: no thread reads any more; the control path is the caller's.
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

/// Puts something else in the place of a session's memory, if it has some: of counters and pool there are references to
/// atomics only, and what others write there is not believed.
fn with_memory(session: usize, replace: impl FnOnce(*mut u8, usize) -> Result<()>) -> Result<()> {
    let shared = ALL.get(session).ok_or(Errno(libc::EINVAL))?;
    // SAFETY: `counters-mapped`: with the control path held no other code changes it; probes read it, too.
    let rest = unsafe { &*shared.rest.get() };
    rest.memory.as_ref().map_or(Ok(()), |memory| replace(memory.base(), memory.len()))
}

/// The session's counters, once it is mapped.
fn counters(session: usize) -> Option<*mut u8> {
    let counters = ALL.get(session)?.counters.load(Ordering::Acquire);
    (!counters.is_null()).then_some(counters)
}

/// The pool of speculations, if the session has one. In a read section, which the result must not outlive.
pub(crate) fn pool(session: usize) -> Option<Pool<'static>> {
    counters(session)?;
    // SAFETY: `counters-mapped`: it is not written any more while this section lasts.
    unsafe { (*ALL.get(session)?.rest.get()).pool }
}

/// Adds one to a 64-bit word of the counters, if there is one. Returns whether there is. In a read section.
pub(crate) fn count(session: usize, offset: usize) -> bool {
    let Some(counters) = counters(session) else { return false };
    // SAFETY: `counters-mapped`; offsets are constants of `counters`, multiples of 8 and inside of it.
    let word = unsafe { &*counters.wrapping_add(offset).cast::<AtomicU64>() };
    word.fetch_add(1, Ordering::Relaxed);
    true
}

/// Packets of the hardware trace that are wanted; what the words mean: [`mote_layout::packet_requests::PacketRequest`].
pub(crate) struct Wanted {
    pub(crate) duration: u64,
    pub(crate) event: u64,
    pub(crate) time: u64,
    pub(crate) cpu: u64,
    pub(crate) thread: u64,
}

/// Asks for packets of the hardware trace. Returns whether that is asked for. In a read section.
///
/// # Signal safety
/// Callable from a handler, also one that interrupts this: the slot is not free then.
pub(crate) fn request_packets(session: usize, wanted: &Wanted) -> bool {
    let Some(counters) = counters(session) else { return false };
    // SAFETY: `counters-mapped`: the requests lie at a multiple of 8, inside of the counters, and are atomics only.
    let requests = unsafe { &*counters.wrapping_add(filter_counters::PACKETS).cast::<PacketRequests>() };
    let taken = requests.slots.get(wanted.cpu as usize % SLOTS).filter(|slot| {
        slot.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    });
    let Some(slot) = taken else {
        requests.refused.fetch_add(1, Ordering::Relaxed);
        return false;
    };
    slot.time.store(wanted.time, Ordering::Relaxed);
    slot.thread.store(wanted.thread, Ordering::Relaxed);
    slot.cpu.store(wanted.cpu, Ordering::Relaxed);
    slot.event.store(wanted.event, Ordering::Relaxed);
    slot.duration.store(wanted.duration, Ordering::Relaxed);
    // Release: a reader that finds it ready finds the words above.
    slot.state.store(READY, Ordering::Release);
    true
}

/// Adds one to a 32-bit word of the counters, if there is one.
fn count_fault(session: usize, offset: usize) {
    let Some(counters) = counters(session) else { return };
    // SAFETY: `counters-mapped`; `filter_counters::faults_of` gives multiples of 4 inside of the counters.
    let word = unsafe { &*counters.wrapping_add(offset).cast::<AtomicU32>() };
    word.fetch_add(1, Ordering::Relaxed);
}

/// Counts a fault of an event's filter and says what becomes of the event. In a read section.
#[cold]
#[inline(never)]
pub(crate) fn faulted(channel: &Channel, id: u16, keep: bool) -> u64 {
    let session = channel.session;
    count_fault(session, filter_counters::faults_of(id));
    if keep {
        count(session, filter_counters::FAULTS_KEPT);
        return SPECULATE;
    }
    count(session, filter_counters::FAULTS_DROPPED);
    channel.writer.lose(Cause::FilterFault);
    DROP
}
