//! `mote list`: shows the events that a program carries, and whether they are on.

mod functions;
mod kernel;

use crate::{cmd, out};
use anyhow::Context;
use clap::ValueEnum;
use mote_functions::Lists;
use mote_inspect::process::Process;
use mote_inspect::target::Target;
use mote_inspect::{Carrier, Event, file, process};
use mote_pattern::Glob;
use mote_words::{counted, middle, wrapped};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the events that a program or a process carries
///
/// Of a program or library: its events with level, fields and place in the source. Of a running process: those of its
/// program and of all the libraries that it has loaded, and whether each is on. Without an argument: the running
/// processes that carry events. Nothing that is looked at is disturbed. With -k: the events that the kernel has.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote list                    the running processes that carry events
  mote list ./app              what a program carries
  mote list app                the same, of a command in PATH
  mote list 4711               what a process carries, and what is on
  mote list ./app -e 'net:*'   the events of one provider
  mote list ./app --c-header > events.h     for filters written in C (mote record --filter-file)
  mote list 4711 --format json | jq '.objects[].events[] | select(.state == \"on\") | .name'
  mote list -k                 the kernel's events: families, and how many each has
  mote list -k sched openat    those of a family, and of a system call, with their fields
  mote list -k 'mm:*fault*'    by family and name; also by LTTng's or the kernel's name alone
  mote list --functions ./app          all functions: address, size, how each can be probed
  mote list --functions ./app 'db::*'  those of a name, with generics and parameters or without
  mote list --functions 4711 'libc.so.6:str*' '@src/db.c'   by library, by source file
  mote list --functions ./app --probes app.probes   of a stripped program (mote coldpatch)

A line: name, level, state, place in the source, fields. The state is
  on, off        of a process: it records, or is a NOP; 2/3 on: at two of its three sites
  on, filtered   a filter decides (by the interpreter, where machine code cannot be made)
  patched        of a file: a NOP that is patched to switch the event on
  tested         a byte that is tested at each pass (built with the feature tested-byte)
  -              not known, because mote may not read the process

Of a function, how a probe comes to its entry:
  placeholder  a NOP of the compiler's is replaced
  jump         a jump takes the place of one instruction
  punned       the same of a shorter one: the jump's last bytes are the next instruction's
  window of N  a jump takes the place of N instructions
  trap         only a breakpoint is possible; the list says why

Events that a program makes at run time, as those of the crate tracing, are not in the list: they are known when they
have been recorded. Where a program has mote-tracing, the list says so.

Exit status: 0 found, 1 nothing found, 2 failed.")]
pub(crate) struct Args {
    /// A command, the id of a process, or a file; with -k patterns of events, as -k of record takes them
    #[arg(value_name = "CMD|PID|FILE|PATTERN")]
    target: Vec<OsString>,

    /// List the events that the kernel has; without a pattern only their families
    #[arg(short, long, conflicts_with = "c_header")]
    kernel: bool,

    /// List the functions of a program, a library or a process, and how each can be probed; patterns of names behind it
    #[arg(long, conflicts_with_all = ["kernel", "event", "c_header"])]
    functions: bool,

    /// Names for functions of a stripped binary: its list, which `mote coldpatch` has written; one that lies beside the
    /// binary (BINARY.probes) is taken by itself
    #[arg(long = "probes", value_name = "LIST", requires = "functions")]
    probe_lists: Vec<PathBuf>,
    /// List only events whose name, provider or provider:name matches PATTERN (* any text, ? any character); repeat
    /// for more
    #[arg(short, long, value_name = "PATTERN")]
    event: Vec<String>,

