//! Lost events and packets, from the counters in packet headers.

use mote_ctf::{Fields, PacketHeader};
use mote_layout::Cause;

/// Events or packets that the tracer dropped between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// End of the packet before, in nanoseconds since 1970; `None`: since the stream began.
    pub since: Option<i64>,
    /// End of the packet whose header tells.
    pub until: i64,
    /// Events.
    pub events: u64,
    /// Of these, by cause, where the header tells: in the order of [`Cause::ALL`].
    pub causes: [u64; Cause::ALL.len()],
    /// Whole packets that are missing: overwritten by a flight recorder, or lost with the file.
    pub packets: u64,
}

/// The counters of a stream as of its last packet.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    discarded: Option<u64>,
    causes: [u64; Cause::ALL.len()],
    sequence: Option<u64>,
    end: Option<i64>,
}

impl Counters {
    /// What was lost before or during the packet with `header` and `context`, which ends at `until`.
    ///
    /// The first packet's counter counts from the beginning of the stream. Its sequence number does not:
    /// a flight recorder begins anywhere.
    pub(crate) fn note(&mut self, header: &PacketHeader, context: Fields<'_>, until: i64) -> Option<Loss> {
        let mut loss = Loss { since: self.end, until, ..Loss::default() };
        if let Some(discarded) = header.events_discarded {
            loss.events = discarded.saturating_sub(self.discarded.unwrap_or(0));
            self.discarded = Some(discarded);
        }
        if loss.events > 0 {
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
        (loss.events > 0 || loss.packets > 0).then_some(loss)
    }
}

/// The field `discarded_<cause>` that mote writes behind the counters that CTF knows.
fn discarded_by(cause: Cause, context: Fields<'_>) -> Option<u64> {
    let name = |field: &str| field.strip_prefix("discarded_").is_some_and(|rest| rest == cause.name());
    let field = context.iter().find(|f| name(f.name))?;
    u64::try_from(field.integer()?).ok()
}
