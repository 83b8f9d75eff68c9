//! Events for machines: one JSON object a line (JSON Lines).
//!
//! ```json
//! {"time":1795188852123456789,"cpu":1,"pid":4710,"tid":4711,"thread":"worker","event":"net:packet_in","level":"info","context":{},"fields":{"len":12,"proto":"tcp"}}
//! {"lost":{"events":1234,"packets":0,"ring_full":1234},"since":1795188852120000000,"until":1795188852130000000,"exact":true,"stream":"channel_1"}
//! ```
//! Always valid: what is not UTF-8 becomes U+FFFD, infinities and NaN are the strings `"inf"`, `"-inf"`, `"NaN"`, bytes
//! a string of hexadecimal digits, an enumeration's value its label (the number if it has none), a variant an object
//! with the chosen option, a missing optional `null`. An event in a span whose name is known has that as `"span"`.
//! Integers are numbers with all their digits, also beyond 2^53.

use crate::Format;
use crate::digits;
use crate::escape;
use crate::known;
use crate::plan::{Look, Notation, Plan, Plans};
use crate::spans::Spans;
use crate::time::{TimeStyle, Times};
use mote_ctf::model::{EnumClass, EventClass, FieldClass, FloatClass, Length, VariantClass};
use mote_ctf::{Event, Value};
use mote_loss::Cause;
use mote_timeline::{LossRecord, Place, Record, Trace};
use std::borrow::Cow;
use std::io::Write;

/// JSON, one object per event.
#[derive(Debug)]
pub struct Json<'t> {
    plans: Plans<'t>,
    times: Times,
    spans: Spans,
}

impl<'t> Json<'t> {
    /// Prints events of `trace`; `time` is nanoseconds in `style`.
    #[must_use]
    pub fn new(trace: &'t Trace, style: TimeStyle) -> Json<'t> {
        Json { plans: Plans::new(trace, head, lead), times: Times::new(style), spans: Spans::new(trace) }
    }

    /// The same without the addresses of stacks.
    pub(crate) fn without_stacks(self) -> Json<'t> {
        Json { plans: self.plans.without_stacks(), ..self }
    }
}

impl Format for Json<'_> {
    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let (Some(event), Some(plan)) = (record.event(), self.plans.of(record)) else { return };
        out.extend_from_slice(b"{\"time\":");
        digits::decimal(out, self.times.number(record));
        let ids = [
            (&b",\"cpu\":"[..], record.cpu()),
            (b",\"pid\":", record.pid()),
            (b",\"tid\":", record.tid()),
            (b",\"vtid\":", record.own_tid()),
        ];
        for (key, id) in ids {
            if let Some(id) = id {
                out.extend_from_slice(key);
                digits::decimal(out, id);
            }
        }
        if let Some(name) = thread(record) {
            out.extend_from_slice(b",\"thread\":");
            escape::json(out, name);
        }
        out.extend_from_slice(&plan.head);
        if let Some(span) = self.spans.take(record) {
            out.extend_from_slice(b",\"span\":");
            escape::json(out, span.as_bytes());
        }
        if plan.has_context {
            out.extend_from_slice(b",\"context\":{");
            context(out, plan, &event);
            out.push(b'}');
        }
        out.extend_from_slice(b",\"fields\":{");
        payload(out, plan, &event);
        out.extend_from_slice(b"}}\n");
    }

    fn unseen(&mut self, _out: &mut Vec<u8>, record: &Record<'_>) {
        self.spans.take(record);
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        let LossRecord { loss, stream, .. } = *loss;
        let events = loss.known().map_or("null".to_owned(), |events| events.to_string());
        let _ = write!(out, "{{\"lost\":{{\"events\":{events},\"packets\":{}", loss.packets);
        for (cause, count) in Cause::ALL.iter().zip(loss.causes).filter(|(_, count)| *count > 0) {
            let _ = write!(out, ",\"{}\":{count}", cause.name());
        }
        out.extend_from_slice(b"},\"since\":");
        match loss.since {
            Some(since) => digits::decimal(out, since),
            None => out.extend_from_slice(b"null"),
        }
        let _ = write!(out, ",\"until\":{},\"exact\":{},\"stream\":", loss.until, loss.place == Place::Gap);
        escape::json(out, stream.label.as_bytes());
        out.extend_from_slice(b"}\n");
    }
}

/// The thread's name, if known.
pub(crate) fn thread<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    record.procname().or_else(|| record.named().map(|(named, _)| named.name.as_bytes()))
}

/// Appends the members of the contexts, without braces.
pub(crate) fn context(out: &mut Vec<u8>, plan: &Plan<'_>, event: &Event<'_>) {
    Json::context(out, plan, event);
}

