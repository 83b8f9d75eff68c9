//! Lost events and packets, from the counters in packet headers.

use mote_ctf::model::{EnvValue, TraceClass};
use mote_ctf::{Fields, PacketHeader};
use mote_layout::packet::{LOSS_AT_ENTRY, LOSS_FIELDS, LOSS_NAMES_ENTRY};
use mote_loss::Cause;

/// Events or packets that the tracer dropped between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Not lost before this, in nanoseconds since 1970; `None`: since the stream began.
    pub since: Option<i64>,
    /// Not lost after this, in nanoseconds since 1970.
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

/// Where packets of a trace have mote's counters of loss, behind the one that CTF knows.
#[derive(Clone, Debug)]
pub(crate) enum CounterPlaces {
    /// Words of 64 bits at these byte offsets of the packet, `None` where there is none: causes in the order of
    /// [`Cause::ALL`], then [`LOSS_FIELDS`].
    Words([Option<usize>; COUNTERS]),
    /// Fields of the packet context, called `discarded_<name>`: how mote wrote them in November 2026 and before.
    Fields,
}

const COUNTERS: usize = Cause::ALL.len() + LOSS_FIELDS.len();

/// Names of the counters, in order.
fn counter_names() -> impl Iterator<Item = &'static str> {
    Cause::ALL.iter().map(|cause| cause.name()).chain(LOSS_FIELDS)
}

impl CounterPlaces {
    /// As the environment of `trace` says.
    pub(crate) fn of(trace: &TraceClass) -> CounterPlaces {
        let Some(EnvValue::Int(at)) = trace.env(LOSS_AT_ENTRY) else { return CounterPlaces::Fields };
        let names: Vec<&str> = trace.env_str(LOSS_NAMES_ENTRY).unwrap_or("").split(' ').collect();
        let mut words = [None; COUNTERS];
        for (word, name) in words.iter_mut().zip(counter_names()) {
            let index = names.iter().position(|other| *other == name);
            *word = index.and_then(|index| usize::try_from(*at).ok()?.checked_add(8 * index));
        }
        CounterPlaces::Words(words)
    }

