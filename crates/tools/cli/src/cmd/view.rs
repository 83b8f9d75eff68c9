//! `mote view`: prints the events of a recording.

use crate::cmd::pt::merged;
use crate::moment::Moment;
use crate::{cmd, out};
use anyhow::Context;
use clap::ValueEnum;
use mote_layout::Level;
use mote_layout::parse::Labels;
use mote_pattern::Glob;
use mote_timeline::{Range, Trace};
use mote_view::{
    Csv, Folded, Format, Json, Null, Outcome, Selection, Stacked, Stacks, Text, TimeStyle, Tree,
    missing_packets, pump,
};
use mote_words::counted;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the events of a recording, one line each, in the order of time
///
/// Reads what `mote record` wrote, and CTF traces of others: a directory with a file `metadata`, or a tree with several
/// (LTTng's), which are merged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote view trace                              everything
  mote view trace --event 'net:*' --tid 4711   events of one provider in one thread
  mote view trace --event '*error*' --limit 1  the first error
  mote view trace --from +250ms --to +1s       a part of it
  mote view trace --time delta | less          with the time since the line before
  mote view trace --level warning              what matters
  mote view trace --tree                       spans and calls of functions, with what was in them
  mote view trace --format json | jq .fields   for programs
  mote view trace --stack -e sched_switch      where threads gave up the CPU (recorded with --stack)
  mote view trace --format folded > stacks     for flamegraph.pl, speedscope
  mote view trace --pt --tree                  calls of the hardware trace, with the events in them
  mote view ~/lttng-traces/auto-20261120       what LTTng recorded, kernel and user space merged

