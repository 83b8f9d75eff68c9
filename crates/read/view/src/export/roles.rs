//! What the classes of events mean for a viewer of tracks.

use mote_analysis::{Call, CallClasses, SpanClasses, SpanRole, SyscallClasses, SyscallRole};
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
    /// A call of a function that has returned.
    Function(Call),
    /// A CPU goes from one thread to another.
    Switch,
}

/// The roles of a trace's event classes.
#[derive(Debug)]
pub(super) struct Roles {
    calls: SyscallClasses,
    spans: SpanClasses,
    functions: CallClasses,
    /// By [`ClassId`]: whether it is a switch of the scheduler.
    switches: Vec<bool>,
}

impl Roles {
    /// Finds out what the events of `trace` mean.
    pub(super) fn new(trace: &Trace) -> Roles {
        let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let is_switch = |id| trace.class(ClassId(id)).is_some_and(|(_, class)| class.name == "sched_switch");
        let switches = ids.map(is_switch).collect();
        let (calls, spans) = (SyscallClasses::new(trace), SpanClasses::new(trace));
        Roles { calls, spans, functions: CallClasses::new(trace), switches }
    }

    /// What `record` means.
    pub(super) fn of(&self, record: &Record<'_>) -> Role {
        if let Some(call) = self.functions.call(record) {
            return Role::Function(call);
        }
        match (self.spans.role(record), self.calls.role(record)) {
            (SpanRole::None | SpanRole::Inside, SyscallRole::Entry(call)) => Role::Call(call),
            (SpanRole::None | SpanRole::Inside, SyscallRole::Exit(call)) => Role::Return(call),
            (SpanRole::None | SpanRole::Inside, SyscallRole::None) => {
                match self.switches.get(record.class().0 as usize) {
                    Some(true) => Role::Switch,
                    _ => Role::Instant,
                }
            }
            (span, _) => Role::Span(span),
        }
    }

    /// The name of a system call.
    pub(super) fn call(&self, number: usize) -> &str {
        self.calls.name(number)
    }

    /// The name of a function.
    pub(super) fn function(&self, number: usize) -> &str {
        self.functions.name(number)
    }

    /// The name of a kind of span, as `app:request`.
    pub(super) fn span(&self, kind: usize) -> &str {
        self.spans.name(kind)
    }
}
