//! Live patching of event sites in running text.
//!
//! A site is a NOP in a program's code, or a place of its code that was not made for this ([`Place`]). [`apply`] writes
//! a jump over it (armed) or what was there back (disarmed) while other threads run through it at full speed; once it
//! returned, every pass that starts goes the new way. Nothing here allocates, prints, panics or touches `errno`, and no
//! foreign byte is ever changed.
//!
//! | module | job |
//! |---|---|
//! | `code` | the five bytes, to and from codes |
//! | `remap` | changing sites by other pages: no thread meets a breakpoint |
//! | `batch` | a batch of sites, and the protocol where pages cannot be exchanged: gates, tails, heads, barriers |
//! | `table` | the batch, published to trap handlers |
//! | `trap` | the handlers of SIGTRAP and SIGILL, and handing on what is not ours |
//! | `hop` | whether the gate that needs no handler may be used here |
//! | `company` | which other threads run here, whether a breakpoint would kill them, and whether pages may be exchanged |
//! | `write`, `maps` | writing to text that is not writable |
//! | `lock` | one patcher at a time, none across a fork |
//!
//! # Obligations
//! SAFETY comments and `# Safety` sections of this crate cite these by name.
//!
//! | name | what has to hold | established by |
//! |---|---|---|
//! | `site-mapped` | the site's bytes are mapped and readable text, and stay that until the call returns (no dlclose) | the caller |
//! | `site-whole` | a NOP or jump that is found there is a site: one instruction, which no code jumps into | the caller |
//! | `target-enterable` | a thread may enter the target's code from its site | the caller |
//! | `patch-locked` | this thread holds the lock, and its asynchronous signals are blocked | [`lock()`] |
//! | `one-thread` | no other thread exists, so that nothing else executes a site | `company::own`; the caller |
//! | `batch-published` | the table has all sites of the batch, so that the handler knows their breakpoints | `Table::publish` |
//! | `gate-closed` | each site of the batch has its gate, so that no thread executes the bytes behind it | `Gate::close`, B1 |
//! | `hop-fits` | the bytes of a hop at this site show to other cores all at once | `Change::can_hop` |
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]

mod arch;
mod batch;
mod code;
mod company;
mod hop;
mod lock;
mod maps;
mod remap;
mod table;
mod trap;
mod write;

pub use code::{Code, Place, SITE_BYTES, State};
pub use hop::{Hops, set_hops};
pub use lock::{PatchGuard, fork_done, fork_prepare, lock};
pub use trap::{Lasting, Resume, add_lasting};

use batch::{Batch, Change, Gate, Room, read};
use company::Signals;
use core::fmt;
use mote_sys::signal::chain::Installed;
use mote_sys::{Errno, membarrier, time};
use remap::Spare;
use table::Published;
use trap::TABLE;
use write::{Memory, Pages};

/// What one site should become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Address of the site's first byte.
    pub addr: usize,
    /// What it should do.
    pub to: Code,
}

/// Why one site was left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It holds neither the NOP nor a jump, but these bytes; a place of the program's code, neither that nor its jump.
    Foreign([u8; SITE_BYTES]),
    /// The jump cannot reach: the target is more than 2 GiB away.
    OutOfReach,
    /// A breakpoint could kill (a thread or a handler blocks SIGTRAP, a debugger is attached), and no other way works
    /// here: pages cannot be exchanged, or the jump has guards ([`Place`]); and of the short jump the processor's
    /// vendor does not promise that it works ([`Hops`]), the address is 7 modulo 8, or pages cannot be made writable.
    /// Later it may work.
    Blocked,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Foreign(bytes) => write!(f, "site holds other code: {bytes:02x?}"),
            Refusal::OutOfReach => f.write_str("site is more than 2 GiB from its target"),
            Refusal::Blocked => f.write_str(
                "site cannot be patched while a thread or handler blocks SIGTRAP or a debugger is attached; try again later",
            ),
        }
    }
}

/// What [`apply`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Sites changed.
    pub changed: usize,
    /// Sites that were as wanted already.
    pub already: usize,
    /// Sites refused.
    pub refused: usize,
}

/// Why [`apply`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text at `addr` cannot be written, neither through `/proc/self/mem` nor by making its page
    /// writable, which answered `errno`.
    NotWritable {
        /// The site.
        addr: usize,
        /// What mprotect(2) said.
        errno: Errno,
    },
    /// Other threads run, and the kernel cannot make them serialise (Linux before 4.16, or a sandbox).
    NoBarrier(Errno),
    /// A batch could not be finished, because the kernel refused in the middle what it had allowed before. Threads go
    /// on running through its sites, which act as what they should become, but nothing can be patched any more.
    Unfinished(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotWritable { addr, errno } => write!(
                f,
                "text at {addr:#x} cannot be written: {errno}; allow /proc/self/mem or writable text pages"
            ),
            Error::NoBarrier(errno) => {
                write!(f, "threads cannot be synchronised by membarrier: {errno}; needs Linux 4.16")
            }
            Error::Unfinished(errno) => {
                write!(f, "patching was cut short: {errno}; restart the program to patch it again")
            }
        }
    }
}

