//! Memory that the process shares with the kernel's programs, and with the other processes of its session
//! (`mote_layout::cooperation`).
//!
//! # Parties
//! Threads of the process and their signal handlers; the kernel's programs; other processes of the session (shared
//! words only); the control path (`hold`), which alone maps.
//! # State
//! `AREA` is null, or the address of an area of `SLOTS` slots; it is set once. What is mapped there may change: a child
//! of fork has its parent's area until it gets its own, which then takes its place. A thread's word
//! ([`word`]): number of its slot's page in bits 0 to 19, 0 for none; its id in the upper half.
//! [`NO_SLOT`] is the id of a thread that found no slot; bits 20 to 31 then count down to its next try.
//! # Who may touch what
//! A thread its own slot; before it does, it looks whether the slot still has its id: so nothing need be told to
//! threads when areas or slots change hands. One store may go astray when that happens between look and store; it stays
//! within the area.
//! # Ordering
//! A. `SLOTS`, and the mapping, before `AREA` (release; acquire wherever it is loaded).
//! B. A slot is claimed by compare-and-swap of its id; all else in it is relaxed: words of one thread, or read as
//!    numbers of any age.
//! # Progress
//! Wait-free but for what maps. Nothing here waits for the kernel or for another process, and whatever these write,
//! nothing outside of the area is touched.
//! # Signal safety
//! All but [`share`].

#[cfg(feature = "filters")]
pub(crate) mod state;
mod word;

use crate::channel;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use mote_layout::cooperation::{self as layout, Header, PROBES, SHARED_BYTES, SLOT_BYTES, Slot, area_bytes};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{self, Mapping};
use mote_sys::{Errno, Result, process};
use mote_wire::SESSIONS_MAX;

/// Most slots of an area: page numbers have 20 bits.
const SLOTS_MAX: u32 = 1 << 16;
/// In place of a thread's id: it found no slot. No thread has this id.
const NO_SLOT: u64 = u32::MAX as u64;
/// How many calls a thread without a slot waits before it looks again; at most 4095.
const AGAIN: u64 = 1024;
/// How often a slot is looked for anew when others were quicker.
const TRIES: u32 = 4;

/// The area's mapping, of `area_bytes(SLOTS)`, or null (`area-never-unmapped`).
static AREA: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static SLOTS: AtomicU32 = AtomicU32::new(0);
/// Each session's mapping of `SHARED_BYTES`, or null (`shared-never-unmapped`).
static SHARED: [AtomicPtr<u8>; SESSIONS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SESSIONS_MAX];
/// The session whose area it is.
static COOPERATING: AtomicUsize = AtomicUsize::new(0);

/// The page of a thread's word.
#[inline(always)]
fn page(base: *mut u8, word: u64) -> &'static Slot {
    // Upper bits are shifted out: an area has less than 4 GiB.
    let at = (word as u32).wrapping_mul(SLOT_BYTES as u32) as usize;
    // SAFETY: `area-never-unmapped`: the low 20 bits of a thread's word are 0, or 1 and the index of one of `SLOTS`
    // slots; a page is aligned, and made of atomics.
    unsafe { &*base.wrapping_add(at).cast::<Slot>() }
}

/// The calling thread's slot: claimed at first use. `None` without an area, and when no slot is free.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Without an area: a load and a branch. Else four loads, all of this thread's lines; a search once.
#[inline(always)]
pub fn slot() -> Option<&'static Slot> {
    // Ordering A.
    let base = AREA.load(Ordering::Acquire);
    if base.is_null() {
        return None;
    }
    let word = word::get();
    // Without a slot it is the header's page, whose first word is no id.
    let slot = page(base, word);
    if u64::from(slot.thread.load(Ordering::Relaxed)) == word >> 32 { Some(slot) } else { find(base, word) }
}

