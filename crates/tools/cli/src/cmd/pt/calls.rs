//! `mote pt calls`: functions that were called, for how many instructions and how long.

mod recording;

use super::shown::{self, Format};
use super::times::{self, Times};
use crate::out;
use anyhow::Context;
use mote_capture::{
    CallTable, Capture, Code, Function, FunctionTime, Functions, PerThread, Stream, TimedCallTable,
    follow_calls, follow_timed, summarize, threads,
};
use mote_pt::flow::calls::{Call, End};
use mote_pt::image::Space;
use mote_pt::time::calls::{TimedCallSink, TimedCalls};
use mote_pt::time::{Span, TimedSink};
use mote_words::{counted_grouped, grouped};
use recording::Recording;
pub(super) use recording::{DOMAIN, Reported};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show which functions were called, for how many instructions and how long
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt calls cap               a table of all threads' functions
  mote pt calls cap --graph       each call, as it happened
  mote pt calls cap --no-time     without times, which is faster
  mote pt calls cap --format json
  mote pt calls cap -o rec        a recording of them, for mote view, export, functions
  mote pt calls trace -o trace/calls    of what mote record --pt has made: within it, on its clock
  mote pt calls cap -o trace/calls --clock-of trace    within any, on its clock

total: instructions of a function with all that it has called (of calls of itself in it only the outermost counts);
self: its own. Times are the same: at least and at most, as the packets tell; ? is a bound that none does. They count
what passes while the kernel runs, or other threads. JSON: [at least, at most] in ns.

-o: times are the earliest possible; error: by how many ns they may be later (18446744073709551615: nobody knows).

Exit status: 0 done, 1 there are no calls, 2 failed.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// Each call, as it happened
    #[arg(long)]
    graph: bool,

    /// Leave times out
    #[arg(long)]
    no_time: bool,

    /// Write the calls as a recording into DIR, which must not exist, instead of printing them
    #[arg(short, long, value_name = "DIR", conflicts_with_all = ["graph", "no_time"])]
    output: Option<PathBuf>,

    /// With -o: by the clock of this recording, of the same machine [default: the one that the capture is in]
    #[arg(long, value_name = "DIR", requires = "output")]
    clock_of: Option<PathBuf>,

    /// What to print: for people, or a JSON object for each function (or call)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.output {
        return record(args, folder);
    }
    let mut table = Table::default();
    let mut calls = 0;
    args.input.with_streams(|capture, stream, code| {
        let times = Some(Times::new(capture.processor())).filter(|times| times.are_known && !args.no_time);
        if args.graph {
            let to = RefCell::new(BufWriter::new(out::lock()));
            let tree = |tid| TimedCalls::new(Tree::new(&to, code, (tid, args.format), times));
            let mut sink = PerThread::new(stream.tid(), tree);
            follow(capture, stream, code, &mut sink)?;
            for tree in sink.into_sinks().map(TimedCalls::into_sink) {
                calls += tree.calls;
                tree.failed.map_or(Ok(()), Err)?;
            }
            return to.into_inner().flush().map_err(anyhow::Error::from);
        }
        table.times = table.times.or(times);
        table.add_stream((capture, stream, code))
    })?;
    if !args.graph {
        calls = table.functions.values().map(|(function, _)| function.calls).sum();
        out::print(&table.shown(args.format))?;
    }
    Ok(shown::status(calls, 0))
}

/// Writes the calls as a recording.
fn record(args: &Args, folder: &Path) -> anyhow::Result<ExitCode> {
    let calls = write(&args.input, args.clock_of.as_deref(), folder)?;
    say!("{} in {}", counted_grouped(calls, "call", "calls"), folder.display());
    Ok(shown::status(calls, 0))
}

/// Writes the calls as a recording into a directory that is not there yet: by the clock of the recording `clock_of`, or
/// of that which the capture is in. Says how many have no time and are left out. Returns how many there are.
///
/// # Errors
/// They cannot be read or written; there are no times.
pub(super) fn write(input: &shown::Input, clock_of: Option<&Path>, folder: &Path) -> anyhow::Result<u64> {
    write_behind(input, clock_of, folder, &mut Reported::default())
}

