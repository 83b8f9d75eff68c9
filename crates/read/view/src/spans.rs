//! The name of the span that an event is in: ` in app:request` for people, a member of its object in JSON.

use mote_analysis::{OPEN_MAX, SpanClasses, SpanRole};
use mote_timeline::{Record, Trace};
use std::collections::HashMap;

/// The open spans of a trace.
#[derive(Debug)]
pub(crate) struct Spans {
    classes: SpanClasses,
    /// Number of the span's kind, by session and id.
    open: HashMap<(usize, u64), usize>,
}

impl Spans {
    pub(crate) fn new(trace: &Trace) -> Spans {
        Spans { classes: SpanClasses::new(trace), open: HashMap::new() }
    }

    /// Takes in what an event says of spans. Returns the name of the one that it happened in, if it is known.
    #[inline]
    pub(crate) fn take(&mut self, record: &Record<'_>) -> Option<&str> {
        match self.classes.role(record) {
            SpanRole::None => None,
            role => self.take_of(record, role),
        }
    }

    fn take_of(&mut self, record: &Record<'_>, role: SpanRole) -> Option<&str> {
        let session = record.origin().session();
        let id = SpanClasses::span(record)?;
        let around = match role {
            SpanRole::New(kind) => {
                self.learn((session, id), kind);
                SpanClasses::parent(record)
            }
            // Its beginning may not have been seen.
            SpanRole::Enter(kind) | SpanRole::Exit(kind) | SpanRole::More(kind) => {
                self.learn((session, id), kind);
                None
            }
            SpanRole::Close(_) => {
                self.open.remove(&(session, id));
                None
            }
            SpanRole::Inside => Some(id),
            SpanRole::None => None,
        };
        self.open.get(&(session, around?)).map(|kind| self.classes.name(*kind))
    }

    fn learn(&mut self, key: (usize, u64), kind: usize) {
        if self.open.len() < OPEN_MAX {
            self.open.insert(key, kind);
        }
    }
}
