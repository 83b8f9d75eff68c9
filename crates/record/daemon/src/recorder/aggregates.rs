//! Counts and histograms that filters keep in maps: read, shown, and written into the recording.

use super::Recorder;
use mote_filter::Aggregate;
use mote_words::{COLUMNS, counted};
use serde_json::{Value, json};

/// Most rows that are shown of one; all are in the file.
const ROWS: usize = 40;

impl Recorder<'_> {
    /// What is counted so far.
    pub(crate) fn aggregates(&self) -> Vec<Aggregate> {
        let read = self.areas.aggregates(&self.session.filters().maps, self.session.layout());
        let flags =
            self.cooperation.session_area.flags().into_iter().map(|(name, set)| Aggregate::flag(name, set));
        let kernel = self.kernel.iter().flat_map(|kernel| kernel.wanting.rules.aggregates());
        read.into_iter().chain(kernel).chain(flags).collect()
    }

    /// Shows them if it is time to.
    pub(crate) fn show_aggregates(&mut self) {
        let Some(interval) = self.options.interval else { return };
        if self.shown.elapsed() >= interval {
            self.shown = std::time::Instant::now();
            let text = text(&self.aggregates(), self.options.columns);
            if !text.is_empty() {
                self.watch.aggregates(&text);
            }
        }
    }

    /// Writes them into the recording. Returns them as text.
    pub(crate) fn write_aggregates(&mut self) -> String {
        let aggregates = self.aggregates();
        if aggregates.is_empty() {
            return String::new();
        }
        for full in aggregates.iter().filter(|aggregate| aggregate.dropped > 0) {
            let events = counted(full.dropped, "event is", "events are");
            self.problem(format!(
                "{events} missing in the table '{}', which is full; give fewer keys after 'by', or a filter",
                full.name
            ));
        }
        let file_text = text(&aggregates, COLUMNS);
        let inner = self.trace.directory.inner();
        let [text_file, json_file] = mote_journal::AGGREGATES;
        let json = Value::from(aggregates.iter().map(Aggregate::json).collect::<Vec<_>>());
        let json = json!({ "duration_ns": self.began.elapsed().as_nanos() as u64, "aggregates": json });
        let written = inner.replace(inner, json_file, json.to_string().as_bytes());
        if let Err(why) = written.and_then(|()| inner.replace(inner, text_file, file_text.as_bytes())) {
            self.problem(format!("counts and histograms cannot be written: {why}"));
        }
        text(&aggregates, self.options.columns)
    }
}

/// For a person, in lines of so many columns; empty when nothing is counted.
pub(super) fn text(aggregates: &[Aggregate], columns: usize) -> String {
    let texts = aggregates.iter().filter(|aggregate| !aggregate.is_empty());
    texts.map(|aggregate| aggregate.text(columns, ROWS)).collect::<Vec<_>>().join("\n")
}
