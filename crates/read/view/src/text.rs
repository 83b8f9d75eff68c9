//! Events for people: one line each.
//!
//! ```text
//! [15:34:12.123456789] worker/4711        [001] net:packet_in: { len = 12, proto = "tcp" }
//! [15:34:12.123457000] worker/4711        [001] net:slow: { prio = 3 }, { took = 17 }
//! [15:34:12.130000000] *** 1234 events lost between 15:34:12.120000000 and 15:34:12.140000000 in stream_1 (ring_full 1234) ***
//! ```
//! Time, thread, CPU, event, context (if there is more of it than the thread), payload.

use crate::Format;
use crate::digits;
use crate::escape;
use crate::known;
use crate::label::Labels;
use crate::plan::{Look, Notation, Plan, Plans};
use crate::spans::Spans;
use crate::time::{TimeStyle, Times};
use mote_ctf::model::{
    Base, BitMapClass, EnumClass, EventClass, FieldClass, FloatClass, IntClass, Length, VariantClass,
};
use mote_ctf::{Event, Value};
use mote_layout::Level;
use mote_loss::Cause;
use mote_timeline::{Loss, LossRecord, Place, Record, Trace};
use mote_words::counted;
use std::io::Write;

/// Width of the column of threads: a name of 11 characters and a thread id of 6.
const THREAD_WIDTH: usize = 18;

/// Text, one line per event.
#[derive(Debug)]
pub struct Text<'t> {
    plans: Plans<'t>,
    labels: Labels,
    times: Times,
    colour: bool,
    spans: Spans,
}

impl<'t> Text<'t> {
    /// Prints events of `trace` with times in `style`; `colour` adds escape sequences for terminals.
    #[must_use]
    pub fn new(trace: &'t Trace, style: TimeStyle, colour: bool) -> Text<'t> {
        let plans = Plans::new(trace, head, lead).for_people(colour);
        Text {
            plans,
            labels: Labels::new(THREAD_WIDTH),
            times: Times::new(style),
            colour,
            spans: Spans::new(trace),
        }
    }

    /// The same without the ids of spans, and how long calls took.
    pub(crate) fn without_spans(self) -> Text<'t> {
        Text { plans: self.plans.without_spans(), ..self }
    }

    /// Appends name and fields of an event, without a line end.
    pub(crate) fn what(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let (Some(event), Some(plan)) = (record.event(), self.plans.of(record)) else { return };
        out.extend_from_slice(plan.head.get(1..).unwrap_or(&[]));
        Self::fields(out, plan, &event);
    }

    /// Appends the fields of an event in braces.
    pub(crate) fn payload(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        if let (Some(event), Some(plan)) = (record.event(), self.plans.of(record)) {
            Self::fields(out, plan, &event);
        }
    }

    /// Appends time and thread of an event.
    pub(crate) fn place(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        out.push(b'[');
        self.times.text(out, record);
        out.extend_from_slice(b"] ");
        out.extend_from_slice(self.labels.of(record));
    }

    /// Appends name and id of an event's thread.
    pub(crate) fn thread(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        out.extend_from_slice(self.labels.of(record));
    }

    /// Appends the time of something that is shown later than it came, on a clock that began at `epoch`, and its
    /// thread.
    pub(crate) fn place_of(&mut self, out: &mut Vec<u8>, time: i64, epoch: i64, thread: &[u8]) {
        out.push(b'[');
        self.times.shown(out, time, epoch);
        out.extend_from_slice(b"] ");
        out.extend_from_slice(thread);
    }

    #[inline]
    fn fields(out: &mut Vec<u8>, plan: &Plan<'_>, event: &Event<'_>) {
        if plan.payload.iter().any(|piece| piece.lead.is_some()) {
            Self::scope(out, &plan.payload, &mut event.payload().values());
            out.extend_from_slice(b" }");
        } else {
            out.extend_from_slice(b"{ }");
        }
    }

    /// The same without the addresses of stacks.
    pub(crate) fn without_stacks(self) -> Text<'t> {
        Text { plans: self.plans.without_stacks(), ..self }
    }
}

