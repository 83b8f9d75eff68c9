//! The name of the span that an event is in, for people: ` in app:request`.

use crate::escape;
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

    /// Appends in which span the event is, if its name is known.
    #[inline]
    pub(crate) fn append(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let role = self.classes.role(record);
        if role != SpanRole::None {
            self.append_of(out, record, role);
        }
    }

    fn append_of(&mut self, out: &mut Vec<u8>, record: &Record<'_>, role: SpanRole) {
        let session = record.origin().session();
        let Some(id) = SpanClasses::span(record) else { return };
        let around = match role {
            SpanRole::New(kind) => {
                if self.open.len() < OPEN_MAX {
                    self.open.insert((session, id), kind);
                }
                SpanClasses::parent(record)
            }
            SpanRole::Close(_) => {
                self.open.remove(&(session, id));
                None
            }
            SpanRole::Inside => Some(id),
            _ => None,
        };
        if let Some(kind) = around.and_then(|id| self.open.get(&(session, id))) {
            out.extend_from_slice(b" in ");
            escape::escaped(out, self.classes.name(*kind).as_bytes());
        }
    }
}