impl core::error::Error for Error {}

/// Makes the edits, and calls `refused` for each site that was left as it was.
///
/// When it returns `Ok`, every pass through a changed site that starts afterwards, on any thread, goes the new way.
/// While it runs, passes go the old way, the new way, or (sites of a process where a breakpoint could kill and pages
/// cannot be exchanged) like a NOP.
/// Edits of one address are made in their order.
///
/// `edits` and `refused` are called with the lock held and signals blocked: they must not fork, patch or wait.
///
/// # Errors
/// See [`Error`]. Edits before the batch that failed stay made; those of the batch and after it are not.
///
/// # Safety
/// `site-mapped`, `site-whole` and `target-enterable`, for each edit.
///
/// # Cost
/// Test `cost`, quoted in `docs/soundness/patch.md`: alone 13 us for one site and 0.4 us for each of many; beside other
/// threads 0.13 ms, and 6 us for each four pages of text. Through gates 0.1 ms and 6 us for each site; 20 us more for
/// each further thread. Stack: below 16 KiB.
///
/// # Signal safety
/// Not for handlers.
pub unsafe fn apply(
    edits: impl IntoIterator<Item = Edit>,
    mut refused: impl FnMut(Edit, Refusal),
) -> Result<Applied, Error> {
    let mut guard = lock();
    if TABLE.is_published() {
        return Err(Error::Unfinished(Errno(libc::EBUSY)));
    }
    let mut applied = Applied::default();
    let room = batch::room(&mut guard);
    let mut memory = Memory::open();
    let mut spare = Spare::NONE;
    for edit in edits {
        if room.batch.excludes(edit.addr) {
            // SAFETY: the caller's promises; `guard` is `patch-locked`.
            unsafe { flush(room, &mut spare, &mut memory, &mut applied, &mut refused) }?;
        }
        // SAFETY: `site-mapped`.
        match unsafe { plan(edit) } {
            Plan::Change(change) => room.batch.add(change),
            Plan::Nothing => applied.already += 1,
            Plan::Refuse(why) => {
                applied.refused += 1;
                refused(edit, why);
            }
        }
    }
    // SAFETY: the caller's promises; `guard` is `patch-locked`.
    unsafe { flush(room, &mut spare, &mut memory, &mut applied, &mut refused) }?;
    spare.settle();
    Ok(applied)
}

/// What the site at `addr` holds now. [`State::Foreign`] also while another thread changes it.
///
/// # Safety
/// `site-mapped`.
pub unsafe fn state(addr: usize) -> State {
    // SAFETY: the caller's promise.
    State::decode(unsafe { read(addr) }, addr)
}

/// Frees the lock and finishes a batch that the parent had under way, in a child that was made without
/// [`fork_prepare`]: by raw clone, `vfork` used as fork, `_Fork`.
///
/// # Errors
/// [`Error::Unfinished`] when the text cannot be written. Its sites still work.
///
/// # Safety
/// In such a child, `one-thread`, with no [`PatchGuard`] of its own, before it patches; `site-mapped` holds still.
pub unsafe fn reset_after_fork() -> Result<(), Error> {
    lock::free();
    let mut guard = lock();
    let mut memory = Memory::open();
    let Room { batch, pages, .. } = batch::room(&mut guard);
    for Published { addr, leads_to, becomes } in TABLE.published() {
        // SAFETY: the caller's promise.
        let old = unsafe { read(addr) };
        batch.add(Change { addr, to: Code::Jump(leads_to), old, new: becomes });
    }
    if TABLE.is_published() {
        // SAFETY: they are sites of a batch; `guard` is `patch-locked`; `one-thread` is the caller's promise.
        unsafe { batch::write_alone(batch.changes(), &mut memory, pages) }.map_err(|error| match error {
            Error::NotWritable { errno, .. } => Error::Unfinished(errno),
            other => other,
        })?;
        TABLE.retract();
    }
    drop(guard);
    Ok(())
}

/// What has to be done for an edit.
enum Plan {
    Change(Change),
    Nothing,
    Refuse(Refusal),
}

/// # Safety
/// `site-mapped`.
unsafe fn plan(edit: Edit) -> Plan {
    let Edit { addr, to } = edit;
    // SAFETY: the caller's promise.
    let old = unsafe { read(addr) };
    if !to.may_replace(old, addr) {
        return Plan::Refuse(Refusal::Foreign(old));
    }
    match to.encode(addr) {
        None => Plan::Refuse(Refusal::OutOfReach),
        Some(new) if new == old => Plan::Nothing,
        Some(new) => Plan::Change(Change { addr, to, old, new }),
    }
}

