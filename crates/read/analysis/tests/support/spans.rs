//! A small trace with spans, made by hand: CTF 1.8, one stream, times in nanoseconds.

use mote_timeline::Trace;
use tempfile::TempDir;

const METADATA: &str = include_str!("small.tsdl");

/// What can happen: with the span's id.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "each test uses some")]
pub(crate) enum What {
    /// `app:outer` is made.
    Outer(u64),
    /// `app:inner` is made, in another span.
    Inner(u64, u64),
    /// A thread goes into `app:outer`, or `app:inner`.
    Enter(&'static str, u64),
    /// It leaves it.
    Exit(&'static str, u64),
    /// It ends.
    Close(&'static str, u64),
    /// `app:event` happens in it.
    Event(u64),
    /// `other:event`, which says nothing of spans.
    Other(u64),
}

/// A trace of these events: time, thread, what.
pub(crate) fn trace(events: &[(u64, u32, What)]) -> (TempDir, Trace) {
    let mut metadata = METADATA.to_owned();
    let mut class = |id: u16, name: &str, fields: &str| {
        metadata += &format!("event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};\n");
    };
    for (first, name) in [(0, "outer"), (4, "inner")] {
        class(first, &format!("app:{name}_new"), "u64 span; u64 parent;");
        for (next, suffix) in ["enter", "exit", "close"].into_iter().enumerate() {
            class(first + 1 + next as u16, &format!("app:{name}_{suffix}"), "u64 span;");
        }
    }
    class(8, "app:event", "u64 span; u64 number;");
    class(9, "other:event", "u64 number;");
    let of = |name: &str, outer: u16| if name == "outer" { outer } else { outer + 4 };
    let mut bytes = Vec::new();
    for (time, thread, what) in events {
        let (id, fields) = match *what {
            What::Outer(span) => (0, vec![span, 0]),
            What::Inner(span, parent) => (4, vec![span, parent]),
            What::Enter(name, span) => (of(name, 1), vec![span]),
            What::Exit(name, span) => (of(name, 2), vec![span]),
            What::Close(name, span) => (of(name, 3), vec![span]),
            What::Event(span) => (8, vec![span, 7]),
            What::Other(number) => (9, vec![number]),
        };
        bytes.extend(id.to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(thread.to_le_bytes());
        fields.into_iter().for_each(|field: u64| bytes.extend(field.to_le_bytes()));
    }
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("metadata"), metadata).expect("written");
    std::fs::write(dir.path().join("stream"), bytes).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    (dir, trace)
}
