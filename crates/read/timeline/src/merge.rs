//! Merges streams by time.
//!
//! A binary heap holds every stream but the one that was read last: as long as that one's next entry is not later than
//! the earliest of the others, the heap is not touched. Of entries at the same time, that of the first stream goes
//! first.

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
    trace: &'t Trace,
    readers: Vec<Reader<'t>>,
    /// Readers whose heads were not yet handed out.
    waiting: Waiting,
    /// The reader whose head was handed out last.
    current: Option<usize>,
    problems: Problems,
}

impl<'t> Events<'t> {
    pub(crate) fn new(trace: &'t Trace, range: Range) -> Events<'t> {
        let mut events = Events {
            trace,
            readers: Vec::new(),
            waiting: Waiting::default(),
            current: None,
            problems: Problems::default(),
        };
        for (index, stream) in trace.streams().iter().enumerate() {
            let Some(origin) = trace.origins().get(stream.origin) else { continue };
            match Reader::open(origin, stream, index) {
                Ok(reader) => events.readers.push(reader),
                Err(error) => {
                    let (path, fault) = (stream.path.clone(), Fault::Io(error));
                    events.problems.note(Problem { path, offset: None, fault, skipped: 0 });
                }
            }
        }
        events.seek(range);
        events
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
        self.waiting = Waiting::default();
        self.current = None;
        for (number, reader) in self.readers.iter_mut().enumerate() {
            reader.seek(range);
            if reader.advance(&mut self.problems) {
                self.waiting.push(reader.time, number);
            }
        }
    }

    /// The next entry; `None` at the end of all streams.
    ///
    /// # Cost
    /// Two comparisons beside the decoding, as long as the stream stays the same; else a heap operation.
    #[expect(clippy::should_implement_trait, reason = "an entry borrows from the readers")]
    #[inline]
    pub fn next(&mut self) -> Option<Entry<'_>> {
        let chosen = self.choose()?;
        let reader = self.readers.get(chosen)?;
        Some(match reader.head {
            Head::Event => Entry::Event(Record::new(reader)),
            Head::Loss => Entry::Loss(LossRecord {
                time: reader.time,
                loss: &reader.loss,
                stream: reader.stream,
                epoch: reader.epoch,
            }),
        })
    }

    /// Moves on; returns the reader whose head is next.
    #[inline]
    fn choose(&mut self) -> Option<usize> {
        if let Some(current) = self.current
            && let Some(reader) = self.readers.get_mut(current)
            && reader.advance(&mut self.problems)
        {
            if self.waiting.go_before(reader.time, current) {
                self.current = Some(self.waiting.replace(reader.time, current));
            }
        } else {
            self.current = self.waiting.pop();
        }
        self.current
    }

    /// What was wrong so far.
    #[must_use]
    pub fn problems(&self) -> &Problems {
        &self.problems
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
