//! One batch of sites on its way from one code to the next: the protocol.
//!
//! # Parties
//! Patcher: the holder of the lock. Runners: any thread, in any site of the batch, at any moment.
//!
//! # State
//! Each site: `old` code; *gate* (something that leads past the site whatever the rest of it holds); gate with
//! the new *tail* (the bytes behind the gate); `new` code. Sources: Linux `text_poke_bp_batch`
//! (arch/x86/kernel/alternative.c); Desnoyers 2009, chapter 8.
//!
//! | gate | bytes | a runner that meets it | needs |
//! |---|---|---|---|
//! | [`Gate::Trap`] | `cc` | is sent to where the new code leads, by the handler of [`crate::trap`] | SIGTRAP open on each thread |
//! | [`Gate::Hop`] | `eb 03` | hops behind the site, as over a NOP | both bytes in one aligned 8 bytes |
//!
//! # Transitions
//! 1. The batch is published. 2. Gates. 3. SYNC_CORE. 4. Tails. 5. SYNC_CORE. 6. Heads. 7. SYNC_CORE.
//! 8. The batch is retracted.
//!
//! # Ordering
//! B1. No runner executes old head with new tail: after 3 every core has dropped what it fetched before 2.
//! B2. No runner executes gate or new head with old tail, once the head is new: 5.
//! B3. Every pass that starts after the batch executes the new code: 7. (membarrier(2), SYNC_CORE: each thread of the
//!     process executes a core serialising instruction before it runs user code again.)
//! A runner cannot be *inside* a site: old code, gate and new code are one instruction each, at its first byte.
//!
//! # Places of the program's own code
//! Their old code may be several instructions ([`crate::Place`]), so a runner can be inside. Between 3 and 4 the guards
//! are written, and between them the program's instructions stand as they were; when the jump goes, these come before
//! the guards go.
//! B4. No runner executes an instruction between guards with bytes of the jump: from the barrier behind the guards on,
//!     each runner that comes to one of these instructions meets its guard, at any time (`crate::trap`).
//!
//! # Why the gates may be written under running threads
//! `Trap` is one byte. Replacing the first byte of an instruction by int3 unsynchronised is what kernels and debuggers
//! rest on; Intel confirmed it to them, outside of the manuals (R. J. Moore, linux-kernel, 2006-09-20). `Hop` is what
//! LLVM XRay does to its sleds: a two-byte `jmp` stored at once over and by other instructions of running code. AMD
//! allows it (APM vol. 2, 7.6.1: a store that lies in a naturally aligned quadword shows as old or new bytes to
//! instruction fetch); Intel promises nothing (SDM vol. 3, "Handling Self- and Cross-Modifying Code", and the erratum
//! "Unsynchronized Cross-Modifying Code"). So it is used only where a trap would kill, and only on AMD's processors
//! unless the user asks for it (`crate::hop`).
//!
//! # Progress
//! The patcher does a bounded number of steps. Runners are never stopped, a trap costs them a signal delivery.
//!
//! # Signals, fork
//! The patcher's own signals are blocked. A child forked in between, behind the lock's back, has the published table:
//! its runners are served, and [`crate::reset_after_fork`] finishes the batch.

use crate::Error;
use crate::arch::{self, HOP, Head, TRAP, serialise};
use crate::code::{Code, SITE_BYTES};
use crate::hop::may_hop;
use crate::lock::PatchGuard;
use crate::remap::{Buffers, Done};
use crate::table::{BATCH, Published};
use crate::trap::TABLE;
use crate::write::{Memory, NO_PAGES, Pages, Writer};
use core::cell::UnsafeCell;
use mote_sys::{Errno, membarrier};

/// One site and what it becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) addr: usize,
    pub(crate) to: Code,
    pub(crate) old: [u8; SITE_BYTES],
    pub(crate) new: [u8; SITE_BYTES],
}

impl Change {
    /// True when the site can be changed through [`Gate::Hop`]: at a program's own code it is not, whose first
    /// instruction may be shorter.
    pub(crate) fn can_hop(&self) -> bool {
        self.to.place().is_none() && arch::can_hop(self.addr) && may_hop()
    }

    /// Whether guards come to be there, which threads have to be able to take.
    pub(crate) fn brings_guards(&self) -> bool {
        matches!(self.to, Code::On(place) if place.guards != 0)
    }

    /// What has to stand between the old bytes and the new ones, if anything: guards stand before a jump lies between
    /// them, and until it is gone.
    fn between(&self) -> Option<[u8; SITE_BYTES]> {
        let (place, guarded, open) = match &self.to {
            Code::On(place) => (place, self.new, self.old),
            Code::Off(place) => (place, self.old, self.new),
            Code::Nop | Code::Jump(_) => return None,
        };
        let mut between = open;
        for (n, (to, guard)) in between.iter_mut().zip(guarded).enumerate() {
            if place.is_guard(n) {
                *to = guard;
            }
        }
        (place.guards != 0).then_some(between)
    }
}

