//! The calls under way: a slot for each, and a stub for each slot, which calls the function and is where it returns to.
//!
//! A thread has a region; when its slots are used up, another one, which it finds again. A region is aligned to its
//! size:
//!
//! ```text
//! 0                                 32 Ki                             64 Ki
//! | stubs, 32 bytes each             | slots, 32 bytes each             |
//! ```
//! So a stub knows its slot by its own address, whatever comes to it: a context that has gone over to another thread,
//! or an unwinder. Slot 0 is the region's header, and its stub holds the address of the code that stubs go to.
//!
//! # Who may touch what
//! The thread, and handlers that interrupt it, which leave it as it was: no other thread touches its slots, except a
//! context that returns elsewhere than it called, which frees its slot only. `TOP`, a thread-local word, is the first
//! slot that is free, and those behind it are, too; before it there may be holes where calls have ended out of turn.
//!
//! # Handlers
//! A slot that is not filled has [`NOWHERE`] as its place: above each stack. The thread moves `TOP` first and fills the
//! slot then; a handler in between finds a call that is outside of its own. When a call ends, the place is taken away
//! first. The stub's address stands at that place of the stack whenever the slot has it, also while the stack pointer
//! is above: before the stub calls, and when the function has returned. So a handler on another stack finds it there.
//!
//! # Calls that do not return
//! Exceptions, longjmp, threads that are cancelled. Their slots are noticed when a call begins at their place of the
//! stack or above, or one ends that is outside of them, if the stub is no longer what stands there as return address.
//! A context on another stack has its own there still.
//!
//! # Profilers
//! They look from outside, while the thread stands still: `mote_layout::stubs` says what they find.

use crate::arch;
use crate::counters::Thread;
use crate::values::Packed;
use core::mem::offset_of;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use mote_agent::Function;
use mote_layout::stubs;
use mote_sync::{define_word, load_word, store_word};
use mote_sys::mem::{PAGE_BYTES, read_own};
use mote_sys::raw::syscall;
use mote_sys::{process, thread};

define_word!("mote_function_top", "8");
// What it was before the thread worked on its calls (`Calls`): for profilers, when it is 0.
define_word!("mote_function_top_before", "8");

/// Bytes of a region.
pub(crate) const REGION: usize = stubs::REGION;
/// Bytes of a stub.
pub(crate) const STUB: usize = stubs::SLOT;
/// Where the slots begin.
pub(crate) const SLOTS_AT: usize = stubs::SLOTS_AT;
/// Slots of a region, with its header.
pub(crate) const SLOTS: usize = (REGION - SLOTS_AT) / size_of::<Slot>();
/// Place of a slot that has no call.
pub(crate) const NOWHERE: usize = usize::MAX;
/// Bytes of address space to be tried for all regions.
const AREA: [usize; 3] = [1 << 30, 256 << 20, 64 << 20];
/// Most calls in a row that have become others by a jump (tail calls).
const JUMPS_MAX: usize = stubs::JUMPS_MAX;
/// How many regions of threads that may have ended are looked at for each new thread.
const LOOKS: usize = 8;

/// A call under way.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Slot {
    /// Where it really returns to.
    pub(crate) returns_to: usize,
    /// Where on the stack its return address is.
    pub(crate) place: usize,
    /// When it began.
    pub(crate) began: u64,
    /// Of which function; [`HOLE`] or [`NOT_FILLED`] when there is none.
    pub(crate) function: *const Function,
}

const _: () = assert!(size_of::<Slot>() == STUB && SLOTS * STUB <= SLOTS_AT);
const _: () = assert!(VALUES.is_multiple_of(PAGE_BYTES));
// As `mote_layout::stubs` says.
const _: () = assert!(offset_of!(Slot, returns_to) == 0 && offset_of!(Slot, place) == 8);

/// How far from a thread's pointer its two words of tops lie, for profilers ([`mote_layout::stubs`]).
pub(crate) static TOPS: [AtomicU64; stubs::WORDS] = [const { AtomicU64::new(0) }; _];

/// Slot 0 of a region.
#[repr(C)]
struct Header {
    /// The region that is used before this one is; 0 for a thread's first.
    before: AtomicUsize,
    /// As of a slot: there is no call outside of those of this region.
    place: usize,
    /// The region behind this one, once there was need for it.
    behind: AtomicUsize,
    /// Of a thread's first region: what it counts.
    counters: AtomicPtr<Thread>,
}

