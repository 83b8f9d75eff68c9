//! Where an occurrence of an event goes when it goes to several sessions.
//!
//! An event that one session wants has its destination in its own state (`event`). One that several want, or whose only
//! session has come after another one, has a [`Multicast`]: a list of destinations, each with the filter of its
//! session. A multicast is made anew for every change; the old one is freed a grace period after the event's gate has
//! left it. Made and retired with the control path held only; probes follow gates to multicasts inside of read
//! sections.
//!
//! # Verdicts
//! What the filters of a multicast say comes in one word ([`Verdicts`]): two bits for each session, and the era of the
//! multicast. A session that has joined later than that is not meant, even if it has got the number of one that has
//! ended meanwhile. There is room for one speculation by a key: a second session that keeps the same occurrence aside
//! by a key gets it as if it did not, which is counted.
//!
//! # Invariants
//! `destinations-unlisted`: the first `used` nodes are written; a multicast that a gate leads to, or led to when a
//! section began that is not over, is in neither list.

use crate::channel::Channel;
use crate::filter::Filter;
use crate::shared;
use crate::speculation::by_key;
use mote_layout::context::{DROP, KEPT, RECORD, SPECULATE};
use mote_rcu::{Library, Token, start_poll};
use mote_ring::Direct;
use mote_sys::mem::Mapping;
use mote_wire::SESSIONS_MAX;

/// Most multicasts, retired ones included.
const MULTICASTS_MAX: u32 = 1 << 17;
/// No node; they are numbered from 1 on.
const NONE: u32 = 0;

/// Where an event goes: one session's channel, and what it is called there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) channel: &'static Channel,
    /// Decides, if it is not null.
    pub(crate) filter: *const Filter,
    pub(crate) id: u16,
}

/// Where an event goes, all of it; at most one destination for a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destinations {
    all: [Option<Destination>; SESSIONS_MAX],
}

impl Destinations {
    /// Nowhere.
    pub(crate) const NOWHERE: Destinations = Destinations { all: [None; SESSIONS_MAX] };

    /// All destinations, in the order of the sessions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Destination> {
        self.all.iter().flatten()
    }

    /// The destination of a session's channel.
    pub(crate) fn of(&self, channel: &Channel) -> Option<&Destination> {
        self.iter().find(|destination| core::ptr::eq(destination.channel, channel))
    }

    /// Adds one, in the place of the session's other one.
    pub(crate) fn put(&mut self, destination: Destination) {
        if let Some(place) = self.all.get_mut(destination.channel.session) {
            *place = Some(destination);
        }
    }

    /// Takes that of a session's channel away.
    pub(crate) fn take(&mut self, channel: &Channel) {
        if let Some(place) = self.all.get_mut(channel.session) {
            *place = place.filter(|destination| !core::ptr::eq(destination.channel, channel));
        }
    }

    /// The destination, if there is only one.
    pub(crate) fn only(&self) -> Option<&Destination> {
        let mut all = self.iter();
        all.next().filter(|_| all.next().is_none())
    }

    /// Whether these are the same.
    pub(crate) fn equal(&self, others: &Destinations) -> bool {
        let same = |a: &Destination, b: &Destination| {
            core::ptr::eq(a.channel, b.channel) && core::ptr::eq(a.filter, b.filter) && a.id == b.id
        };
        self.all.iter().zip(&others.all).all(|pair| match pair {
            (None, None) => true,
            (Some(a), Some(b)) => same(a, b),
            _ => false,
        })
    }
}

/// Destinations that probes go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Multicast {
    pub(crate) to: Destinations,
    /// How many sessions the process had joined when it was made.
    era: u32,
    /// The shortest ways to all destinations, and nothing behind them. Nothing at all if a filter is in front of one
    /// of them, or one has to be looked at for each record.
    direct: [Option<Direct>; SESSIONS_MAX],
}

/// What is to become of an occurrence, for each session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdicts {
    /// Two bits each.
    each: u64,
    era: u32,
    /// What `KEPT` of one of them means ([`by_key::note`]).
    note: u64,
}

