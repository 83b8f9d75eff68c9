//! `mote list --functions`: the functions of a binary, or of all that a process has mapped, and how each can be probed.

use super::{Format, PATH_MIN, print_json, printable};
use crate::{cmd, out};
use anyhow::Context;
use mote_functions::{Function, Functions, Pattern, Way};
use mote_inspect::target::Target;
use mote_pattern::similar;
use mote_symbol::functions::Functions as Debug;
use mote_symbol::mapped;
use mote_symbol::{Image, ImageError, demangle, names};
use mote_words::{counted, counted_grouped, middle};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A binary that was looked through.
struct Object {
    /// As people, or the process, call it.
    path: PathBuf,
    /// How far from the addresses of its file it is loaded; 0 of a file.
    shift: u64,
    found: Functions,
    debug: Option<Debug>,
}

/// Lists the functions of `target` whose names fit one of the patterns, or all.
pub(super) fn run(
    target: Option<&OsString>,
    patterns: &[String],
    format: Format,
) -> anyhow::Result<ExitCode> {
    let target = target.context("give a program or a process: mote list --functions ./app")?;
    let mut objects = match Target::find(target)? {
        Target::File(path) => vec![Object::read(&path, &path, |_| 0)?],
        Target::Process(pid) => of_process(pid)?,
    };
    let patterns: Vec<Pattern> = patterns.iter().map(|pattern| Pattern::new(pattern)).collect();
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
            let objects: Vec<Value> = objects.iter().map(Object::json).collect();
            print_json(out, &json!({ "objects": objects }))
        }
    };
    written.context("cannot write the list to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// `; similar names: a, b` for a pattern that nothing fits.
fn similar_names(objects: &[Object], pattern: &Pattern) -> String {
    let functions = objects.iter().flat_map(|object| &object.found.functions);
    let names: Vec<String> =
        functions.filter_map(|one| Some(names::bare(&demangle(one.name.as_ref()?)))).collect();
    let found = similar(pattern.name(), names.iter().map(String::as_str));
    if found.is_empty() { String::new() } else { format!("; similar names: {}", found.join(", ")) }
}

/// All that a process has mapped as code.
fn of_process(pid: u32) -> anyhow::Result<Vec<Object>> {
    let (mut objects, mut seen) = (Vec::new(), HashSet::new());
    for mapped in mapped::code(pid) {
        let map = &mapped.map;
        let Some(id) = mapped.file.filter(|id| seen.insert(*id)) else { continue };
        let path = PathBuf::from(&map.path);
        let found =
            id.pin(pid, (map.start, map.end), &map.path).map_err(|why| why.to_string()).and_then(|file| {
                let opened = PathBuf::from(format!("/proc/self/fd/{}", file.raw()));
                let shift = |image: &Image| {
                    map.start.wrapping_sub(image.address_of(map.offset).unwrap_or(map.offset))
                };
                Object::read(&opened, &path, shift).map_err(|why| why.to_string())
            });
        match found {
            Ok(object) => objects.push(object),
            Err(why) => say!("{} is left out: {why}", path.display()),
        }
    }
    anyhow::ensure!(
        !objects.is_empty(),
        "cannot look into process {pid}: it has ended, or belongs to another user; root can look into all"
    );
    Ok(objects)
}

impl Object {
    /// Looks through a file; `shift` says how far from its addresses it is loaded.
    fn read(file: &Path, path: &Path, shift: impl FnOnce(&Image) -> u64) -> Result<Object, ImageError> {
        let image = Image::open(file)?;
        let found = mote_functions::read(&image)?;
        Ok(Object { path: path.to_owned(), shift: shift(&image), found, debug: Debug::of(&image, file) })
    }

    /// The functions that one of the patterns means; all without patterns.
    fn meant(&self, patterns: &[Pattern]) -> Vec<Function> {
        let is_meant = |function: &&Function| {
            patterns.is_empty() || patterns.iter().any(|pattern| self.is_meant(function, pattern))
        };
        self.found.functions.iter().filter(is_meant).cloned().collect()
    }

    fn is_meant(&self, function: &Function, pattern: &Pattern) -> bool {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let symbol = function.name.as_deref().unwrap_or_default();
        pattern.fits(&file, symbol, || Some(self.place(function)?.0))
    }

    fn place(&self, function: &Function) -> Option<(String, u32)> {
        self.debug.as_ref()?.place(function.address)
    }

    fn json(&self) -> Value {
        let functions: Vec<Value> = self.found.functions.iter().map(|one| self.function_json(one)).collect();
        let left_out = self.found.left_out;
        json!({
            "path": self.path.to_string_lossy(),
            "build_id": self.found.build_id,
            "functions": functions,
            "left_out": {
                "parts": left_out.parts, "resolvers": left_out.resolvers, "linkage": left_out.linkage,
            },
        })
    }

    fn function_json(&self, function: &Function) -> Value {
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
        let place = self.place(function);
        json!({
            "name": function.name.as_ref().map(|name| demangle(name)),
            "symbol": function.name,
            "address": function.address.wrapping_add(self.shift),
            "size": function.len,
            "file": place.as_ref().map(|(file, _)| file),
            "line": place.as_ref().map(|(_, line)| line),
            "entry": entry,
        })
    }
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
