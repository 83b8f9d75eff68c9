//! LTTng's traces, merged, read as babeltrace2 prints them.

use mote_ctf::text;
use mote_timeline::{Entry, Range, Trace};
use std::path::{Path, PathBuf};

/// The sample traces.
fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../lib/ctf/tests/data/lttng-2.16")
}

fn check(name: &str) {
    let dir = samples();
    let expected = std::fs::read_to_string(dir.join(format!("{name}.txt"))).expect("the reference text");
    let trace = Trace::open(&dir.join(name)).expect("it opens");
    let mut events = trace.events(Range::ALL);
    let mut lines = expected.lines();
    let mut line = Vec::new();
    while let Some(entry) = events.next() {
        let Entry::Event(record) = entry else { panic!("nothing was lost in {name}") };
        let event = record.event().expect("an event");
        let host = record.origin().schema.trace().env_str("hostname").unwrap_or("");
        line.clear();
        line.extend_from_slice(format!("[{:020}] {host} {}: ", event.timestamp, record.name()).as_bytes());
        text::body(&mut line, record.packet_context(), &event);
        assert_eq!(Some(&*String::from_utf8_lossy(&line)), lines.next());
    }
    assert_eq!(lines.next(), None);
    assert!(events.problems().is_empty(), "{:?}", events.problems());
}

#[test]
fn ctf_1_8_is_read_as_babeltrace2_does() {
    check("ctf-1.8-full");
}

#[test]
fn ctf_2_is_read_as_babeltrace2_does() {
    check("ctf-2-full");
}

#[test]
fn a_tree_of_traces_is_merged() {
    let dir = samples();
    let trace = Trace::open(&dir).expect("it opens");
    assert_eq!(trace.origins().len(), 2);
    let mut events = trace.events(Range::ALL);
    let (mut count, mut last) = (0, i64::MIN);
    while let Some(Entry::Event(record)) = events.next() {
        assert!(record.time() >= last);
        last = record.time();
        count += 1;
    }
    assert_eq!(count, 2 * 538);
}
