//! Switching events on and off for a session, with or without filters. With the control path held.

use crate::cooperate;
use crate::event::Event;
use crate::event_ids::Numbers;
use crate::filters::{Counts, Filters};
use crate::multicast::{Destination, Destinations, Multicasts};
use crate::registry::{self, Site};
use crate::subscription::Subscription;
use core::ffi::CStr;
use mote_patch::Refusal;
use mote_sys::fd::Fd;
use mote_sys::tsc;
use mote_wire::Ready;
use mote_wire::bundle::Disposition;

/// How long after an event was taken from a session no thread is under way any more that began before, in nanoseconds:
/// far more than a thread sleeps between two instructions of a probe. An event that comes too late all the same goes to
/// a session that it was not meant for; no more than that.
pub(crate) const SETTLE_NS: u64 = 2_000_000_000;

/// How often sites that could not be patched for now are tried again: with pauses that double from a millisecond to a
/// second, for two seconds. Most threads block their signals for a moment only, when they make another thread or are in
/// a handler; for the others each try is in vain, and a look at all threads.
const TRIES: u32 = 11;

/// What the sessions of a process have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) multicasts: Multicasts,
    pub(crate) numbers: Numbers,
    /// How many sessions were joined; may wrap around.
    pub(crate) era: u32,
    /// When an event was taken from the session that it had for its own, last.
    left_at: Option<u64>,
    /// One was taken since that was noted: asking the clock for each of ten thousand would take as long as all else.
    has_left: bool,
    /// The session that shares memory with the kernel's programs.
    pub(crate) cooperating: Option<usize>,
    /// How often sites that a breakpoint would have killed a thread in are still to be tried again.
    tries: u32,
}

impl Common {
    /// Of no session.
    pub(crate) const fn new() -> Common {
        Common {
            multicasts: Multicasts::new(),
            numbers: Numbers::new(),
            era: 0,
            left_at: None,
            has_left: false,
            cooperating: None,
            tries: 0,
        }
    }

    /// Whether an event may go to one session as if there had never been another one.
    fn is_settled(&self) -> bool {
        self.left_at.is_none() && !self.has_left || self.era <= 1
    }

    /// Whether [`Common::settles`] is to be asked again.
    pub(crate) fn is_settling(&self) -> bool {
        self.left_at.is_some() || self.has_left
    }

    /// True once, when it has come to be settled: [`settle`] is to be called then.
    pub(crate) fn settles(&mut self) -> bool {
        let now = tsc::monotonic_by_call();
        if core::mem::take(&mut self.has_left) {
            self.left_at = Some(now);
        }
        let settles = self.left_at.is_some_and(|left_at| now.saturating_sub(left_at) >= SETTLE_NS);
        if settles {
            self.left_at = None;
        }
        settles
    }

    /// Takes in memory to be shared with the kernel's programs. The first session that has such has it for as long as
    /// it stays.
    pub(crate) fn take_area(&mut self, session: usize, slots: u32, fds: &[Option<Fd>]) {
        let is_first = slots > 0 && *self.cooperating.get_or_insert(session) == session;
        cooperate::take_in(session, is_first, slots, fds);
    }

    /// Patches again where that was too dangerous before; returns whether that is still so, and to be tried again.
    pub(crate) fn try_again(&mut self) -> bool {
        let left = self.tries;
        if left > 0 {
            patch_all(self);
            self.tries = self.tries.min(left - 1);
        }
        self.tries > 0
    }

    /// Patches sites on or off and notes how that went.
    pub(crate) fn patch(&mut self, sites: impl Iterator<Item = Site>, on: bool, ready: &mut Ready) {
        if patch(&mut sites.map(|site| (site, on)), ready) {
            self.tries = TRIES;
        }
    }

    /// Patches sites as they are wanted. Returns whether some are to be tried again.
    pub(crate) fn switch(&mut self, sites: impl Iterator<Item = Site>) -> bool {
        let is_blocked = patch(&mut sites.map(|site| (site, site.is_wanted())), &mut Ready::default());
        if is_blocked {
            self.tries = TRIES;
        }
        is_blocked
    }

    /// Sends an event where `to` says; returns whether that could be done.
    fn send(&mut self, event: &Event, to: &Destinations) -> bool {
        let settled = self.is_settled();
        let had_one = event.destination().is_some();
        let sent = event.send(to, &mut self.multicasts, self.era, settled);
        self.has_left |= had_one && event.destination().is_none();
        sent
    }
}

/// All events with their descriptions; one that has many sites comes as often.
fn events() -> impl Iterator<Item = (&'static Event, &'static CStr)> {
    let of_sites = registry::objects().flat_map(registry::Range::sites);
    let dynamic = registry::dynamic().map(|event| (&event.event, event.description));
    of_sites.map(|site| (site.event(), site.description())).chain(dynamic)
}

/// Goes by a word of `Ids`.
pub(crate) fn assign(
    wants: &mut Subscription,
    common: &mut Common,
    event: &Event,
    description: &CStr,
    word: u32,
) {
    common.numbers.give(event);
    if event.number() == 0 || wants.ids.note(event, word).is_err() {
        return wants.filters.no_room(description);
    }
    decide(wants, common, event, description);
}

