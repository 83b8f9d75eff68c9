//! Stacks of events, for sessions that want them: with each record a copy of the top of the thread's stack, of which
//! the recorder makes addresses (`mote_layout::stack`).
//!
//! The function of ours that the program has called notes where it is ([`Here`]), in a thread-local word that leads to
//! its own frame; the record is written further in ([`in_front`]). A handler in between notes its own, and puts the
//! word back.
//!
//! # What can be read
//! The copy is made from the stack itself, in the sequence that writes the record: nothing may be read that is not
//! there. The stack of the first thread is as far as the bytes that the kernel put at its end (`AT_RANDOM`): no mapping
//! is closer to it than 128 MiB (`MIN_GAP`, mm/util.c), but where a program insists. The stack of another thread ends
//! at its thread-local storage, with musl as with glibc; once for each thread, and again where it is deeper than
//! before, it is looked whether all pages from here to there can be read. They cannot from a stack of something else (a
//! coroutine's, a handler's): the page that a thread is guarded by lies between. There the copy ends with the page that
//! the stack pointer is in.

use crate::arch::registers;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use mote_layout::record::FIELDS_MAX;
use mote_layout::stack::{
    BYTES_MAX, COPY, FINDER, FUNCTION, HEADER_WORDS, IS_OURS, PARENT, REPLACED, REPLACED_MAX, TO_END,
};
use mote_ring::writer::Payload;
use mote_ring::{Fragment, Record};
use mote_sync::{define_word, load_word, store_word, thread};
use mote_sys::mem::{PAGE_BYTES, read_own};

// Where the innermost `Here` of the thread is; 0 for none.
define_word!("mote_stack_here", "8");
// From here on the thread's stack is known to be readable, up to its thread-local storage; 0: unknown.
define_word!("mote_stack_known", "8");

/// A function of ours or of the program, on the thread's own stack.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// Frame pointer, stack pointer, instruction pointer.
    registers: [usize; 3],
    /// It is a function of ours.
    is_ours: bool,
    /// The function whose call has just ended here; 0 for none.
    function: usize,
    /// What is given to [`Replaced`].
    calls: usize,
}

impl Here {
    /// The function that this is inlined into: one that the program has called.
    #[inline(always)]
    pub fn now() -> Here {
        Here { registers: registers(), is_ours: true, function: 0, calls: 0 }
    }

    /// Where a call of `function` returns to, with frame pointer, stack pointer, and instruction pointer as they are
    /// then; all of these 0 where it has not returned. `calls` is for [`Replaced`].
    pub fn behind(function: usize, registers: [usize; 3], calls: usize) -> Here {
        Here { registers, is_ours: false, function, calls }
    }

    /// Nowhere in the program: what we say ourselves.
    pub fn nowhere() -> Here {
        Here::behind(0, [0; 3], 0)
    }

    /// Does something that may record events of here.
    #[inline(always)]
    pub fn have<R>(&self, work: impl FnOnce() -> R) -> R {
        let around = load_word!("mote_stack_here");
        store_word!("mote_stack_here", (&raw const *self).expose_provenance() as u64);
        let done = work();
        store_word!("mote_stack_here", around);
        done
    }
}

/// Finds return addresses that were replaced, of the thread's calls under way, from the innermost one on: puts where
/// they are and what they really are into an array, and returns how many there are in it. Arguments: 0, or what the
/// [`Here`] says; the addresses between which they are to be; the array, and its room. Another copy of the library may
/// call it, too.
pub type Replaced = unsafe extern "C" fn(usize, usize, usize, *mut [usize; 2], usize) -> usize;

static REPLACED_BY: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// The same, if it is of this copy of the library.
static OWN: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Says that return addresses are replaced, and what finds them: a function behind a [`FINDER`].
pub fn set_replaced(find: Replaced) {
    let find = find as *mut ();
    // Other copies are told where it is.
    find.expose_provenance();
    OWN.store(find, Ordering::Relaxed);
    REPLACED_BY.store(find, Ordering::Release);
}

fn replaced(calls: usize, between: core::ops::Range<usize>, into: &mut [[usize; 2]]) -> usize {
    let find = REPLACED_BY.load(Ordering::Acquire);
    if find.is_null() {
        return 0;
    }
    // SAFETY: `replaced-by-a-function`.
    let find: Replaced = unsafe { core::mem::transmute(find) };
    // SAFETY: the array is borrowed for the call.
    unsafe { find(calls, between.start, between.end, into.as_mut_ptr(), into.len()) }.min(into.len())
}

/// Where the function is by which this copy of the library finds what it has replaced; 0 for none.
pub(crate) fn replaces() -> u64 {
    OWN.load(Ordering::Relaxed).addr() as u64
}

