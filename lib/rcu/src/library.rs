//! The library flavour's readers, at their lowest: for a probe inside a foreign program.
//!
//! A thread enters the registry at its first section, from whatever code that is, a signal handler too; nothing is
//! allocated from the heap (after 64 threads, pages come from the kernel). When there is no slot to be had, sections
//! are counted in two shared words instead: as right, only slower.
//!
//! # Signal safety
//! All of it is callable from handlers.

use crate::flavor::{Flavor, Library};
use crate::guard::Guard;
use crate::phases::{self, ByUpdater};
use crate::slot::{BARE, GUARDED, Slot};
use crate::thread;
use core::num::NonZeroUsize;

/// A section that has begun: the address of the thread's slot, or an odd number when it has none.
#[derive(Clone, Copy, Debug)]
#[must_use = "a section that never ends holds all grace periods up"]
pub struct Section(NonZeroUsize);

impl Section {
    /// As a number, for callers in other languages.
    pub fn into_raw(self) -> usize {
        self.0.get()
    }

    /// Of such a number. Another one than 0 must be of `into_raw`, which [`exit`] asks for.
    pub fn from_raw(raw: usize) -> Option<Section> {
        NonZeroUsize::new(raw).map(Section)
    }
}

const GUEST: usize = 1;
const GUEST_SECOND_PHASE: usize = 3;

/// Begins a read section without a guard. It ends by [`exit`], or when its thread dies.
///
/// # Cost
/// Five loads and stores; bench `rcu`, case `read/library`. Wait-free, but for a thread's first section (two system
/// calls for its number, two for its signal mask).
#[inline(always)]
pub fn enter() -> Section {
    begin::<BARE>()
}

/// Ends a read section.
///
/// # Safety
/// `section` was begun by the calling thread (or one that fork made of it) and has not been ended. No reference that
/// it protects is used any more.
#[inline(always)]
pub unsafe fn exit(section: Section) {
    end::<BARE>(section);
}

/// Begins a read section and gives its guard.
///
/// # Cost
/// As [`enter`].
#[inline(always)]
pub fn read() -> Guard<'static, Library> {
    Guard::of(begin::<GUARDED>())
}

/// A section of a thread that has read before; it ends when this is dropped, or when its thread dies.
///
/// It holds nothing: a register that lives as long as the section would be saved and restored by functions that have to
/// keep it, which costs more than finding the slot again.
#[must_use = "the section ends when this is dropped"]
#[derive(Debug)]
pub struct Again {
    /// It is of this thread only.
    thread: core::marker::PhantomData<*mut ()>,
}

/// Begins a read section, if the calling thread has had one before: else it takes [`read`].
///
/// # Cost
/// As [`read`], but that the end need not look what kind of section it was.
#[inline(always)]
pub fn read_again() -> Option<Again> {
    phases::enter::<ByUpdater, BARE>(Library::slot()?, &Library::domain().gp);
    Some(Again { thread: core::marker::PhantomData })
}

impl Drop for Again {
    #[inline(always)]
    fn drop(&mut self) {
        // A thread of this flavour keeps its slot.
        if let Some(slot) = Library::slot() {
            phases::exit::<BARE>(slot);
        }
    }
}

/// Prepares for readers while there is time: asks the kernel for membarrier(2), notes which process this is.
///
/// To be called before the process forks, vforks or enters a sandbox; without it the first section does it.
pub fn prepare() {
    let _ = Library::prepare();
    Library::domain().registry.belongs_to(mote_sys::process::pid());
}

/// Makes the child of a fork right again: only the calling thread reads there.
///
/// To be called in the child before anything else of this flavour; programs with `mote_reclaim` need not, it does so by
/// itself.
///
/// # Safety
/// The process has just been forked and has no other thread.
pub unsafe fn after_fork() {
    Library::domain().after_fork(Library::slot());
}

#[inline(always)]
fn begin<const KIND: usize>() -> Section {
    match Library::slot() {
        Some(slot) => begin_with::<KIND>(slot),
        None => begin_first::<KIND>(),
    }
}

#[inline(always)]
fn begin_with<const KIND: usize>(slot: &'static Slot) -> Section {
    phases::enter::<ByUpdater, KIND>(slot, &Library::domain().gp);
    let address = core::ptr::from_ref(slot).expose_provenance();
    // A reference is never null; `GUEST` only stands there for want of a proof in types.
    Section(NonZeroUsize::new(address).unwrap_or(NonZeroUsize::MIN))
}

#[cold]
#[inline(never)]
fn begin_first<const KIND: usize>() -> Section {
    if let Ok(slot) = thread::claim::<Library>() {
        return begin_with::<KIND>(slot);
    }
    let second = phases::enter_as_guest(Library::domain()) != 0;
    Section(if second { NonZeroUsize::MIN.saturating_add(GUEST_SECOND_PHASE - 1) } else { NonZeroUsize::MIN })
}

#[inline(always)]
pub(crate) fn end<const KIND: usize>(section: Section) {
    let number = section.0.get();
    if number & GUEST != 0 {
        return end_as_guest(number);
    }
    let slot: *const Slot = core::ptr::with_exposed_provenance(number);
    // SAFETY: an even number is the address of a slot, see `begin_with`; slots live as long as the process.
    phases::exit::<KIND>(unsafe { &*slot });
}

#[cold]
#[inline(never)]
fn end_as_guest(number: usize) {
    phases::exit_as_guest(Library::domain(), usize::from(number == GUEST_SECOND_PHASE));
}