/// Switches an event as the session's newest bundle has it. One whose filter is refused is off.
fn decide(wants: &mut Subscription, common: &mut Common, event: &Event, description: &CStr) {
    const UNFILTERED: *const crate::filter::Filter = core::ptr::null();
    let (Some(channel), Some((id, wanted))) = (wants.channel, wants.ids.of(event)) else { return };
    let filters = &mut wants.filters;
    let filter = match filters.disposition(id) {
        Disposition::Unsaid => wanted.then_some(UNFILTERED),
        Disposition::Off => None,
        Disposition::Unfiltered => Some(UNFILTERED),
        Disposition::Filtered(place) => filters.filter_for(place, description),
    };
    let mut to = event.destinations();
    match filter {
        Some(filter) => to.put(Destination { channel, filter, id }),
        None => to.take(channel),
    }
    if !common.send(event, &to) {
        filters.no_room(description);
    }
    // What it goes by now, whether that is new or not.
    filters.table().mark(event.filter(channel));
}

/// Switches all events as the session's newest bundle has them, and retires the filters that none leads to any more.
pub(crate) fn decide_all(wants: &mut Subscription, common: &mut Common) {
    wants.filters.table().unmark();
    events().for_each(|(event, description)| decide(wants, common, event, description));
    wants.filters.table().sweep();
    patch_all(common);
}

/// Gives events that go to one session by a multicast that session for their own.
pub(crate) fn settle(common: &mut Common) {
    for (event, _) in events() {
        // It only needs memory if it goes to several, and has it then.
        let _ = common.send(event, &event.destinations());
    }
}

/// Takes the session's channel away from all events, and retires its filters.
pub(crate) fn leave(wants: &mut Subscription, common: &mut Common) {
    let Some(channel) = wants.channel else { return };
    for (event, description) in events() {
        wants.ids.forget(event);
        let mut to = event.destinations();
        to.take(channel);
        if !common.send(event, &to) {
            // No memory for a multicast to the others: better that no session has it than one that has left.
            let _ = common.send(event, &Destinations::NOWHERE);
            wants.filters.no_room(description);
        }
    }
    wants.filters.table().unmark();
    wants.filters.table().sweep();
    patch_all(common);
}

/// Patches all sites as their events are. How that went is told for the first time only, by `Ready`.
fn patch_all(common: &mut Common) {
    let mut ready = Ready::default();
    common.tries = 0;
    for range in registry::objects() {
        common.patch(range.sites().filter(Site::is_wanted), true, &mut ready);
        common.patch(range.sites().filter(|site| !site.is_wanted()), false, &mut ready);
    }
}

/// Counts the session's events by what became of their filters.
pub(crate) fn count(wants: &Subscription) -> Counts {
    let mut counts = Counts::default();
    let Some(channel) = wants.channel else { return counts };
    let filters: &Filters = &wants.filters;
    // An event has many sites, and many events the same id.
    let mut seen = [0u64; (1 << 16) / 64];
    for (event, _) in events() {
        let Some((id, _)) = wants.ids.of(event) else { continue };
        let (word, bit) = (usize::from(id) / 64, 1 << (id % 64));
        let Some(word) = seen.get_mut(word).filter(|word| **word & bit == 0) else { continue };
        *word |= bit;
        let filter = event.filter(channel);
        if !filter.is_null() {
            counts.running += 1;
            counts.interpreted += u32::from(filters.is_interpreted(filter));
        } else if matches!(filters.disposition(id), Disposition::Filtered(_)) {
            counts.refused += 1;
        }
    }
    counts
}

/// Patches sites on or off and notes how that went. Returns whether some were left as they were that may be patched
/// later.
///
/// Not generic: the code of patching is large, and need not be there for each kind of iterator.
fn patch(sites: &mut dyn Iterator<Item = (Site, bool)>, ready: &mut Ready) -> bool {
    let mut blocked = false;
    let mut tested = 0;
    let mut wanted = 0;
    let edits = sites.filter_map(|(site, on)| {
        wanted += 1;
        if let Site::Function(function) = site {
            function.quota.want(function.event.is_on());
        }
        let edit = site.edit(on);
        tested += u32::from(edit.is_none());
        edit
    });
    // SAFETY: the sites' records come from the macros and the header (`registry::add_sites`):
    // 1. each code address is a 5-byte site of a mapped object;
    // 2. it is one instruction that nothing jumps into;
    // 3. its target is the label of the same `asm!` block.
    let applied = unsafe { mote_patch::apply(edits, |_, why| blocked |= why == Refusal::Blocked) };
    match applied {
        Ok(applied) => {
            ready.armed += (applied.changed + applied.already) as u32 + tested;
            ready.failed += applied.refused as u32;
        }
        Err(error) => {
            ready.armed += tested;
            ready.failed += wanted - tested;
            ready.errno = match error {
                mote_patch::Error::NotWritable { errno, .. }
                | mote_patch::Error::NoBarrier(errno)
                | mote_patch::Error::Unfinished(errno) => errno.0 as u32,
                _ => libc::EIO as u32,
            };
        }
    }
    blocked
}
