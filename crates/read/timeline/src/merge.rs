//! Merges streams by time.
//!
//! A binary heap holds every stream but the one that was read last: as long as that one's next entry is not later than
//! the earliest of the others, the heap is not touched. Of entries at the same time, that of the first stream goes
//! first.
//!
//! # While packets arrive
//! Streams that are at their end are looked at again when there may be more ([`Events::arrived`]). An entry is handed
//! out only when all that is earlier has arrived, which whoever makes the packets says.

use crate::Range;
use crate::merge_heap::Waiting;
use crate::problem::{Fault, Problem, Problems};
use crate::reader::{Head, Reader};
use crate::record::{Entry, LossRecord, Record};
use crate::source::Source;
use crate::trace::Trace;

/// The entries of a recording, in the order of time.
#[derive(Debug)]
pub struct Events<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) readers: Vec<Reader<'t>>,
    pub(crate) merge: Merge,
}

/// How far the merging is; it knows readers by their numbers.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Readers whose heads were not yet handed out.
    waiting: Waiting,
    /// The reader whose head was handed out last.
    current: Option<usize>,
    /// Readers that are at the end of what has arrived.
    pub(crate) ended: Vec<usize>,
    /// Everything up to this time has arrived.
    pub(crate) complete: i64,
    range: Range,
    problems: Problems,
}

impl<'t> Events<'t> {
    pub(crate) fn new(trace: &'t Trace, range: Range) -> Events<'t> {
        let merge = Merge {
            waiting: Waiting::default(),
            current: None,
            ended: Vec::new(),
            complete: i64::MAX,
            range,
            problems: Problems::default(),
        };
        let mut events = Events { trace, readers: Vec::new(), merge };
        events.open(0);
        events.seek(range);
        events
    }

    /// Opens the streams from this one on. Returns the numbers of their readers.
    pub(crate) fn open(&mut self, first: usize) -> std::ops::Range<usize> {
        let begin = self.readers.len();
        for (index, stream) in self.trace.streams().iter().enumerate().skip(first) {
            let Some(origin) = self.trace.origins().get(stream.origin) else { continue };
            match Reader::open(origin, stream, index) {
                Ok(reader) => self.readers.push(reader),
                Err(error) => self.note_unreadable(index, error),
            }
        }
        begin..self.readers.len()
    }

    pub(crate) fn note_unreadable(&mut self, index: usize, error: std::io::Error) {
        let Some(stream) = self.trace.streams().get(index) else { return };
        let (path, fault) = (stream.path.clone(), Fault::Io(error));
        self.merge.problems.note(Problem { path, offset: None, fault, skipped: 0 });
    }

    /// Has a reader begin with the range.
    pub(crate) fn begin(&mut self, number: usize) {
        let Some(reader) = self.readers.get_mut(number) else { return };
        reader.seek(self.merge.range);
        if reader.advance(&mut self.merge.problems) {
            self.merge.waiting.push(reader.state.time, number);
        } else {
            self.merge.ended.push(number);
        }
    }

    /// Looks for more of a stream that was read to its end.
    #[cold]
    pub(crate) fn look_again(&mut self, number: usize) {
        let Some(reader) = self.readers.get_mut(number) else { return };
        if reader.look_again() && reader.advance(&mut self.merge.problems) {
            self.merge.waiting.push(reader.state.time, number);
        } else {
            self.merge.ended.push(number);
        }
    }

    /// Goes to the first entry in `range`, also backward; nothing behind the range comes after it. The entries are
    /// those of [`Trace::events`] with that range; but for a damaged stream, where packets are looked for, and another
    /// way may lead past others.
    ///
    /// # Cost
    /// Of each stream, the headers of the packets between the index's last mark before the range and the range, one
    /// small read each, and the first packet in the range. The index knows what this reading has come past, however it
    /// came there; it takes at most 200 KiB a stream.
    pub fn seek(&mut self, range: Range) {
        self.merge.waiting = Waiting::default();
        self.merge.current = None;
        self.merge.ended.clear();
        self.merge.range = range;
        (0..self.readers.len()).for_each(|number| self.begin(number));
    }

    /// The next entry; `None` at the end of all streams, or of what has arrived of them.
    ///
    /// # Cost
    /// Three comparisons beside the decoding, as long as the stream stays the same; else a heap operation.
    #[expect(clippy::should_implement_trait, reason = "an entry borrows from the readers")]
    #[inline]
    pub fn next(&mut self) -> Option<Entry<'_>> {
        let chosen = self.choose()?;
        let reader = self.readers.get(chosen)?;
        Some(match reader.state.head {
            Head::Event => Entry::Event(Record::new(reader)),
            Head::Loss => Entry::Loss(LossRecord {
                time: reader.state.time,
                loss: &reader.state.loss,
                stream: reader.stream,
                epoch: reader.epoch,
            }),
        })
    }

    /// Moves on; returns the reader whose head is next.
    #[inline]
    fn choose(&mut self) -> Option<usize> {
        if let Some(current) = self.merge.current
            && let Some(reader) = self.readers.get_mut(current)
            && reader.advance(&mut self.merge.problems)
        {
            if self.merge.waiting.go_before(reader.state.time, current) {
                self.merge.current = Some(self.merge.waiting.replace(reader.state.time, current));
            }
        } else {
            self.merge.current.into_iter().for_each(|ended| self.look_again(ended));
            self.merge.current = self.merge.waiting.pop();
        }
        let chosen = self.merge.current?;
        let time = self.readers.get(chosen)?.state.time;
        if time > self.merge.complete { self.wait(time, chosen) } else { Some(chosen) }
    }

    /// The earliest head is too early to be handed out.
    #[cold]
    fn wait(&mut self, time: i64, chosen: usize) -> Option<usize> {
        self.merge.waiting.push(time, chosen);
        self.merge.current = None;
        None
    }

    /// What was wrong so far.
    #[must_use]
    pub fn problems(&self) -> &Problems {
        &self.merge.problems
    }
}

impl Source for Events<'_> {
    fn trace(&self) -> &Trace {
        self.trace
    }

    #[inline]
    fn next(&mut self) -> Option<Entry<'_>> {
        Events::next(self)
    }

    fn seek(&mut self, range: Range) {
        Events::seek(self, range);
    }

    fn problems(&self) -> &Problems {
        Events::problems(self)
    }
}
