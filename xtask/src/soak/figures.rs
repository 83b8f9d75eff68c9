//! The table of `docs/FIGURES.md` with the last result of each part.

use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FILE: &str = "docs/FIGURES.md";
/// The table stands behind the line that begins so.
const HEAD: &str = "| part | size | result | took | when, commit | machine |";

/// The result of a part.
pub(super) struct Row {
    part: String,
    line: String,
}

impl Row {
    /// A result of just now, on this machine.
    ///
    /// # Errors
    /// git does not say which commit this is.
    pub(super) fn made_now(part: &str, size: &str, result: &str, took: Duration) -> anyhow::Result<Row> {
        let mut git = Command::new("git");
        let said = git.args(["rev-parse", "--short", "HEAD"]).current_dir(crate::workspace::root()).output();
        let commit = String::from_utf8(said.context("cannot run git")?.stdout)?;
        let when = format!("{}, {}", now("+%F"), commit.trim());
        let line = format!("| {part} | {size} | {result} | {} | {when} | {} |", time(took), machine());
        Ok(Row { part: part.to_owned(), line })
    }

    /// As it stands in the table.
    pub(super) fn line(&self) -> &str {
        &self.line
    }
}

/// The time, as date(1) writes it.
pub(super) fn now(format: &str) -> String {
    let said = Command::new("date").arg("-u").arg(format).output();
    said.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

fn time(took: Duration) -> String {
    match took.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// Processors and kernel of this machine. It has no name.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = text.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = models.next().map_or("processor unknown", |(_, model)| model).trim();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release: Vec<&str> = release.trim().split('.').take(2).collect();
    format!("{model}, {cpus} CPUs, Linux {}", release.join("."))
}

/// Puts a row in the place of the last one of its part; parts stand in the order of `parts`.
///
/// # Errors
/// The file has no such table, or cannot be written.
pub(super) fn write(root: &Path, row: &Row, parts: &[&str]) -> anyhow::Result<()> {
    let path = root.join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    fs::write(&path, with_row(&text, row, parts)?).with_context(|| format!("cannot write {FILE}"))
}

fn with_row(text: &str, row: &Row, parts: &[&str]) -> anyhow::Result<String> {
    let Some((before, rest)) = text.split_once(HEAD) else { bail!("{FILE} has no table `{HEAD}`") };
    let rows: Vec<&str> = rest.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let after: Vec<&str> = rest.lines().skip(2 + rows.len()).collect();
    let of = |part: &str| {
        let old = || rows.iter().copied().find(|line| line.starts_with(&format!("| {part} |")));
        if part == row.part { Some(row.line.as_str()) } else { old() }
    };
    let table: Vec<&str> = parts.iter().filter_map(|part| of(part)).collect();
    let mut lines = vec![HEAD, "|---|---|---|---|---|---|"];
    lines.extend(table);
    lines.extend(after);
    Ok(before.to_owned() + &lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_the_place_of_the_last_one_of_its_part() {
        let text = format!("# F\n\n{HEAD}\n|---|---|---|---|---|---|\n| b | old |\n| c | stays |\n\nmore\n");
        let row = |part: &str| Row { part: part.to_owned(), line: format!("| {part} | new |") };
        let made = with_row(&text, &row("b"), &["a", "b", "c"]).unwrap();
        assert_eq!(made, text.replace("old", "new"));
        let made = with_row(&made, &row("a"), &["a", "b", "c"]).unwrap();
        assert!(made.contains("---|\n| a | new |\n| b | new |\n| c | stays |\n\nmore\n"), "{made}");
        assert!(with_row("# F\n", &row("a"), &["a"]).is_err());
    }

    #[test]
    fn times_have_a_unit_of_their_size() {
        let said = [5, 119, 120, 7199, 9000].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(said, ["5 s", "119 s", "2 min", "120 min", "2.5 h"]);
    }

    #[test]
    fn the_document_has_the_table() {
        let text = fs::read_to_string(crate::workspace::root().join(FILE)).unwrap();
        assert!(text.contains(HEAD));
    }
}
