//! A recording that was made, and what it holds.

use super::command::{json, json_lines};
use super::record::value_of;
use super::{Event, babeltrace, event, programs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// A recording that has ended.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Its directory.
    pub(crate) path: PathBuf,
    /// The recorder's exit status, or 1000 and the signal that ended it.
    pub(crate) status: i32,
    /// Standard output of the program.
    pub(crate) out: String,
    /// Standard error of program and recorder.
    pub(crate) err: String,
    /// From start to end.
    pub(crate) took: Duration,
    /// Directory that goes with the value.
    pub(crate) _keep: Option<TempDir>,
}

impl Trace {
    /// The value of a line `NAME VALUE` that the program printed.
    #[track_caller]
    pub(crate) fn printed(&self, name: &str) -> u64 {
        value_of(&self.out, name).unwrap_or_else(|| panic!("no '{name}' in {:?}; {}", self.out, self.err))
    }

    /// Itself, with the status that it must have.
    #[track_caller]
    pub(crate) fn ends_with(self, status: i32) -> Trace {
        assert_eq!(
            self.status, status,
            "status; the recorder said: {}\nthe program said: {}",
            self.err, self.out
        );
        self
    }

    /// Runs a verb of `mote` on it.
    pub(crate) fn mote(&self, words: &[&str]) -> Output {
        let (verb, rest) = words.split_first().expect("a verb");
        let mut command = Command::new(programs::mote());
        command.arg(verb).arg(&self.path).args(rest).output().expect("mote runs")
    }

    /// What `mote report` says of it, as JSON.
    #[track_caller]
    pub(crate) fn report(&self) -> Value {
        let output = self.mote(&["report", "--format", "json"]);
        json(&String::from_utf8(output.stdout).expect("JSON is UTF-8"))
    }

    /// The events as `mote view` shows them; panics if it finds anything wrong.
    #[track_caller]
    pub(crate) fn view(&self) -> Vec<Event> {
        let output = self.mote(&["view", "--format", "json", "--state"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "mote view: {}: {said}", output.status);
        event::of_json(&String::from_utf8(output.stdout).expect("JSON is UTF-8"))
    }

    /// The events as babeltrace2 shows them; `None` where it is not installed.
    #[track_caller]
    pub(crate) fn babeltrace(&self) -> Option<Vec<Event>> {
        babeltrace::read(&self.path)
    }

    /// The events, which mote and babeltrace2 agree about.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Event> {
        let ours = self.view();
        if let Some(theirs) = self.babeltrace() {
            event::assert_same(&ours, &theirs);
        }
        ours
    }

    /// Facts of one kind in the journal.
    pub(crate) fn facts(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path.join("mote/journal.jsonl")).expect("a journal");
        json_lines(&text).filter(|fact| fact["fact"] == kind).collect()
    }

    /// The summary at the end of the journal.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        self.facts("end").pop().expect("the journal has an end")
    }

    /// Counts, histograms and the like that rules made.
    #[track_caller]
    pub(crate) fn aggregates(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path.join("mote/aggregates.json")).expect("aggregates");
        json(&text)["aggregates"].as_array().expect("a list").clone()
    }

    /// What a rule has counted, by the texts of its keys; that of one without keys is under "".
    #[track_caller]
    pub(crate) fn counts(&self, rule: &str) -> BTreeMap<String, u64> {
        let all = self.aggregates();
        let table =
            all.iter().find(|table| table["name"] == rule).unwrap_or_else(|| panic!("no {rule}: {all:?}"));
        let row = |row: &Value| {
            let keys: Vec<&str> = row["keys"].as_object()?.values().filter_map(Value::as_str).collect();
            Some((keys.join(", "), row["count"].as_u64()?))
        };
        table["rows"].as_array().expect("rows").iter().filter_map(row).collect()
    }

    /// Lost events by cause, as the summary says.
    #[track_caller]
    pub(crate) fn lost(&self) -> BTreeMap<String, u64> {
        let lost = self.summary()["lost"].clone();
        serde_json::from_value(lost).unwrap_or_default()
    }

    /// What was lost together.
    #[track_caller]
    pub(crate) fn lost_total(&self) -> u64 {
        self.lost().values().sum()
    }

    /// What went wrong, in the journal's words.
    pub(crate) fn problems(&self) -> Vec<String> {
        let text = |fact: Value| fact["text"].as_str().unwrap_or_default().to_owned();
        self.facts("problem").into_iter().map(text).collect()
    }

    /// Names of the data streams.
    pub(crate) fn streams(&self) -> Vec<String> {
        let entries =
            std::fs::read_dir(&self.path).expect("a directory").map(|entry| entry.expect("an entry"));
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != "metadata" && name != "mote").collect();
        names.sort();
        names
    }
}
