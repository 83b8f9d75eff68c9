//! Slow calls as events of the kernel's trace: `latency:syscall_slow`, and `latency:syscall_open` for calls that had
//! not returned at the end.
//!
//! The recorder writes them, as it does those of the state dump; so they are in a stream of their own, in the order in
//! which calls returned.

use crate::slow::{Cause, Slow, Whose};

/// Provider of the events: the family.
pub const PROVIDER: &str = "latency";
/// Name of the event of a slow call.
pub const SLOW: &str = "syscall_slow";
/// Name of the event of a call that had not returned at the end.
pub const OPEN: &str = "syscall_open";

/// Fields of a slow call, in order.
const SLOW_FIELDS: &[&str] = &[
    "callstack_kernel x64[]",
    "callstack_user x64[]",
    "syscall str",
    "pid i32",
    "comm char[16]",
    "ret i64",
    "file str",
    "args x64[]",
    "duration u64",
    "uncertain u64",
    "threshold u64",
    "threshold_of str",
    "cause str",
    "offcpu u64",
    "runqueue u64",
    "throttled u64",
    "faults u64",
    "switches u32",
    "wait u64",
    "wait_state str",
    "waker_tid i32",
    "waker_comm char[16]",
    "waker_throttled u64",
    "rival_tid i32",
    "rival_comm char[16]",
    "rival_wait u64",
];
/// Fields of an open call.
const OPEN_FIELDS: &[&str] = &["syscall str", "age u64"];

/// Their descriptions (`mote_layout::parse` reads them): of a slow call, and of an open one.
pub fn descriptions() -> [String; 2] {
    [(SLOW, SLOW_FIELDS), (OPEN, OPEN_FIELDS)].map(|(name, fields)| {
        let lines: String = fields.iter().flat_map(|field| [*field, "\n"]).collect();
        format!("{}\n{PROVIDER}:{name}\n6 :0\n\n{lines}", mote_layout::describe::VERSION)
    })
}

impl Cause {
    /// The word that the field `cause` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Waited => "waited",
            Cause::Runqueue => "runqueue",
            Cause::Throttled => "throttled",
            Cause::Running => "running",
        }
    }
}

impl Whose {
    /// The word that the field `threshold_of` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Whose::Session => "session",
            Whose::Process => "process",
            Whose::Thread => "thread",
        }
    }
}

/// A state of `task_struct`, as ps(1) shows it.
pub fn state_letter(state: u32) -> &'static str {
    match state {
        0 => "R",
        _ if state & 1 != 0 => "S",
        _ if state & 0x402 == 0x402 => "I",
        _ if state & 2 != 0 => "D",
        _ if state & 4 != 0 => "T",
        _ if state & 8 != 0 => "t",
        _ if state & 0x8000 != 0 => "F",
        _ => "other",
    }
}

/// The record of a slow call, as its description says. `file` is what its first argument is, when that is a descriptor.
pub fn slow_fields(slow: &Slow, file: &str) -> Vec<u8> {
    let wait = slow.wait.as_ref();
    let waker = wait.and_then(|wait| wait.waker.as_ref());
    let rival = slow.rival.as_ref();
    let none = Vec::new();
    Fields::default()
        .sequence(wait.map_or(&none, |wait| &wait.stack))
        .sequence(&slow.user_stack)
        .text(&crate::call_name(slow.number))
        .i32(slow.pid)
        .name(&slow.name)
        .u64(slow.result as u64)
        .text(file)
        .sequence(&slow.arguments)
        .u64(slow.duration_ns)
        .u64(slow.uncertain_ns)
        .u64(slow.threshold_ns)
        .text(slow.whose.name())
        .text(slow.cause().name())
        .u64(slow.offcpu_ns)
        .u64(slow.runqueue_ns)
        .u64(slow.throttled_ns)
        .u64(slow.faults)
        .i32(slow.switches)
        .u64(wait.map_or(0, |wait| wait.ns))
        .text(wait.map_or("", |wait| state_letter(wait.state)))
        .i32(waker.map_or(0, |waker| waker.tid))
        .name(waker.map_or("", |waker| &waker.name))
        .u64(waker.map_or(0, |waker| waker.throttled_ns))
        .i32(rival.map_or(0, |rival| rival.tid))
        .name(rival.map_or("", |rival| &rival.name))
        .u64(rival.map_or(0, |rival| rival.ns))
        .0
}

/// The record of an open call.
pub fn open_fields(number: u32, age_ns: u64) -> Vec<u8> {
    Fields::default().text(&crate::call_name(number)).u64(age_ns).0
}

/// A record that is being written.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn i32(mut self, value: u32) -> Fields {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Fields {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(mut self, text: &str) -> Fields {
        self.0.extend(text.bytes().take_while(|byte| *byte != 0).take(1024));
        self.0.push(0);
        self
    }

    fn name(mut self, text: &str) -> Fields {
        let start = self.0.len();
        self.0.extend(text.bytes().take(15));
        self.0.resize(start + 16, 0);
        self
    }

    fn sequence(mut self, values: &[u64]) -> Fields {
        self.0.extend((values.len() as u16).to_le_bytes());
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::parse::parse;

    #[test]
    fn descriptions_can_be_read() {
        for text in descriptions() {
            let event = parse(text.as_bytes()).unwrap();
            assert_eq!(event.provider, PROVIDER);
        }
    }

    #[test]
    fn states_are_those_of_ps() {
        let letters = [0, 1, 2, 4, 8, 0x402, 0x2001, 0x2002].map(state_letter);
        assert_eq!(letters, ["R", "S", "D", "T", "t", "I", "S", "D"]);
    }
}
