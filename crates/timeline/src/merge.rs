//! Merges streams by time.
//!
//! A binary heap holds every stream but the one that was read last: as long as that one's next entry is not later
//! than the earliest of the others, the heap is not touched. Streams are in bursts, so that is the rule.

use crate::problem::{Fault, Problem, Problems};
use crate::reader::{Head, Reader};
use crate::record::{Entry, LossRecord, Record};
use crate::trace::Trace;
use crate::Range;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time of an entry and index of its reader: at the same time the first stream goes first.
type Key = (i64, usize);

/// The entries of a recording, in the order of time.
#[derive(Debug)]
pub struct Events<'t> {
    readers: Vec<Reader<'t>>,
    /// Heads that were not yet handed out, the earliest on top.
    heap: BinaryHeap<Reverse<Key>>,
    /// The reader whose head was handed out last.
    current: Option<usize>,
    /// The top of the heap.
    limit: Key,
    problems: Problems,
}

/// The limit of an empty heap.
const NO_LIMIT: Key = (i64::MAX, usize::MAX);

impl<'t> Events<'t> {
    pub(crate) fn new(trace: &'t Trace, range: Range) -> Events<'t> {
        let mut events = Events {
            readers: Vec::new(),
            heap: BinaryHeap::new(),
            current: None,
            limit: NO_LIMIT,
            problems: Problems::default(),
        };
        for (index, stream) in trace.streams().iter().enumerate() {
            let Some(source) = trace.sources().get(stream.source) else { continue };
            match Reader::open(source, stream, index, range) {
                Ok(reader) => events.add(reader),
                Err(error) => {
                    let (path, fault) = (stream.path.clone(), Fault::Io(error));
                    events.problems.note(Problem { path, offset: None, fault, skipped: 0 });
                }
            }
        }
        events
    }

    fn add(&mut self, mut reader: Reader<'t>) {
        if reader.advance(&mut self.problems) {
            self.heap.push(Reverse((reader.time, self.readers.len())));
            self.readers.push(reader);
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

    /// Moves on; answers the reader whose head is next.
    #[inline]
    fn choose(&mut self) -> Option<usize> {
        if let Some(current) = self.current
            && let Some(reader) = self.readers.get_mut(current)
            && reader.advance(&mut self.problems)
        {
            let key = (reader.time, current);
            if key <= self.limit {
                return Some(current);
            }
            self.heap.push(Reverse(key));
        }
        self.current = self.heap.pop().map(|Reverse((_, index))| index);
        self.limit = self.heap.peek().map_or(NO_LIMIT, |Reverse(key)| *key);
        self.current
    }

    /// What was wrong so far.
    #[must_use]
    pub fn problems(&self) -> &Problems {
        &self.problems
    }
}