/// Says that a verdict is of several sessions. No filter says this, but a hostile one.
const MANY: u64 = 1 << 62;
const ERA_SHIFT: u32 = 16;
const NOTE_SHIFT: u32 = 48;
const _: () = assert!(2 * SESSIONS_MAX <= ERA_SHIFT as usize && NOTE_SHIFT + by_key::NOTE_BITS == 62);

impl Verdicts {
    /// As a verdict of `Event::judge`.
    fn word(self) -> u64 {
        match self.each {
            0 => DROP,
            each => MANY | self.note << NOTE_SHIFT | u64::from(self.era) << ERA_SHIFT | each,
        }
    }

    /// Of a verdict, if it is of several sessions.
    #[inline(always)]
    pub(crate) fn of(word: u64) -> Option<Verdicts> {
        let are_many = word >> 62 == MANY >> 62;
        are_many.then_some(Verdicts {
            each: word & ((1 << ERA_SHIFT) - 1),
            era: (word >> ERA_SHIFT) as u32,
            note: word >> NOTE_SHIFT & ((1 << by_key::NOTE_BITS) - 1),
        })
    }

    /// What is to become of it in a session: `DROP`, `RECORD`, `SPECULATE` or `KEPT`.
    pub(crate) fn for_session(self, channel: &Channel) -> u64 {
        let was_meant = self.era.wrapping_sub(channel.joined) as i32 >= 0;
        match self.each >> (2 * channel.session) & 3 {
            _ if !was_meant => DROP,
            KEPT => by_key::of_note(self.note),
            verdict => verdict,
        }
    }

    fn say(&mut self, channel: &Channel, verdict: u64) {
        let verdict = match verdict {
            DROP | SPECULATE => verdict,
            kept if kept & 0xff == KEPT => {
                let has_note = (0..SESSIONS_MAX).any(|session| self.each >> (2 * session) & 3 == KEPT);
                if has_note {
                    by_key::refuse(channel.session);
                    SPECULATE
                } else {
                    self.note = by_key::note(kept);
                    KEPT
                }
            }
            _ => RECORD,
        };
        self.each |= verdict << (2 * channel.session);
    }
}

impl Multicast {
    fn new(to: &Destinations, era: u32) -> Multicast {
        let open = to.iter().filter(|to| to.filter.is_null());
        let ways = open.filter_map(|to| to.channel.direct(to.id));
        let mut direct = [None; SESSIONS_MAX];
        direct.iter_mut().zip(ways).for_each(|(to, way)| *to = Some(way));
        if direct.iter().flatten().count() != to.iter().count() {
            direct = [None; SESSIONS_MAX];
        }
        Multicast { to: *to, era, direct }
    }

    /// The shortest ways to all destinations, up to the first that is none.
    #[inline(always)]
    pub(crate) fn direct(&self) -> &[Option<Direct>] {
        &self.direct
    }

    /// What the filters say of an occurrence.
    ///
    /// # Safety
    /// `words` must point to the words of the event's description. The caller is in a read section that began before
    /// the event left this multicast.
    pub(crate) unsafe fn judge(&self, words: *const u64) -> u64 {
        let mut verdicts = Verdicts { each: 0, era: self.era, note: 0 };
        for Destination { channel, filter, id } in self.to.iter() {
            // SAFETY: `gate-outlives-section`, and the caller's read section.
            let verdict = match unsafe { filter.as_ref() } {
                None => RECORD,
                // SAFETY: the caller's promise; the filter was verified for this event's description.
                Some(filter) if unsafe { filter.drops_at_once(words) } => DROP,
                // SAFETY: as above.
                Some(filter) => match unsafe { filter.run(words) } {
                    Ok(verdict) => verdict,
                    // SAFETY: the caller's promise.
                    Err(_) => shared::faulted(channel, *id, unsafe { filter.can_keep(words) }),
                },
            };
            verdicts.say(channel, verdict);
        }
        verdicts.word()
    }

