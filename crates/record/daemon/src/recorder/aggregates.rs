//! Counts and histograms that filters keep in maps, for a person and for the recording.

use mote_filter::Aggregate;
use mote_words::{COLUMNS, counted};
use serde_json::{Value, json};

/// Most rows that are shown of one; all are in the file.
const ROWS: usize = 40;

/// For a person, in lines of so many columns; empty when nothing is counted.
pub(crate) fn text(aggregates: &[Aggregate], columns: usize) -> String {
    let texts = aggregates.iter().filter(|aggregate| !aggregate.is_empty());
    texts.map(|aggregate| aggregate.text(columns, ROWS)).collect::<Vec<_>>().join("\n")
}

/// The contents of the files [`mote_journal::AGGREGATES`], of a recording that has lasted so long.
pub(crate) fn files(aggregates: &[Aggregate], duration_ns: u64) -> [String; 2] {
    let values = Value::from(aggregates.iter().map(Aggregate::json).collect::<Vec<_>>());
    let json = json!({ "duration_ns": duration_ns, "aggregates": values });
    [text(aggregates, COLUMNS), json.to_string()]
}

/// What is not in those whose tables are full.
pub(crate) fn missing(aggregates: &[Aggregate]) -> impl Iterator<Item = String> {
    aggregates.iter().filter(|aggregate| aggregate.dropped > 0).map(|full| {
        let events = counted(full.dropped, "event is", "events are");
        format!(
            "{events} missing in the table '{}', which is full; give fewer keys after 'by', or a filter",
            full.name
        )
    })
}
