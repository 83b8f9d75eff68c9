//! What the timeline hands out: an event, or a loss, with where it comes from.

use crate::facts::Named;
use crate::loss::Loss;
use crate::origin::{ClassId, Origin, Stream};
use crate::reader::Reader;
use mote_ctf::model::StreamClass;
use mote_ctf::{Event, Fields, Value};

/// An entry of the timeline.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// An event.
    Event(Record<'a>),
    /// Events were lost here.
    Loss(LossRecord<'a>),
}

/// A loss and the stream that has it.
#[derive(Clone, Copy, Debug)]
pub struct LossRecord<'a> {
    /// When it is told, in nanoseconds since 1970: the begin of the packet whose header tells.
    pub time: i64,
    /// How many events or packets, why, and between which moments.
    pub loss: &'a Loss,
    /// The stream in which they would be.
    pub stream: &'a Stream,
    /// What lies between the trace's own clock and 1970, see [`Record::monotonic`].
    pub epoch: i64,
}

/// An event: cheap to make, decoded values are shown on request.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    reader: &'a Reader<'a>,
}

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn new(reader: &'a Reader<'a>) -> Record<'a> {
        Record { reader }
    }

    /// When, in nanoseconds since 1970-01-01 UTC.
    #[must_use]
    #[inline]
    pub fn time(&self) -> i64 {
        self.reader.state.time
    }

    /// When, on the trace's own clock, in nanoseconds: for mote and LTTng that is `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn monotonic(&self) -> i64 {
        self.reader.state.time.saturating_sub(self.reader.epoch)
    }

    /// Number of its stream class and its event class: equal for events of one kind.
    #[must_use]
    #[inline]
    pub fn class(&self) -> ClassId {
        self.reader.class_id()
    }

    /// Its name, as a rule `provider:event`.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.event().map_or("", |event| event.class.name.as_str())
    }

    /// The event with its fields. `None` only if the reader is broken.
    #[must_use]
    #[inline]
    pub fn event(&self) -> Option<Event<'a>> {
        self.reader.event()
    }

    /// The context of the packet that it is in; none when the stream declares no context.
    #[must_use]
    pub fn packet_context(&self) -> Fields<'a> {
        self.reader.packet_context()
    }

    /// Index of its stream in [`crate::Trace::streams`].
    #[must_use]
    pub fn stream_index(&self) -> usize {
        self.reader.index
    }

    /// What the metadata says of its stream; `None` only if the reader is broken.
    #[must_use]
    pub fn stream_class(&self) -> Option<&'a StreamClass> {
        self.reader.stream_class()
    }

    /// The trace that it is in.
    #[must_use]
    pub fn origin(&self) -> &'a Origin {
        self.reader.origin
    }

    /// Index of the trace that it is in.
    #[must_use]
    #[inline]
    pub fn origin_index(&self) -> usize {
        self.reader.stream.origin
    }

    /// The CPU, if the stream is that of one CPU.
    #[must_use]
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.reader.state.cpu
    }

    /// The thread, if the event has it in its context.
    #[must_use]
    #[inline]
    pub fn tid(&self) -> Option<u32> {
        let place = self.reader.context()?.tid?;
        place.id(self.event()?.common())
    }

    /// The process, from the event's context, else from the journal.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self.reader.context()?.pid {
            Some(place) => place.id(self.event()?.common()),
            None => self.named().map(|(named, _)| named.pid),
        }
    }

    /// What the journal says of the thread at that time, and until when it holds.
    #[must_use]
    pub fn named(&self) -> Option<(&'a Named, i64)> {
        self.reader.origin.facts.as_ref()?.thread(self.tid()?, self.time())
    }

    /// The id that the thread has for itself (`vtid`), where the trace says that it is another one than
    /// [`Record::tid`].
    #[must_use]
    pub fn own_tid(&self) -> Option<u32> {
        self.reader.origin.facts.as_ref()?.own_id(self.tid()?, self.time())
    }

    /// The thread's name as the event's own context has it (`procname`).
    #[must_use]
    pub fn procname(&self) -> Option<&'a [u8]> {
        let place = self.reader.context()?.name?;
        match place.value(self.event()?.common())? {
            Value::Str(name) => Some(name),
            _ => None,
        }
    }

    /// Whether events of this class have the thread's name in their context.
    #[must_use]
    pub fn has_procname(&self) -> bool {
        self.reader.context().is_some_and(|context| context.name.is_some())
    }

    /// Indices of the members of the common context that tell thread, its name, and process, for what shows them
    /// elsewhere.
    #[must_use]
    pub fn identity_members(&self) -> [Option<usize>; 3] {
        let context = self.reader.context();
        let places = [context.and_then(|c| c.tid), context.and_then(|c| c.name), context.and_then(|c| c.pid)];
        places.map(|place| place.map(|p| p.member))
    }
}