/// Up to [`BATCH`] changes of sites that do not overlap.
pub(crate) struct Batch {
    changes: [Change; BATCH],
    len: usize,
    /// No change has bytes from here on: sites come by their address, mostly.
    end: usize,
}

/// What a patcher needs for a batch: too much for a stack, so it is the process's.
pub(crate) struct Room {
    pub(crate) batch: Batch,
    pub(crate) pages: Pages,
    pub(crate) buffers: Buffers,
    pub(crate) done: Done,
}

struct Shelf(UnsafeCell<Room>);
// SAFETY: `room` gives it to the holder of the lock only.
unsafe impl Sync for Shelf {}
static ROOM: Shelf = Shelf(UnsafeCell::new(Room {
    batch: Batch::NONE,
    pages: NO_PAGES,
    buffers: Buffers::NONE,
    done: [false; BATCH],
}));

/// The room for a batch, which is empty.
pub(crate) fn room(_: &mut PatchGuard) -> &mut Room {
    // SAFETY: `patch-locked`: there is one guard at a time, and it is borrowed for as long as the result.
    let room = unsafe { &mut *ROOM.0.get() };
    room.batch.clear();
    room
}

impl Batch {
    /// No changes. All of it are zeros, so that it takes no place in the program's file.
    const NONE: Batch = {
        let none = Change { addr: 0, to: Code::Nop, old: [0; SITE_BYTES], new: [0; SITE_BYTES] };
        Batch { changes: [none; BATCH], len: 0, end: 0 }
    };

    /// The changes that are to be made, in the order in which they were added.
    pub(crate) fn changes(&self) -> &[Change] {
        self.changes.get(..self.len).unwrap_or_default()
    }

    /// True when a change of the site at `addr` must wait for the next batch: no room, or a site here shares bytes.
    pub(crate) fn excludes(&self, addr: usize) -> bool {
        let shares = |change: &Change| change.addr.abs_diff(addr) < SITE_BYTES;
        self.len == BATCH || addr < self.end && self.changes().iter().any(shares)
    }

    /// Takes in a change that is not excluded.
    pub(crate) fn add(&mut self, change: Change) {
        if let Some(slot) = self.changes.get_mut(self.len) {
            *slot = change;
            self.len += 1;
            self.end = self.end.max(change.addr.saturating_add(SITE_BYTES));
        }
    }

    /// Throws out the changes for which `keep` is false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Change) -> bool) {
        let all = core::mem::take(&mut self.len);
        for n in 0..all {
            if let Some(change) = self.changes.get(n).copied().filter(&mut keep) {
                self.add(change);
            }
        }
    }

    /// Throws out all.
    pub(crate) fn clear(&mut self) {
        (self.len, self.end) = (0, 0);
    }
}

/// What stands in a site while its tail changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// A breakpoint.
    Trap,
    /// A short jump over the rest.
    Hop,
}

/// Makes the changes while no other thread exists.
///
/// Sound because nothing else can execute the sites meanwhile: threads are made by threads, and signal handlers of
/// this one are blocked ([`mod@crate::lock`]). What this core fetched before is dropped by the serialising instruction.
///
/// # Errors
/// [`Error::NotWritable`], with all sites as they were; [`Error::Unfinished`] when not even that could be had.
///
/// # Safety
/// `site-mapped`, `site-whole`, `target-enterable`, `patch-locked`, `one-thread`.
pub(crate) unsafe fn write_alone(
    changes: &[Change],
    memory: &mut Memory,
    pages: &mut Pages,
) -> Result<(), Error> {
    let mut writer = Writer::new(memory, pages, changes.iter().map(|change| change.addr));
    for (n, change) in changes.iter().enumerate() {
        // SAFETY: `one-thread`, and `site-whole`: the bytes are one instruction.
        if let Err(errno) = unsafe { writer.write(change.addr, &change.new) } {
            // With the one that failed, of which a part may lie on a page that can be written.
            for undone in changes.iter().take(n + 1) {
                // SAFETY: as above; the bytes are what was there.
                let _ = unsafe { writer.write(undone.addr, &undone.old) };
                // SAFETY: `site-mapped`.
                if unsafe { read(undone.addr) } != undone.old {
                    return Err(Error::Unfinished(errno));
                }
            }
            return Err(Error::NotWritable { addr: change.addr, errno });
        }
    }
    serialise();
    Ok(())
}