impl Format for Text<'_> {
    #[inline]
    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let (Some(event), Some(plan)) = (record.event(), self.plans.of(record)) else { return };
        out.push(b'[');
        self.times.text(out, record);
        out.extend_from_slice(b"] ");
        out.extend_from_slice(self.labels.of(record));
        cpu(out, record.cpu());
        out.extend_from_slice(&plan.head);
        if plan.has_context {
            Self::context(out, plan, &event);
            out.extend_from_slice(b" }, ");
        }
        Self::fields(out, plan, &event);
        if let Some(span) = self.spans.take(record) {
            out.extend_from_slice(b" in ");
            escape::escaped(out, span.as_bytes());
        }
        out.push(b'\n');
    }

    fn unseen(&mut self, _out: &mut Vec<u8>, record: &Record<'_>) {
        self.spans.take(record);
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        let LossRecord { time, loss, stream, epoch } = *loss;
        out.push(b'[');
        self.times.moment(out, time, epoch);
        out.extend_from_slice(if self.colour { b"] \x1b[31m*** " } else { b"] *** " });
        let _ = write!(out, "{} lost between ", what(loss));
        match loss.since {
            Some(since) => self.times.moment(out, since, epoch),
            None => out.extend_from_slice(b"the start"),
        }
        out.extend_from_slice(b" and ");
        self.times.moment(out, loss.until, epoch);
        out.extend_from_slice(b" in ");
        escape::escaped(out, stream.label.as_bytes());
        let causes = Cause::ALL.iter().zip(loss.causes).filter(|(_, count)| *count > 0);
        let mut remarks: Vec<String> =
            causes.map(|(cause, count)| format!("{} {count}", cause.name())).collect();
        if loss.unknown > 0 {
            remarks.push("the program overwrote the counters".to_owned());
        }
        if loss.place == Place::Looks {
            remarks.push("the place is not exact".to_owned());
        }
        if !remarks.is_empty() {
            let _ = write!(out, " ({})", remarks.join(", "));
        }
        out.extend_from_slice(b" ***");
        out.extend_from_slice(if self.colour { b"\x1b[0m\n" } else { b"\n" });
    }
}

/// `12 events and 1 packet`
pub(crate) fn what(loss: &Loss) -> String {
    let number = |count: u64, one: &str, several: &str| (count > 0).then(|| counted(count, one, several));
    let unknown = match loss.events {
        _ if loss.unknown == 0 => None,
        0 => Some("an unknown number of events".to_owned()),
        _ => Some("an unknown number of others".to_owned()),
    };
    let parts = [number(loss.events, "event", "events"), unknown, number(loss.packets, "packet", "packets")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// ` net:packet_in: `, or with a level that is not the usual one ` net:slow (warning): `
fn head(class: &EventClass, look: Look) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(if look.colour { b" \x1b[36m" } else { b" " });
    escape::escaped(&mut out, class.name.as_bytes());
    out.extend_from_slice(if look.colour { b"\x1b[0m" } else { b"" });
    if let Some(level) = known::level(class).filter(|level| look.ours && *level != Level::Info) {
        let _ = write!(out, " ({})", level.name());
    }
    out.extend_from_slice(b": ");
    out
}

/// `{ a = ` or `, b = `
fn lead(name: &str, first: bool) -> Vec<u8> {
    let mut out = if first { b"{ ".to_vec() } else { b", ".to_vec() };
    escape::escaped(&mut out, name.as_bytes());
    out.extend_from_slice(b" = ");
    out
}

/// ` [001]`
#[inline]
fn cpu(out: &mut Vec<u8>, cpu: Option<u32>) {
    match cpu {
        Some(cpu) if cpu < 1000 => {
            let [.., a, b, c] = digits::nine(cpu);
            out.extend_from_slice(&[b' ', b'[', a, b, c, b']']);
        }
        Some(cpu) => {
            out.extend_from_slice(b" [");
            digits::decimal(out, cpu);
            out.push(b']');
        }
        None => out.extend_from_slice(b" [---]"),
    }
}

impl Notation for Text<'_> {
    const ABSENT: &'static [u8] = b"none";

    #[inline]
    fn value<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &FieldClass, values: &mut I) {
        match class {
            FieldClass::Int(IntClass { base: Base::Decimal, .. }) => match values.next() {
                Some(Value::U64(value)) => digits::decimal(out, value),
                Some(Value::I64(value)) => digits::decimal(out, value),
                _ => out.push(b'?'),
            },
            _ => other(out, class, values),
        }
    }
}

/// Values that are not decimal integers.
fn other<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &FieldClass, values: &mut I) {
    match class {
        FieldClass::Struct(class) => {
            for (index, member) in class.members.iter().enumerate() {
                out.extend_from_slice(if index == 0 { b"{ " } else { b", " });
                escape::escaped(out, member.name.as_bytes());
                out.extend_from_slice(b" = ");
                Text::value(out, &member.class, values);
            }
            out.extend_from_slice(if class.members.is_empty() { b"{ }" } else { b" }" });
        }
        FieldClass::Array(class) => {
            let length = match class.length {
                Length::Static(length) => length,
                Length::Dynamic(_) => count(values),
            };
            out.push(b'[');
            for index in 0..length {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                Text::value(out, &class.element, values);
            }
            out.push(b']');
        }
        FieldClass::Optional(class) if count(values) > 0 => Text::value(out, &class.class, values),
        FieldClass::Optional(_) => out.extend_from_slice(Text::ABSENT),
        FieldClass::Variant(class) => variant(out, class, values),
        _ => leaf(out, class, values.next()),
    }
}

