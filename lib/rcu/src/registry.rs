//! The registered threads of one flavour.
//!
//! # Parties
//! Threads and their signal handlers, that come and go; updaters, that look at all slots; reapers, that take
//! the slots of dead threads back (an updater that waits, or a thread that finds no free slot).
//! # State
//! Chunks of 64 slots with a word of bits: a bit is set while its slot is taken. The first chunk is static, more
//! come from the kernel and stay for the life of the process, so that a slot's address is always good.
//! # Ordering
//! A. A slot's bit is set before its owner's first section: the fence of a section's beginning orders the bit as it
//!    orders the slot's word. It is cleared after the last (release), so that an updater that sees it cleared (acquire)
//!    has all sections of the owner behind it.
//! B. A chunk is published with release and found with acquire.
//! C. A fence lies between taking a slot and the first section there. So an updater that has fenced and finds no thread
//!    registered but itself needs no fence of all: a thread that comes later sees what it has done before.
//! # Progress
//! Taking a slot is lock-free and looks at one word for 64 threads; giving it back is wait-free. A dead thread's slot
//! is taken back by a thread that needs it, at one system call a slot: a thread that finds no free slot looks at one
//! chunk, each time at the next one, and adds a chunk when none of its owners is dead. So registering costs at most 64
//! system calls more, however many threads there are (but for those beyond the last chunk, which look at all).
//! # Signals, fork
//! Everything is callable from handlers. In the child of a fork [`Registry::keep_only`] forgets all other threads.

use crate::slot::{Owner, Slot};
use mote_sync::Padded;
use mote_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(not(loom))]
const SLOTS: usize = 64;
#[cfg(loom)]
const SLOTS: usize = 2;

/// Bits of slots that do not exist count as taken.
const NEVER: u64 = if SLOTS == 64 { 0 } else { !0 << (SLOTS % 64) };

/// Slots with the bits that say which of them are taken.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Chunk {
    taken: AtomicU64,
    slots: [Slot; SLOTS],
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Registry {
    first: Chunk,
    #[cfg(not(loom))]
    more: growth::More,
    /// The process whose threads these are; 0 before any thread has registered.
    process: AtomicU32,
    /// Number, modulo chunks, of the one where the dead are looked for next.
    turn: AtomicUsize,
    /// Not 0: guards of the dead protect nothing any more.
    deaths_end_guards: AtomicU32,
    /// By phase: sections of threads that have no slot.
    pub(crate) guests: [Padded<AtomicUsize>; 2],
}

/// The registry of a flavour, apart from its words: it is zeros, and so takes no place in the file of a program.
#[cfg(not(loom))]
pub(crate) type Readers = &'static Registry;
/// A model has its own.
#[cfg(loom)]
pub(crate) type Readers = Registry;

/// A slot that is taken, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    chunk: &'a Chunk,
    bit: u64,
    pub(crate) slot: &'a Slot,
}

impl Registry {
    crate::const_unless_loom! {
        /// No thread.
        pub(crate) fn new() -> Registry {
            Registry {
                first: Chunk::new(),
                #[cfg(not(loom))]
                more: growth::More::new(),
                process: AtomicU32::new(0),
                turn: AtomicUsize::new(0),
                deaths_end_guards: AtomicU32::new(0),
                guests: [Padded(AtomicUsize::new(0)), Padded(AtomicUsize::new(0))],
            }
        }
    }
}

impl Chunk {
    #[cfg(not(loom))]
    const fn new() -> Chunk {
        Chunk { taken: AtomicU64::new(NEVER), slots: [const { Slot::new() }; SLOTS] }
    }

    #[cfg(loom)]
    fn new() -> Chunk {
        Chunk { taken: AtomicU64::new(NEVER), slots: std::array::from_fn(|_| Slot::new()) }
    }

    /// Takes the lowest free slot.
    fn take(&self) -> Option<&Slot> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        while taken != !0 {
            let free = (!taken).trailing_zeros();
            // Acquire: what the slot's last owner did is behind us. A.
            let before = self.taken.fetch_or(1 << free, Ordering::AcqRel);
            if before & (1 << free) == 0 {
                return self.slots.get(free as usize);
            }
            taken = before;
        }
        None
    }

    fn entry_of(&self, slot: &Slot) -> Option<Entry<'_>> {
        let bytes = core::ptr::from_ref(slot).addr().checked_sub(self.slots.as_ptr().addr())?;
        let place = bytes / size_of::<Slot>();
        self.slots.get(place).map(|slot| Entry { chunk: self, bit: 1 << place, slot })
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        // A.
        let mut left = self.taken.load(Ordering::Acquire) & !NEVER;
        core::iter::from_fn(move || {
            let place = left.trailing_zeros();
            let slot = self.slots.get(place as usize)?;
            left &= left - 1;
            Some(Entry { chunk: self, bit: 1 << place, slot })
        })
    }
}

impl Entry<'_> {
    fn give_back(&self) {
        // A.
        self.chunk.taken.fetch_and(!self.bit, Ordering::Release);
    }
}

impl Registry {
    /// Takes a slot for the thread `tid` of process `pid`. `None`: no memory, too many threads, or a process that
    /// shares our memory without being us (between vfork and exec).
    pub(crate) fn claim(&self, pid: i32, tid: i32) -> Option<&Slot> {
        self.belongs_to(pid).then_some(())?;
        let slot = self.find_free().or_else(|| {
            self.reap(pid);
            self.find_free().or_else(|| self.grow())
        })?;
        slot.take(tid);
        // C.
        fence(Ordering::SeqCst);
        Some(slot)
    }