/// The same, without those that were `reported`; adds its own to these.
pub(super) fn write_behind(
    input: &shown::Input,
    clock_of: Option<&Path>,
    folder: &Path,
    reported: &mut Reported,
) -> anyhow::Result<u64> {
    let mut made = None;
    input.with_streams(|capture, stream, code| {
        let recording = match &mut made {
            Some(recording) => recording,
            None => {
                let recording = Recording::create(folder, capture, clock_of, input.within())?;
                made.insert(recording.behind(reported.clone()))
            }
        };
        recording.add(capture, stream, code)
    })?;
    let recording = made.with_context(|| format!("{} has no packets", input.capture.display()))?;
    let (calls, untimed, all) = recording.finish()?;
    *reported = all;
    if untimed > 0 {
        say!("{} before the first packet of time left out", counted_grouped(untimed, "call", "calls"));
    }
    Ok(calls)
}

/// Follows a stream for sinks that want calls: by several threads where the packets are of one; of a processor's, who
/// runs is told in their order.
fn follow<S: TimedSink>(
    capture: &Capture,
    stream: &Stream,
    code: &Code,
    sink: &mut S,
) -> Result<(), mote_capture::Error> {
    let clocks = capture.clocks(stream);
    match stream.cpu() {
        Some(_) => follow_timed(&stream.bytes, code, &clocks, sink, |_| true),
        None => follow_calls(&stream.bytes, code, &clocks, threads(), sink),
    }
}

/// The name of the function at an address, or the address.
fn name(code: &Code, (space, address): (Space, u64)) -> String {
    match code.place(space, address) {
        Some(place) if place.offset == 0 => place.function,
        Some(place) => format!("{}+{:#x}", place.function, place.offset),
        None => format!("{address:#x}"),
    }
}

/// Functions by name.
#[derive(Debug, Default)]
struct Table {
    functions: HashMap<String, (Function, FunctionTime)>,
    /// If times are shown.
    times: Option<Times>,
}

impl Table {
    fn add_stream(&mut self, (capture, stream, code): (&Capture, &Stream, &Code)) -> anyhow::Result<()> {
        if self.times.is_some() {
            let mut sink = PerThread::new(stream.tid(), |_| TimedCallTable::of(code));
            follow(capture, stream, code, &mut sink)?;
            sink.into_sinks().map(TimedCallTable::functions).for_each(|(functions, times)| {
                self.add(code, &functions, &times);
            });
        } else {
            let table = summarize(&stream.bytes, code, threads(), || CallTable::of(code))?;
            self.add(code, &table.functions(), &HashMap::new());
        }
        Ok(())
    }

    /// Adds the functions of a thread, by address.
    fn add(&mut self, code: &Code, functions: &Functions, times: &HashMap<(Space, u64), FunctionTime>) {
        for (at, function) in functions.iter().filter(|(_, function)| function.calls > 0) {
            let (sum, time) = self.functions.entry(name(code, *at)).or_default();
            sum.calls += function.calls;
            sum.total += function.total;
            sum.own += function.own;
            if let Some(more) = times.get(at) {
                time.total.join(&more.total);
                time.own.join(&more.own);
            }
        }
    }

    fn shown(&self, format: Format) -> String {
        let mut all: Vec<_> = self.functions.iter().collect();
        all.sort_by_key(|(name, (function, _))| (u64::MAX - function.total, *name));
        let head = if format == Format::Text && !all.is_empty() { self.head() } else { String::new() };
        all.into_iter().fold(head, |text, (name, (function, time))| {
            let line = match format {
                Format::Json => self.object(name, function, time).to_string(),
                Format::Text => self.line(name, function, time),
            };
            text + &line + "\n"
        })
    }

    fn head(&self) -> String {
        let times = match self.times {
            Some(_) => format!(" {:>24} {:>24}", "time", "self time"),
            None => String::new(),
        };
        format!("{:>12} {:>16} {:>16}{times}  {}\n", "calls", "total", "self", "function")
    }

    fn line(&self, name: &str, function: &Function, time: &FunctionTime) -> String {
        let [calls, total, own] = [function.calls, function.total, function.own].map(grouped);
        let times = self.times.map_or_else(String::new, |times| {
            let [total, own] =
                [time.total, time.own].map(|busy| times::duration(times.duration_ns(busy.ticks())));
            format!(" {total:>24} {own:>24}")
        });
        format!("{calls:>12} {total:>16} {own:>16}{times}  {name}")
    }