/// Makes the changes while other threads run through the sites.
///
/// # Errors
/// [`Error::NoBarrier`] and [`Error::NotWritable`], with all sites as they were; [`Error::Unfinished`].
///
/// # Safety
/// `site-mapped`, `site-whole`, `target-enterable`, `patch-locked`; `old` is what is there. For [`Gate::Trap`] our
/// handler is installed; for [`Gate::Hop`] `hop-fits`.
pub(crate) unsafe fn write_among(
    gate: Gate,
    changes: &[Change],
    memory: &mut Memory,
    pages: &mut Pages,
) -> Result<(), Error> {
    membarrier::register_sync_core().map_err(Error::NoBarrier)?;
    let mut writer = Writer::new(memory, pages, changes.iter().map(|change| change.addr));
    TABLE.publish(changes.iter().map(|change| Published {
        addr: change.addr,
        leads_to: change.to.leads_to(change.addr),
        becomes: change.new,
    }));
    for (n, change) in changes.iter().enumerate() {
        // SAFETY: the caller's promises, and `batch-published`.
        if let Err(errno) = unsafe { gate.close(change, &mut writer) } {
            let closed = changes.get(..n).unwrap_or_default();
            // SAFETY: `gate-closed`; the tails are still the old ones.
            unsafe { gate.open(closed, |change| change.old, &mut writer) }.map_err(Error::Unfinished)?;
            TABLE.retract();
            return Err(Error::NotWritable { addr: change.addr, errno });
        }
    }
    // SAFETY: the caller's promises, and `gate-closed`.
    unsafe { gate.finish(changes, &mut writer) }.map_err(Error::Unfinished)?;
    TABLE.retract();
    serialise();
    Ok(())
}

impl Gate {
    /// Bytes that the gate takes.
    fn len(self) -> usize {
        match self {
            Gate::Trap => size_of::<Head>(),
            Gate::Hop => HOP.len(),
        }
    }

    /// Transition 2 of one site.
    ///
    /// # Safety
    /// As [`write_among`], and `batch-published`.
    unsafe fn close(self, change: &Change, writer: &mut Writer) -> Result<(), Errno> {
        match self {
            // SAFETY: `batch-published`: the handler knows the site.
            Gate::Trap => unsafe { writer.write(change.addr, &TRAP.to_le_bytes()) },
            // SAFETY: `hop-fits`.
            Gate::Hop => unsafe { writer.write_pair(change.addr, HOP) },
        }
    }

    /// Transitions 6 and 7: the heads of `code` where the tails are already.
    ///
    /// # Safety
    /// `gate-closed`, and every core has seen the tails of `code`.
    unsafe fn open(
        self,
        changes: &[Change],
        code: impl Fn(&Change) -> [u8; SITE_BYTES],
        writer: &mut Writer,
    ) -> Result<(), Errno> {
        for change in changes {
            let code = code(change);
            match self {
                Gate::Trap => match code.first_chunk::<{ size_of::<Head>() }>() {
                    // SAFETY: `gate-closed`; the head completes the instruction.
                    Some(head) => unsafe { writer.write(change.addr, head) },
                    None => Ok(()),
                },
                Gate::Hop => match code.first_chunk::<{ HOP.len() }>() {
                    // SAFETY: `gate-closed` and `hop-fits`; the pair completes the instruction.
                    Some(pair) => unsafe { writer.write_pair(change.addr, *pair) },
                    None => Ok(()),
                },
            }?;
        }
        sync_core()
    }

    /// Transitions 3 to 7.
    ///
    /// # Safety
    /// `gate-closed`.
    unsafe fn finish(self, changes: &[Change], writer: &mut Writer) -> Result<(), Errno> {
        sync_core()?; // B1
        let mut tail = |change: &Change, code: [u8; SITE_BYTES]| {
            let tail = code.get(self.len()..).unwrap_or_default();
            // SAFETY: `gate-closed`: no thread executes the bytes behind it, but guards and what stands between them.
            unsafe { writer.write(change.addr.wrapping_add(self.len()), tail) }
        };
        let mut has_guards = false;
        for (change, between) in changes.iter().filter_map(|change| Some((change, change.between()?))) {
            tail(change, between)?;
            has_guards = true;
        }
        if has_guards {
            sync_core()?; // B4
        }
        for change in changes {
            tail(change, change.new)?;
        }
        sync_core()?; // B2
        // SAFETY: `gate-closed`, and B2.
        unsafe { self.open(changes, |change| change.new, writer) } // B3
    }
}

/// The bytes at `addr` now.
///
/// # Safety
/// `site-mapped`.
pub(crate) unsafe fn read(addr: usize) -> [u8; SITE_BYTES] {
    // SAFETY: `site-mapped`. Volatile: other code than the compiler knows of writes it.
    unsafe { (addr as *const [u8; SITE_BYTES]).read_volatile() }
}

/// SYNC_CORE, tried again when the kernel was short of memory for a moment.
fn sync_core() -> Result<(), Errno> {
    let mut last = Ok(());
    for _ in 0..100 {
        last = membarrier::sync_core();
        if last != Err(Errno(libc::ENOMEM)) {
            return last;
        }
    }
    last
}
