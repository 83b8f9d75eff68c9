//! What a recording says of its gaps, and what is missing in it: programs number their events.

use super::{Trace, babeltrace};
use serde_json::Value;
use std::collections::BTreeMap;

/// Of which events the numbers are looked at.
pub(crate) struct Numbered {
    /// Their name.
    pub(crate) event: &'static str,
    /// The field that says who has numbered them.
    pub(crate) who: &'static str,
    /// The first who; others number nothing.
    pub(crate) from: u64,
    /// The field with the number.
    pub(crate) number: &'static str,
}

/// A loss as `mote view --format json` shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gap {
    /// Lost events, where it is known how many.
    pub(crate) events: Option<u64>,
    /// Of these, those that a full ring has lost.
    pub(crate) ring_full: u64,
    pub(crate) since: u64,
    pub(crate) until: u64,
    pub(crate) exact: bool,
    pub(crate) stream: String,
}

/// An event of a stream: when, whose, and its number.
type Seen = (u64, u64, u64);

/// Both kinds of lines of `mote view --format json`: numbered events by stream, and losses.
fn read(trace: &Trace, numbered: &Numbered) -> (BTreeMap<String, Vec<Seen>>, Vec<Gap>) {
    let output = trace.mote(&["view", "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let (mut streams, mut gaps) = (BTreeMap::<String, Vec<Seen>>::new(), Vec::new());
    for line in String::from_utf8(output.stdout).expect("JSON is UTF-8").lines() {
        let line: Value = serde_json::from_str(line).expect("an object");
        if line.get("lost").is_some() {
            gaps.push(gap(&line));
        } else if line["event"] == numbered.event {
            let number = |field: &str| line["fields"][field].as_u64().expect("a number");
            let seen =
                (line["time"].as_u64().expect("a time"), number(numbered.who), number(numbered.number));
            if seen.1 >= numbered.from {
                streams.entry(stream_of(&line)).or_default().push(seen);
            }
        }
    }
    (streams, gaps)
}

fn gap(line: &Value) -> Gap {
    Gap {
        events: line["lost"]["events"].as_u64(),
        ring_full: line["lost"]["ring_full"].as_u64().unwrap_or(0),
        since: line["since"].as_u64().expect("no stream begins with a loss"),
        until: line["until"].as_u64().expect("a time"),
        exact: line["exact"].as_bool().expect("true or false"),
        stream: line["stream"].as_str().expect("a stream").to_owned(),
    }
}

/// The losses that `mote view` shows.
pub(crate) fn shown(trace: &Trace) -> Vec<Gap> {
    let nothing = Numbered { event: "", who: "", from: 0, number: "" };
    read(trace, &nothing).1
}

/// The stream of an event: that of its CPU, or of the ring that its thread shares with others.
fn stream_of(event: &Value) -> String {
    match event["cpu"].as_u64() {
        Some(cpu) => format!("cpu_{cpu}"),
        None => format!("shared_{}", event["tid"].as_u64().expect("a thread") % shared_rings()),
    }
}

/// One for each CPU that there may be, 16 at most.
fn shared_rings() -> u64 {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").expect("the CPUs");
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u64>().ok());
    (last.expect("a number") + 1).min(16)
}

/// Asserts that each gap is where numbers are missing, and says how many are. Each of so many `writers` has emitted
/// `each`. Returns the gaps.
#[track_caller]
pub(crate) fn assert_exact(trace: &Trace, numbered: &Numbered, (writers, each): (u64, u64)) -> Vec<Gap> {
    let (streams, gaps) = read(trace, numbered);
    let whos: BTreeMap<u64, u64> = streams.values().flatten().map(|(_, who, _)| (*who, each)).collect();
    // One that has lost all of its events may have lost them in any of the streams.
    let silent = (writers - whos.len() as u64) * each;
    assert!(gaps.iter().all(|gap| streams.contains_key(&gap.stream)), "{gaps:?}");
    for (name, seen) in &streams {
        let of_stream: Vec<&Gap> = gaps.iter().filter(|gap| gap.stream == *name).collect();
        assert_stream(name, seen, &of_stream, &whos, silent);
    }
    assert_same_as_babeltrace(trace, &gaps);
    gaps
}

/// Asserts that before each event of a stream as many were lost as the gaps before it say. Threads stay on their CPU,
/// so what is missing of one is missing in this stream. `silent` more may be missing.
#[track_caller]
fn assert_stream(name: &str, seen: &[Seen], gaps: &[&Gap], each: &BTreeMap<u64, u64>, silent: u64) {
    let mine = |who: &u64| seen.iter().any(|(_, of, _)| of == who);
    // The first number of each that is at this place or behind it: what may be missing before.
    let mut behind: BTreeMap<u64, u64> =
        each.iter().filter(|(who, _)| mine(who)).map(|(who, each)| (*who, *each)).collect();
    let mut most = vec![behind.clone()];
    for (_, who, number) in seen.iter().rev() {
        behind.insert(*who, *number);
        most.push(behind.clone());
    }
    most.reverse();
    let mut gaps = gaps.iter().peekable();
    let (mut told, mut recorded, mut next) = (0, 0, BTreeMap::<u64, u64>::new());
    let mut before = 0;
    for (place, most) in most.iter().enumerate() {
        // Behind the last event the stream just ends.
        let time = seen.get(place).map_or(u64::MAX, |(time, ..)| *time);
        while let Some(gap) = gaps.next_if(|gap| gap.until <= time) {
            assert!(gap.exact && gap.events == Some(gap.ring_full) && gap.ring_full > 0, "{name}: {gap:?}");
            assert_eq!(gap.since, before, "{name}: {gap:?} does not begin with the event before");
            assert!(time == u64::MAX || gap.until == time, "{name}: {gap:?} does not end with the one after");
            told += gap.ring_full;
        }
        let least: u64 = next.values().sum::<u64>() - recorded;
        let most: u64 = most.values().sum::<u64>() + silent - recorded;
        assert!(
            (least..=most).contains(&told),
            "{name}, {place}: {told} told, {least} to {most} are missing"
        );
        let Some((time, who, number)) = seen.get(place) else { break };
        before = *time;
        recorded += 1;
        next.insert(*who, number + 1);
    }
    assert!(gaps.next().is_none(), "{name}: gaps that no event is behind");
}

/// Asserts that babeltrace2 warns of the same losses, in numbers and times.
#[track_caller]
pub(crate) fn assert_same_as_babeltrace(trace: &Trace, gaps: &[Gap]) {
    let Some(theirs) = babeltrace::discarded(&trace.path) else { return };
    let mut ours: Vec<&Gap> = gaps.iter().collect();
    ours.sort_by_key(|gap| (&gap.stream, gap.since));
    let mut theirs: Vec<_> = theirs.iter().collect();
    theirs.sort_by_key(|gap| (&gap.stream, gap.since));
    assert_eq!(ours.len(), theirs.len(), "losses that mote and babeltrace2 show");
    for (one, other) in ours.iter().zip(theirs) {
        // One takes the clock's line from the metadata, one also knows the samples in the journal.
        let near = |a: u64, b: u64| a.abs_diff(b) <= 1000;
        let same_place = !one.exact || (near(one.since, other.since) && near(one.until, other.until));
        assert!(
            one.stream == other.stream && one.events == Some(other.events) && same_place,
            "mote shows\n{one:?}\nbabeltrace2 shows\n{other:?}"
        );
    }
}
