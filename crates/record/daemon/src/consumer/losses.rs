//! What one stream has lost: how many, when, and what its packets have reported of it so far.
//!
//! # A full ring
//! Its losses lie between the last event of one sub-buffer and the first of the next one, and the ring says with each
//! sub-buffer how many there were until then ([`mote_ring::reader::Chunk::lost`]). An empty packet between the packets
//! of the two tells them: count and both times are exact, however late the ring is read. (A packet that was written in
//! a hurry ends when its sub-buffer was left, which is not before its last event and not behind a loss; when its events
//! are counted it is given the time of the last one. So these times are a little wider in the recording of a recorder
//! that was killed.)
//!
//! # Other causes
//! They are counted somewhere in a ring while others write to it. When the counters are looked at again, it is known
//! between which two looks; the packet that reaches what was written by then tells them, with both times.
//!
//! # What cannot be
//! Traced processes can write anything into the counters. A counter that goes backwards, or says more than one event
//! for each tick of the clock (which has one in a nanosecond at most), is not believed: how many were lost is unknown
//! then, and the counter counts from there on.

use mote_layout::packet::ReportedLoss;
use mote_loss::{Cause, Lost};
use std::ops::AddAssign;

/// What may be counted beyond one event a tick: clocks of CPUs are not quite the same.
const SLACK: u64 = 1000;

/// Lost events of one stream or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// By cause, as far as it is known.
    pub(crate) events: Lost,
    /// How many times it is not known how many were lost.
    pub(crate) unknown: u64,
}

impl AddAssign for Losses {
    fn add_assign(&mut self, more: Losses) {
        for (sum, lost) in self.events.iter_mut().zip(more.events) {
            *sum = sum.saturating_add(lost);
        }
        self.unknown += more.unknown;
    }
}

impl Losses {
    /// All causes.
    pub(crate) fn total(&self) -> u64 {
        self.events.iter().fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    fn is_none(&self) -> bool {
        *self == Losses::default()
    }
}

/// The accounts of a stream.
#[derive(Clone, Debug)]
pub(crate) struct RingLosses {
    /// What its packets have reported.
    reported: Losses,
    /// What was counted and is still to be reported; nothing of a full ring, unless that ring is there no more.
    owed: Losses,
    /// The ring's counters as they were believed last.
    seen: Lost,
    /// When they were looked at last, and when the last time before anything of `owed` was counted; ticks.
    looked: u64,
    since: u64,
    /// Nothing was lost before this.
    start: u64,
}

/// How many events more a counter says at `until` than at `since`; `None` when that cannot be.
fn more(before: u64, now: u64, since: u64, until: u64) -> Option<u64> {
    let more = now.checked_sub(before)?;
    (more <= until.saturating_sub(since).saturating_add(SLACK)).then_some(more)
}

impl RingLosses {
    /// Of a stream whose ring has been written to since `start`, in ticks.
    pub(crate) fn new(start: u64) -> RingLosses {
        let (reported, owed) = (Losses::default(), Losses::default());
        RingLosses { reported, owed, seen: Lost::default(), looked: start, since: start, start }
    }

    /// Looks at the ring's counters, which were loaded between these two moments.
    pub(crate) fn look(&mut self, counters: &Lost, (before, after): (u64, u64)) {
        for (cause, (now, seen)) in counters.iter().zip(&mut self.seen).enumerate() {
            if cause == Cause::RingFull as usize || now == seen {
                continue;
            }
            match more(*seen, *now, self.looked, after) {
                Some(more) => self.owed.events[cause] += more,
                None => self.owed.unknown += 1,
            }
            *seen = *now;
        }
        if self.owed.is_none() {
            self.since = before;
        }
        self.looked = after;
    }

    /// A full ring has lost so many in all before an event at `first`; the last one before was at `last`. What an empty
    /// packet between them is to tell, if that is new.
    pub(crate) fn before_event(&mut self, full: u64, (last, first): (u64, u64)) -> Option<ReportedLoss> {
        const FULL: usize = Cause::RingFull as usize;
        let before = self.reported;
        if full != self.seen[FULL] {
            match more(self.seen[FULL], full, last.max(self.start), first) {
                Some(more) => self.reported.events[FULL] += more,
                None => self.reported.unknown += 1,
            }
            self.seen[FULL] = full;
        }
        self.reported.events[FULL] += std::mem::take(&mut self.owed.events[FULL]);
        (self.reported != before).then(|| self.reported())
    }