/// Makes the changes of the batch and empties it: alone by plain writing, else by other pages, else through gates.
///
/// # Safety
/// As [`apply`], and `patch-locked`.
unsafe fn flush(
    Room { batch, pages, buffers, done }: &mut Room,
    spare: &mut Spare,
    memory: &mut Memory,
    applied: &mut Applied,
    refused: &mut impl FnMut(Edit, Refusal),
) -> Result<(), Error> {
    let mut refuse = |change: &Change| {
        applied.refused += 1;
        refused(Edit { addr: change.addr, to: change.to }, Refusal::Blocked);
    };
    if batch.changes().is_empty() {
        return Ok(());
    }
    let own = company::own();
    if own.is_alone && are_guards_served(batch) {
        // For later: beside other threads the kernel waits for a grace period of its own first, which takes 10 ms
        // and more.
        let _ = membarrier::register_sync_core();
        // SAFETY: the caller's promises; `own` has seen `one-thread`.
        unsafe { batch::write_alone(batch.changes(), memory, pages) }?;
        applied.changed += batch.changes().len();
        batch.clear();
        return Ok(());
    }
    let mut known_gate = None;
    if batch.changes().iter().any(Change::brings_guards) {
        let gate = *known_gate.insert(gate(batch));
        batch.retain(|change| {
            let is_served = gate == Gate::Trap || !change.brings_guards();
            if !is_served {
                refuse(change);
            }
            is_served
        });
    }
    if own.may_remap && membarrier::register_sync_core().is_ok() {
        done.fill(false);
        // SAFETY: the caller's promises; guards are served.
        unsafe { spare.write(batch.changes(), memory, buffers, done) }?;
        applied.changed += done.iter().filter(|done| **done).count();
        let mut done = done.iter();
        batch.retain(|_| done.next() == Some(&false));
    }
    if !batch.changes().is_empty() {
        let gate = known_gate.unwrap_or_else(|| gate(batch));
        // SAFETY: the caller's promises; `gate` installed the handler.
        applied.changed += unsafe { through_gates(gate, batch, memory, pages, refuse) }?;
    }
    batch.clear();
    Ok(())
}

/// Makes the changes beside other threads, which meet gates meanwhile. Returns how many were made.
///
/// # Safety
/// As [`apply`], and `patch-locked`; for [`Gate::Trap`] our handler is installed.
unsafe fn through_gates(
    gate: Gate,
    batch: &mut Batch,
    memory: &mut Memory,
    pages: &mut Pages,
    mut refuse: impl FnMut(&Change),
) -> Result<usize, Error> {
    if gate == Gate::Hop {
        batch.retain(|change| {
            let can_hop = change.can_hop();
            if !can_hop {
                refuse(change);
            }
            can_hop
        });
    }
    // SAFETY: the caller's promises; `hop-fits`: the others were thrown out.
    match unsafe { batch::write_among(gate, batch.changes(), memory, pages) } {
        Err(Error::NotWritable { .. }) if gate == Gate::Hop => {
            batch.changes().iter().for_each(refuse);
            Ok(0)
        }
        done => done.map(|()| batch.changes().len()),
    }
}

/// Whether guards that the batch brings are served while no other thread is there: a context of this thread that it
/// does not run now may stand between them.
fn are_guards_served(batch: &Batch) -> bool {
    let has_guards = places(batch).any(|place| place.guards != 0);
    !has_guards || trap::install(signals(batch)) != Installed::Refused
}

fn places(batch: &Batch) -> impl Iterator<Item = &Place> {
    batch.changes().iter().filter_map(|change| change.to.place())
}

/// The signals by which threads come to our handlers from this batch.
fn signals(batch: &Batch) -> Signals {
    if places(batch).any(Place::has_invalid_guard) { Signals::TRAP_AND_INVALID } else { Signals::TRAP }
}

/// The gate by which the batch can be written beside other threads.
///
/// Our handlers are installed before we look, and after we gave threads time that had the program's before them: else
/// one that is seen with SIGTRAP open enters that handler, with SIGTRAP blocked, after the look.
///
/// A thread blocks all signals for a moment when it makes another one (glibc): where [`Gate::Hop`] would leave
/// sites out, we wait for such moments to pass.
fn gate(batch: &Batch) -> Gate {
    const LOOKS: u32 = 4;
    const PAUSE_NS: u64 = 200_000;
    let signals = signals(batch);
    match trap::install(signals) {
        Installed::Refused => return Gate::Hop,
        Installed::Over { handler: true } => pause(DELIVERY_NS),
        _ => {}
    }
    for look in 1..=LOOKS {
        if !company::is_closed(signals) {
            return Gate::Trap;
        }
        if look == LOOKS || batch.changes().iter().all(Change::can_hop) {
            break;
        }
        pause(PAUSE_NS);
    }
    Gate::Hop
}

/// How long the kernel may take from choosing a signal's handler to blocking what that blocks: a microsecond, if the
/// thread is not preempted in it. Then it gets the processor back within this time if few others want it.
const DELIVERY_NS: u64 = 20_000_000;

/// Sleeps for a while, or until a signal comes.
fn pause(ns: u64) {
    let _ = time::sleep(ns);
}
