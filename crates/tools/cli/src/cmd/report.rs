//! `mote report`: sums up a recording.

use crate::{cmd, out};
use clap::ValueEnum;
use mote_analysis::{Report, Summary};
use mote_filter::Aggregate;
use mote_timeline::{Range, Trace};
use mote_view::TopStacks;
use mote_words::COLUMNS;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sum up a recording: counts, rates, system calls, threads on the CPUs, times between events, losses
///
/// Reads all of it once; the same recordings as `mote view`. The provider of kernel events is their family.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote report trace
  mote report trace --stack
  mote report trace --format json | jq '.kinds[] | select(.rate > 1000) | .name'
  mote report trace --format json | jq .lost.events
  mote report trace --format json | jq '.syscalls[] | select(.failed > 0) | {name, errors}'
  mote report trace --format json | jq '.thread_syscalls[] | {name, tid, calls}'

The times of an event (min, mean, p50, p90, p99, max) are those between successive events of its kind in the same
thread. min, mean and max are exact, the others at most 1.6 % off. The table fits the terminal (or COLUMNS): a narrow
one gets fewer of the columns.

JSON: one object. Its keys are stable; times are nanoseconds, rates events in a second:
  start_ns, end_ns   first and last event, since 1970
  duration_ns, events, rate, traces, streams
  command            the recorded command
  complete           false: the recording was cut short
  incomplete         why it is not complete, in words
  lost               {events, packets, flight_recorder, texts, causes: [{cause, events, advice}],
                     gaps: [{stream, since_ns, until_ns, exact, events, causes}], more_gaps}
                     events: null where the number is unknown; packets: missing ones;
                     flight_recorder: true: it overwrote them; texts: empty in their events;
                     exact: since_ns and until_ns are the times of the events before and after
  providers          [{name, events}]
  kinds              [{name, events, rate, interval_ns}], a DURATION or null:
                     {samples, min, mean, p50, p90, p99, max}
  threads            [{name, tid, pid, events}]
  cpus               [{cpu, events}]
  processes          [{pid, parent, name, exe}]
  syscalls           [{name, calls, failed, errors: [{error, count}], total_ns,
                     duration_ns: DURATION or null}]
  thread_syscalls    [{name, tid, pid, calls, failed, total_ns,
                     syscalls: [{name, calls, failed, total_ns, timed, max_ns}]}]
  scheduling         [{name, tid, running_ns, switches, preemptions,
                     queued_ns: DURATION or null}]
  spans              [{name, count, duration_ns, busy_ns: DURATION or null, total_ns,
                     total_busy_ns, total_idle_ns, total_self_ns, open, began_before}]
                     of mote-tracing: busy while a thread is in it, self: and in no span inside;
                     open at the end, began_before the recording: not in the times
  spans_not_followed spans that are not counted, because more than a million were open
  functions          [{name, calls, total_ns, total_self_ns, duration_ns: DURATION}]
                     of mote functions; total: without calls inside of others of the same function;
                     self: without the calls inside
  function_estimates calls of which total and self are estimates
  open_syscalls      [{name, tid, since_ns, open_ns}], which had not returned at the end
  clock_offset       {offset_ns, error_ns}: kernel events' clock less that of programs' events
  problems           what is wrong with the recording, in words
  aggregates         what filters have counted, if they were asked to
What is not known is null.

Exit status: 0 done, 1 there are no events, 2 failed, or a part of the recording is damaged.")]
pub(crate) struct Args {
    /// Directory of the recording, or a tree of CTF traces
    dir: PathBuf,

    /// Show the most frequent stacks of each kind of event instead (recorded with --stack)
    #[arg(long, conflicts_with = "format")]
    stack: bool,

    /// Look for binaries and their symbols below DIR
    #[arg(long, value_name = "DIR", requires = "stack")]
    symfs: Option<PathBuf>,

    /// A table for people, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: OutputFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputFormat {
    Table,
    Json,
}

/// Most rows that are shown of what filters have counted; JSON has all.
const AGGREGATE_ROWS: usize = 40;

/// Prints the report; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let trace = Trace::open(&args.dir)?;
    if args.stack {
        return stacks(args, &trace);
    }
    let mut events = trace.events(Range::ALL);
    let mut report = mote_analysis::run(&mut events, Summary::new(&trace));
    report.add_problems(events.problems());
    let counted = cmd::aggregates(&args.dir);
    print(args, &report, &counted)?;
    if cmd::tell(&[trace.problems(), events.problems()]) {
        return Ok(cmd::FAILED.into());
    }
    if report.events == 0 && counted.as_array().is_none_or(Vec::is_empty) {
        say!("there are no events in {}", args.dir.display());
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the most frequent stacks.
fn stacks(args: &Args, trace: &Trace) -> anyhow::Result<ExitCode> {
    let mut stacks = cmd::stacks(trace, &args.dir, args.symfs.as_deref())?;
    let mut events = trace.events(Range::ALL);
    let page = mote_analysis::run(
        &mut events,
        TopStacks::new(trace, &mut stacks, out::width().unwrap_or(usize::MAX)),
    );
    out::print(&page)?;
    stacks.doubts().iter().for_each(|doubt| say!("{doubt}"));
    if cmd::tell(&[trace.problems(), events.problems()]) {
        return Ok(cmd::FAILED.into());
    }
    if page.is_empty() {
        say!("no event in {} has a stack; record with --stack", args.dir.display());
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// What filters have counted, as tables; each behind an empty line.
fn aggregates(dir: &Path, counted: &Value, width: usize) -> String {
    let list = counted.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(list) = list.iter().map(Aggregate::of_json).collect::<Option<Vec<_>>>() else {
        // Another version has written them: as it has shown them.
        let [file, _] = mote_journal::AGGREGATES;
        let text = std::fs::read_to_string(dir.join(mote_journal::DIRECTORY).join(file));
        return format!("\n{}", text.unwrap_or_default());
    };
    let shown = list.iter().filter(|aggregate| !aggregate.is_empty());
    shown.map(|aggregate| format!("\n{}", aggregate.text(width, AGGREGATE_ROWS))).collect()
}

fn print(args: &Args, report: &Report, counted: &Value) -> anyhow::Result<()> {
    let mut page = match args.format {
        OutputFormat::Table => {
            let width = out::width().unwrap_or(COLUMNS);
            let page = mote_view::table(&args.dir.display().to_string(), report, width);
            page + &aggregates(&args.dir, counted, width)
        }
        OutputFormat::Json => {
            let mut json = serde_json::to_value(report)?;
            if !counted.is_null() {
                json["aggregates"] = counted.clone();
            }
            serde_json::to_string_pretty(&json)?
        }
    };
    if !page.ends_with('\n') {
        page.push('\n');
    }
    out::print(&page)
}
