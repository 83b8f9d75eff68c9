//! Lost events and packets, from the counters in packet headers.

use mote_ctf::{Fields, PacketHeader};
use mote_layout::Cause;

/// Events or packets that the tracer dropped between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Not lost before this, in nanoseconds since 1970; `None`: since the stream began.
    pub since: Option<i64>,
    /// Not lost after this.
    pub until: i64,
    /// What the two moments are.
    pub place: Place,
    /// Events, as far as it is known.
    pub events: u64,
    /// Of these, by cause, where the header tells: in the order of [`Cause::ALL`].
    pub causes: [u64; Cause::ALL.len()],
    /// How many times it is not known how many were lost: the counters say what cannot be.
    pub unknown: u64,
    /// Whole packets that are missing: overwritten by a flight recorder, or lost with the file.
    pub packets: u64,
}

/// What is known of where a loss was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In a packet: between the end of the one before and its own.
    #[default]
    Packet,
    /// A full ring: between the last event before and the first one after, or the end of the recording.
    Gap,
    /// Somewhere between two looks of the recorder at the counters.
    Looks,
}

impl Loss {
    /// The number of events, if it is known.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        (self.unknown == 0).then_some(self.events)
    }
}

/// The counters of a stream as of its last packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    discarded: Option<u64>,
    causes: [u64; Cause::ALL.len()],
    unknown: u64,
    sequence: Option<u64>,
    end: Option<i64>,
}

impl Counters {
    /// What was lost before or during the packet with `header` and `context`, which ends at `until`.
    ///
    /// The first packet's counter counts from the beginning of the stream. Its sequence number does not:
    /// a flight recorder begins anywhere.
    pub(crate) fn note(
        &mut self,
        header: &PacketHeader,
        context: Fields<'_>,
        until: i64,
        mut ns: impl FnMut(u64) -> i64,
    ) -> Option<Loss> {
        let mut loss = Loss { since: self.end, until, ..Loss::default() };
        if let Some(discarded) = header.events_discarded {
            loss.events = discarded.saturating_sub(self.discarded.unwrap_or(0));
            self.discarded = Some(discarded);
        }
        let field = |name: &str| number(context, |field| field == name);
        if loss.events > 0 {
            let unknown = field("discarded_unknown").unwrap_or(0);
            loss.unknown = unknown.saturating_sub(self.unknown);
            loss.events = loss.events.saturating_sub(loss.unknown);
            self.unknown = unknown;
            match (field("discarded_since"), field("discarded_until")) {
                (Some(0), Some(0)) if header.content_bits == Some(header.header_bits) => {
                    loss.place = Place::Gap;
                }
                (Some(0), _) | (_, Some(0)) => {}
                (Some(since), Some(until)) => {
                    loss.place = Place::Looks;
                    (loss.since, loss.until) = (Some(ns(since)), ns(until));
                }
                _ => {}
            }
            for (cause, (count, last)) in Cause::ALL.iter().zip(loss.causes.iter_mut().zip(&mut self.causes))
            {
                if let Some(total) = discarded_by(*cause, context) {
                    *count = total.saturating_sub(*last);
                    *last = total;
                }
            }
        }
        if let Some(sequence) = header.sequence_number {
            let expected = self.sequence.map_or(sequence, |last| last.saturating_add(1));
            loss.packets = sequence.saturating_sub(expected);
            self.sequence = Some(sequence);
        }
        self.end = Some(until);
        (loss.events > 0 || loss.unknown > 0 || loss.packets > 0).then_some(loss)
    }
}

/// The field `discarded_<cause>` that mote writes behind the counters that CTF knows.
fn discarded_by(cause: Cause, context: Fields<'_>) -> Option<u64> {
    number(context, |field| field.strip_prefix("discarded_").is_some_and(|rest| rest == cause.name()))
}

/// The value of a field of the packet's context.
fn number(context: Fields<'_>, name: impl Fn(&str) -> bool) -> Option<u64> {
    u64::try_from(context.iter().find(|field| name(field.name))?.integer()?).ok()
}