    /// True when no thread but the caller, whose slot is `own`, is registered. The caller has fenced since it looked at
    /// what it protects.
    pub(crate) fn is_alone(&self, own: Option<&Slot>) -> bool {
        // C.
        self.entries().all(|entry| own.is_some_and(|own| core::ptr::eq(own, entry.slot)))
    }

    /// Gives the slot back that the calling thread has.
    pub(crate) fn release(&self, slot: &Slot) {
        if let Some(entry) = self.chunks().find_map(|chunk| chunk.entry_of(slot))
            && slot.clear(slot.owner())
        {
            entry.give_back();
        }
    }

    /// All slots that are taken.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.chunks().flat_map(Chunk::entries)
    }

    /// Takes the slot back if its owner is dead and has left no guard behind, of which another thread may have a
    /// reference.
    pub(crate) fn reap_entry(&self, pid: i32, entry: Entry<'_>) {
        let Some(owner) = self.dead_owner(pid, entry) else { return };
        // Looked at behind the death: from there on it does not change.
        let is_kept = entry.slot.is_guarded() && self.deaths_end_guards.load(Ordering::Relaxed) == 0;
        if !is_kept && entry.slot.clear(owner) {
            entry.give_back();
        }
    }

    /// The owner of a slot, if it is dead.
    pub(crate) fn dead_owner(&self, pid: i32, entry: Entry<'_>) -> Option<Owner> {
        let owner = entry.slot.owner();
        // Between vfork and exec every thread of the parent looks dead.
        (owner.tid() != 0 && self.belongs_to(pid) && !exists(pid, owner.tid())).then_some(owner)
    }

    /// From here on the guards of the dead protect nothing.
    pub(crate) fn end_guards_of_the_dead(&self) {
        self.deaths_end_guards.store(1, Ordering::Relaxed);
    }

    /// In the child of a fork: forgets all threads but the one of `own`, which has new ids.
    pub(crate) fn keep_only(&self, own: Option<&Slot>, pid: i32, tid: i32) {
        self.process.store(pid as u32, Ordering::Relaxed);
        for entry in self.entries() {
            if own.is_some_and(|own| core::ptr::eq(own, entry.slot)) {
                entry.slot.take(tid);
            } else {
                entry.slot.clear(entry.slot.owner());
                entry.give_back();
            }
        }
    }

    /// Notes at the first call which process this is; true when it is `pid`.
    pub(crate) fn belongs_to(&self, pid: i32) -> bool {
        match self.process.compare_exchange(0, pid as u32, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(process) => process == pid as u32,
        }
    }

    /// Takes the slots of the dead back, of one chunk.
    fn reap(&self, pid: i32) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let turn = turn.checked_rem(self.chunks().count()).unwrap_or(0);
        for entry in self.chunks().skip(turn).take(1).flat_map(Chunk::entries) {
            self.reap_entry(pid, entry);
        }
    }

    fn find_free(&self) -> Option<&Slot> {
        self.chunks().find_map(Chunk::take)
    }

    #[cfg(not(loom))]
    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        core::iter::once(&self.first).chain(self.more.chunks())
    }

    #[cfg(not(loom))]
    fn grow(&self) -> Option<&Slot> {
        if self.more.grow().is_none() {
            let pid = self.process.load(Ordering::Relaxed) as i32;
            for entry in self.entries() {
                self.reap_entry(pid, entry);
            }
        }
        self.find_free()
    }

    #[cfg(loom)]
    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::once(&self.first)
    }

    #[cfg(loom)]
    fn grow(&self) -> Option<&Slot> {
        None
    }
}

#[cfg(not(loom))]
fn exists(pid: i32, tid: i32) -> bool {
    mote_sys::thread::exists(pid, tid)
}

/// Threads of a model do not die.
#[cfg(loom)]
fn exists(_: i32, _: i32) -> bool {
    true
}

#[cfg(not(loom))]
mod growth {
    //! Chunks beyond the first.

    use super::Chunk;
    use core::sync::atomic::{AtomicPtr, Ordering};
    use mote_sys::mem::Mapping;

    /// 16,384 threads in all.
    const CHUNKS: usize = 255;

    #[derive(Debug)]
    pub(super) struct More([AtomicPtr<Chunk>; CHUNKS]);

    impl More {
        pub(super) const fn new() -> More {
            More([const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS])
        }

        pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
            self.0.iter().map_while(|place| {
                // SAFETY: a pointer here came from `grow`: a whole chunk that is never unmapped, and
                // that is only reached through shared references (B).
                unsafe { place.load(Ordering::Acquire).as_ref() }
            })
        }

        /// Adds a chunk, unless another thread just has.
        pub(super) fn grow(&self) -> Option<()> {
            let place = self.0.iter().find(|place| place.load(Ordering::Acquire).is_null())?;
            // Zeroed pages are a chunk without owners. They are aligned to pages, a chunk to 128 bytes.
            let memory = Mapping::private(size_of::<Chunk>()).ok()?;
            let none = core::ptr::null_mut();
            // B.
            let placed =
                place.compare_exchange(none, memory.base().cast(), Ordering::AcqRel, Ordering::Acquire);
            if placed.is_ok() {
                memory.leak();
            }
            Some(())
        }
    }
}
