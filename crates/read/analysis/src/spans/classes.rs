//! Which event classes tell of spans.
//!
//! A span `app:request` is told by the events `app:request_new` (its first fields are `span` and `parent`),
//! `app:request_enter`, `app:request_exit` and `app:request_close` (their only field is `span`), and
//! `app:request_record` (`span`, then values that came later). Other events that begin with a field `span` say in which
//! one they happened. The crate mote-tracing writes such events; any program may.

use mote_ctf::model::{EventClass, FieldClass};
use mote_timeline::{ClassId, Record, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the field with the id of a span.
const SPAN: &str = "span";
/// Name of the field with the id of the span around a new one.
const PARENT: &str = "parent";

/// What an event tells of a span; the number is the kind of span's, see [`SpanClasses::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanRole {
    /// Nothing.
    None,
    /// It is made.
    New(usize),
    /// A thread goes into it.
    Enter(usize),
    /// A thread leaves it.
    Exit(usize),
    /// It ends.
    Close(usize),
    /// It gets values, or follows from another one.
    More(usize),
    /// The event happened in it.
    Inside,
}

/// The roles of a trace's event classes.
#[derive(Debug)]
pub struct SpanClasses {
    /// By [`ClassId`].
    roles: Vec<SpanRole>,
    names: Vec<String>,
}

impl SpanClasses {
    /// Finds out which events of `trace` begin, end, enter and leave spans.
    #[must_use]
    pub fn new(trace: &Trace) -> SpanClasses {
        let classes = || {
            let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
            ids.map(|id| trace.class(ClassId(id)).map(|(_, class)| class))
        };
        let made: BTreeSet<&str> = classes().flatten().filter_map(made).collect();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let roles = classes()
            .map(|class| {
                let Some((base, role)) = class.and_then(|class| role(class, &made)) else {
                    return class
                        .filter(|class| first_fields(class).0)
                        .map_or(SpanRole::None, |_| SpanRole::Inside);
                };
                let next = numbers.len();
                role(*numbers.entry(base).or_insert(next))
            })
            .collect();
        let mut names = vec![String::new(); numbers.len()];
        for (name, number) in numbers {
            if let Some(place) = names.get_mut(number) {
                name.clone_into(place);
            }
        }
        SpanClasses { roles, names }
    }

    /// What `record` says of a span, if anything.
    #[inline]
    #[must_use]
    pub fn role(&self, record: &Record<'_>) -> SpanRole {
        self.roles.get(record.class().0 as usize).copied().unwrap_or(SpanRole::None)
    }

    /// The name of a kind of span, as `app:request`.
    #[must_use]
    pub fn name(&self, kind: usize) -> &str {
        self.names.get(kind).map_or("", String::as_str)
    }

    /// Number of kinds of spans.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.names.len()
    }

    /// The span that `record` is about or in; `None` if it has no such field, or is in none.
    #[must_use]
    pub fn span(record: &Record<'_>) -> Option<u64> {
        id(record, SPAN)
    }

    /// The span around a new one; `None` if there is none.
    #[must_use]
    pub fn parent(record: &Record<'_>) -> Option<u64> {
        id(record, PARENT)
    }
}

fn id(record: &Record<'_>, field: &str) -> Option<u64> {
    let id = record.event()?.payload().integer(field)?;
    u64::try_from(id).ok().filter(|id| *id != 0)
}

/// The name of the span that events of this class say is made.
fn made(class: &EventClass) -> Option<&str> {
    class.name.strip_suffix("_new").filter(|_| first_fields(class) == (true, true))
}

type Role = fn(usize) -> SpanRole;

/// The span's name, and what the class tells of it.
fn role<'a>(class: &'a EventClass, made: &BTreeSet<&str>) -> Option<(&'a str, Role)> {
    if let Some(base) = self::made(class) {
        return Some((base, SpanRole::New));
    }
    const SUFFIXES: [(&str, Role); 5] = [
        ("_enter", SpanRole::Enter),
        ("_exit", SpanRole::Exit),
        ("_close", SpanRole::Close),
        ("_record", SpanRole::More),
        ("_follows", SpanRole::More),
    ];
    let (base, role) =
        SUFFIXES.iter().find_map(|(suffix, role)| Some((class.name.strip_suffix(suffix)?, *role)))?;
    let fields = class.payload.as_ref().map_or(0, |payload| payload.members.len());
    // That spans are made may not be recorded; an event with other fields is then no part of one.
    (first_fields(class).0 && (made.contains(base) || fields == 1)).then_some((base, role))
}

/// Whether the first field is the id of a span, and the second one of that around it.
fn first_fields(class: &EventClass) -> (bool, bool) {
    let is = |index: usize, name: &str| {
        let member = class.payload.as_ref().and_then(|payload| payload.members.get(index));
        member
            .is_some_and(|m| m.name.trim_start_matches('_') == name && matches!(m.class, FieldClass::Int(_)))
    };
    (is(0, SPAN), is(1, PARENT))
}
