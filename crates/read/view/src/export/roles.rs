//! What the classes of events mean for a viewer of tracks.

use mote_analysis::{SpanClasses, SpanRole};
use mote_timeline::{ClassId, Record, Trace};

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Something happened at one moment.
    Instant,
    /// A system call begins; its name is [`Roles::call`].
    Call(usize),
    /// A system call returns.
    Return(usize),
    /// A part of a program's work begins, ends, or changes threads.
    Span(SpanRole),
    /// A CPU goes from one thread to another.
    Switch,
}

/// The roles of a trace's event classes.
#[derive(Debug)]
pub(super) struct Roles {
    /// By [`ClassId`].
    roles: Vec<Role>,
    calls: Vec<String>,
    spans: SpanClasses,
}

impl Roles {
    /// Finds out what the events of `trace` mean.
    pub(super) fn new(trace: &Trace) -> Roles {
        let mut calls: Vec<String> = Vec::new();
        let mut number = |call: &str| {
            calls.iter().position(|known| known == call).unwrap_or_else(|| {
                calls.push(call.to_owned());
                calls.len() - 1
            })
        };
        let mut role = |id| {
            let name = trace.class(ClassId(id)).map_or("", |(_, class)| class.name.as_str());
            match (name.strip_prefix("syscall_entry_"), name.strip_prefix("syscall_exit_")) {
                (Some(call), _) => Role::Call(number(call)),
                (_, Some(call)) => Role::Return(number(call)),
                _ if name == "sched_switch" => Role::Switch,
                _ => Role::Instant,
            }
        };
        let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let roles = ids.map(&mut role).collect();
        Roles { roles, calls, spans: SpanClasses::new(trace) }
    }

    /// What `record` means.
    pub(super) fn of(&self, record: &Record<'_>) -> Role {
        match self.spans.role(record) {
            SpanRole::None | SpanRole::Inside => {
                self.roles.get(record.class().0 as usize).copied().unwrap_or(Role::Instant)
            }
            span => Role::Span(span),
        }
    }

    /// The name of a system call.
    pub(super) fn call(&self, number: usize) -> &str {
        self.calls.get(number).map_or("", String::as_str)
    }

    /// The name of a kind of span, as `app:request`.
    pub(super) fn span(&self, kind: usize) -> &str {
        self.spans.name(kind)
    }
}
