//! A small trace with calls of functions, made by hand: CTF 1.8, one stream, times in nanoseconds.

use mote_timeline::Trace;
use tempfile::TempDir;

const METADATA: &str = include_str!("small.tsdl");

/// Names of the events, the first with another field.
const EVENTS: [&str; 6] = ["app:event", "f:main", "f:walk", "f:db::open", "f:leaf", "f:spare"];

/// A thread, what happened there, and from when to when: `f:NAME` is a call, `app:event` a moment.
pub(crate) type What = (u32, &'static str, u64, u64);

/// A trace of calls, in the order of their returns.
pub(crate) fn trace(events: &[What]) -> (TempDir, Trace) {
    let mut metadata = METADATA.to_owned();
    for (id, name) in EVENTS.iter().enumerate() {
        let fields = if id == 0 { "u64 number; u64 more;" } else { "u64 duration; u64 number;" };
        metadata += &format!("event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};\n");
    }
    let mut bytes = Vec::new();
    for (number, (thread, name, begin, end)) in (0_u64..).zip(events) {
        let id = EVENTS.iter().position(|event| event.trim_start_matches("f:") == *name).expect("an event");
        bytes.extend((id as u16).to_le_bytes());
        bytes.extend(end.to_le_bytes());
        bytes.extend(thread.to_le_bytes());
        bytes.extend((end - begin).to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("metadata"), metadata).expect("written");
    std::fs::write(dir.path().join("stream"), bytes).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    (dir, trace)
}
