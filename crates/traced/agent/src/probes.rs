//! Probes of the program's own: functions that it connects to its declared events, several to one, while threads run.
//!
//! # Parties
//! Threads and signal handlers that come by a site, which call the probes inside of a read section; threads that
//! connect and disconnect, one at a time, with the control path held. A probe may itself connect and disconnect: no
//! thread waits for a grace period with the control path held.
//! # State
//! An event's [`Probes`] is a list, in the order in which they were connected. While it is not empty the event's
//! `switch` says so, and its sites are on. What was taken out is kept until a grace period is over; then its value is
//! dropped, outside of the control path because that is the program's code, by the next thread that connects,
//! disconnects or waits.
//!
//! # Ordering
//! A. A probe is whole before the list leads to it (release; acquire in [`Probes::each`]).
//! B. A pass that starts after `connect` calls the probe: its sites were changed before, and those that led here
//!    already see the list as any thread sees what another one has stored.
//!
//! # Invariants
//! `probe-outlives-section`: a [`Probe`] that a list leads to, or led to when a section began that is not over, is
//! whole, and its value is not dropped.
//! `probe-slots`: a free slot of the pool is in its list once, and no probe lies there.

use crate::change::{self, ChangeError, Sites};
use crate::event::Event;
use crate::hold::{self, Control};
use crate::registry::{self, Range};
use core::alloc::Layout;
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use mote_patch::Edit;
use mote_rcu::{Flavor, Library, Token, library, start_poll, synchronize};
use mote_sys::mem::{Mapping, PAGE_BYTES};

/// Bytes of a slot: a probe, and a value of up to some 150 bytes.
const SLOT_BYTES: usize = 256;
/// Slots of the pool; pages of it are used as probes come.
const SLOTS: usize = 1 << 14;

/// The probes of an event; `mote.h` has the same.
#[repr(C)]
#[derive(Debug)]
pub struct Probes {
    first: AtomicPtr<Probe>,
}

/// A probe; `mote.h` knows the words before `of`.
#[repr(C)]
#[derive(Debug)]
struct Probe {
    next: AtomicPtr<Probe>,
    call: *const (),
    data: *mut (),
    of: &'static Probes,
    event: &'static Event,
    /// Drops the value.
    end: Option<unsafe fn(*mut ())>,
    /// Of its own mapping; 0: it lies in the pool.
    bytes: usize,
    /// When it was taken out, and the one that was before. With the control path held.
    retired: Cell<Option<Token<Library>>>,
    next_retired: Cell<*mut Probe>,
}
const _: () = assert!(size_of::<Probe>() <= SLOT_BYTES);

/// What is to be connected.
#[derive(Clone, Copy, Debug)]
pub struct NewProbe {
    /// What the event's caller calls.
    pub call: *const (),
    /// What it is given; where the value is, if that is to be moved.
    pub data: *mut (),
    /// The value is the probe's.
    pub moved: Option<Moved>,
}

/// A value that is moved to where its probe is.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Its layout.
    pub layout: Layout,
    /// Drops it.
    pub end: unsafe fn(*mut ()),
}

/// A probe that is connected. Dropping this leaves it so, for the life of the process.
#[derive(Debug)]
pub struct Connection(NonNull<Probe>);

// SAFETY: a probe's value is `Send` and `Sync` (`connect`); all else is changed with the control path held.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

/// What is changed with the control path held.
struct Store {
    pool: Option<Mapping>,
    /// Slots that were used so far.
    used: usize,
    /// Slots that were used, as a list through their first words.
    free: *mut u8,
    retired: Cell<*mut Probe>,
}

struct Shelf(UnsafeCell<Store>);
// SAFETY: `store` gives it to the holder of the control path only.
unsafe impl Sync for Shelf {}
static STORE: Shelf = Shelf(UnsafeCell::new(Store {
    pool: None,
    used: 0,
    free: core::ptr::null_mut(),
    retired: Cell::new(core::ptr::null_mut()),
}));

fn store(_: &mut Control) -> &mut Store {
    // SAFETY: there is one `Control` at a time, and it is borrowed for as long as the result.
    unsafe { &mut *STORE.0.get() }
}

