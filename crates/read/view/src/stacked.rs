//! Events with their stacks: below each line of text, or as a member of each JSON object.
//!
//! ```text
//! [15:34:12.123456789] worker/4711        [001] sched_switch: { prev_comm = "worker", ... }
//!     __schedule+0x2a3 [kernel]
//!     schedule+0x29 [kernel]
//!     -- user
//!     price (inlined) (shop.c:7) [shop]
//!     checkout+0x1c (shop.c:12) [shop]
//! ```
//! ```json
//! {"time":1795188852123456789,...,"fields":{...},"stack":{"kernel":["schedule+0x29 [kernel]"],"user":["checkout+0x1c (shop.c:12) [shop]"]}}
//! ```

use crate::stack::{Stack, Stacks};
use crate::{Format, Json, Text, escape};
use mote_timeline::{LossRecord, Record};

/// A format whose events show their stacks.
pub struct Stacked<'s, F> {
    format: F,
    stacks: &'s mut Stacks,
    notation: Notation,
}

/// Appends a stack to an event that has been written.
type Notation = fn(out: &mut Vec<u8>, stack: &Stack);

impl<'s, 't> Stacked<'s, Text<'t>> {
    /// Text with a line for each function.
    #[must_use]
    pub fn text(format: Text<'t>, stacks: &'s mut Stacks) -> Self {
        Stacked { format: format.without_stacks(), stacks, notation: text }
    }
}

impl<'s, 't> Stacked<'s, Json<'t>> {
    /// JSON with the member `stack`.
    #[must_use]
    pub fn json(format: Json<'t>, stacks: &'s mut Stacks) -> Self {
        Stacked { format: format.without_stacks(), stacks, notation: json }
    }
}

impl<F: Format> Format for Stacked<'_, F> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.format.begin(out);
    }

    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        self.format.event(out, record);
        if let Some(stack) = self.stacks.of(record) {
            (self.notation)(out, &stack);
        }
    }

    fn unseen(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        self.format.unseen(out, record);
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        self.format.loss(out, loss);
    }
}

fn text(out: &mut Vec<u8>, stack: &Stack) {
    let mut line = |text: &str| {
        out.extend_from_slice(b"    ");
        // Names are the traced program's: no escape sequence of theirs reaches the terminal.
        escape::escaped(out, text.as_bytes());
        out.push(b'\n');
    };
    stack.kernel.iter().flat_map(|frame| frame.lines()).for_each(|text| line(&text));
    if !stack.kernel.is_empty() && !stack.user.is_empty() {
        line("-- user");
    }
    stack.user.iter().flat_map(|frame| frame.lines()).for_each(|text| line(&text));
}

/// Opens the object that was just closed again.
fn json(out: &mut Vec<u8>, stack: &Stack) {
    if !out.ends_with(b"}\n") {
        return;
    }
    out.truncate(out.len() - 2);
    out.extend_from_slice(b",\"stack\":{");
    for (key, frames) in [("\"kernel\":[", &stack.kernel), (",\"user\":[", &stack.user)] {
        out.extend_from_slice(key.as_bytes());
        for (index, line) in frames.iter().flat_map(|frame| frame.lines()).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            escape::json(out, line.as_bytes());
        }
        out.push(b']');
    }
    out.extend_from_slice(b"}}\n");
}
