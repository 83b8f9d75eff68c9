//! What a recording is made of: traces, their streams, and numbers for the classes of their events.

use crate::clock::Clock;
use crate::context::Context;
use crate::facts::Facts;
use crate::loss::CounterPlaces;
use crate::storage::Storage;
use mote_ctf::Schema;
use mote_ctf::model::{FieldClass, IntCoding, Roles, StreamClass};
use std::path::PathBuf;

/// One CTF trace of the recording.
#[derive(Debug)]
pub struct Origin {
    /// The directory that its files are in.
    pub dir: PathBuf,
    /// Classes, clocks and environment, as its metadata declares them.
    pub schema: Schema,
    /// What its journal says, if mote wrote it.
    pub facts: Option<Facts>,
    /// Index of the first trace of the same recording: a recording of mote can have one of processes and one of the
    /// kernel.
    pub(crate) session: usize,
    pub(crate) contexts: Vec<Context>,
    pub(crate) counters: CounterPlaces,
    /// Of each stream class, the [`ClassId`] of its first event class.
    pub(crate) first_class: Vec<u32>,
    /// Of each stream class: whether the headers of its packets say when they begin, independent of the packets before.
    pub(crate) whole_begins: Vec<bool>,
}

/// A data stream: the packets of one file, in their order.
#[derive(Debug)]
pub struct Stream {
    /// Its file; what is not a file has the path where it would be.
    pub path: PathBuf,
    /// Its path in the recording, for people.
    pub label: String,
    /// Index of its trace in [`crate::Trace::origins`].
    pub origin: usize,
    pub(crate) storage: Box<dyn Storage>,
}

/// Number of an event class: dense, from 0, over all classes of all traces of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// Whether the packets of a stream begin with a time stamp of 64 bits. A shorter one counts from the packet before,
/// which then has to be read to its end.
pub(crate) fn begins_whole(class: &StreamClass) -> bool {
    let members = class.packet_context.iter().flat_map(|context| &context.members);
    let mut ints = members.filter_map(|member| match &member.class {
        FieldClass::Int(int) => Some(int),
        _ => None,
    });
    ints.any(|int| int.roles.contains(Roles::TIMESTAMP) && int.coding == IntCoding::Fixed && int.size >= 64)
}

impl Origin {
    /// What traces have in common that are of one recording, and in which a thread has the same id.
    #[must_use]
    #[inline]
    pub fn session(&self) -> usize {
        self.session
    }

    /// The clock of a stream class.
    pub(crate) fn clock(&self, class: &StreamClass) -> Clock<'_> {
        let Some(clock) = self.schema.trace().clock_of(class) else { return Clock::None };
        match self.facts.as_ref().and_then(Facts::timeline) {
            Some(line) => Clock::Samples {
                cursor: mote_clock::Cursor::new(line),
                epoch: i64::try_from(line.epoch_offset_ns()).unwrap_or(0),
            },
            None => Clock::Ctf(clock.scale()),
        }
    }

    /// What lies between the trace's clock and 1970, in nanoseconds: times less this are those of the clock itself,
    /// which for mote and LTTng is `CLOCK_MONOTONIC`.
    pub(crate) fn epoch(&self, class: &StreamClass) -> i64 {
        let clock = self.schema.trace().clock_of(class).map_or(0, |clock| clock.scale().to_nanos(0));
        let line = self.facts.as_ref().and_then(Facts::timeline);
        line.map_or(clock, |line| i64::try_from(line.epoch_offset_ns()).unwrap_or(0))
    }
}
