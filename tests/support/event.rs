//! Events as the claims compare them.

use super::command::json_lines;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    /// `provider:name`.
    pub(crate) name: String,
    /// Thread.
    pub(crate) tid: u64,
    /// Process, where it is known.
    pub(crate) pid: Option<u64>,
    /// Name of the thread, where it is known.
    pub(crate) thread: Option<String>,
    /// Fields.
    pub(crate) fields: Map<String, Value>,
}

impl Event {
    /// A field that is a number.
    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> u64 {
        self.fields
            .get(field)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no number '{field}' in {self:?}"))
    }
}

/// Reads what `mote view --format json` prints; losses are left out.
pub(crate) fn of_json(text: &str) -> Vec<Event> {
    json_lines(text).filter_map(|line| of_line(&line)).collect()
}

fn of_line(object: &Value) -> Option<Event> {
    let name = object.get("event")?;
    Some(Event {
        time: object["time"].as_u64().expect("a time"),
        name: name.as_str().expect("a name").to_owned(),
        tid: object["tid"].as_u64().expect("a thread"),
        pid: object["pid"].as_u64(),
        thread: object["thread"].as_str().map(str::to_owned),
        fields: object["fields"].as_object().expect("fields").clone(),
    })
}

/// Events of a name.
pub(crate) fn named<'e>(events: &'e [Event], name: &str) -> Vec<&'e Event> {
    events.iter().filter(|event| event.name == name).collect()
}

/// Asserts that a field counts 0, 1, 2... up to `count`, in the order of time, without gap or repetition.
#[track_caller]
pub(crate) fn assert_counts(events: &[&Event], field: &str, count: u64) {
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.number(field), index as u64, "{field} of event {index} of {}", events.len());
    }
    assert_eq!(events.len() as u64, count, "number of events that count by {field}");
}

/// Groups by a field that is a number.
pub(crate) fn by<'e>(events: &[&'e Event], field: &str) -> BTreeMap<u64, Vec<&'e Event>> {
    let mut groups: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in events {
        groups.entry(event.number(field)).or_default().push(event);
    }
    groups
}

/// How far the times of two readers may be apart: one takes the clock's line from the metadata, one also knows the
/// samples in the journal.
const NANOS_APART: u64 = 1000;

/// Asserts that two readers have shown the same events.
#[track_caller]
pub(crate) fn assert_same(ours: &[Event], theirs: &[Event]) {
    assert_eq!(ours.len(), theirs.len(), "events that mote and babeltrace2 show");
    let (ours, theirs) = (in_order(ours), in_order(theirs));
    for (one, other) in ours.iter().zip(&theirs) {
        let same = one.name == other.name
            && one.tid == other.tid
            && one.time.abs_diff(other.time) <= NANOS_APART
            && one.fields.len() == other.fields.len()
            && one
                .fields
                .iter()
                .all(|(name, value)| other.fields.get(name).is_some_and(|of| agree(value, of)));
        assert!(same, "mote shows\n{one:?}\nbabeltrace2 shows\n{other:?}");
    }
}

/// By thread, and in each by time: events of different threads may have the same time.
fn in_order(events: &[Event]) -> Vec<&Event> {
    let mut sorted: Vec<&Event> = events.iter().collect();
    sorted.sort_by_key(|event| event.tid);
    sorted
}

/// Equal, but for real numbers, of which babeltrace2 prints six digits.
fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= a.abs() * 1e-5
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agree(a, b)),
        _ => one == other,
    }
}