    fn object(&self, name: &str, function: &Function, time: &FunctionTime) -> Value {
        let Function { calls, total, own, .. } = function;
        let mut object = json!({ "function": name, "calls": calls, "total": total, "self": own });
        if let Some(times) = self.times {
            object["time"] = times::object(times.duration_ns(time.total.ticks()));
            object["self_time"] = times::object(times.duration_ns(time.own.ticks()));
        }
        object
    }
}

/// Prints each call.
struct Tree<'c, W> {
    /// All threads'.
    to: &'c RefCell<W>,
    code: &'c Code,
    tid: i32,
    format: Format,
    space: Space,
    /// If times are shown.
    times: Option<Times>,
    /// The functions of the calls that are under way, and when they began.
    open: Vec<((Space, u64), Span)>,
    /// The last of them has no other call in it yet.
    is_leaf: bool,
    calls: u64,
    failed: Option<io::Error>,
}

impl<'c, W: Write> Tree<'c, W> {
    fn new(
        to: &'c RefCell<W>,
        code: &'c Code,
        (tid, format): (i32, Format),
        times: Option<Times>,
    ) -> Tree<'c, W> {
        let (space, open) = (Space::default(), Vec::new());
        Tree { to, code, tid, format, space, times, open, is_leaf: false, calls: 0, failed: None }
    }

    fn begin(&mut self, function: u64, depth: usize, when: Span) -> io::Result<()> {
        self.calls += 1;
        let done = self.open(depth);
        // Calls that are so far out that they were forgotten do not end.
        self.open.drain(..self.open.len().saturating_sub(depth));
        self.open.push(((self.space, function), when));
        self.is_leaf = true;
        done
    }

    /// The call that has begun has another one in it.
    fn open(&mut self, depth: usize) -> io::Result<()> {
        let Some((function, _)) = self.open.last().filter(|_| self.is_leaf && self.format == Format::Text)
        else {
            return Ok(());
        };
        let name = name(self.code, *function);
        let width = if self.times.is_some() { 36 } else { 13 };
        writeln!(
            self.to.borrow_mut(),
            "{:width$}{:depth$}{name} {{",
            "",
            "",
            depth = 2 * depth.saturating_sub(1)
        )
    }

    fn end(&mut self, depth: usize, instructions: u64, by: End, when: Span) -> io::Result<()> {
        let is_leaf = std::mem::take(&mut self.is_leaf);
        let Some((function, begin)) = self.open.pop() else { return Ok(()) };
        let duration = when.since(begin);
        let name = name(self.code, function);
        if self.format == Format::Json {
            let mut line = json!({
                "tid": self.tid, "function": name, "depth": depth, "instructions": instructions,
                "end": format!("{by:?}").to_lowercase(),
            });
            if let Some(times) = self.times {
                line["begin"] = times::object(times.ns(begin));
                line["time"] = times::object(times.duration_ns(duration));
            }
            return writeln!(self.to.borrow_mut(), "{line}");
        }
        let how = match by {
            End::Return => "",
            End::Outer => "  /* left by a return further out */",
            End::Gap => "  /* its end is not known */",
        };
        let text = if is_leaf { format!("{name}()") } else { format!("}} /* {name} */") };
        let count = grouped(instructions);
        let time = self.times.map_or_else(String::new, |times| {
            format!("{:>22} ", times::duration(times.duration_ns(duration)))
        });
        writeln!(self.to.borrow_mut(), "{count:>12} {time}{:depth$}{text}{how}", "", depth = 2 * depth)
    }
}

impl<W: Write> TimedCallSink for Tree<'_, W> {
    fn call(&mut self, call: Call, when: Span) {
        if self.failed.is_some() {
            return;
        }
        let done = match call {
            Call::Begin { function, depth, .. } => self.begin(function, depth, when),
            Call::End { depth, instructions, by, .. } => self.end(depth, instructions, by, when),
        };
        self.failed = done.err();
    }

    fn space(&mut self, space: Space) {
        self.space = space;
    }

    fn is_function(&self, address: u64) -> bool {
        self.code.is_function(self.space, address)
    }
}
