//! What is the same for all events of a class, rendered once.

use crate::known::{self, Names};
use crate::stack::{KERNEL, USER};
use mote_ctf::model::{ArrayClass, EventClass, FieldClass, Length, StreamClass, StructClass};
use mote_ctf::{Event, Value};
use mote_timeline::{ClassId, Record, Trace};

/// The scopes of an event that are shown.
#[derive(Debug)]
pub(crate) struct Plan<'t> {
    /// What stands before the fields.
    pub(crate) head: Vec<u8>,
    /// Common context.
    pub(crate) common: Vec<Piece<'t>>,
    /// Specific context.
    pub(crate) specific: Vec<Piece<'t>>,
    /// Payload.
    pub(crate) payload: Vec<Piece<'t>>,
    /// A member of a context is shown.
    pub(crate) has_context: bool,
}

/// A member of a scope.
#[derive(Debug)]
pub(crate) struct Piece<'t> {
    /// What stands before its value; `None`: the member is not shown.
    pub(crate) lead: Option<Vec<u8>>,
    pub(crate) class: &'t FieldClass,
    /// Names of its values that the metadata does not have.
    pub(crate) names: Option<Names>,
    /// 0 says that the value is not known.
    pub(crate) is_absent_at_0: bool,
}

impl Piece<'_> {
    /// Whether the value that `out` has from `start` on says that it is not known.
    pub(crate) fn is_absent(&self, out: &[u8], start: usize) -> bool {
        self.is_absent_at_0 && out.get(start..) == Some(b"0")
    }
}

/// How a format writes what comes before a member's value: its name, and whether it is the first of its group.
pub(crate) type Lead = fn(name: &str, first: bool) -> Vec<u8>;

/// How a format writes what comes before the fields.
pub(crate) type Head = fn(class: &EventClass, look: Look) -> Vec<u8>;

/// How what comes before the fields looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// With escape sequences for terminals.
    pub(crate) colour: bool,
    /// mote wrote the trace: its levels were chosen, while others give each event one.
    pub(crate) ours: bool,
}

/// The plans of a recording's event classes, made when they are needed.
#[derive(Debug)]
pub(crate) struct Plans<'t> {
    trace: &'t Trace,
    plans: Vec<Option<Plan<'t>>>,
    head: Head,
    lead: Lead,
    colour: bool,
    /// The process has a place of its own in the format.
    shows_pid: bool,
    /// Stacks have one.
    hides_stacks: bool,
    /// Ids of spans and durations of calls have one.
    hides_spans: bool,
}

impl<'t> Plans<'t> {
    pub(crate) fn new(trace: &'t Trace, head: Head, lead: Lead) -> Plans<'t> {
        let plans = (0..trace.classes()).map(|_| None).collect();
        Plans {
            trace,
            plans,
            head,
            lead,
            colour: false,
            shows_pid: true,
            hides_stacks: false,
            hides_spans: false,
        }
    }

    /// The same for a format without a place for the process, in colour or not.
    pub(crate) fn for_people(self, colour: bool) -> Plans<'t> {
        Plans { colour, shows_pid: false, ..self }
    }

    /// The same for a format that shows stacks elsewhere.
    pub(crate) fn without_stacks(self) -> Plans<'t> {
        Plans { hides_stacks: true, ..self }
    }

    /// The same for a format that shows elsewhere in which span an event is, and how long a call took.
    pub(crate) fn without_spans(self) -> Plans<'t> {
        Plans { hides_spans: true, ..self }
    }

    /// The plan for the class of `record`.
    #[inline]
    pub(crate) fn of(&mut self, record: &Record<'_>) -> Option<&Plan<'t>> {
        let id = record.class();
        if self.plans.get(id.0 as usize)?.is_none() {
            self.make(id, record);
        }
        self.plans.get(id.0 as usize)?.as_ref()
    }

    #[cold]
    fn make(&mut self, id: ClassId, record: &Record<'_>) {
        if let (Some((stream, event)), Some(place)) =
            (self.trace.class(id), self.plans.get_mut(id.0 as usize))
        {
            let [tid, name, pid] = record.identity_members();
            let hidden = [tid, name, pid.filter(|_| self.shows_pid)];
            let Plans { lead, hides_stacks, hides_spans, colour, .. } = *self;
            let (event_name, ours) = (event.name.as_str(), record.origin().facts.is_some());
            let rule =
                Rule { lead, hides_stacks, hides_spans, event: event_name, names: !self.shows_pid, ours };
            let look = Look { colour, ours };
            *place = Some(Plan::new(stream, event, hidden, rule, (self.head)(event, look)));
        }
    }
}

/// How members are shown.
#[derive(Clone, Copy)]
struct Rule<'t> {
    lead: Lead,
    hides_stacks: bool,
    hides_spans: bool,
    /// The event's name.
    event: &'t str,
    /// Values are named that the metadata has no names for.
    names: bool,
    /// mote wrote the trace.
    ours: bool,
}

