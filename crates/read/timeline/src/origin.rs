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
    /// Of each stream class, the ids of its event classes.
    pub(crate) ids: Vec<ClassIds>,
    /// How often the metadata have grown.
    pub(crate) renewals: u32,
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

/// The ids of the event classes of a stream class, by their indices there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassIds {
    /// Of the first class; those that were there from the beginning follow one another.
    first: u32,
    known: u32,
    /// Of those that have come later.
    later: Vec<ClassId>,
}

impl ClassIds {
    /// Of the first `known` classes.
    pub(crate) const fn new(first: u32, known: u32) -> ClassIds {
        ClassIds { first, known, later: Vec::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.known as usize + self.later.len()
    }

    /// Gives an id to the class behind the last one.
    pub(crate) fn add(&mut self, id: ClassId) {
        self.later.push(id);
    }

    /// The id of a class.
    #[inline]
    pub(crate) fn of(&self, index: u32) -> ClassId {
        if index < self.known { ClassId(self.first + index) } else { self.of_later(index) }
    }

    #[cold]
    fn of_later(&self, index: u32) -> ClassId {
        let later = self.later.get((index - self.known) as usize);
        later.copied().unwrap_or(ClassId(u32::MAX))
    }
}

/// Those of a stream without a class.
pub(crate) static NO_CLASSES: ClassIds = ClassIds::new(0, u32::MAX);

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
