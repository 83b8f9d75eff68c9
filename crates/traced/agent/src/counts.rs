//! Where calls of functions are counted that are not recorded: memory that a session reads, whatever becomes of the
//! process.
//!
//! # Parties
//! The library's loader, which makes an area of private memory for the functions of a plan; the control path, which
//! puts the session's memory in its place before any of these functions is on; functions' probes, which count there.
//! # Fork
//! A child goes on in its parent's memory, unless that is the parent's alone (`Whose::Own`): then it asks for memory of
//! its own, and has private memory if there is none.

use crate::handshake::Scratch;
use crate::link::Link;
use core::sync::atomic::{AtomicU32, Ordering};
use mote_sync::{List, Listed, Next};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{self, Mapping};
use mote_sys::{Errno, Result};
use mote_wire::Message;

/// The counts of a plan's functions.
///
/// # Invariants
/// `counts-stay`: `bytes` at `base` are mapped, writable, and never unmapped; other memory may take their place.
#[derive(Debug)]
pub struct CountArea {
    number: u64,
    base: *mut u8,
    bytes: usize,
    /// The session whose memory it is, and one; 0 for none's, [`OVER`] when that has ended.
    session: AtomicU32,
    next: Next<CountArea>,
}

// SAFETY: `counts-stay`; all that changes is atomic.
unsafe impl Sync for CountArea {}
// SAFETY: as above.
unsafe impl Send for CountArea {}

const OVER: u32 = u32::MAX;

/// All counts.
static AREAS: List<CountArea> = List::new();

impl Listed for CountArea {
    fn next(&self) -> &Next<CountArea> {
        &self.next
    }
}

impl CountArea {
    /// The area of the plan of this number.
    ///
    /// # Safety
    /// `bytes` at `base` are a mapping that was leaked, in which no thread has references but of atomics.
    pub const unsafe fn new(number: u64, base: *mut u8, bytes: usize) -> CountArea {
        CountArea { number, base, bytes, session: AtomicU32::new(0), next: Next::new() }
    }

    /// Whether its memory is that of a session of this number.
    fn is_of(&self, session: usize) -> bool {
        self.session.load(Ordering::Relaxed) == session as u32 + 1
    }

    /// Asks for memory. Where the session has none it stays private: the session finds that nothing was counted.
    fn fetch(&self, link: &Link, scratch: &mut Scratch) {
        let (to, from) = scratch.buffers();
        if link.send(&Message::WantsCounts { number: self.number }, to).is_err() {
            return;
        }
        let Ok(received) = link.answer(from) else { return };
        let message = Message::decode(from.get(..received.len).unwrap_or(&[]));
        if let (Ok(Message::Counts), Some(memory)) = (message, received.fds.iter().flatten().next()) {
            let _ = self.take(link.session, memory);
        }
    }

    /// Has calls counted in the memory that a session has given, from now on.
    ///
    /// # Errors
    /// `EINVAL` when it is too small, or may become smaller; as mmap(2).
    fn take(&self, session: usize, memory: &Fd) -> Result<()> {
        if !mem::cannot_shrink(memory) || fd::identity(memory.raw())?.size < self.bytes as u64 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: `counts-stay`; no thread counts on what is there: none of the functions was on, or this is a child
        // whose calls begin to count.
        unsafe { Mapping::replace(self.base, memory, 0, self.bytes) }?;
        self.session.store(session as u32 + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Has calls counted nowhere, until there is other memory. Where that cannot be done it stays.
    fn let_go(&self, session: u32) {
        // SAFETY: `counts-stay`; what was counted is in the session's memory, which reads it there.
        if unsafe { Mapping::replace_by_zeros(self.base, self.bytes) }.is_ok() {
            self.session.store(session, Ordering::Relaxed);
        }
    }
}

/// Adds the counts of a plan, for good.
pub fn add_counts(area: &'static CountArea) {
    AREAS.add(area);
}

/// Gets memory of a session for counts that have none yet. `connect` gives a new connection to it.
pub(crate) fn fetch(connect: impl FnOnce() -> Option<(Link, Scratch)>) {
    let mut without = AREAS.iter().filter(|area| area.session.load(Ordering::Relaxed) == 0).peekable();
    if without.peek().is_some()
        && let Some((link, mut scratch)) = connect()
    {
        without.for_each(|area| area.fetch(&link, &mut scratch));
    }
}

/// In a child whose parent's memory is not to be its own: calls are counted nowhere until it has some.
pub(crate) fn part(session: usize) {
    AREAS.iter().filter(|area| area.is_of(session)).for_each(|area| area.let_go(0));
}

/// Lets the memory of a session go that has ended.
pub(crate) fn end(session: usize) {
    AREAS.iter().filter(|area| area.is_of(session)).for_each(|area| area.let_go(OVER));
}
