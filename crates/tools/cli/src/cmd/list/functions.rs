//! `mote list --functions`: the functions of a binary, or of all that a process has mapped, and how each can be probed.

use super::{Format, PATH_MIN, print_json, printable};
use crate::{cmd, out};
use anyhow::Context;
use mote_functions::{Function, Lists, Object, Pattern, Way, similar_names};
use mote_inspect::target::Target;
use mote_symbol::demangle;
use mote_words::{counted, counted_grouped, middle};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Lists the functions of `target` whose names fit one of the patterns, or all.
pub(super) fn run(
    target: Option<&OsString>,
    patterns: &[String],
    lists: &Lists,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let target = target.context("give a program or a process: mote list --functions ./app")?;
    let mut objects = match Target::find(target)? {
        Target::File(path) => vec![Object::of_file(&path, lists)?],
        Target::Process(pid) => of_process(pid, lists)?,
    };
    objects.iter().filter_map(|object| object.listed.remark.as_ref()).for_each(|remark| say!("{remark}"));
    if let Some(why) = lists.unused(objects.iter().filter_map(|object| object.listed.list.as_ref())) {
        anyhow::bail!("{why}");
    }
    let patterns: Result<Vec<Pattern>, String> =
        patterns.iter().map(|pattern| Pattern::new(pattern)).collect();
    let patterns = patterns.map_err(anyhow::Error::msg)?;
    let kept: Vec<Vec<Function>> = objects.iter().map(|object| object.meant(&patterns)).collect();
    if kept.iter().all(Vec::is_empty) {
        match patterns.first() {
            None => say!("{} has no functions that can be seen", target.display()),
            Some(pattern) => {
                say!("no function of {} is called so{}", target.display(), similar_names(&objects, pattern));
            }
        }
        return Ok(cmd::NOTHING.into());
    }
    objects.iter_mut().zip(kept).for_each(|(object, kept)| object.found.functions = kept);
    objects.retain(|object| !object.found.functions.is_empty());
    let out = out::lock();
    let width = out::width().unwrap_or(usize::MAX);
    let out = io::BufWriter::new(out);
    let written = match format {
        Format::Text => print(out, &objects, width),
        Format::Json => {
            let objects: Vec<Value> = objects.iter().map(json_of).collect();
            print_json(out, &json!({ "objects": objects }))
        }
    };
    written.context("cannot write the list to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// All that a process has mapped as code.
fn of_process(pid: u32, lists: &Lists) -> anyhow::Result<Vec<Object>> {
    let (objects, left_out) = Object::of_process(pid, lists, &mut HashSet::new());
    for (path, why) in left_out {
        say!("{} is left out: {why}", path.display());
    }
    anyhow::ensure!(
        !objects.is_empty(),
        "cannot look into process {pid}: it has ended, or belongs to another user; root can look into all"
    );
    Ok(objects)
}

/// An object as JSON.
fn json_of(object: &Object) -> Value {
    let functions: Vec<Value> = object.found.functions.iter().map(|one| function_json(object, one)).collect();
    let left_out = object.found.left_out;
    json!({
        "path": object.path.to_string_lossy(),
        "build_id": object.found.build_id,
        "functions": functions,
        "left_out": {
            "parts": left_out.parts, "resolvers": left_out.resolvers, "linkage": left_out.linkage,
        },
    })
}

fn function_json(object: &Object, function: &Function) -> Value {
    let mut entry = json!({ "way": function.way.word() });
    match function.way {
        Way::Window { instructions, bytes } => {
            entry["instructions"] = instructions.into();
            entry["bytes"] = bytes.into();
        }
        Way::Punned { nearest, targets } => {
            entry["nearest"] = nearest.into();
            entry["targets"] = targets.into();
        }
        _ => {}
    }
    if let Some(why) = function.way.why() {
        entry["why"] = why.into();
    }
    let place = object.place(function);
    json!({
        "name": function.name.as_ref().map(|name| demangle(name)),
        "symbol": function.name,
        "address": function.address.wrapping_add(object.shift),
        "size": function.len,
        "file": place.as_ref().map(|(file, _)| file),
        "line": place.as_ref().map(|(_, line)| line),
        "entry": entry,
    })
}

fn print(mut out: impl Write, objects: &[Object], width: usize) -> io::Result<()> {
    for object in objects {
        let functions = &object.found.functions;
        let count = format!(": {}", counted_grouped(functions.len() as u64, "function", "functions"));
        let room = width.saturating_sub(count.len()).max(PATH_MIN);
        writeln!(out, "{}{count}", middle(&printable(&object.path.display().to_string()), room))?;
        writeln!(out, "  entries   {}", shares(functions))?;
        if let Some(left_out) = left_out(object) {
            writeln!(out, "  left out  {left_out}")?;
        }
        writeln!(out, "\n{:>18} {:>8}  {:<11}  FUNCTION", "ADDRESS", "SIZE", "ENTRY")?;
        for function in functions {
            writeln!(out, "{}", row(object, function, width))?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// How many functions are probed in which way, in percent.
fn shares(functions: &[Function]) -> String {
    let share = |word: &&str| {
        let count = functions.iter().filter(|function| function.way.word() == *word).count();
        (count > 0).then(|| format!("{word} {:.1} %", 100.0 * count as f64 / functions.len() as f64))
    };
    Way::WORDS.iter().filter_map(share).collect::<Vec<_>>().join("  ")
}

fn left_out(object: &Object) -> Option<String> {
    let counts = object.found.left_out;
    let parts = [
        (counts.parts, "part of a function", "parts of functions"),
        (counts.resolvers, "indirect function", "indirect functions"),
        (counts.linkage, "entry of the linker's tables", "entries of the linker's tables"),
    ];
    let words = parts.into_iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> = words.map(|(count, one, several)| counted(count, one, several)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// A line of the table.
fn row(object: &Object, function: &Function, width: usize) -> String {
    let way = match function.way {
        Way::Window { instructions, .. } => format!("window of {instructions}"),
        way => way.word().to_owned(),
    };
    let name = function.name.as_ref().map_or("?".to_owned(), |name| printable(&demangle(name)));
    let address = function.address.wrapping_add(object.shift);
    let mut line = format!("{address:>#18x} {:>8}  {way:<11}  {name}", function.len);
    if let Some((file, number)) = object.place(function) {
        let room = width.saturating_sub(line.chars().count() + 2).max(PATH_MIN);
        line += &format!("  {}", middle(&printable(&format!("{file}:{number}")), room));
    }
    if let Some(why) = function.way.why() {
        line += &format!("  ({why})");
    }
    line
}