/// The area's first page.
#[inline(always)]
pub fn header() -> Option<&'static Header> {
    let base = AREA.load(Ordering::Acquire);
    // SAFETY: `area-never-unmapped`; a page of atomics.
    unsafe { base.cast::<Header>().as_ref() }
}

/// Looks for the calling thread's slot, unless it did so in vain a short while ago.
#[cold]
#[inline(never)]
fn find(base: *mut u8, word: u64) -> Option<&'static Slot> {
    let was_without = word >> 32 == NO_SLOT;
    if was_without && (word >> 20) & 0xfff != 0 {
        word::set(word - (1 << 20));
        return None;
    }
    let id = channel::this_thread();
    match claim(base, id) {
        Some(index) => {
            let word = u64::from(id) << 32 | u64::from(index + 1);
            word::set(word);
            ask();
            Some(page(base, word))
        }
        None => {
            if let Some(header) = header().filter(|_| !was_without) {
                header.without_slot.fetch_add(1, Ordering::Relaxed);
            }
            word::set(NO_SLOT << 32 | AGAIN << 20);
            None
        }
    }
}

/// Has the kernel's programs time each system call of the process: what they publish is looked at, or they are to
/// compare it with thresholds.
#[inline(always)]
fn ask() {
    if let Some(header) = header().filter(|header| header.asked.load(Ordering::Relaxed) == 0) {
        header.asked.store(1, Ordering::Relaxed);
    }
}

/// The index of the slot that has this id, or of one that was free, or whose thread is no more.
fn claim(base: *mut u8, id: u32) -> Option<u32> {
    let slots = NonZeroU32::new(SLOTS.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN);
    let places = || (0..PROBES.min(slots.get())).map(move |probe| (id % slots + probe) % slots);
    let holder = |index: u32| &page(base, u64::from(index) + 1).thread;
    for _ in 0..TRIES {
        if let Some(ours) = places().find(|index| holder(*index).load(Ordering::Acquire) == id) {
            return Some(ours);
        }
        let free = places().find(|index| holder(*index).load(Ordering::Relaxed) == 0);
        match free.or_else(|| places().find(|index| is_dead(holder(*index).load(Ordering::Relaxed)))) {
            Some(index) if take(page(base, u64::from(index) + 1), free.is_none(), id) => return Some(index),
            // Another thread was quicker, or the kernel, for this very thread.
            Some(_) => {}
            None => return None,
        }
    }
    None
}

/// Whether a slot's holder is no thread of this process any more.
fn is_dead(id: u32) -> bool {
    let process = match channel::PID.load(Ordering::Relaxed) {
        0 => process::pid(),
        pid => pid as i32,
    };
    !mote_sys::thread::exists(process, id as i32)
}

