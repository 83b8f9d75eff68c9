//! The command `mote` by itself, and what it prints: text, JSON, and what is looked for in there.

use super::programs;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `mote` with these words.
pub(crate) fn mote(words: &[&str]) -> Output {
    Command::new(programs::mote()).args(words).output().expect("mote runs")
}

/// A path as a word of a command.
#[track_caller]
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// What a command printed. Panics, with what it said, unless it succeeds.
#[track_caller]
pub(crate) fn printed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A JSON document.
#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// The data of a page that `--html` has written.
#[track_caller]
pub(crate) fn data_of_page(page: &Path) -> Value {
    let html = std::fs::read_to_string(page).expect("a page");
    let (_, rest) = html.split_once("id=\"data\">").expect("data");
    json(rest.split_once("</script>").expect("its end").0)
}

/// One JSON document per line, as `mote view --format json` prints them.
pub(crate) fn json_lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(json)
}

/// The object with this name in a list of objects.
#[track_caller]
pub(crate) fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    let found = list.as_array().expect("a list").iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

/// A number that is not negative.
#[track_caller]
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}
