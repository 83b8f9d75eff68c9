//! `mote pt lines`: which lines of the source were executed, and how often.

use super::shown;
use crate::{cmd, out};
use clap::ValueEnum;
use mote_capture::{Counts, summarize, threads};
use mote_pattern::Glob;
use mote_symbol::Image;
use mote_symbol::functions::Functions;
use mote_words::{counted_grouped, grouped};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Say which lines of the source were executed, and how often
///
/// Nothing was instrumented for it, and nothing compiled anew: the lines are those of the debug information.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt lines cap                            how much of each file
  mote pt lines cap --source '*/parse.c'       the file, with how often each line was executed
  mote pt lines cap --format lcov >app.info    for genhtml, editors and others

A line of several pieces of code counts as the most frequent one; copies of it in several functions count together.
- is a line without code, ##### one that was not executed.

Exit status: 0 done, 1 nothing was executed that has lines, 2 failed.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// Of libraries, too
    #[arg(long)]
    libraries: bool,

    /// Print the source files whose path matches PATTERN (* any text, ? any character), line by line
    #[arg(short, long, value_name = "PATTERN")]
    source: Option<String>,

    /// What to print: for people, a JSON object for each file, or lcov's format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object for each file.
    Json,
    /// Of lcov: a section for each file.
    Lcov,
}

/// How often lines were executed, by source file and line.
type Lines = BTreeMap<Arc<str>, BTreeMap<u32, u64>>;

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut executed: HashMap<PathBuf, HashMap<u64, u64>> = HashMap::new();
    args.input.with_streams(|_, stream, code| {
        let counts = summarize(&stream.bytes, code, threads(), Counts::default)?;
        for (file, counts) in counts.in_files(code) {
            let sum = executed.entry(file).or_default();
            counts.into_iter().for_each(|(address, times)| *sum.entry(address).or_default() += times);
        }
        Ok(())
    })?;
    let (mut lines, mut without) = (Lines::new(), 0_u64);
    let is_library =
        |file: &Path| file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    for (file, counts) in executed.iter().filter(|(file, _)| args.libraries || !is_library(file)) {
        if !add(&mut lines, file, counts) {
            without += 1;
        }
    }
    if without > 0 {
        say!("{} without lines: no debug information", counted_grouped(without, "binary is", "binaries are"));
    }
    if lines.is_empty() {
        return Ok(cmd::NOTHING.into());
    }
    let glob = args.source.as_deref().map(Glob::new);
    lines.retain(|file, _| glob.as_ref().is_none_or(|glob| glob.matches(file)));
    out::print(&match args.format {
        Format::Text if args.source.is_some() => {
            lines.iter().map(|(file, lines)| source(file, lines)).collect()
        }
        Format::Text => table(&lines),
        Format::Json => lines.iter().map(|(file, lines)| object(file, lines)).collect(),
        Format::Lcov => lines.iter().map(|(file, lines)| lcov(file, lines)).collect(),
    })?;
    Ok(if lines.is_empty() { cmd::NOTHING.into() } else { ExitCode::SUCCESS })
}

/// Adds the lines of a binary; `false` where it has none.
fn add(lines: &mut Lines, file: &Path, counts: &HashMap<u64, u64>) -> bool {
    let Ok(image) = Image::open(file) else { return false };
    let Some(functions) = Functions::of(&image, file) else { return false };
    let mut executed: Vec<(u64, u64)> = counts.iter().map(|(address, times)| (*address, *times)).collect();
    executed.sort_unstable();
    // Of each line in each function: the most frequent piece.
    let mut most: HashMap<(Arc<str>, u32, u64), u64> = HashMap::new();
    for line in functions.lines() {
        let first = executed.partition_point(|(address, _)| *address < line.code.start);
        let inside = executed[first..].iter().take_while(|(address, _)| *address < line.code.end);
        let times = inside.map(|(_, times)| *times).max().unwrap_or(0);
        let function = image.table.find(line.code.start).map_or(0, |symbol| symbol.address);
        let of_line = most.entry((line.file, line.line, function)).or_default();
        *of_line = times.max(*of_line);
    }
    let has_lines = !most.is_empty();
    for ((file, line, _), times) in most {
        *lines.entry(file).or_default().entry(line).or_default() += times;
    }
    has_lines
}

/// How many lines of a file were executed.
fn covered(lines: &BTreeMap<u32, u64>) -> usize {
    lines.values().filter(|times| **times > 0).count()
}

fn table(lines: &Lines) -> String {
    let mut text = format!("{:>9} {:>8} {:>8}  {}\n", "", "executed", "lines", "file");
    for (file, lines) in lines {
        let (executed, all) = (covered(lines), lines.len());
        let share = 100.0 * executed as f64 / all as f64;
        let _ = writeln!(text, "{share:>7.1} % {executed:>8} {all:>8}  {file}");
    }
    text
}

/// A source file, with how often each line was executed.
fn source(file: &str, lines: &BTreeMap<u32, u64>) -> String {
    let read = fs::read(file);
    let text = read.as_ref().map_or_else(|_| "".into(), |bytes| String::from_utf8_lossy(bytes));
    let mut shown = format!("{file}:\n");
    if let Err(why) = &read {
        say!("cannot read {file}: {why}");
    }
    let last = lines.keys().next_back().copied().unwrap_or(0) as usize;
    let texts: Vec<&str> = text.lines().collect();
    for number in 1..=texts.len().max(last) {
        let times = match lines.get(&(number as u32)) {
            None => "-".to_owned(),
            Some(0) => "#####".to_owned(),
            Some(times) => grouped(*times),
        };
        if times != "-" || number <= texts.len() {
            let text = texts.get(number - 1).copied().unwrap_or_default();
            let _ = writeln!(shown, "{times:>14} {number:>6}  {text}");
        }
    }
    shown
}

fn object(file: &str, lines: &BTreeMap<u32, u64>) -> String {
    let each: Vec<_> = lines.iter().map(|(line, times)| json!({ "line": line, "times": times })).collect();
    format!("{}\n", json!({ "file": file, "executed": covered(lines), "lines": each }))
}

/// A section of a tracefile of lcov (geninfo(1), FILES).
fn lcov(file: &str, lines: &BTreeMap<u32, u64>) -> String {
    let mut text = format!("TN:\nSF:{file}\n");
    for (line, times) in lines {
        let _ = writeln!(text, "DA:{line},{times}");
    }
    let _ = writeln!(text, "LF:{}\nLH:{}\nend_of_record", lines.len(), covered(lines));
    text
}