    /// What to print: tables for people, or one JSON object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Print a C header with the events' contexts, for filters that clang compiles
    #[arg(long, conflicts_with = "format")]
    c_header: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What was asked for.
enum Found {
    All { processes: Vec<Process>, forbidden: usize },
    One(Process),
    File(Carrier),
}

/// Lists; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.kernel {
        let words = args.target.iter().map(|word| word.to_string_lossy().into_owned());
        let patterns: Vec<String> = words.chain(args.event.iter().cloned()).collect();
        let patterns = patterns.iter().flat_map(|list| mote_pattern::listed(list)).map(str::to_owned);
        return kernel::run(&patterns.collect::<Vec<_>>(), args.format);
    }
    if args.functions {
        let patterns = args.target.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        let lists = Lists::open(&args.probe_lists)?;
        return functions::run(args.target.first(), &patterns.collect::<Vec<_>>(), &lists, args.format);
    }
    if let [_, more, ..] = &args.target[..] {
        anyhow::bail!(
            "`mote list` takes one program or process; leave {} out, or give patterns with -e",
            more.display()
        );
    }
    let mut found = match args.target.first() {
        None => {
            let (processes, forbidden) = process::all();
            Found::All { processes, forbidden }
        }
        Some(word) => match Target::find(word)? {
            Target::Process(pid) => Found::One(process::read(pid)?),
            Target::File(path) => Found::File(file::read(&path)?),
        },
    };
    let carried = found.names();
    found.keep(&args.event.iter().map(|pattern| Glob::new(pattern)).collect::<Vec<_>>());
    let out = out::lock();
    let written = match args.format {
        _ if args.c_header => print_header(out, &found),
        Format::Text => found.print(io::BufWriter::new(out), out::width().unwrap_or(usize::MAX)),
        Format::Json => print_json(io::BufWriter::new(out), &found.json()),
    };
    written.context("cannot write the list to standard output")?;
    Ok(if found.tell(&args.event, &carried) { ExitCode::SUCCESS } else { cmd::NOTHING.into() })
}

fn print_header(mut out: impl Write, found: &Found) -> io::Result<()> {
    let events = found.carriers().flat_map(|carrier| &carrier.events);
    out.write_all(mote_inspect::header::c_header(events).as_bytes())
}

impl Found {
    fn processes(&self) -> &[Process] {
        match self {
            Found::All { processes, .. } => processes,
            Found::One(process) => std::slice::from_ref(process),
            Found::File(_) => &[],
        }
    }

    fn carriers(&self) -> impl Iterator<Item = &Carrier> {
        let file = if let Found::File(carrier) = self { Some(carrier) } else { None };
        self.processes().iter().flat_map(|process| &process.carriers).chain(file)
    }

    /// The full names of all events.
    fn names(&self) -> Vec<String> {
        self.carriers().flat_map(|carrier| carrier.events.iter().map(Event::full_name)).collect()
    }

    /// Leaves only what matches one of the patterns, if there are any.
    fn keep(&mut self, patterns: &[Glob]) {
        let wanted = |event: &Event| {
            let names = [event.full_name(), event.name.clone(), event.provider.clone()];
            patterns.is_empty()
                || patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
        };
        let keep = |process: &mut Process| {
            process.carriers.iter_mut().for_each(|carrier| carrier.events.retain(wanted));
            process.carriers.retain(|carrier| !carrier.events.is_empty());
        };
        match self {
            Found::All { processes, .. } => {
                processes.iter_mut().for_each(keep);
                processes.retain(|process| !process.carriers.is_empty());
            }
            Found::One(process) => keep(process),
            Found::File(carrier) => carrier.events.retain(wanted),
        }
    }