impl<'t> Plan<'t> {
    fn new(
        stream: &'t StreamClass,
        event: &'t EventClass,
        hidden: [Option<usize>; 3],
        rule: Rule<'_>,
        head: Vec<u8>,
    ) -> Plan<'t> {
        let mut first = true;
        let common = pieces(stream.common_context.as_ref(), &hidden, rule, &mut first);
        let specific = pieces(event.specific_context.as_ref(), &[], rule, &mut first);
        let has_context = !first;
        first = true;
        let payload = pieces(event.payload.as_ref(), &[], rule, &mut first);
        Plan { head, common, specific, payload, has_context }
    }
}

/// The members of a scope without those in `hidden` and without lengths that a later member shows anyway.
fn pieces<'t>(
    class: Option<&'t StructClass>,
    hidden: &[Option<usize>],
    rule: Rule<'_>,
    first: &mut bool,
) -> Vec<Piece<'t>> {
    let Some(class) = class else { return Vec::new() };
    let mut pieces = Vec::with_capacity(class.members.len());
    for (index, member) in class.members.iter().enumerate() {
        let hidden = hidden.contains(&Some(index))
            || is_length(class, index)
            || rule.hides_stacks && is_stack(&member.name)
            || rule.hides_spans && index < 2 && is_span(&member.name)
            || rule.hides_spans && mote_analysis::is_duration(rule.event, &member.name);
        let lead = (!hidden).then(|| (rule.lead)(&member.name, std::mem::take(first)));
        let names = rule.names.then(|| Names::of(rule.event, &member.name)).flatten();
        let is_absent_at_0 = rule.ours && known::is_absent_at_0(rule.event, &member.name);
        pieces.push(Piece { lead, class: &member.class, names, is_absent_at_0 });
    }
    pieces
}

/// Whether a member is a stack, or the length of one.
fn is_stack(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    [KERNEL, USER].contains(&name.strip_suffix("_length").unwrap_or(name))
}

/// Whether a member is the id of a span.
fn is_span(name: &str) -> bool {
    ["span", "parent"].contains(&name.trim_start_matches('_'))
}

/// Whether a member is only there to tell the length of the next one: its name begins with an underscore, as tracers
/// name such members.
fn is_length(class: &StructClass, index: usize) -> bool {
    let (Some(member), Some(next)) = (class.members.get(index), class.members.get(index + 1)) else {
        return false;
    };
    let length = match &next.class {
        FieldClass::Array(ArrayClass { length, .. }) => length,
        FieldClass::Text(class) => &class.length,
        FieldClass::Blob(class) => &class.length,
        _ => return false,
    };
    match length {
        Length::Dynamic(field) => member.name.starts_with('_') && field.path.last() == Some(&member.name),
        Length::Static(_) => false,
    }
}

/// A notation for values.
pub(crate) trait Notation {
    /// What stands for a value that is not there.
    const ABSENT: &'static [u8];

    /// Appends the next of `values`, which are those of a field of `class`.
    fn value<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &FieldClass, values: &mut I);

    /// Appends the shown members of both contexts.
    fn context(out: &mut Vec<u8>, plan: &Plan<'_>, event: &Event<'_>) {
        Self::scope(out, &plan.common, &mut event.common().values());
        Self::scope(out, &plan.specific, &mut event.specific().values());
    }

    /// Appends the shown members of a scope.
    #[inline]
    fn scope<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, pieces: &[Piece<'_>], values: &mut I) {
        for piece in pieces {
            match &piece.lead {
                Some(lead) => {
                    out.extend_from_slice(lead);
                    let start = out.len();
                    Self::value(out, piece.class, values);
                    if piece.is_absent(out, start) {
                        out.truncate(start);
                        out.extend_from_slice(Self::ABSENT);
                    }
                    if let Some(names) = piece.names {
                        names.append(out, start);
                    }
                }
                None => skip(piece.class, values),
            }
        }
    }
}

/// Takes the values of a field that is not shown.
pub(crate) fn skip<'a, I: Iterator<Item = Value<'a>>>(class: &FieldClass, values: &mut I) {
    match class {
        FieldClass::Struct(class) => class.members.iter().for_each(|member| skip(&member.class, values)),
        FieldClass::Array(ArrayClass { length: Length::Static(n), element, .. }) => {
            (0..*n).for_each(|_| skip(element, values));
        }
        _ => match (class, values.next()) {
            (FieldClass::Array(class), Some(Value::Count(n))) => {
                (0..n).for_each(|_| skip(&class.element, values))
            }
            (FieldClass::Optional(class), Some(Value::Count(1))) => skip(&class.class, values),
            (FieldClass::Variant(class), Some(Value::Selected(index))) => {
                if let Some(option) = class.options.get(index as usize) {
                    skip(&option.class, values);
                }
            }
            _ => {}
        },
    }
}
