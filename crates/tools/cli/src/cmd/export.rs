//! `mote export`: writes a recording in the format of another viewer.

use crate::cmd::pt::merged;
use crate::moment::Moment;
use crate::{cmd, out};
use anyhow::{Context, bail};
use clap::ValueEnum;
use mote_analysis::CallClasses;
use mote_pattern::Glob;
use mote_timeline::{Entry, Range, Trace};
use mote_view::{Firefox, FlameGraph, Folded, Format, Perfetto, Selection, Stacks, pump};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write a recording for another viewer: Perfetto, the Firefox Profiler, flame graphs
///
/// Reads what `mote view` reads. Threads become tracks; system calls, calls of functions and spans lie on them from
/// their begin to their end, other events are moments; stacks are samples.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote export trace --to perfetto -o trace.pftrace    open it at https://ui.perfetto.dev
  mote export trace --to firefox -o trace.json        load it at https://profiler.firefox.com
  mote export trace --to svg -o flame.svg             a flame graph: stacks (--stack), or functions
  mote export trace --to folded                       the same stacks, counted, for other tools
  mote export trace --pt --to perfetto -o trace.pftrace    with the calls of the hardware trace
  mote export trace --to perfetto -e 'net:*' --from +1s --until +2s -o part.pftrace

Perfetto: a track for each thread, with its system calls, calls of functions (f:*) and the spans that it works on; a
track for each span; CPUs and states of threads where sched_switch was recorded; events with a stack are samples, too.
Firefox: the same as markers.

Flame graph and folded: how many events had each stack. Where no event has one, calls of functions make the stacks, and
the numbers are the nanoseconds that were a function's own.

In the flame graph a click zooms, Ctrl-F searches by a regular expression, Esc shows all again.

Exit status: 0 done, 1 no event matched, 2 failed, or a part of the recording is damaged (what is readable is
written).")]
pub(crate) struct Args {
    /// Directory of the recording, or a tree of CTF traces
    dir: PathBuf,

    /// For which viewer
    #[arg(long, value_name = "FORMAT")]
    to: Viewer,

    /// Write to FILE, which must not exist, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only events whose name, or provider:name, matches PATTERN (* any text, ? any character); repeat for more
    #[arg(short, long, value_name = "PATTERN")]
    event: Vec<String>,

    /// Flame graph and folded: times without a CPU (mote profile --off-cpu), in nanoseconds
    #[arg(long)]
    off_cpu: bool,

    /// The calls of the hardware trace, too (mote record --pt)
    #[arg(long)]
    pt: bool,

    /// Only events of these threads
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    tid: Vec<u32>,

    /// Only events from this TIME on: HH:MM:SS[.fraction] or YYYY-MM-DDTHH:MM:SS[.fraction] (UTC), seconds since 1970,
    /// or +TIME after the first event (ns us ms s m h)
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Option<Moment>,

    /// Only events until this TIME, included; as --from
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,

    /// Look for binaries and their symbols below DIR
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Viewer {
    Perfetto,
    Firefox,
    Folded,
    Svg,
}

/// Writes the recording; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let merged = merged::open(&args.dir, args.pt)?;
    let trace = &merged.trace;
    let mut to = destination(args)?;
    let start = trace.start().unwrap_or(0);
    let moment =
        |moment: Option<Moment>, default: i64| moment.map_or(default, |moment| moment.resolve(start));
    let range = Range { from: moment(args.from, i64::MIN), to: moment(args.until, i64::MAX) };
    let globs: Vec<Glob> = args.event.iter().map(|pattern| Glob::new(pattern)).collect();
    let selection = Selection::new(trace, &[], &globs, &args.tid).without_state(trace);
    let mut stacks = cmd::stacks(trace, &args.dir, args.symfs.as_deref())?;
    let mut events = trace.events(range);
    let mut format = format(args, trace, &mut stacks, start.min(first_call(args, trace)));
    let outcome = pump(&mut events, &selection, None, format.as_mut(), &mut to)
        .with_context(|| format!("cannot write {}", name(args)))?;
    drop(format);
    stacks.doubts().iter().for_each(|doubt| say!("{doubt}"));
    if outcome.lost > 0 || outcome.unknown > 0 {
        say!("events were lost while recording; `mote report` says how many, and why");
    }
    if cmd::tell(&[trace.problems(), events.problems()]) {
        return Ok(cmd::FAILED.into());
    }
    if outcome.shown == 0 {
        say!("no event in {} was selected", args.dir.display());
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// When the first call of a function began, which is before its event; of use for Firefox only.
fn first_call(args: &Args, trace: &Trace) -> i64 {
    let calls = CallClasses::new(trace);
    if args.to != Viewer::Firefox || calls.functions() == 0 {
        return i64::MAX;
    }
    let (mut events, mut first) = (trace.events(Range::ALL), i64::MAX);
    while let Some(entry) = events.next() {
        if let Entry::Event(record) = entry
            && let Some(call) = calls.call(&record)
        {
            first = first.min(call.begin);
        }
    }
    first
}

fn format<'t>(args: &Args, trace: &'t Trace, stacks: &'t mut Stacks, start: i64) -> Box<dyn Format + 't> {
    match args.to {
        Viewer::Perfetto => Box::new(Perfetto::new(trace, Some(stacks))),
        Viewer::Firefox => Box::new(Firefox::new(trace, Some(stacks), start)),
        Viewer::Folded if args.off_cpu => Box::new(Folded::new(stacks).of_off_cpu()),
        Viewer::Folded => Box::new(Folded::new(stacks).or_calls(trace)),
        Viewer::Svg => {
            let graph = FlameGraph::new(trace, stacks, &args.dir.to_string_lossy());
            Box::new(if args.off_cpu { graph.of_off_cpu() } else { graph })
        }
    }
}

/// Where the export goes: a new file that only its owner can read, or standard output.
fn destination(args: &Args) -> anyhow::Result<Box<dyn Write>> {
    let Some(path) = &args.output else {
        if args.to == Viewer::Perfetto && io::stdout().is_terminal() {
            bail!("a trace of Perfetto is not for a terminal; give -o FILE");
        }
        return Ok(Box::new(out::lock()));
    };
    let file: io::Result<File> = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match file {
        Ok(file) => Ok(Box::new(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} exists already; remove it, or choose another name", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot create {}", path.display())),
    }
}

fn name(args: &Args) -> String {
    args.output.as_ref().map_or("standard output".to_owned(), |path| path.display().to_string())
}
