//! Tables: counts by key, the last events.

use super::value::{self, Value};
use crate::maps::{Key, Maps};

/// Rows of equal columns: counts by key, or the last events.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Names of the columns of values.
    pub columns: Vec<String>,
    /// The rows, in the order in which they are shown.
    pub rows: Vec<Row>,
}

/// One key with its count, or one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// A value for each key or field.
    pub values: Vec<Value>,
    /// How often (counts), or the place in the order of events (last events).
    pub count: u64,
}

/// Counts, the largest first; equal ones by key.
pub(super) fn counts(keys: &[Key], pairs: &[(&[u8], &[u8])], maps: &Maps) -> Table {
    let mut sorted: Vec<_> = pairs.iter().map(|(key, count)| (value::word(count, 0), *key)).collect();
    sorted.retain(|(count, _)| *count > 0);
    sorted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let row = |(count, key): (u64, &[u8])| {
        let values = keys.iter().map(|part| value::read(part, key, maps)).collect();
        Row { values, count }
    };
    Table { columns: names(keys), rows: sorted.into_iter().map(row).collect() }
}

/// The last events in the order in which they were.
pub(super) fn last(fields: &[Key], pairs: &[(&[u8], &[u8])], maps: &Maps) -> Table {
    // Entry 0 is the counter.
    let entries = pairs.iter().filter(|(index, _)| index.iter().any(|byte| *byte != 0));
    let mut sorted: Vec<_> = entries.map(|(_, entry)| (value::word(entry, 0), *entry)).collect();
    sorted.retain(|(number, _)| *number > 0);
    sorted.sort_by_key(|(number, _)| *number);
    let row = |(number, entry): (u64, &[u8])| {
        let data = entry.get(8..).unwrap_or_default();
        Row { values: fields.iter().map(|field| value::read(field, data, maps)).collect(), count: number }
    };
    Table { columns: names(fields), rows: sorted.into_iter().map(row).collect() }
}

fn names(keys: &[Key]) -> Vec<String> {
    keys.iter().map(|key| key.name.clone()).collect()
}