/// Claims a slot for `id`. What a dead thread has left is cleared.
fn take(slot: &Slot, was_used: bool, id: u32) -> bool {
    let holder = if was_used { slot.thread.load(Ordering::Relaxed) } else { 0 };
    if slot.thread.compare_exchange(holder, id, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    if was_used {
        slot.thresholds.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        slot.words.iter().chain(slot.state.all()).for_each(|word| word.store(0, Ordering::Relaxed));
        slot.window_until.store(0, Ordering::Relaxed);
    }
    true
}

/// Maps the area that the session has sent, in place of the one that is there. To be called with the control path held.
///
/// # Errors
/// `EINVAL` when it is none, or has other sizes than the one that is there, or may shrink; as mmap(2).
pub(crate) fn take_area(file: &Fd, slots: u32) -> Result<()> {
    let len = area_bytes(slots);
    let fits = (1..=SLOTS_MAX).contains(&slots) && mem::keeps_its_size(file);
    let identity = fd::identity(file.raw())?;
    if !fits || !identity.is_anonymous && identity.size < len as u64 {
        return Err(Errno(libc::EINVAL));
    }
    let fresh = Mapping::shared(file, len)?;
    // SAFETY: at least a page, which is aligned and made of atomics, mapped for as long as `fresh`.
    let head = unsafe { &*fresh.base().cast::<Header>() };
    let sound = head.magic.load(Ordering::Acquire) == layout::MAGIC
        && head.version.load(Ordering::Relaxed) == layout::VERSION
        && head.slots.load(Ordering::Relaxed) == slots;
    if !sound {
        return Err(Errno(libc::EINVAL));
    }
    let base = AREA.load(Ordering::Acquire);
    if base.is_null() {
        fresh.keep_out_of_core_dumps();
        SLOTS.store(slots, Ordering::Relaxed);
        // Ordering A.
        AREA.store(fresh.leak(), Ordering::Release);
        return Ok(());
    }
    if SLOTS.load(Ordering::Relaxed) != slots {
        return Err(Errno(libc::EINVAL));
    }
    move_over(base, fresh.base(), slots);
    // SAFETY: `area-never-unmapped`: a leaked mapping of as many bytes, in which there are references to atomics only,
    // and of which no word is trusted.
    unsafe { Mapping::replace(base, file, 0, len) }
}

/// What threads of this process have set in the area at `from` is set in that at `to`, too.
fn move_over(from: *mut u8, to: *mut u8, slots: u32) {
    // SAFETY: an area, of at least one page.
    let old = unsafe { &*from.cast::<Header>() };
    // SAFETY: as above.
    let new = unsafe { &*to.cast::<Header>() };
    copy(&old.thresholds, &new.thresholds);
    copy(core::slice::from_ref(&old.asked), core::slice::from_ref(&new.asked));
    for index in 0..slots {
        let old = page(from, u64::from(index) + 1);
        let id = old.thread.load(Ordering::Relaxed);
        if id != 0
            && !is_dead(id)
            && let Some(place) = claim(to, id)
        {
            inherit(old, page(to, u64::from(place) + 1));
        }
    }
}

/// Gives a slot the thresholds and words of another one.
fn inherit(old: &Slot, new: &Slot) {
    copy(&old.thresholds, &new.thresholds);
    for (from, to) in old.words.iter().zip(&new.words) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn copy(from: &[AtomicU32], to: &[AtomicU32]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// In a child of fork, which has its parent's area yet: its one thread gets a slot of its own there, with what was set
/// in its parent's. If the area `is_parents` alone, private memory takes its place. With the control path held.
pub(crate) fn after_fork(is_parents: bool) {
    let base = AREA.load(Ordering::Acquire);
    let word = word::get();
    word::set(0);
    if base.is_null() {
        return;
    }
    if word != 0 && word >> 32 != NO_SLOT {
        let parents = page(base, word);
        if let Some(ours) = slot().filter(|ours| !core::ptr::eq(*ours, parents)) {
            inherit(parents, ours);
        }
    }
    if is_parents {
        // When it cannot be done it stays shared, as the channel does.
        let _ = forsake(base);
    }
}

/// Puts private memory in the place of an area, with the thresholds and words of this process's threads. Only where
/// there is no other thread, with signals blocked.
fn forsake(base: *mut u8) -> Result<()> {
    let slots = SLOTS.load(Ordering::Relaxed);
    let kept = Mapping::private(area_bytes(slots))?;
    move_over(base, kept.base(), slots);
    // SAFETY: `area-never-unmapped`: a leaked mapping of as many bytes, in which there are references to atomics only.
    unsafe { Mapping::replace_by_zeros(base, area_bytes(slots)) }?;
    if let Some(header) = header() {
        // A thread without a slot finds this where others have their id.
        header.magic.store(layout::MAGIC, Ordering::Relaxed);
    }
    move_over(kept.base(), base, slots);
    Ok(())
}

/// The session has ended: no program of the kernel publishes any more.
pub(crate) fn end() {
    if let Some(header) = header() {
        header.flags.store(0, Ordering::Relaxed);
    }
}

/// Maps the memory that all processes of a session share, if it is not mapped yet. To be called with the control path
/// held.
///
/// # Errors
/// `EINVAL` when it is none, or may shrink; as mmap(2).
pub(crate) fn take_shared(session: usize, file: &Fd) -> Result<()> {
    let place = SHARED.get(session).ok_or(Errno(libc::EINVAL))?;
    if !place.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let identity = fd::identity(file.raw())?;
    if !mem::keeps_its_size(file) || !identity.is_anonymous && identity.size < SHARED_BYTES as u64 {
        return Err(Errno(libc::EINVAL));
    }
    let memory = Mapping::shared(file, SHARED_BYTES)?;
    // SAFETY: a page of atomics, mapped for as long as `memory`.
    let head = unsafe { &*memory.base().cast::<layout::SharedHeader>() };
    if head.magic.load(Ordering::Acquire) != layout::SHARED_MAGIC {
        return Err(Errno(libc::EINVAL));
    }
    memory.keep_out_of_core_dumps();
    // What was there before stays: words of it are in use.
    place.store(memory.leak(), Ordering::Release);
    Ok(())
}

/// Takes in what comes with `Cooperate`; the area only if it is to be this session's (`is_first`). To be called with
/// the control path held. Without it the program goes on as it is.
pub(crate) fn take_in(session: usize, is_first: bool, slots: u32, fds: &[Option<Fd>]) {
    let mut fds = fds.iter().flatten();
    let area = if slots > 0 { fds.next() } else { None };
    if let Some(area) = area.filter(|_| is_first)
        && take_area(area, slots).is_ok()
    {
        COOPERATING.store(session, Ordering::Relaxed);
    }
    if let Some(shared) = fds.next() {
        let _ = take_shared(session, shared);
    }
}

/// A session has been left: its number may become another one's. What was mapped stays, because words of it are in use.
pub(crate) fn left(session: usize) {
    if let Some(place) = SHARED.get(session) {
        place.store(core::ptr::null_mut(), Ordering::Release);
    }
}

pub(crate) fn shared(session: usize) -> Option<*mut u8> {
    let base = SHARED.get(session)?.load(Ordering::Acquire);
    (!base.is_null()).then_some(base)
}

/// From which duration on a system call of the calling thread is recorded, as a word of the layout. False when no
/// session will know.
///
/// # Signal safety
/// Callable from a handler.
#[inline(always)]
pub fn set_threshold(syscall: u32, word: u32) -> bool {
    let Some(place) = slot().and_then(|slot| slot.thresholds.get(syscall as usize)) else { return false };
    place.store(word, Ordering::Relaxed);
    are_looked_at()
}

/// Whether the kernel's programs look at thresholds.
#[inline(always)]
fn are_looked_at() -> bool {
    header().is_some_and(|header| header.flags.load(Ordering::Relaxed) & layout::THRESHOLDS != 0)
}

/// What [`set_threshold`] has set last; 0 when nothing.
///
/// # Signal safety
/// Callable from a handler.
#[inline(always)]
pub fn threshold(syscall: u32) -> u32 {
    let place = slot().and_then(|slot| slot.thresholds.get(syscall as usize));
    place.map_or(0, |word| word.load(Ordering::Relaxed))
}

/// As [`set_threshold`], for threads of the process that have none of their own.
///
/// # Signal safety
/// Callable from a handler.
#[inline(always)]
pub fn set_process_threshold(syscall: u32, word: u32) -> bool {
    let Some(place) = header().and_then(|header| header.thresholds.get(syscall as usize)) else {
        return false;
    };
    place.store(word, Ordering::Relaxed);
    ask();
    are_looked_at()
}

/// The state of the calling thread, while the kernel's programs publish it.
///
/// # Signal safety
/// Callable from a handler.
#[inline(always)]
pub fn thread_state() -> Option<&'static layout::State> {
    let published = header()?.flags.load(Ordering::Relaxed) & layout::PUBLISHED != 0;
    slot().filter(|_| published).map(|slot| &slot.state)
}

/// Scope of a window in which the kernel's events are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Scope {
    /// Those of the calling thread; of a thread without a slot: of its process.
    Thread = 0,
    /// Those of all threads of the system.
    System = 1,
    /// Those of the process.
    Process = 2,
}

/// Wants the kernel's events from now on, for `ns` nanoseconds. False when there is no session to want them from.
///
/// # Signal safety
/// Callable from a handler.
pub fn open_window(scope: Scope, ns: u64) -> bool {
    // Without the kernel's programs there are no events to be wanted.
    let has_windows = |header: &&Header| header.flags.load(Ordering::Relaxed) & layout::WINDOWS != 0;
    let Some(header) = header().filter(has_windows) else { return false };
    let shared = shared(COOPERATING.load(Ordering::Relaxed));
    // SAFETY: `shared-never-unmapped`; a page of atomics.
    let shared = shared.map(|base| unsafe { &*base.cast::<layout::SharedHeader>() });
    let word = match (scope, slot(), shared) {
        (Scope::Thread, Some(slot), _) => &slot.window_until,
        (Scope::System, _, Some(shared)) => &shared.window_until,
        (Scope::System, _, None) => return false,
        _ => &header.window_until,
    };
    let Some(now) = mote_sys::tsc::monotonic() else { return false };
    let until = now.saturating_add(ns);
    if scope == Scope::Thread {
        // A plain store would do but for threads without a slot.
        word.store(until.max(word.load(Ordering::Relaxed)), Ordering::Relaxed);
    } else {
        word.fetch_max(until, Ordering::Relaxed);
    }
    true
}

/// Words with a name.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Those of all; none of words that each thread has of its own.
    pub of_all: &'static [AtomicU64],
    /// For words of each thread: index of the first in the slot.
    pub at: u32,
    /// How many.
    pub count: u32,
    /// Whether other processes and filters see them.
    pub is_shared: bool,
}