    /// Says on stderr what else there is to know; returns whether there was an event.
    fn tell(&self, patterns: &[String], carried: &[String]) -> bool {
        for carrier in self.carriers() {
            carrier.problems.iter().for_each(|problem| say!("{}: {problem}", carrier.path.display()));
        }
        for process in self.processes() {
            if let Some(why) = &process.state_unknown {
                say!("process {}: cannot tell which of its events are on: {why}", process.pid);
            }
        }
        if let Found::All { forbidden, .. } = self
            && *forbidden > 0
        {
            let processes = counted(*forbidden, "process", "processes");
            say!("{processes} could not be inspected: not permitted; root can inspect all");
        }
        if carried.iter().any(|name| name.starts_with(TRACING)) {
            say!(
                "more events and spans of the crate tracing appear at run time; `mote report` lists them in a recording"
            );
        }
        if self.carriers().any(|carrier| !carrier.events.is_empty()) {
            return true;
        }
        match self {
            _ if !carried.is_empty() => {
                say!("no event matches {}; there are {}", patterns.join(" or "), some_of(carried));
            }
            Found::All { .. } => {
                say!("no running process carries mote events; give a program: mote list ./app")
            }
            Found::One(process) => {
                say!("process {} ({}) {CARRIES_NONE}", process.pid, process.comm)
            }
            Found::File(carrier) => say!("{} {CARRIES_NONE}", carrier.path.display()),
        }
        false
    }

    /// Prints it in lines of `width` columns.
    fn print(&self, mut out: impl Write, width: usize) -> io::Result<()> {
        match self {
            Found::All { processes, .. } => print_processes(&mut out, processes, width)?,
            Found::One(process) => {
                for carrier in &process.carriers {
                    print_carrier(&mut out, carrier, Event::state_text, width)?;
                }
            }
            Found::File(carrier) => {
                print_carrier(&mut out, carrier, |event| event.switch_text().to_owned(), width)?;
            }
        }
        out.flush()
    }

    fn json(&self) -> Value {
        match self {
            Found::All { processes, .. } => {
                json!({ "processes": processes.iter().map(process_json).collect::<Vec<_>>() })
            }
            Found::One(process) => process_json(process),
            Found::File(carrier) => json!({ "objects": [carrier_json(carrier)] }),
        }
    }
}

/// Events that mote-tracing itself carries: what the program tells it is known when it runs.
const TRACING: &str = "mote_tracing:";

const CARRIES_NONE: &str = "carries no mote events; add one: mote::event!(net::packet_in, len: u32 = n) in Rust, or mote.h in C and C++";

/// The first names of a list.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// Columns before the paths of a process.
const BEFORE_PATHS: usize = 42;
/// Fewest columns of a path.
const PATH_MIN: usize = 16;

fn print_processes(out: &mut impl Write, processes: &[Process], width: usize) -> io::Result<()> {
    if !processes.is_empty() {
        writeln!(out, "{:>8}  {:<16}{:>7}{:>7}  IN", "PID", "COMMAND", "EVENTS", "ON")?;
    }
    for process in processes {
        let on = process.events_on().map_or("-".to_owned(), |on| on.to_string());
        let paths = process.carriers.iter().map(|carrier| printable(&carrier.path.display().to_string()));
        let paths = fitting(paths.collect(), width.saturating_sub(BEFORE_PATHS));
        let (pid, comm, events) = (process.pid, printable(&process.comm), process.events());
        let line = format!("{pid:>8}  {comm:<16}{events:>7}{on:>7}  {paths}");
        writeln!(out, "{}", wrapped(&line, width, BEFORE_PATHS))?;
    }
    Ok(())
}

/// Paths beside each other; where they are too long, each without its middle.
fn fitting(paths: Vec<String>, room: usize) -> String {
    let whole = paths.join(" ");
    if whole.chars().count() <= room {
        return whole;
    }
    let share = room.saturating_sub(paths.len().saturating_sub(1)).checked_div(paths.len()).unwrap_or(room);
    paths.iter().map(|path| middle(path, share.max(PATH_MIN))).collect::<Vec<_>>().join(" ")
}