    /// What a packet tells that tells nothing new.
    pub(crate) fn reported(&self) -> ReportedLoss {
        ReportedLoss { events: self.reported.events, unknown: self.reported.unknown, since: 0, until: 0 }
    }

    /// What a packet is to tell that has all that was written before the last look; of a full ring nothing.
    pub(crate) fn at_look(&mut self) -> ReportedLoss {
        let mut owed = std::mem::take(&mut self.owed);
        // That is for an empty packet.
        self.owed.events[Cause::RingFull as usize] =
            std::mem::take(&mut owed.events[Cause::RingFull as usize]);
        if owed.is_none() {
            return self.reported();
        }
        self.reported += owed;
        let since = std::mem::replace(&mut self.since, self.looked);
        ReportedLoss { since, until: self.looked, ..self.reported() }
    }

    /// Whether [`RingLosses::at_look`] has something to tell.
    pub(crate) fn is_owing(&self) -> bool {
        !self.owed.is_none()
    }

    /// When the stream began, or nothing was lost yet that is still to be reported.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// All that was lost until now, reported or not. The last event was at `last`.
    pub(crate) fn all(&self, counters: &Lost, (last, now): (u64, u64)) -> Losses {
        let mut looked = self.clone();
        looked.look(counters, (now, now));
        let _ = looked.before_event(counters[Cause::RingFull as usize], (last, now));
        let mut all = looked.reported;
        all += looked.owed;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = Cause::RingFull as usize;
    const BIG: usize = Cause::TooBig as usize;

    fn lost(full: u64, big: u64) -> Lost {
        let mut lost = Lost::default();
        (lost[FULL], lost[BIG]) = (full, big);
        lost
    }

    #[test]
    fn a_full_ring_is_told_once_and_other_causes_with_the_looks_between_which_they_were_counted() {
        let mut losses = RingLosses::new(1_000);
        losses.look(&lost(0, 0), (2_000, 2_010));
        assert_eq!((losses.before_event(0, (2_500, 2_500)), losses.is_owing()), (None, false));
        losses.look(&lost(70, 3), (3_000, 3_010));
        let reported = losses.before_event(70, (2_500, 2_600)).expect("new");
        assert_eq!(
            (reported.events, reported.since, reported.until, reported.discarded()),
            (lost(70, 0), 0, 0, 70)
        );
        assert_eq!(losses.before_event(70, (2_700, 2_800)), None);
        let reported = losses.at_look();
        assert_eq!((reported.events, reported.since, reported.until), (lost(70, 3), 2_000, 3_010));
        assert_eq!(losses.at_look(), ReportedLoss { events: lost(70, 3), ..ReportedLoss::default() });
        let all = Losses { events: lost(90, 4), unknown: 0 };
        assert_eq!(losses.all(&lost(90, 4), (4_000, 5_000)), all);
        assert_eq!(losses.reported().events, lost(70, 3), "asking changes nothing");
    }

    #[test]
    fn what_cannot_be_is_unknown_and_the_counter_counts_on_from_there() {
        let mut losses = RingLosses::new(1_000);
        losses.look(&lost(0, 5), (2_000, 2_000));
        for impossible in [1 << 55, 3, 10_000] {
            let before = losses.reported();
            let reported = losses.before_event(impossible, (5_000, 5_100)).expect("something is reported");
            assert_eq!(
                (reported.events, reported.unknown),
                (before.events, before.unknown + 1),
                "{impossible}"
            );
        }
        let reported = losses.before_event(10_007, (5_200, 5_300)).expect("seven");
        assert_eq!((reported.events[FULL], reported.unknown, reported.discarded()), (7, 3, 10));
        losses.look(&lost(10_007, 4), (6_000, 6_000));
        assert_eq!((losses.at_look().events[BIG], losses.reported().unknown), (5, 4), "it went backwards");
        let all = losses.all(&lost(u64::MAX >> 8, u64::MAX >> 8), (6_000, 7_000));
        assert_eq!((all.total(), all.unknown), (12, 6));
    }
}
