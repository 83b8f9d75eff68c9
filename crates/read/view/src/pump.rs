//! Drives events through selection and format to a writer.

use crate::{Format, Selection};
use mote_timeline::{Entry, Source};
use std::io::{self, Write};

/// The buffer is written when it holds so much.
const FULL: usize = 256 << 10;

/// So many events after the last write at the latest, what there is is written: rare events are shown as they are
/// found.
const PATIENCE: u32 = 1 << 16;

/// Numbers of what was shown, and of what is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of events that were shown.
    pub shown: u64,
    /// Events that were lost, as far as the packets that were read tell.
    pub lost: u64,
    /// How many times it is not known how many were lost.
    pub unknown: u64,
    /// Number of packets that are missing: overwritten, or lost with the file.
    pub lost_packets: u64,
}

/// Prints the chosen `events`, at most `limit` of them.
///
/// # Errors
/// As the writer.
pub fn pump<S: Source + ?Sized, F: Format + ?Sized, W: Write>(
    events: &mut S,
    selection: &Selection,
    limit: Option<u64>,
    format: &mut F,
    to: &mut W,
) -> io::Result<Outcome> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut outcome = Outcome::default();
    let mut out = Vec::with_capacity(FULL + (FULL >> 2));
    let mut waited = 0_u32;
    format.begin(&mut out);
    while outcome.shown < limit
        && let Some(entry) = events.next()
    {
        match entry {
            Entry::Event(record) if selection.takes(&record) => {
                outcome.shown += 1;
                format.event(&mut out, &record);
            }
            Entry::Event(record) => format.unseen(&mut out, &record),
            Entry::Loss(loss) => {
                outcome.lost += loss.loss.events;
                outcome.unknown += loss.loss.unknown;
                outcome.lost_packets += loss.loss.packets;
                format.loss(&mut out, &loss);
            }
        }
        waited += 1;
        if out.len() >= FULL || waited >= PATIENCE {
            to.write_all(&out)?;
            out.clear();
            waited = 0;
        }
    }
    format.end(&mut out);
    to.write_all(&out)?;
    to.flush()?;
    Ok(outcome)
}