    /// The counters of a packet with this header, of which `bytes` has at least that and the context.
    pub(crate) fn read(
        &self,
        header: &PacketHeader,
        bytes: &[u8],
        context: Fields<'_>,
    ) -> [Option<u64>; COUNTERS] {
        match self {
            CounterPlaces::Words(places) => {
                let end = usize::try_from(header.header_bits / 8).unwrap_or(usize::MAX);
                let bytes = bytes.get(..end).unwrap_or(bytes);
                places.map(|at| Some(u64::from_le_bytes(*bytes.get(at?..)?.first_chunk::<8>()?)))
            }
            CounterPlaces::Fields => {
                let mut counters = [None; COUNTERS];
                for (counter, name) in counters.iter_mut().zip(counter_names()) {
                    let mut fields = context.iter();
                    let field = fields.find(|field| field.name.strip_prefix("discarded_") == Some(name));
                    *counter = field.and_then(|field| u64::try_from(field.integer()?).ok());
                }
                counters
            }
        }
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
    /// What was lost before or during the packet with `header`, which ends at `until`; `counters` are mote's own,
    /// where [`CounterPlaces`] has them.
    ///
    /// The first packet's counter counts from the beginning of the stream. Its sequence number does not:
    /// a flight recorder begins anywhere.
    pub(crate) fn note(
        &mut self,
        header: &PacketHeader,
        counters: impl FnOnce() -> [Option<u64>; COUNTERS],
        until: i64,
        mut ns: impl FnMut(u64) -> i64,
    ) -> Option<Loss> {
        let mut loss = Loss { since: self.end, until, ..Loss::default() };
        if let Some(discarded) = header.events_discarded {
            loss.events = discarded.saturating_sub(self.discarded.unwrap_or(0));
            self.discarded = Some(discarded);
        }
        if loss.events > 0 {
            let counters = counters();
            let (causes, [since, until, unknown]) = split(counters);
            let unknown = unknown.unwrap_or(0);
            loss.unknown = unknown.saturating_sub(self.unknown);
            loss.events = loss.events.saturating_sub(loss.unknown);
            self.unknown = unknown;
            match (since, until) {
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
            for (total, (count, last)) in causes.into_iter().zip(loss.causes.iter_mut().zip(&mut self.causes))
            {
                if let Some(total) = total {
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

/// Counters of the causes, and the others.
fn split(
    counters: [Option<u64>; COUNTERS],
) -> ([Option<u64>; Cause::ALL.len()], [Option<u64>; LOSS_FIELDS.len()]) {
    let causes = counters.first_chunk().copied().unwrap_or_default();
    (causes, counters.last_chunk().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_ctf::model::{FieldClass, IntClass, Roles, StreamClass, StructClass};
    use mote_ctf::{Cursor, Schema};

    fn trace(context: Vec<(String, FieldClass)>, environment: Vec<(String, EnvValue)>) -> Schema {
        let discarded = FieldClass::Int(IntClass::new(64, false).with_roles(Roles::DISCARDED));
        let context = [("events_discarded".to_owned(), discarded)].into_iter().chain(context);
        let packet_context = Some(StructClass { min_align: 1024, ..StructClass::new(context) });
        let streams = vec![StreamClass { packet_context, ..StreamClass::default() }];
        Schema::new(TraceClass { streams, environment, ..TraceClass::default() }).expect("a schema")
    }

    /// What a packet tells whose context is at byte 128, and has `words`; the counters are at byte 28.
    fn told(schema: &Schema, words: &[u64], counters: &[u64]) -> Loss {
        let mut bytes = vec![0; 128];
        for (place, word) in bytes[28..].chunks_exact_mut(8).zip(counters) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        // The alignment is that of a packet that begins with the context.
        let mut cursor = Cursor::new();
        let header = cursor.begin(schema, &bytes[128..]).expect("a packet");
        let header = PacketHeader { header_bits: bytes.len() as u64 * 8, ..header };
        let context = cursor.packet_context(schema, &bytes[128..]);
        let places = CounterPlaces::of(schema.trace());
        let counters = || places.read(&header, &bytes, context);
        Counters::default().note(&header, counters, 9, |ticks| ticks as i64).expect("a loss")
    }

    #[test]
    fn counters_by_cause_are_found_in_new_recordings_and_in_old_ones() {
        let names: Vec<&str> = counter_names().collect();
        let text = |name: &str, value: &str| (name.to_owned(), EnvValue::Str(value.to_owned()));
        let new = trace(
            vec![],
            vec![(LOSS_AT_ENTRY.to_owned(), EnvValue::Int(28)), text(LOSS_NAMES_ENTRY, &names.join(" "))],
        );
        let counters: Vec<u64> = (1..=names.len() as u64).collect();
        let loss = told(&new, &[100], &counters);
        assert_eq!((loss.events, loss.unknown, loss.since), (100 - 11, 11, Some(9)));
        assert_eq!(loss.causes, [1, 2, 3, 4, 5, 6, 7, 8]);

        let field = |name: &&str| (format!("discarded_{name}"), FieldClass::uint(64));
        let old = trace(names.iter().map(field).collect(), vec![]);
        let words: Vec<u64> = [100].into_iter().chain(counters).collect();
        assert_eq!(told(&old, &words, &[]), loss);

        // A cause that this version does not know, and one that it misses: their places are told by name.
        let other = trace(
            vec![],
            vec![
                (LOSS_AT_ENTRY.to_owned(), EnvValue::Int(28)),
                text(LOSS_NAMES_ENTRY, "other busy ring_full"),
            ],
        );
        let loss = told(&other, &[100], &[5, 6, 7]);
        let causes: Vec<u64> = Cause::ALL.iter().zip(loss.causes).map(|(_, events)| events).collect();
        let place = |name| Cause::ALL.iter().position(|cause| cause.name() == name).expect("a cause");
        assert_eq!((causes[place("busy")], causes[place("ring_full")]), (6, 7));
        assert_eq!(causes.iter().sum::<u64>(), 13);
        // A place behind the header is none.
        let far = trace(
            vec![],
            vec![
                (LOSS_AT_ENTRY.to_owned(), EnvValue::Int(i64::MAX)),
                text(LOSS_NAMES_ENTRY, &names.join(" ")),
            ],
        );
        assert_eq!(told(&far, &[100], &[]).causes, [0; Cause::ALL.len()]);
    }
}