fn print_carrier(
    out: &mut impl Write,
    carrier: &Carrier,
    state: impl Fn(&Event) -> String,
    width: usize,
) -> io::Result<()> {
    if carrier.events.is_empty() {
        return Ok(());
    }
    let sites: usize = carrier.events.iter().map(|event| event.sites.len()).sum();
    let (events, sites) = (counted(carrier.events.len(), "event", "events"), counted(sites, "site", "sites"));
    let numbers = format!(": {events}, {sites}");
    let room = width.saturating_sub(numbers.len()).max(PATH_MIN);
    writeln!(out, "{}{numbers}", middle(&printable(&carrier.path.display().to_string()), room))?;
    for provider in carrier.events.chunk_by(|a, b| a.provider == b.provider) {
        writeln!(out, "\n{}", provider.first().map_or("", |event| &event.provider))?;
        print_events(out, provider, &state, width)?;
    }
    writeln!(out)
}

/// The events of a provider.
fn print_events(
    out: &mut impl Write,
    events: &[Event],
    state: &impl Fn(&Event) -> String,
    width: usize,
) -> io::Result<()> {
    let mut rows: Vec<[String; 4]> = events.iter().map(|event| row(event, state)).collect();
    let widest = |rows: &[[String; 4]], column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    // The place in the source is a path; it gives way to the rest.
    let others: usize = (0..3).map(|column| widest(&rows, column) + 2).sum();
    let room = width.saturating_sub(others + 3).max(PATH_MIN);
    rows.iter_mut().for_each(|row| row[3] = middle(&row[3], room));
    let widths: [usize; 4] = std::array::from_fn(|column| widest(&rows, column));
    for (event, row) in events.iter().zip(&rows) {
        let mut line = " ".to_owned();
        for (cell, width) in row.iter().zip(widths) {
            line += &format!(" {cell:<width$} ");
        }
        let fields: Vec<String> =
            event.fields.iter().map(|field| format!("{}: {}", field.name, field.ty)).collect();
        let fields = fields.join(", ");
        if line.chars().count() + 1 + fields.chars().count() <= width {
            writeln!(out, "{line} {fields}")?;
        } else {
            writeln!(out, "{}", wrapped(line.trim_end(), width, 6))?;
            writeln!(out, "{}", wrapped(&format!("      {fields}"), width, 6))?;
        }
        if !event.text.is_empty() {
            writeln!(out, "{}", wrapped(&format!("      {}", event.text), width, 6))?;
        }
    }
    Ok(())
}

/// Name, level, state and place.
fn row(event: &Event, state: &impl Fn(&Event) -> String) -> [String; 4] {
    let sites = if event.sites.len() > 1 { format!(" ({} sites)", event.sites.len()) } else { String::new() };
    let place = if event.line > 0 { format!("{}:{}", event.file, event.line) } else { event.file.clone() };
    let filter = match event.filter_text() {
        None => "",
        Some("jit") => ", filtered",
        Some(_) => ", filtered by the interpreter",
    };
    [event.name.clone(), event.level.name().to_owned(), state(event) + filter + &sites, place]
}

fn print_json(mut out: impl Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{value:#}")?;
    out.flush()
}

fn process_json(process: &Process) -> Value {
    let objects: Vec<Value> = process.carriers.iter().map(carrier_json).collect();
    json!({ "pid": process.pid, "command": process.comm, "objects": objects })
}

fn carrier_json(carrier: &Carrier) -> Value {
    let events: Vec<Value> = carrier.events.iter().map(event_json).collect();
    json!({ "path": carrier.path.to_string_lossy(), "events": events })
}

fn event_json(event: &Event) -> Value {
    let fields: Vec<Value> =
        event.fields.iter().map(|field| json!({ "name": field.name, "type": field.ty })).collect();
    let mut value = json!({
        "provider": event.provider,
        "name": event.name,
        "level": event.level.name(),
        "file": event.file,
        "line": event.line,
        "text": event.text,
        "fields": fields,
        "switch": event.switch_text(),
        "sites": event.sites.len(),
    });
    if let (Some(on), Some(object)) = (event.sites_on(), value.as_object_mut()) {
        object.insert("state".to_owned(), event.state_text().into());
        object.insert("filter".to_owned(), event.filter_text().into());
        object.insert("sites_on".to_owned(), on.into());
    }
    value
}

/// A name from another program, without control characters: they would reach the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}