/// Appends the members of the payload, without braces.
pub(crate) fn payload(out: &mut Vec<u8>, plan: &Plan<'_>, event: &Event<'_>) {
    Json::scope(out, &plan.payload, &mut event.payload().values());
}

/// `,"event":"net:packet_in","level":"info"`
fn head(class: &EventClass, _look: Look) -> Vec<u8> {
    let mut out = b",\"event\":".to_vec();
    escape::json(&mut out, class.name.as_bytes());
    if let Some(level) = known::level(class) {
        let _ = write!(out, ",\"level\":\"{}\"", level.name());
    }
    out
}

/// `"a":` or `,"b":`
pub(crate) fn lead(name: &str, first: bool) -> Vec<u8> {
    let mut out = if first { Vec::new() } else { b",".to_vec() };
    escape::json(&mut out, name.as_bytes());
    out.push(b':');
    out
}

impl Notation for Json<'_> {
    const ABSENT: &'static [u8] = b"null";

    #[inline]
    fn value<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &FieldClass, values: &mut I) {
        match class {
            FieldClass::Struct(_)
            | FieldClass::Array(_)
            | FieldClass::Variant(_)
            | FieldClass::Optional(_) => {
                nested(out, class, values);
            }
            _ => leaf(out, class, values.next()),
        }
    }
}

fn nested<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &FieldClass, values: &mut I) {
    match class {
        FieldClass::Struct(class) => {
            out.push(b'{');
            for (index, member) in class.members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                escape::json(out, member.name.as_bytes());
                out.push(b':');
                Json::value(out, &member.class, values);
            }
            out.push(b'}');
        }
        FieldClass::Array(class) => {
            let length = match class.length {
                Length::Static(length) => length,
                Length::Dynamic(_) => count(values),
            };
            out.push(b'[');
            for index in 0..length {
                if index > 0 {
                    out.push(b',');
                }
                Json::value(out, &class.element, values);
            }
            out.push(b']');
        }
        FieldClass::Optional(class) if count(values) > 0 => Json::value(out, &class.class, values),
        FieldClass::Variant(class) => variant(out, class, values),
        _ => out.extend_from_slice(Json::ABSENT),
    }
}

fn count<'a>(values: &mut impl Iterator<Item = Value<'a>>) -> u64 {
    match values.next() {
        Some(Value::Count(count)) => u64::from(count),
        _ => 0,
    }
}

/// `{"option":value}`
fn variant<'a, I: Iterator<Item = Value<'a>>>(out: &mut Vec<u8>, class: &VariantClass, values: &mut I) {
    let chosen = match values.next() {
        Some(Value::Selected(index)) => class.options.get(index as usize),
        _ => None,
    };
    let Some(option) = chosen else { return out.extend_from_slice(b"null") };
    out.push(b'{');
    escape::json(out, option.name.as_bytes());
    out.push(b':');
    Json::value(out, &option.class, values);
    out.push(b'}');
}

/// `A|B`, when all bits have labels.
fn flags(class: &EnumClass, value: i128) -> Option<String> {
    let (labels, rest) = class.flags(value)?;
    (rest == 0 && !labels.is_empty()).then(|| labels.join("|"))
}

fn leaf(out: &mut Vec<u8>, class: &FieldClass, value: Option<Value<'_>>) {
    let label = |value: i128| match class {
        FieldClass::Enum(class) => match class.labels(value).next().filter(|_| !class.has_access_mode()) {
            Some(label) => Some(Cow::Borrowed(label)),
            None => flags(class, value).map(Cow::Owned),
        },
        _ => None,
    };
    match (value, class) {
        (Some(Value::U64(value)), _) => match label(value.into()) {
            Some(label) => escape::json(out, label.as_bytes()),
            None => digits::decimal(out, value),
        },
        (Some(Value::I64(value)), _) => match label(value.into()) {
            Some(label) => escape::json(out, label.as_bytes()),
            None => digits::decimal(out, value),
        },
        (Some(Value::F64(value)), _) if !value.is_finite() => {
            let _ = write!(out, "\"{value}\"");
        }
        (Some(Value::F64(value)), FieldClass::Float(FloatClass { size: 64, .. })) => {
            let _ = write!(out, "{value:?}");
        }
        (Some(Value::F64(value)), _) => {
            let _ = write!(out, "{:?}", value as f32);
        }
        (Some(Value::Bool(value)), _) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        (Some(Value::Str(text)), FieldClass::String(class)) => {
            escape::json(out, &escape::utf8(text, class.encoding))
        }
        (Some(Value::Str(text)), FieldClass::Text(class)) => {
            escape::json(out, &escape::utf8(text, class.encoding))
        }
        (Some(Value::Bytes(bytes)), _) => {
            out.push(b'"');
            digits::bytes(out, bytes);
            out.push(b'"');
        }
        _ => out.extend_from_slice(b"null"),
    }
}
