//! Events for spreadsheets and data frames: RFC 4180, one header line.
//!
//! ```text
//! time,cpu,pid,tid,thread,event,context,fields
//! 1795188852123456789,1,4710,4711,worker,net:packet_in,,"{""len"":12,""proto"":""tcp""}"
//! ```
//! The columns are the same for all events; `context` and `fields` hold JSON objects as [`crate::Json`] writes them, or
//! nothing.
//! Where only one kind of event is printed, each member has a column of its own ([`Csv::flat`]):
//! ```text
//! time,cpu,pid,tid,thread,event,len,proto
//! 1795188852123456789,1,4710,4711,worker,net:packet_in,12,tcp
//! ```
//! Lines end with a line feed. A loss has no line.

use crate::Format;
use crate::digits;
use crate::escape;
use crate::json::{self, Json};
use crate::plan::{Look, Notation, Piece, Plan, Plans, skip};
use crate::time::{TimeStyle, Times};
use mote_ctf::Value;
use mote_ctf::model::EventClass;
use mote_timeline::{LossRecord, Record, Trace};

/// Events as comma-separated values, one line each (RFC 4180).
#[derive(Debug)]
pub struct Csv<'t> {
    plans: Plans<'t>,
    times: Times,
    /// JSON before it is quoted.
    scratch: Vec<u8>,
    columns: Columns,
}

/// What stands behind the event's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Columns {
    /// Context and fields, as objects.
    Objects,
    /// A column for each member; the header is written with the first event, or was written.
    Members { begun: bool },
}

/// The columns that all events have.
const FIXED: &str = "time,cpu,pid,tid,thread,event";

impl<'t> Csv<'t> {
    /// Prints events of `trace`; `time` is nanoseconds in `style`.
    #[must_use]
    pub fn new(trace: &'t Trace, style: TimeStyle) -> Csv<'t> {
        let plans = Plans::new(trace, head, json::lead);
        Csv { plans, times: Times::new(style), scratch: Vec::new(), columns: Columns::Objects }
    }

    /// The same for events of one kind: members have columns of their own, texts stand there as they are, and what has
    /// members itself as JSON. A member that is called like another column has `fields.` before its name.
    #[must_use]
    pub fn flat(trace: &'t Trace, style: TimeStyle) -> Csv<'t> {
        let columns = Columns::Members { begun: false };
        Csv { plans: Plans::new(trace, head, name), columns, ..Csv::new(trace, style) }
    }
}

impl Format for Csv<'_> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.columns == Columns::Objects {
            out.extend_from_slice(format!("{FIXED},context,fields\n").as_bytes());
        }
    }

    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let (Some(event), Some(plan)) = (record.event(), self.plans.of(record)) else { return };
        if self.columns == (Columns::Members { begun: false }) {
            self.columns = Columns::Members { begun: true };
            header(out, plan);
        }
        digits::decimal(out, self.times.number(record));
        for id in [record.cpu(), record.pid(), record.tid()] {
            out.push(b',');
            if let Some(id) = id {
                digits::decimal(out, id);
            }
        }
        out.push(b',');
        if let Some(name) = json::thread(record) {
            self.scratch.clear();
            escape::escaped(&mut self.scratch, name);
            escape::csv(out, &self.scratch);
        }
        out.extend_from_slice(&plan.head);
        let scratch = &mut self.scratch;
        if self.columns != Columns::Objects {
            cells(out, scratch, &plan.common, &mut event.common().values());
            cells(out, scratch, &plan.specific, &mut event.specific().values());
            cells(out, scratch, &plan.payload, &mut event.payload().values());
            return out.push(b'\n');
        }
        out.push(b',');
        if plan.has_context {
            object(scratch, |scratch| json::context(scratch, plan, &event));
            escape::csv(out, scratch);
        }
        out.push(b',');
        if !plan.payload.is_empty() {
            object(scratch, |scratch| json::payload(scratch, plan, &event));
            escape::csv(out, scratch);
        }
        out.push(b'\n');
    }

    fn loss(&mut self, _out: &mut Vec<u8>, _loss: &LossRecord<'_>) {}

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.columns == (Columns::Members { begun: false }) {
            out.extend_from_slice(format!("{FIXED}\n").as_bytes());
        }
    }
}

/// The names of all columns.
fn header(out: &mut Vec<u8>, plan: &Plan<'_>) {
    out.extend_from_slice(FIXED.as_bytes());
    let mut taken: Vec<&[u8]> = FIXED.split(',').map(str::as_bytes).collect();
    for name in [&plan.common, &plan.specific, &plan.payload]
        .into_iter()
        .flatten()
        .filter_map(|piece| piece.lead.as_deref())
    {
        out.push(b',');
        let clashes = taken.contains(&name);
        let prefix: &[u8] = if clashes { b"fields." } else { b"" };
        escape::csv(out, &[prefix, name].concat());
        taken.push(name);
    }
    out.push(b'\n');
}

/// The members of a scope, each behind a comma.
fn cells<'a>(
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    pieces: &[Piece<'_>],
    values: &mut impl Iterator<Item = Value<'a>>,
) {
    for piece in pieces {
        if piece.lead.is_none() {
            skip(piece.class, values);
            continue;
        }
        out.push(b',');
        scratch.clear();
        Json::value(scratch, piece.class, values);
        match scratch.as_slice() {
            _ if piece.is_absent(scratch, 0) => {}
            [b'"', text @ .., b'"'] => escape::csv(out, &plain(text)),
            b"null" => {}
            other => escape::csv(out, other),
        }
    }
}

/// The text that stands between the quotes of a JSON string.
fn plain(mut json: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(json.len());
    while let Some((first, rest)) = json.split_first() {
        json = rest;
        if *first != b'\\' {
            text.push(*first);
            continue;
        }
        let Some((escaped, rest)) = json.split_first() else { break };
        json = rest;
        match escaped {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            b'r' => text.push(b'\r'),
            // Control characters only: the rest is written as it is.
            b'u' => {
                let digits = json.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
                text.extend(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()));
                json = json.get(4..).unwrap_or_default();
            }
            other => text.push(*other),
        }
    }
    text
}

/// The member's name; the comma before it is written by the header.
fn name(name: &str, _first: bool) -> Vec<u8> {
    name.as_bytes().to_vec()
}

fn object(scratch: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    scratch.clear();
    scratch.push(b'{');
    members(scratch);
    scratch.push(b'}');
}

/// `,net:packet_in`
fn head(class: &EventClass, _look: Look) -> Vec<u8> {
    let mut out = b",".to_vec();
    escape::csv(&mut out, class.name.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn texts_are_as_they_were_before_json() {
        for (json, text) in [
            ("a b", "a b"),
            (r#"a\"b\\c"#, r#"a"b\c"#),
            (r"\n\t\r\u001b\u0000", "\n\t\r\x1b\0"),
            ("ä\\", "ä"),
        ] {
            assert_eq!(plain(json.as_bytes()), text.as_bytes(), "{json}");
        }
    }
}