/// Notes that of another copy of the library in this process, as that one has told the session, unless this one has its
/// own.
pub(crate) fn take_replaces(find: u64) {
    let mut before = [0; size_of_val(&FINDER)];
    let at = (find as usize).wrapping_sub(before.len());
    let read = read_own([(at, before.len())], &mut before);
    // A session may not make us call what it likes.
    if read < before.len() || before.as_chunks().0 != FINDER.map(u64::to_ne_bytes) {
        return;
    }
    let find = core::ptr::with_exposed_provenance_mut(find as usize);
    let _ = REPLACED_BY.compare_exchange(core::ptr::null_mut(), find, Ordering::Release, Ordering::Relaxed);
}

/// The process by the id that its sessions know it by: of a child that has not said hello yet it is its parent, whose
/// memory it has.
static KNOWN_AS: AtomicU32 = AtomicU32::new(0);
/// Of a child, the one that was known before: its hello is not answered, so it may come later than its events.
static FORKED_FROM: AtomicU32 = AtomicU32::new(0);
/// Where the first thread's stack ends; 0: unknown.
static FIRST_END: AtomicUsize = AtomicUsize::new(0);
/// Nothing else is mapped so close below it.
const FIRST_BYTES: usize = 128 << 20;
/// The stack of another thread is looked at up to this many bytes.
const OTHER_BYTES: usize = 64 << 20;

/// Notes the process's id, when its sessions know it.
pub(crate) fn known_as(pid: u32) {
    match KNOWN_AS.swap(pid, Ordering::Relaxed) {
        before if before == pid || before == 0 => {}
        before => FORKED_FROM.store(before, Ordering::Relaxed),
    }
    if FIRST_END.load(Ordering::Relaxed) == 0 {
        // SAFETY: getauxval reads a table that the C library keeps for the process's life.
        FIRST_END.store(unsafe { libc::getauxval(libc::AT_RANDOM) } as usize, Ordering::Relaxed);
    }
}

/// How far up the thread's stack can be read from the stack pointer on; and whether it ends there.
fn end(pointer: usize) -> (usize, bool) {
    let first = FIRST_END.load(Ordering::Relaxed);
    if pointer < first && first - pointer < FIRST_BYTES {
        return (first, true);
    }
    let own = thread::pointer().addr();
    let is_other = thread::id() != KNOWN_AS.load(Ordering::Relaxed);
    if is_other && pointer < own && own - pointer < OTHER_BYTES {
        let known = match load_word!("mote_stack_known") as usize {
            0 => own,
            known => known,
        };
        if pointer >= known || are_readable(pointer, known) {
            store_word!("mote_stack_known", pointer.min(known) as u64);
            return (own, true);
        }
    }
    (pointer.next_multiple_of(PAGE_BYTES), false)
}

/// Whether all pages can be read from one address up to another.
fn are_readable(from: usize, to: usize) -> bool {
    const PAGES: usize = 32;
    let mut at = from;
    while at < to {
        let mut bytes = [0; PAGES];
        let mut parts = [(0, 0); PAGES];
        let mut count = 0;
        for part in &mut parts {
            if at < to {
                *part = (at, 1);
                at = (at + 1).next_multiple_of(PAGE_BYTES);
                count += 1;
            }
        }
        if read_own(parts, &mut bytes) < count {
            return false;
        }
    }
    true
}

/// What stands in front of a stack.
type Words = [u64; HEADER_WORDS + 2 * REPLACED_MAX];
/// Most fragments of a record.
const FRAGMENTS_MAX: usize = 72;

/// Has a record written with a copy of the thread's stack in front of its fields, of `most` bytes at most; false when
/// it has too many parts for that. What is readable of the record is as before.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// As many bytes are copied as the session wants, if the stack has them. A system call for a thread's first.
#[cold]
#[inline(never)]
pub(crate) fn in_front(most: u32, record: Record<'_>, write: &mut dyn FnMut(Record<'_>)) -> bool {
    let here: *const Here = core::ptr::with_exposed_provenance(load_word!("mote_stack_here") as usize);
    // SAFETY: null, or in the frame of a function that has called us and has not returned (`Here::have`).
    let here = unsafe { here.as_ref() };
    let mut words: Words = [0; _];
    let (used, stack) = header(here, most, record.payload.len(), &mut words);
    // The number of elements, then these.
    let count = ((8 * used + stack.len) / 8) as u16;
    let mut list = [Fragment { from: core::ptr::null(), len: 0 }; FRAGMENTS_MAX];
    let head = [
        Fragment { from: (&raw const count).cast(), len: size_of_val(&count) },
        Fragment { from: words.as_ptr().cast(), len: 8 * used },
        stack,
    ];
    let one;
    let fields = match record.payload {
        Payload::Words { from, len } => {
            one = [Fragment { from, len }];
            one.get(..usize::from(len > 0)).unwrap_or_default()
        }
        Payload::Fragments { list, .. } => list,
    };
    let mut slots = list.iter_mut();
    let mut taken = 0;
    for fragment in head.iter().chain(fields).filter(|fragment| fragment.len > 0) {
        let Some(slot) = slots.next() else { return false };
        *slot = *fragment;
        taken += 1;
    }
    let list = list.get(..taken).unwrap_or_default();
    let len = list.iter().map(|fragment| fragment.len).sum();
    write(Record { payload: Payload::Fragments { list, len }, ..record });
    true
}

