//! Events for spreadsheets and data frames: RFC 4180, one header line.
//!
//! ```text
//! time,cpu,pid,tid,thread,event,context,fields
//! 1795188852123456789,1,4710,4711,worker,net:packet_in,,"{""len"":12,""proto"":""tcp""}"
//! ```
//! The columns are the same for all events; `context` and `fields` hold JSON objects as [`crate::Json`] writes them, or
//! nothing. Lines end with a line feed. A loss has no line.

use crate::Format;
use crate::digits;
use crate::escape;
use crate::json;
use crate::plan::{Look, Plans};
use crate::time::{TimeStyle, Times};
use mote_ctf::model::EventClass;
use mote_timeline::{LossRecord, Record, Trace};

/// Comma-separated values.
#[derive(Debug)]
pub struct Csv<'t> {
    plans: Plans<'t>,
    times: Times,
    /// JSON before it is quoted.
    scratch: Vec<u8>,
}

impl<'t> Csv<'t> {
    /// Prints events of `trace`; `time` is nanoseconds in `style`.
    #[must_use]
    pub fn new(trace: &'t Trace, style: TimeStyle) -> Csv<'t> {
        Csv { plans: Plans::new(trace, head, json::lead), times: Times::new(style), scratch: Vec::new() }
    }
}

impl Format for Csv<'_> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"time,cpu,pid,tid,thread,event,context,fields\n");
    }

    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let (Some(event), Some(plan)) = (record.event(), self.plans.of(record)) else { return };
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
        out.push(b',');
        let scratch = &mut self.scratch;
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