impl Probes {
    /// An event without probes of the program's own.
    pub const fn new() -> Probes {
        Probes { first: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Does something with each probe, by what it calls and what that is given.
    ///
    /// # Signal safety
    /// Callable from a handler, if the probes are.
    #[inline]
    pub fn each(&self, mut action: impl FnMut(*const (), *mut ())) {
        let section = library::read();
        // A.
        let mut next = self.first.load(Ordering::Acquire);
        // SAFETY: `probe-outlives-section`.
        while let Some(probe) = unsafe { next.as_ref() } {
            action(probe.call, probe.data);
            next = probe.next.load(Ordering::Acquire);
        }
        drop(section);
    }

    fn is_empty(&self) -> bool {
        self.first.load(Ordering::Acquire).is_null()
    }

    /// The word that leads to a probe, or the last one for none. With the control path held.
    fn leading_to(&self, probe: *const Probe) -> &AtomicPtr<Probe> {
        let mut place = &self.first;
        loop {
            let next = place.load(Ordering::Relaxed);
            if core::ptr::eq(next, probe) {
                return place;
            }
            // SAFETY: `probe-outlives-section`: what is in the list changes with the control path held only.
            match unsafe { next.as_ref() } {
                Some(next) => place = &next.next,
                None => return place,
            }
        }
    }
}

impl Default for Probes {
    fn default() -> Probes {
        Probes::new()
    }
}

/// Connects a probe to an event: every pass of a site that starts after this calls it, behind those that were connected
/// before. A value that is to be moved is moved if this succeeds.
///
/// Waits as `flip` does.
///
/// # Errors
/// Sites cannot be changed here, or not now; or there is no memory.
///
/// # Safety
/// 1. `own` must be the bounds of the section of site records of the caller's object, which stays mapped until it is
///    removed; `probes` are those of `event`, and both are of that object, if they are of one that can be unloaded.
/// 2. `new.call` may be called as the event's caller does it, with `new.data` or where the value was moved to, by any
///    thread, until a grace period after it was disconnected. A value that is moved is `Send` and `Sync`, and lies at
///    `new.data` with its layout.
///
/// # Signal safety
/// Not for handlers.
pub unsafe fn connect(
    own: Sites,
    event: &'static Event,
    probes: &'static Probes,
    new: NewProbe,
) -> Result<Connection, ChangeError> {
    sweep();
    let attempt = |control: &mut Control| {
        // SAFETY: 1.
        unsafe { change::know(own) }?;
        // Sites that test a word lead here from now on, and find no probe yet.
        event.set_probed(true);
        change::apply(&mut edits(event, true))?;
        let (memory, value_at, bytes) = store(control).take(new.moved.map(|moved| moved.layout))?;
        let data = match new.moved {
            Some(moved) => {
                let data = memory.wrapping_add(value_at);
                // SAFETY: 2; `take` has found room for the layout there.
                unsafe { data.copy_from_nonoverlapping(new.data.cast(), moved.layout.size()) };
                data.cast()
            }
            None => new.data,
        };
        let probe = memory.cast::<Probe>();
        let whole = Probe {
            next: AtomicPtr::new(core::ptr::null_mut()),
            call: new.call,
            data,
            of: probes,
            event,
            end: new.moved.map(|moved| moved.end),
            bytes,
            retired: Cell::new(None),
            next_retired: Cell::new(core::ptr::null_mut()),
        };
        // SAFETY: fresh memory of the right size, aligned to 256.
        unsafe { probe.write(whole) };
        // A.
        probes.leading_to(core::ptr::null()).store(probe, Ordering::Release);
        NonNull::new(probe).map(Connection).ok_or(ChangeError::NO_ROOM)
    };
    let take_back = |_: &mut Control| switch_off_unless_probed(event, probes);
    change::persist(attempt, take_back)
}

impl Connection {
    /// Takes the probe out: no pass that starts after this calls it. Others may still be in it; when they have left it,
    /// its value is dropped, by this or a later call of `connect`, `disconnect` or [`wait_for_probes`].
    ///
    /// May be called by a probe, its own included.
    ///
    /// # Signal safety
    /// Not for handlers.
    pub fn disconnect(self) {
        let mut control = hold::control();
        // SAFETY: `probe-outlives-section`: it is in its list, from which only this takes it out.
        let probe = unsafe { self.0.as_ref() };
        let next = probe.next.load(Ordering::Relaxed);
        probe.of.leading_to(probe).store(next, Ordering::Release);
        switch_off_unless_probed(probe.event, probe.of);
        let retired = &store(&mut control).retired;
        probe.retired.set(Some(start_poll()));
        probe.next_retired.set(retired.replace(self.0.as_ptr()));
        drop(control);
        sweep();
    }

    /// As a pointer, which stands for the connection.
    pub fn into_raw(self) -> *mut () {
        self.0.as_ptr().cast()
    }

    /// Of such a pointer; `None` when it is null.
    ///
    /// # Safety
    /// `connection` is null, or of `into_raw` and not used any more.
    pub unsafe fn from_raw(connection: *mut ()) -> Option<Connection> {
        NonNull::new(connection.cast()).map(Connection)
    }
}

/// Waits until no thread is in a probe any more that was disconnected before, and drops these probes' values. Returns
/// false at once, and has not waited, where it would wait for itself: inside of a probe.
///
/// A thread that holds a lock which a probe takes must not call this.
///
/// # Signal safety
/// Not for handlers.
pub fn wait_for_probes() -> bool {
    if Library::is_reading() {
        return false;
    }
    synchronize::<Library>();
    sweep();
    true
}

/// When the last probe is gone. Sites that cannot be changed now lead on to nothing.
fn switch_off_unless_probed(event: &'static Event, probes: &Probes) {
    event.set_probed(!probes.is_empty());
    let is_on = event.is_on();
    let _ = change::apply(&mut edits(event, is_on));
}

/// What is to be done to the sites of an event.
fn edits(event: &'static Event, on: bool) -> impl Iterator<Item = Edit> {
    let sites = registry::objects().flat_map(Range::sites);
    let its = sites.filter(move |site| core::ptr::eq(site.event(), event));
    its.filter_map(move |site| site.edit(on))
}

/// Drops what no thread looks at any more.
fn sweep() {
    loop {
        let mut control = hold::control();
        let Some(probe) = store(&mut control).take_done() else { return };
        drop(control);
        // SAFETY: it is in no list any more, and a grace period is over since.
        let Probe { data, end, bytes, .. } = unsafe { probe.read() };
        if let Some(end) = end {
            // The program's code: without the control path.
            // SAFETY: `connect`, 2: it drops the value, which no thread uses any more.
            unsafe { end(data) };
        }
        let mut control = hold::control();
        // SAFETY: `take` has given it, and nothing is in it any more.
        unsafe { store(&mut control).give_back(probe.cast(), bytes) };
        drop(control);
    }
}

impl Store {
    /// Memory for a probe and a value: where it begins, at which byte the value goes, and how long it is if it is a
    /// mapping of its own.
    fn take(&mut self, value: Option<Layout>) -> Result<(*mut u8, usize, usize), ChangeError> {
        let whole = Layout::new::<Probe>().extend(value.unwrap_or(Layout::new::<()>()));
        let (whole, value_at) = whole.map_err(|_| ChangeError::NO_ROOM)?;
        if whole.size() <= SLOT_BYTES
            && whole.align() <= SLOT_BYTES
            && let Some(slot) = self.slot()
        {
            return Ok((slot, value_at, 0));
        }
        if whole.align() > PAGE_BYTES {
            return Err(ChangeError::NO_ROOM);
        }
        let memory = Mapping::private(whole.size()).map_err(|_| ChangeError::NO_ROOM)?;
        Ok((memory.leak(), value_at, whole.size()))
    }

    fn slot(&mut self) -> Option<*mut u8> {
        if !self.free.is_null() {
            let slot = self.free;
            // SAFETY: `probe-slots`: its first word leads to the next one.
            self.free = unsafe { slot.cast::<*mut u8>().read() };
            return Some(slot);
        }
        if self.used == SLOTS {
            return None;
        }
        if self.pool.is_none() {
            self.pool = Some(Mapping::private(SLOTS * SLOT_BYTES).ok()?);
        }
        let slot = self.pool.as_ref()?.base().wrapping_add(self.used * SLOT_BYTES);
        self.used += 1;
        Some(slot)
    }

    /// # Safety
    /// `memory` and `bytes` are of `take`, and no thread uses the memory any more.
    unsafe fn give_back(&mut self, memory: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller's promise.
            drop(unsafe { Mapping::adopt(memory, bytes) });
            return;
        }
        // SAFETY: a slot, which is free from now on (`probe-slots`).
        unsafe { memory.cast::<*mut u8>().write(self.free) };
        self.free = memory;
    }

    /// Takes out a probe that was disconnected a grace period ago.
    fn take_done(&mut self) -> Option<*mut Probe> {
        let mut place = &self.retired;
        loop {
            let at = place.get();
            // SAFETY: the list leads through probes that were disconnected and not freed.
            let probe = unsafe { at.as_ref() }?;
            if probe.retired.get().is_none_or(|token| token.is_done()) {
                place.set(probe.next_retired.get());
                return Some(at);
            }
            place = &probe.next_retired;
        }
    }
}