/// Puts what stands in front of the stack into `words`; returns how many of these there are, and the stack, of so many
/// bytes at most, behind which so many bytes have to find room.
fn header(here: Option<&Here>, most: u32, fields: usize, words: &mut Words) -> (usize, Fragment) {
    let none = Fragment { from: core::ptr::null(), len: 0 };
    // What we say ourselves comes from nowhere in the program.
    let Some(here) = here else { return (0, none) };
    let [frame, pointer, instruction] = here.registers;
    if instruction == 0 {
        // All that is known is which function it was.
        return match words.first_mut() {
            Some(first) if here.function != 0 => {
                *first = here.function as u64;
                (1, none)
            }
            _ => (0, none),
        };
    }
    let (end, is_end) = end(pointer);
    let room = FIELDS_MAX.saturating_sub(fields + size_of::<Words>() + 8);
    let most = (most.min(BYTES_MAX) as usize).min(room);
    let is_to_end = is_end && end - pointer <= most;
    let len = (end - pointer).min(most) & !7;
    let mut pairs = [[0; 2]; REPLACED_MAX - 2];
    let found = replaced(here.calls, pointer..pointer + len, &mut pairs);
    let ours = u64::from(here.is_ours) << IS_OURS;
    let mut to = words.iter_mut();
    let mut put = |word: u64| to.next().into_iter().for_each(|to| *to = word);
    let parent = u64::from(FORKED_FROM.load(Ordering::Relaxed));
    let about = [(FUNCTION, here.function as u64), (PARENT, parent)];
    let about = about.into_iter().filter(|(_, what)| *what != 0);
    let count = found + about.clone().count();
    put(COPY);
    let process = u64::from(KNOWN_AS.load(Ordering::Relaxed));
    put(process | u64::from(is_to_end) << TO_END | ours | (count as u64) << REPLACED);
    [frame, pointer, instruction].into_iter().for_each(|word| put(word as u64));
    about.flat_map(|(what, word)| [what, word]).for_each(&mut put);
    pairs.iter().take(found).flatten().for_each(|word| put(*word as u64));
    (HEADER_WORDS + 2 * count, Fragment { from: core::ptr::with_exposed_provenance(pointer), len })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[repr(C)]
    struct Behind {
        finder: [u64; 2],
        code: u64,
    }
    static BEHIND: Behind = Behind { finder: FINDER, code: 0xc3 };

    #[test]
    fn a_session_names_no_other_function_than_one_behind_a_finder() {
        let good = (&raw const BEHIND.code).expose_provenance() as u64;
        for bad in [0, 8, 1 << 47, good - 8, good + 8, good ^ 1] {
            take_replaces(bad);
            assert!(REPLACED_BY.load(Ordering::Relaxed).is_null(), "{bad:x}");
        }
        take_replaces(good);
        assert_eq!(REPLACED_BY.load(Ordering::Relaxed).addr() as u64, good);
        // The first one counts.
        let other = Behind { finder: FINDER, code: 0 };
        take_replaces((&raw const other.code).expose_provenance() as u64);
        assert_eq!(REPLACED_BY.load(Ordering::Relaxed).addr() as u64, good);
    }

    #[test]
    fn a_stack_is_copied_no_further_than_it_can_be_read() {
        let place = 0_usize;
        let here = (&raw const place).addr();
        // Of a thread that is not the first, and whose storage is behind its stack.
        known_as(u32::MAX);
        let far = std::thread::spawn(|| {
            let place = 0_usize;
            let here = (&raw const place).addr();
            let (end, is_end) = end(here);
            assert!(is_end && end > here && are_readable(here, end));
            // A stack of something else: its page, and no more.
            let other = std::vec![0_u8; 3 * PAGE_BYTES];
            let inside = other.as_ptr().addr() + 100;
            let (end, is_end) = super::end(inside);
            assert!(is_end || end == inside.next_multiple_of(PAGE_BYTES));
            end
        });
        assert!(far.join().is_ok());
        assert!(end(here).0 > here);
        assert!(!are_readable(here, usize::MAX & !(PAGE_BYTES - 1)));
    }
}
