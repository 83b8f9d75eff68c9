//! Reading on while packets arrive, and putting a reading aside while its recording grows.

use crate::merge::{Events, Merge};
use crate::reader::{Reader, State};
use crate::trace::Trace;

/// How far a reading is, without the recording: that can grow meanwhile ([`Trace::extend`]).
#[derive(Debug)]
pub struct Paused {
    readers: Vec<PausedReader>,
    /// How many streams there were.
    streams: usize,
    merge: Merge,
}

#[derive(Debug)]
struct PausedReader {
    index: usize,
    /// Of the metadata that it has read by.
    renewals: u32,
    state: State,
}

impl<'t> Events<'t> {
    /// Packets have arrived: everything up to `until`, in nanoseconds since 1970, is there now. What is later is not
    /// handed out before this is said of it, because something earlier may still come. A recording that does not grow
    /// needs none of this: all of it is there from the beginning.
    ///
    /// # Cost
    /// One look at the size of each stream that was read to its end.
    pub fn arrived(&mut self, until: i64) {
        self.merge.complete = until;
        std::mem::take(&mut self.merge.ended).into_iter().for_each(|number| self.look_again(number));
    }

    /// Puts the reading aside, so that the recording can grow.
    #[must_use]
    pub fn pause(self) -> Paused {
        let Events { trace, readers, merge } = self;
        let paused = |reader: Reader<'_>| PausedReader {
            index: reader.index,
            renewals: reader.origin.renewals,
            state: reader.state,
        };
        let readers = readers.into_iter().map(paused).collect();
        let streams = trace.streams().len();
        Paused { readers, streams, merge }
    }

    /// Goes on where a reading of the same recording was put aside, with the streams that have come since.
    pub(crate) fn go_on(trace: &'t Trace, paused: Paused) -> Events<'t> {
        let Paused { readers, streams, merge } = paused;
        let mut events = Events { trace, readers: Vec::with_capacity(readers.len()), merge };
        for PausedReader { index, renewals, state } in readers {
            let stream = trace.streams().get(index);
            let origin = stream.and_then(|stream| trace.origins().get(stream.origin));
            let Some((stream, origin)) = stream.zip(origin) else { continue };
            match Reader::go_on(origin, stream, index, state, origin.renewals != renewals) {
                Ok(reader) => events.readers.push(reader),
                Err((reader, error)) => {
                    events.readers.push(*reader);
                    events.note_unreadable(index, error);
                }
            }
        }
        for number in events.open(streams) {
            events.begin(number);
        }
        events
    }
}

impl Trace {
    /// Goes on with a reading of this recording that was put aside, with all that has come since.
    #[must_use]
    pub fn go_on(&self, paused: Paused) -> Events<'_> {
        Events::go_on(self, paused)
    }
}