fn count<'a>(values: &mut impl Iterator<Item = Value<'a>>) -> u64 {
    match values.next() {
        Some(Value::Count(count)) => u64::from(count),
        _ => 0,
    }
}

/// `{ option = value }`
fn variant<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &VariantClass, values: &mut I) {
    let chosen = match values.next() {
        Some(Value::Selected(index)) => class.options.get(index as usize),
        _ => None,
    };
    let Some(option) = chosen else { return out.push(b'?') };
    out.extend_from_slice(b"{ ");
    if !option.name.is_empty() {
        escape::escaped(out, option.name.as_bytes());
        out.extend_from_slice(b" = ");
    }
    Text::value(out, &option.class, values);
    out.extend_from_slice(b" }");
}

fn leaf(out: &mut Vec<u8>, class: &FieldClass, value: Option<Value<'_>>) {
    match (value, class) {
        (Some(Value::U64(value)), FieldClass::BitMap(class)) => bit_map(out, class, value),
        // No flag of several.
        (Some(Value::U64(0)), FieldClass::Enum(class)) if class.labels(0).next().is_none() => out.push(b'0'),
        (Some(Value::U64(value)), FieldClass::Enum(class)) => {
            labels(out, class, value.into());
            digits::decimal(out, value);
            out.push(b')');
        }
        (Some(Value::I64(value)), FieldClass::Enum(class)) => {
            labels(out, class, value.into());
            digits::decimal(out, value);
            out.push(b')');
        }
        (Some(Value::U64(value)), FieldClass::Int(class)) => in_base(out, value, class),
        (Some(Value::I64(value)), FieldClass::Int(class)) => {
            let unused = 64 - class.size.clamp(1, 64);
            in_base(out, (value.cast_unsigned() << unused) >> unused, class);
        }
        (Some(Value::F64(value)), FieldClass::Float(FloatClass { size: 64, .. })) => {
            let _ = write!(out, "{value:?}");
        }
        (Some(Value::F64(value)), _) => {
            let _ = write!(out, "{:?}", value as f32);
        }
        (Some(Value::Bool(value)), _) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        (Some(Value::Str(text)), FieldClass::String(class)) => {
            escape::quoted(out, &escape::utf8(text, class.encoding))
        }
        (Some(Value::Str(text)), FieldClass::Text(class)) => {
            escape::quoted(out, &escape::utf8(text, class.encoding))
        }
        (Some(Value::Bytes(bytes)), _) => {
            out.push(b'<');
            digits::bytes(out, bytes);
            out.push(b'>');
        }
        _ => out.push(b'?'),
    }
}

/// `RED (`, or `<unknown> (`; several labels with `|` between, of the value or else of its bits.
fn labels(out: &mut Vec<u8>, class: &EnumClass, value: i128) {
    let start = out.len();
    if !class.has_access_mode() {
        for label in class.labels(value) {
            if out.len() > start {
                out.push(b'|');
            }
            escape::escaped(out, label.as_bytes());
        }
    }
    if out.len() == start {
        flags(out, class, value);
    }
    out.extend_from_slice(b" (");
}

/// `O_WRONLY|O_CREAT|0x8000000`, `0` or `<unknown>`.
fn flags(out: &mut Vec<u8>, class: &EnumClass, value: i128) {
    let Some((labels, rest)) = class.flags(value).filter(|(labels, _)| value == 0 || !labels.is_empty())
    else {
        return out.extend_from_slice(b"<unknown>");
    };
    for (index, label) in labels.iter().enumerate() {
        if index > 0 {
            out.push(b'|');
        }
        escape::escaped(out, label.as_bytes());
    }
    if labels.is_empty() {
        out.push(b'0');
    } else if rest != 0 {
        out.extend_from_slice(b"|0x");
        digits::power_of_two(out, rest, 4);
    }
}

/// `A|B (0x3)`, or `0x3` without names.
fn bit_map(out: &mut Vec<u8>, class: &BitMapClass, value: u64) {
    let start = out.len();
    for flag in &class.flags {
        if (0..64).any(|bit| value >> bit & 1 == 1 && flag.ranges.iter().any(|r| r.contains(i128::from(bit))))
        {
            if out.len() > start {
                out.push(b'|');
            }
            escape::escaped(out, flag.label.as_bytes());
        }
    }
    let named = out.len() > start;
    out.extend_from_slice(if named { b" (0x" } else { b"0x" });
    digits::power_of_two(out, value, 4);
    if named {
        out.push(b')');
    }
}

fn in_base(out: &mut Vec<u8>, value: u64, class: &IntClass) {
    let (prefix, bits) = match class.base {
        Base::Decimal => return digits::decimal(out, value),
        Base::Binary => ("0b", 1),
        Base::Octal => ("0", 3),
        Base::Hexadecimal => ("0x", 4),
    };
    out.extend_from_slice(prefix.as_bytes());
    digits::power_of_two(out, value, bits);
}