    /// What becomes of an occurrence that cannot be judged because what it points to cannot be read; something else is
    /// in its place.
    ///
    /// # Safety
    /// As for `judge`.
    pub(crate) unsafe fn fault(&self) -> u64 {
        let mut verdicts = Verdicts { each: 0, era: self.era, note: 0 };
        for Destination { channel, filter, id } in self.to.iter() {
            // SAFETY: `gate-outlives-section`, and the caller's read section.
            let verdict = match unsafe { filter.as_ref() } {
                None => RECORD,
                Some(filter) => shared::faulted(channel, *id, filter.keeps_on_fault()),
            };
            verdicts.say(channel, verdict);
        }
        verdicts.word()
    }
}

/// A multicast, and where it stands in lists.
struct Node {
    multicast: Multicast,
    next: u32,
    /// When it was retired.
    retired: Option<Token<Library>>,
}

/// All multicasts.
#[derive(Debug)]
pub(crate) struct Multicasts {
    memory: Option<Mapping>,
    used: u32,
    free: u32,
    retired: u32,
}

impl Multicasts {
    /// None.
    pub(crate) const fn new() -> Multicasts {
        Multicasts { memory: None, used: 0, free: NONE, retired: NONE }
    }

    fn at(&self, number: u32) -> *mut Node {
        let base = self.memory.as_ref().map_or(core::ptr::null_mut(), Mapping::base);
        base.cast::<Node>().wrapping_add(number as usize).wrapping_sub(1)
    }

    /// A multicast to these destinations; `None` when there are too many, or there is no memory.
    pub(crate) fn make(&mut self, to: &Destinations, era: u32) -> Option<*const Multicast> {
        if self.memory.is_none() {
            mote_rcu::library::prepare();
            self.memory = Some(Mapping::private(MULTICASTS_MAX as usize * size_of::<Node>()).ok()?);
        }
        if self.free == NONE && self.used == MULTICASTS_MAX {
            self.tidy();
        }
        let at = match self.free {
            NONE if self.used < MULTICASTS_MAX => {
                self.used += 1;
                self.at(self.used)
            }
            NONE => return None,
            index => {
                let at = self.at(index);
                // SAFETY: `destinations-unlisted`: the node is written, and no other thread's while it is free.
                self.free = unsafe { (*at).next };
                at
            }
        };
        // SAFETY: `at` is inside of the memory, and no gate leads there.
        unsafe { at.write(Node { multicast: Multicast::new(to, era), next: NONE, retired: None }) };
        // SAFETY: `at` points to a node.
        Some(unsafe { &raw const (*at).multicast })
    }

    /// Says that the event's gate has left the multicast.
    pub(crate) fn retire(&mut self, multicast: *const Multicast) {
        let bytes = multicast.addr().wrapping_sub(self.at(1).addr());
        let number = (bytes / size_of::<Node>()) as u32 + 1;
        if number > self.used {
            return;
        }
        let at = self.at(number);
        // SAFETY: `destinations-unlisted`; readers look at the multicast only, and no part of the node has a reference.
        unsafe { (*at).next = self.retired };
        // SAFETY: as above.
        unsafe { (*at).retired = Some(start_poll::<Library>()) };
        self.retired = number;
    }

    /// Frees retired multicasts that no thread goes by any more. Returns whether others are left.
    pub(crate) fn tidy(&mut self) -> bool {
        let mut rest = core::mem::replace(&mut self.retired, NONE);
        let mut left = false;
        while rest != NONE {
            let (index, at) = (rest, self.at(rest));
            // SAFETY: `destinations-unlisted`: a node of the list is written; `next` and `retired` are ours, readers
            // look at the multicast only.
            rest = unsafe { (*at).next };
            // SAFETY: as above.
            let retired = unsafe { (*at).retired };
            let list = match retired.is_none_or(|token| token.is_done()) {
                true => &mut self.free,
                false => {
                    left = true;
                    &mut self.retired
                }
            };
            // SAFETY: as above.
            unsafe { (*at).next = core::mem::replace(list, index) };
        }
        left
    }
}