/// Most regions.
const REGIONS: usize = AREA[0] / REGION;
/// Whose each region is: the process, in the upper half, and the thread; 0 for a free one.
static OWNERS: [AtomicU64; REGIONS] = [const { AtomicU64::new(0) }; REGIONS];

/// Where the area begins; 0 before.
static AREA_AT: AtomicUsize = AtomicUsize::new(0);
static AREA_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Regions that were given out.
static GIVEN: AtomicUsize = AtomicUsize::new(0);
/// Which region is looked at next, for one whose thread has ended.
static NEXT_LOOK: AtomicUsize = AtomicUsize::new(0);

/// Tells profilers where a thread's words of tops are.
pub(crate) fn show_tops(offsets: [u64; stubs::WORDS]) {
    TOPS.iter().zip(offsets).for_each(|(to, offset)| to.store(offset, Ordering::Relaxed));
}

/// Reserves address space for all threads' calls, once; returns it. `None` when there is none.
pub(crate) fn reserve() -> Option<(usize, usize)> {
    let known = AREA_AT.load(Ordering::Acquire);
    if known != 0 {
        return Some((known, AREA_BYTES.load(Ordering::Relaxed)));
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    for bytes in AREA {
        let arguments = [0, bytes + REGION, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
        // SAFETY: a null hint without MAP_FIXED never replaces an existing mapping.
        if let Ok(at) = unsafe { syscall(libc::SYS_mmap, arguments) } {
            let begin = at.next_multiple_of(REGION);
            AREA_BYTES.store(bytes, Ordering::Relaxed);
            AREA_AT.store(begin, Ordering::Release);
            return Some((begin, bytes));
        }
    }
    None
}

/// Where the address space is, and its bytes; none before it is reserved.
pub(crate) fn area() -> (usize, usize) {
    (AREA_AT.load(Ordering::Acquire), AREA_BYTES.load(Ordering::Relaxed))
}

/// How far from a thread's pointer its two words of tops lie; 0 before anything is recorded.
pub(crate) fn tops() -> [u64; stubs::WORDS] {
    TOPS.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Whether a slot has a call of a function whose record is one of these.
///
/// # Cost
/// Reads the slots of all threads.
pub(crate) fn has_call_of(records: &Range<usize>) -> bool {
    let (area, bytes) = area();
    let given = GIVEN.load(Ordering::Acquire).min(bytes / REGION);
    // One without an owner has no calls, and may not be readable.
    let is_owned =
        |number: &usize| OWNERS.get(*number).is_some_and(|owner| owner.load(Ordering::Acquire) != 0);
    let regions = (0..given).filter(is_owned).map(|number| area + number * REGION);
    let mut slots = regions.flat_map(|region| (1..SLOTS).map(move |number| slot_at(region, number)));
    slots.any(|slot| {
        let call = read(slot);
        call.place != NOWHERE && records.contains(&call.function.addr())
    })
}

/// Bytes of a region's values.
const VALUES: usize = SLOTS * size_of::<Packed>();

/// Where the area of values begins, which is as many times as large as the area of slots; 0 before there is one.
static VALUES_AT: AtomicUsize = AtomicUsize::new(0);
/// Which regions' values can be written to.
static HAS_VALUES: [AtomicBool; REGIONS] = [const { AtomicBool::new(false) }; REGIONS];

/// Reserves address space for the values of all calls, once; false when there is none. After [`reserve`].
pub(crate) fn reserve_values() -> bool {
    if VALUES_AT.load(Ordering::Acquire) != 0 {
        return true;
    }
    let bytes = AREA_BYTES.load(Ordering::Relaxed) / REGION * VALUES;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let arguments = [0, bytes, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a null hint without MAP_FIXED never replaces an existing mapping.
    let Ok(at) = (unsafe { syscall(libc::SYS_mmap, arguments) }) else { return false };
    VALUES_AT.store(at, Ordering::Release);
    true
}

/// The values of a slot's call; `None` when there is no memory.
///
/// A system call only for a region's first.
pub(crate) fn values_of(slot: usize) -> Option<&'static mut Packed> {
    let area = VALUES_AT.load(Ordering::Acquire);
    let at = slot % REGION;
    let region = (slot - at).checked_sub(AREA_AT.load(Ordering::Relaxed))? / REGION;
    let has_values = HAS_VALUES.get(region)?;
    let values = area + region * VALUES;
    if area == 0 {
        return None;
    }
    if !has_values.load(Ordering::Relaxed) {
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: of the area, which is ours, and of the thread's own region.
        unsafe { syscall(libc::SYS_mprotect, [values, VALUES, writable, 0, 0, 0]) }.ok()?;
        has_values.store(true, Ordering::Relaxed);
    }
    let number = at.checked_sub(SLOTS_AT)? / size_of::<Slot>();
    let packed: *mut Packed = core::ptr::with_exposed_provenance_mut(values + number * size_of::<Packed>());
    // SAFETY: `area-stays`: memory that is mapped for good, of a slot that only its thread touches, while it works on
    // its calls; any bytes are a value of this type.
    Some(unsafe { &mut *packed })
}

/// Where a slot's call returns to: in its stub.
fn stub_of(slot: usize) -> usize {
    slot - SLOTS_AT + arch::RETURNS_AT
}

/// Whether an address lies in the area of stubs.
pub(crate) fn is_in_stubs(address: usize) -> bool {
    let area = AREA_AT.load(Ordering::Acquire);
    address.wrapping_sub(area) < AREA_BYTES.load(Ordering::Relaxed) && area != 0
}

/// The first free slot of the calling thread; 0 when it has none yet.
fn top() -> usize {
    load_word!("mote_function_top") as usize
}

/// Makes `slot` and those behind it free.
fn set_top(slot: usize) {
    store_word!("mote_function_top", slot as u64);
}

/// Most calls under way that are looked through for return addresses that were replaced.
const REPLACED_LOOKS: usize = 256;

/// The slot before this one, of the same thread; `None` when there is none.
fn before(slot: usize) -> Option<usize> {
    let at = slot.checked_sub(size_of::<Slot>())?;
    match at % REGION {
        SLOTS_AT => match header(at - SLOTS_AT)?.before.load(Ordering::Relaxed) {
            0 => None,
            region => Some(slot_at(region, SLOTS - 1)),
        },
        _ => Some(at),
    }
}

/// Where the call of `slot` really returns to: of a function that has come by a jump (tail call), where that one does
/// that has jumped.
pub(crate) fn real_return(slot: usize, call: &Slot) -> usize {
    let mut real = call.returns_to;
    let calls = core::iter::successors(before(slot), |at| before(*at)).map(read).take(JUMPS_MAX);
    calls.take_while(|outer| outer.place == call.place).for_each(|outer| real = outer.returns_to);
    real
}

/// The return addresses of the thread's calls under way that lie between two addresses: where, and what they really
/// are, from the innermost call on ([`mote_agent::stack::Replaced`]); `calls` is the slot of a call that is over, or 0.
///
/// # Safety
/// `into` has room for so many.
pub(crate) unsafe extern "C" fn replaced(
    calls: usize,
    from: usize,
    to: usize,
    into: *mut [usize; 2],
    room: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let into = unsafe { core::slice::from_raw_parts_mut(into, room) };
    let between = from..to;
    let first = before(if calls == 0 { top() } else { calls });
    let slots = core::iter::successors(first, |at| before(*at)).map(read).take(REPLACED_LOOKS);
    let found =
        slots.filter(|slot| slot.function.addr() > NOT_FILLED.addr() && between.contains(&slot.place));
    let pairs = into.iter_mut().zip(found);
    pairs.map(|(to, slot)| *to = [slot.place, slot.returns_to]).count()
}

/// The calls of the calling thread, while it works on them: what is called meanwhile, by us or by handlers, has no slot
/// and no event.
#[derive(Debug)]
pub(crate) struct Calls {
    top: usize,
}

impl Calls {
    /// Those of the calling thread; `None` when it works on them already, or is ours.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub(crate) fn take() -> Option<Calls> {
        if mote_agent::is_own_work() {
            return None;
        }
        mote_agent::set_own_work(true);
        let top = top();
        store_word!("mote_function_top_before", top as u64);
        // A thread that begins a call finds no slot, and asks.
        set_top(0);
        Some(Calls { top })
    }

    /// Where the state of what the thread counts is; `None` before it has a region.
    pub(crate) fn counters(&self) -> Option<&'static AtomicPtr<Thread>> {
        let mut first = header(self.top.checked_sub(1)? / REGION * REGION)?;
        while let Some(before) = header(first.before.load(Ordering::Relaxed)) {
            first = before;
        }
        Some(&first.counters)
    }

    /// The caller: an address behind the call whose return address is at `place`; or, of a function that has come
    /// by a jump from another one (tail call), in that one. The call itself has the last slot.
    pub(crate) fn caller(&self, place: usize) -> u64 {
        // SAFETY: the return address of the function that begins.
        let word = unsafe { (place as *const usize).read_volatile() };
        let before = self.top - 2 * size_of::<Slot>();
        if before % REGION > SLOTS_AT {
            let slot = read(before);
            if slot.place == place && word == stub_of(before) {
                // SAFETY: `slot-filled` and `records-stay`.
                return unsafe { &*slot.function }.address as u64 + 1;
            }
        }
        word as u64
    }

    /// Takes the next slot for a call: one that has no place yet. `None` when there is no memory.
    ///
    /// System calls only for a thread's first call, and where a region is used up.
    pub(crate) fn push(&mut self) -> Option<NonNull<Slot>> {
        if self.top.is_multiple_of(REGION) {
            self.top = more(self.top)?;
        }
        let slot = NonNull::new(core::ptr::with_exposed_provenance_mut(self.top));
        self.top += size_of::<Slot>();
        slot
    }

    /// Gives up calls that have not returned and never will, from the last one on, up to one that is under way or to
    /// the slot `until`: `place` is where on the stack something is that is outside of them. `ended` is told of each.
    pub(crate) fn give_up(&mut self, place: usize, until: usize, mut ended: impl FnMut(usize, &Slot)) {
        while let at @ 1.. = self.top.saturating_sub(size_of::<Slot>()) {
            if at == until {
                return;
            }
            if at % REGION == SLOTS_AT {
                // The header: nothing is left in this region.
                match header(at - SLOTS_AT).map_or(0, |header| header.before.load(Ordering::Relaxed)) {
                    0 => return,
                    before => self.top = before + REGION,
                }
                continue;
            }
            let slot = read(at);
            if slot.function != HOLE {
                // One that is not filled yet is nowhere: outside.
                let word = match slot.place {
                    outside if outside > place => return,
                    // SAFETY: what is there is on the thread's own stack, and in use.
                    here if here == place => Some(unsafe { (here as *const usize).read_volatile() }),
                    inside => word_at(inside),
                };
                if word.is_none_or(|word| word == stub_of(at)) {
                    return;
                }
            }
            set(at, NOT_FILLED);
            self.top = at;
            if slot.function != HOLE {
                ended(at, &slot);
            }
        }
    }

    /// Whether what begins at `place` is no call of its own: the function itself is under way there, so that it has
    /// jumped to its begin; or a row of functions that have jumped to one another is longer than any that a person
    /// would read.
    pub(crate) fn goes_on(&self, place: usize, function: *const Function) -> bool {
        let mut at = self.top;
        for _ in 0..JUMPS_MAX {
            at = at.saturating_sub(size_of::<Slot>());
            if at == 0 || at % REGION <= SLOTS_AT {
                return false;
            }
            let slot = read(at);
            if slot.place != place {
                return false;
            }
            if core::ptr::eq(slot.function, function) {
                return true;
            }
        }
        true
    }

    /// Ends the call of a slot. What was called from it has ended; the slot need not be the last one.
    pub(crate) fn free(&mut self, slot: usize) {
        let is_last = self.top == slot + size_of::<Slot>();
        set(slot, if is_last { NOT_FILLED } else { HOLE });
        if is_last {
            self.top = slot;
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        set_top(self.top);
        mote_agent::set_own_work(false);
    }
}

/// Ends the call of a slot of a thread that works on its calls.
pub(crate) fn leave_hole(slot: usize) {
    set(slot, HOLE);
}

/// The first slot of another region: `top` is the end of one, or 0.
fn more(top: usize) -> Option<usize> {
    let before = top.saturating_sub(REGION);
    if let Some(header) = header(before) {
        let behind = header.behind.load(Ordering::Relaxed);
        if behind != 0 {
            return Some(behind + SLOTS_AT + size_of::<Slot>());
        }
    }
    let region = recycled().or_else(fresh)?;
    let new = header(region)?;
    let owner = (process::pid() as u64) << 32 | process::tid() as u64;
    OWNERS.get((region - AREA_AT.load(Ordering::Relaxed)) / REGION)?.store(owner, Ordering::Release);
    new.before.store(before, Ordering::Relaxed);
    new.behind.store(0, Ordering::Relaxed);
    if let Some(header) = header(before) {
        header.behind.store(region, Ordering::Relaxed);
    }
    Some(region + SLOTS_AT + size_of::<Slot>())
}

/// The header of a region; `None` for 0.
fn header(region: usize) -> Option<&'static Header> {
    let header: *const Header = core::ptr::with_exposed_provenance(region + SLOTS_AT);
    // SAFETY: `area-stays`; a region that was given out has its header, whose words are atomics but for one that is
    // never written again.
    (region != 0).then(|| unsafe { &*header })
}

/// A region of a thread that has ended.
fn recycled() -> Option<usize> {
    let (area, bytes) = reserve()?;
    let given = GIVEN.load(Ordering::Acquire).min(bytes / REGION);
    for _ in 0..LOOKS.min(given) {
        let number = NEXT_LOOK.fetch_add(1, Ordering::Relaxed).checked_rem(given)?;
        let owner = OWNERS.get(number)?;
        let owned = owner.load(Ordering::Acquire);
        let (pid, tid) = ((owned >> 32) as i32, owned as u32 as i32);
        // Those of another process may be in use: by the thread that has forked us, or by a parent whose memory this is
        // (vfork, posix_spawn).
        let has_ended = owned != 0 && pid == process::pid() && !thread::exists(pid, tid);
        if has_ended && owner.compare_exchange(owned, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            let region = area + number * REGION;
            (1..SLOTS).for_each(|number| set(slot_at(region, number), NOT_FILLED));
            return Some(region);
        }
    }
    None
}

/// A region that no thread had before.
fn fresh() -> Option<usize> {
    let (area, bytes) = reserve()?;
    let number = GIVEN.fetch_add(1, Ordering::AcqRel);
    let region = area + number.checked_mul(REGION)?;
    if number >= bytes / REGION {
        return None;
    }
    prepare(region)
}

/// Maps a region, with its stubs, and slots that are free.
fn prepare(region: usize) -> Option<usize> {
    let writable = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: of the area, which is ours, and of a region that no other thread was given.
    unsafe { syscall(libc::SYS_mprotect, [region, REGION, writable, 0, 0, 0]) }.ok()?;
    let code: *mut u8 = core::ptr::with_exposed_provenance_mut(region);
    for number in 0..SLOTS {
        let stub = if number == 0 { arch::first_stub() } else { arch::stub(number) };
        let to = code.wrapping_add(number * STUB).cast::<[u8; STUB]>();
        // SAFETY: the region is writable memory of ours, and has room for as many stubs as slots.
        unsafe { to.write(stub) };
        set(slot_at(region, number), NOT_FILLED);
    }
    header(region)?.counters.store(core::ptr::null_mut(), Ordering::Relaxed);
    let executable = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    // SAFETY: as above; what lies there is code.
    unsafe { syscall(libc::SYS_mprotect, [region, SLOTS_AT, executable, 0, 0, 0]) }.ok()?;
    Some(region)
}

/// What stands for a slot's function when it has no call, and is not between those of calls under way.
const NOT_FILLED: *const Function = core::ptr::without_provenance(1);
/// The same of one that is: its call has ended out of turn.
const HOLE: *const Function = core::ptr::null();

/// Takes a slot's call away.
fn set(slot: usize, function: *const Function) {
    let word = |at: usize| core::ptr::with_exposed_provenance_mut::<usize>(slot + at);
    // SAFETY: `area-stays`: a slot of a region that was given out. Volatile, and in this order: a handler may look.
    unsafe { word(offset_of!(Slot, place)).write_volatile(NOWHERE) };
    // SAFETY: as above.
    unsafe { word(offset_of!(Slot, function)).write_volatile(function.addr()) };
}

fn slot_at(region: usize, number: usize) -> usize {
    region + SLOTS_AT + number * size_of::<Slot>()
}

/// What a slot holds.
fn read(slot: usize) -> Slot {
    let slot: *const Slot = core::ptr::with_exposed_provenance(slot);
    // SAFETY: `area-stays`: a slot of a region that was given out.
    unsafe { slot.read_volatile() }
}

/// What stands on a stack, which may be gone.
fn word_at(place: usize) -> Option<usize> {
    let mut word = [0; size_of::<usize>()];
    let read = read_own([(place, word.len())], &mut word);
    (read == word.len()).then(|| usize::from_ne_bytes(word))
}