A line of text:
  [15:34:12.123456789] worker/4711  [001] net:packet_in: { prio = 3 }, { len = 12, proto = \"tcp\" }
   time, UTC           thread/id    CPU   event          context       fields

The context is there only if there is more of it than the thread. Enumerations are shown as LABEL (number), bytes as
<c0ffee>, levels other than info as net:slow (warning), the span that an event is in as \"in app:request\", control
characters in texts as \\n or \\x1b, values that are not known as none. A member that only tells the length of the next
one is left out. Where events were lost, a line says how many: [time] *** 12 events lost between ... ***

With --stack, a line for each function follows, the innermost first, the kernel's before the program's: NAME+OFFSET
(FILE:LINE) [BINARY]. An address without a name stays as it is, with its place in the binary; stderr says why. JSON has
the same lines in stack: {kernel: [...], user: [...]}. Folded: THREAD;outermost;...;innermost COUNT, functions of the
kernel with _[k] behind.

With --tree, a span is shown when the outermost one around it has ended, with how long it lasted and how long a thread
was in it (busy); times in it count from the beginning of the outermost one. Other events are in the span that their
thread was in. Where --event, --tid and the like choose events, the spans are shown that have such events. Calls of
functions (f:*) are shown in the same way, each around what its thread did meanwhile; whether a call has a caller is
known at the end only, so what is in no span is printed then.

JSON: one object a line, with time (nanoseconds), cpu, pid, tid, thread, event, level, span (the name of the one that
the event is in), context, fields; what is not known is left out, or null. A loss is an object with lost, since, until,
exact, stream:
exact when since and until are the times of the events before and after it; lost.events is null where the number is
unknown.

CSV: the same as columns, context and fields as JSON; a column for each field when --event chooses one kind of event.
What is not known is empty. Losses are told on stderr only.

Exit status: 0 done, 1 no event matched, 2 failed, or a part of the recording is damaged (what is readable is shown).")]
pub(crate) struct Args {
    /// Directory of the recording, or a tree of CTF traces
    dir: PathBuf,

    /// What to print: lines for people, JSON lines, comma-separated values, counted stacks, or nothing (decodes only,
    /// to measure)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: OutputFormat,

    /// Show the stacks of events that have them, with names (text and JSON)
    #[arg(long)]
    stack: bool,

    /// Look for binaries and their symbols below DIR
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,

    /// What times count from: absolute is UTC, relative the first event of the recording, delta the event shown before,
    /// monotonic the clock of the trace
    #[arg(long, value_name = "KIND", default_value = "absolute")]
    time: TimeKind,

    /// Show the date with absolute times
    #[arg(long)]
    date: bool,

    /// Show only events of providers that match PATTERN (* any text, ? any character); repeat for more
    #[arg(long, value_name = "PATTERN")]
    provider: Vec<String>,

    /// Show only events whose name, or provider:name, matches PATTERN; repeat for more
    #[arg(short, long, value_name = "PATTERN")]
    event: Vec<String>,

    /// Show the state of the system at the start as well, which is recorded with kernel events (statedump:*)
    #[arg(long)]
    state: bool,

    /// Show only events that are at least as important as LEVEL: err, warning, info, debug_function (DEBUG of tracing),
    /// debug_line (its TRACE), debug, or another of LTTng's; kernel events have no level
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<Level>,

    /// Show each span (of mote-tracing) with the spans and events in it, whatever threads they were on, and each call
    /// of a function with what its thread did meanwhile
    #[arg(long, conflicts_with_all = ["format", "stack", "limit"])]
    tree: bool,

    /// Show only events of these threads
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    tid: Vec<u32>,

    /// Show only events from this TIME on: HH:MM:SS[.fraction] or YYYY-MM-DDTHH:MM:SS[.fraction] (UTC), seconds since
    /// 1970, or +TIME after the first event (ns us ms s m h)
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Option<Moment>,

    /// Show only events until this TIME, included; as --from
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    to: Option<Moment>,

    /// Show the calls of the hardware trace, too (mote record --pt), as events f:NAME
    #[arg(long)]
    pt: bool,

    /// Stop after this many events
    #[arg(short = 'n', long, value_name = "NUMBER")]
    limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputFormat {
    Text,
    Json,
    Csv,
    Folded,
    Null,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TimeKind {
    Absolute,
    Relative,
    Delta,
    Monotonic,
}

/// Prints the events; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let merged = merged::open(&args.dir, args.pt)?;
    let trace = &merged.trace;
    let start = start_if_needed(args, trace);
    let moment =
        |moment: Option<Moment>, default: i64| moment.map_or(default, |moment| moment.resolve(start));
    let range = Range { from: moment(args.from, i64::MIN), to: moment(args.to, i64::MAX) };
    let globs = |patterns: &[String]| patterns.iter().map(|p| Glob::new(p)).collect::<Vec<_>>();
    let selection = Selection::new(trace, &globs(&args.provider), &globs(&args.event), &args.tid);
    let selection = if asks_for_state(args) { selection } else { selection.without_state(trace) };
    let selection = match args.level {
        Some(level) => selection.with_level(trace, level),
        None => selection,
    };
    let style = style(args, start);
    let out = io::stdout();
    match args.format {
        OutputFormat::Text if args.tree => {
            print(args, trace, range, &selection, &mut Tree::new(trace, style, is_in_colour(&out)))
        }
        OutputFormat::Text => {
            let text = Text::new(trace, style, is_in_colour(&out));
            with_stacks(args, trace, |stacks| match stacks {
                Some(stacks) => print(args, trace, range, &selection, &mut Stacked::text(text, stacks)),
                None => print(args, trace, range, &selection, &mut { text }),
            })
        }
        OutputFormat::Json => with_stacks(args, trace, |stacks| {
            let json = Json::new(trace, style);
            match stacks {
                Some(stacks) => print(args, trace, range, &selection, &mut Stacked::json(json, stacks)),
                None => print(args, trace, range, &selection, &mut { json }),
            }
        }),
        OutputFormat::Folded => with_stacks(args, trace, |stacks| match stacks {
            Some(stacks) => print(args, trace, range, &selection, &mut Folded::new(stacks)),
            None => print(args, trace, range, &selection, &mut Null),
        }),
        // A script that names one event wants its fields; what happens to be in a recording must not change the
        // columns.
        OutputFormat::Csv if !args.event.is_empty() && selection.is_one(trace) => {
            print(args, trace, range, &selection, &mut Csv::flat(trace, style))
        }
        OutputFormat::Csv => print(args, trace, range, &selection, &mut Csv::new(trace, style)),
        OutputFormat::Null => print(args, trace, range, &selection, &mut Null),
    }
}

/// Whether the state of the system at the start is to be shown: by the flag, or because a pattern names it.
fn asks_for_state(args: &Args) -> bool {
    args.state || args.provider.iter().chain(&args.event).any(|pattern| pattern.contains(mote_journal::STATE))
}

fn is_in_colour(out: &io::Stdout) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A level by its name, as in filters.
fn level(name: &str) -> Result<Level, String> {
    let mut known = Labels::new(Level::LABELS).iter();
    let number = known.find(|(label, ..)| *label == name.to_ascii_lowercase()).map(|(_, number, _)| number);
    number.and_then(|number| Level::from_number(u8::try_from(number).ok()?)).ok_or_else(|| {
        let names: Vec<&str> = Labels::new(Level::LABELS).iter().map(|(label, ..)| label).collect();
        format!("there is no such level; the levels are {}", names.join(", "))
    })
}

/// Runs `shown` with the recording's stacks if they are asked for, and says afterwards which addresses had no names.
fn with_stacks(
    args: &Args,
    trace: &Trace,
    shown: impl FnOnce(Option<&mut Stacks>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    if !args.stack && !matches!(args.format, OutputFormat::Folded) {
        return shown(None);
    }
    let mut stacks = cmd::stacks(trace, &args.dir, args.symfs.as_deref())?;
    let status = shown(Some(&mut stacks))?;
    stacks.doubts().iter().for_each(|doubt| say!("{doubt}"));
    Ok(status)
}

/// Time of the first event, where something counts from it.
fn start_if_needed(args: &Args, trace: &Trace) -> i64 {
    let relative = |moment: Option<Moment>| moment.is_some_and(|m| !matches!(m, Moment::Absolute(_)));
    let needed = matches!(args.time, TimeKind::Relative) || relative(args.from) || relative(args.to);
    if needed { trace.start().unwrap_or(0) } else { 0 }
}

fn style(args: &Args, start: i64) -> TimeStyle {
    match args.time {
        TimeKind::Absolute if args.date => TimeStyle::Date,
        TimeKind::Absolute => TimeStyle::Absolute,
        TimeKind::Relative => TimeStyle::Relative(start),
        TimeKind::Delta => TimeStyle::Delta,
        TimeKind::Monotonic => TimeStyle::Monotonic,
    }
}

fn print<F: Format>(
    args: &Args,
    trace: &Trace,
    range: Range,
    selection: &Selection,
    format: &mut F,
) -> anyhow::Result<ExitCode> {
    let mut events = trace.events(range);
    let outcome = pump(&mut events, selection, args.limit, format, &mut out::lock())
        .context("cannot write the events to standard output")?;
    let broken = cmd::tell(&[trace.problems(), events.problems()]);
    tell_loss(&outcome, trace);
    if let Some(why) =
        trace.origins().iter().find_map(|origin| origin.facts.as_ref()?.summary.as_ref()?.stopped.clone())
    {
        say!("the recording stopped before its end: {why}");
    }
    if broken {
        return Ok(cmd::FAILED.into());
    }
    if outcome.shown == 0 {
        tell_nothing(args, trace, selection);
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// A trace that lost events says so everywhere that it is shown. The journal may know of more than the packets that
/// were read.
fn tell_loss(outcome: &Outcome, trace: &Trace) {
    let lost = outcome.lost.max(trace.lost());
    if outcome.unknown > 0 || trace.lost_unknown() {
        say!("an unknown number of events were lost while recording; `mote report` says why");
    } else if lost > 0 {
        say!("{} lost while recording; `mote report` says why", counted(lost, "event was", "events were"));
    }
    if outcome.lost_packets > 0 {
        let packets = counted(outcome.lost_packets, "packet is", "packets are");
        say!("{packets} missing: {}", missing_packets(trace.is_of_flight_recorder()));
    }
}

/// Says why there is nothing to see.
fn tell_nothing(args: &Args, trace: &Trace, selection: &Selection) {
    let dir = args.dir.display();
    let given = [
        ("--from", args.from.is_some()),
        ("--to", args.to.is_some()),
        ("--event", !args.event.is_empty()),
        ("--provider", !args.provider.is_empty()),
        ("--level", args.level.is_some()),
        ("--tid", !args.tid.is_empty()),
    ];
    let given: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
    if !asks_for_state(args) && args.event.is_empty() && args.provider.is_empty() && selection.is_hopeless() {
        say!("{dir} holds nothing but the state of the system at the start; --state shows it");
    } else if selection.is_hopeless() {
        say!("no event in {dir} has such a name; `mote report {dir}` lists those that are there");
    } else if trace.streams().is_empty() {
        say!("{dir} has metadata but no stream files: nothing was recorded, or the files are missing");
    } else if given.is_empty() {
        say!("there are no events in {dir}");
    } else {
        say!("no event in {dir} was selected; try without {}", given.join(", "));
    }
}