/// Words of a leaked mapping of `SHARED_BYTES`.
pub(crate) fn words_at(base: *mut u8, at: u32, count: u32) -> &'static [AtomicU64] {
    let first = base.wrapping_add(layout::SHARED_WORDS_AT + at as usize * 8).cast::<AtomicU64>();
    // SAFETY: the callers: `at + count` is at most `SHARED_WORDS`, which lie in the mapping, aligned; it is never
    // unmapped, and other threads that write there write whole words.
    unsafe { core::slice::from_raw_parts(first, count as usize) }
}

/// An area of this process alone, if there is none. No program of the kernel publishes there.
pub(crate) fn own_area() -> Result<()> {
    if header().is_some() {
        return Ok(());
    }
    let memory = Mapping::private(area_bytes(layout::SLOTS))?;
    // SAFETY: fresh zeros; a page of atomics, and no other code has the address.
    let head = unsafe { &*memory.base().cast::<Header>() };
    head.magic.store(layout::MAGIC, Ordering::Relaxed);
    head.version.store(layout::VERSION, Ordering::Relaxed);
    head.slots.store(layout::SLOTS, Ordering::Relaxed);
    head.process.store(process::pid() as u32, Ordering::Relaxed);
    SLOTS.store(layout::SLOTS, Ordering::Relaxed);
    // Ordering A.
    AREA.store(memory.leak(), Ordering::Release);
    Ok(())
}

/// Calls `each` with the words of every thread that has a slot.
pub fn for_each_thread(words: &Words, mut each: impl FnMut(&[AtomicU64])) {
    let base = AREA.load(Ordering::Acquire);
    if base.is_null() {
        return;
    }
    for index in 0..SLOTS.load(Ordering::Relaxed) {
        let slot = page(base, u64::from(index) + 1);
        let range = words.at as usize..(words.at + words.count) as usize;
        if slot.thread.load(Ordering::Relaxed) != 0
            && let Some(words) = slot.words.get(range)
        {
            each(words);
        }
    }
}

#[cfg(all(test, feature = "filters"))]
mod tests;
