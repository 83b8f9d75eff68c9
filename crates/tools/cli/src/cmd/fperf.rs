//! `mote fperf`: what calls of functions cost.

use crate::cmd;
use crate::out::Place;
use crate::own_recording::{self, RecordArgs};
use crate::rules;
use crate::sampling::{budget, sampling};
use mote_analysis::{CostSums, Costs, run as feed};
use mote_daemon::options::CallsAre;
use mote_daemon::{Options, Rule};
use mote_timeline::{Range, Source, Trace};
use mote_view::{CostPaths, CostTable};
use mote_words::COLUMNS;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sample calls of functions, and show what each costs
///
/// The hardware events, page faults, switches and time of single calls, with and without what they called. Probes are
/// put into the functions of a command, or of a running process; those that are called often have theirs for moments
/// only, so that all of it takes no more than --budget of the time that the program runs. With -i, the samples of a
/// recording are shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote fperf -- ./app                           all functions of a program and its libraries
  mote fperf -F 'db::*' --budget 2% -p 4711     of a running process, until Ctrl-C
  mote fperf -e instructions,LLC-load-misses -- ./app
  mote fperf -i trace --own                     without what each function called
  mote fperf -i trace --graph=instructions      what was called from where
  mote fperf -i trace --flame instructions > flames.svg
  mote fperf -i trace --format json | jq '.functions[] | {name, calls, self}'

The table has a row for each function: its calls (~ where that is an estimate, as not all were recorded), the time that
all of them took (total), the part of it without what they called (self); and of a call how long it took and what was
counted. IPC are instructions in a cycle; NAME/1k are misses in a thousand instructions.

EVENTS: names as of perf-list(1), rNNNN, UNIT/EVENT/ and UNIT/NAME=NUMBER,.../; at most 8. By themselves cycles,
instructions, cache-misses and branch-misses, where the processor counts them; else task-clock, page-faults,
context-switches and migrations. Hardware events are read in the process by RDPMC, where the kernel allows it.

A function has 16 calls recorded at a time. Then its probe is taken away, and comes back when its turn comes and the
budget has room; functions that are called seldom have theirs always. How often a function was called without its probe
is estimated by how often it was with it. What it called is known by the return addresses of that. Time includes that of
probes in what was called.

JSON: one object. Its keys are stable; times are nanoseconds:
  counters   names of what was counted
  functions  [{name, samples, calls, is_estimate, not_counted,
               total: {ns, counts}, self: {ns, counts},
               callers: [{name, calls, total: {ns, counts}}]}]
  ran_ns, took_ns  how long the program ran, and what of that samples took
  lost       events that were lost; null where the number is unknown

Exit status: 0 done, 1 there is no sample, 2 failed, or a part of the recording is damaged (what is readable is
shown).")]
pub(crate) struct Args {
    /// Show this recording
    #[arg(short, long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Sample these functions, as of `mote functions`; repeat for more [default: all]
    #[arg(short = 'F', long = "functions", value_name = "PATTERN", conflicts_with = "input")]
    patterns: Vec<String>,
    /// Names for functions of a stripped binary: its list, which `mote coldpatch` has written; one that lies beside the
    /// binary (BINARY.probes) is taken by itself
    #[arg(long = "probes", value_name = "LIST", conflicts_with = "input")]
    probe_lists: Vec<PathBuf>,
    /// Count these events during each call, separated by commas
    #[arg(short, long, value_name = "EVENTS", conflicts_with = "input")]
    events: Option<String>,
    /// Take no more than this part of the time that the program runs; `none` records every call
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = budget, conflicts_with = "input")]
    budget: u64,
    /// Show what a call cost without what it called
    #[arg(long)]
    own: bool,
    /// Show so many functions
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    rows: usize,
    /// Show a tree of what was called from where, by this event [default: time]
    #[arg(short, long, value_name = "EVENT", num_args = 0..=1, require_equals = true, default_missing_value = "time")]
    #[arg(conflicts_with_all = ["own", "format", "flame"])]
    graph: Option<String>,
    /// Show so many levels of the tree
    #[arg(long, value_name = "NUMBER", requires = "graph", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Write a flame graph (SVG) of this event, or of `time`
    #[arg(long, value_name = "EVENT", requires = "input", conflicts_with_all = ["own", "format"])]
    flame: Option<String>,
    /// A table for people, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    #[command(flatten)]
    record: RecordArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

/// All functions.
const ALL: &str = "*";
/// What tells of samples besides themselves.
const FACTS: &str = "fperf:*";

/// Shows what calls cost; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(dir) = &args.input else {
        anyhow::ensure!(
            args.record.has_subject(),
            "what is to be sampled? mote fperf -- CMD, or -p PID; -i DIR shows a recording"
        );
        let all = [ALL.to_owned()];
        let patterns = if args.patterns.is_empty() { &all[..] } else { &args.patterns };
        let mut rules = rules::of_functions(patterns, None).map_err(anyhow::Error::msg)?;
        rules.push(Rule::record(FACTS));
        let calls = CallsAre::Sampled(sampling(args.events.as_deref(), args.budget)?);
        let (functions, probe_lists) = (patterns.to_vec(), args.probe_lists.clone());
        let options = Options { rules, functions, probe_lists, calls, ..args.record.options()? };
        let recorded = own_recording::record(&args.record, &options, "samples of functions")?;
        let shown = shown(args, &recorded.directory, args.record.place())?;
        return Ok(own_recording::status(&recorded).unwrap_or(shown));
    };
    shown(args, dir, Place::Output)
}

fn shown(args: &Args, dir: &Path, place: Place) -> anyhow::Result<ExitCode> {
    let trace = Trace::open(dir)?;
    let mut stacks = cmd::stacks(&trace, dir, None)?;
    let mut events = trace.events(Range::ALL);
    let costs: CostSums =
        feed(&mut events, Costs::new(&trace, |record, address| stacks.function_at(record, address)));
    let width = place.width().unwrap_or(COLUMNS);
    let depth = cmd::levels(args.depth);
    let page = match (args.format, &args.flame) {
        (_, Some(event)) => {
            let title = format!("{event} of calls in {}", dir.display());
            CostPaths::new(&costs, event).map_err(anyhow::Error::msg)?.svg(&title)
        }
        (Format::Json, _) => {
            let mut all = serde_json::to_value(&costs)?;
            all["lost"] = (!trace.lost_unknown()).then(|| trace.lost()).into();
            serde_json::to_string_pretty(&all)? + "\n"
        }
        (Format::Table, _) if args.graph.is_some() => {
            let event = args.graph.as_deref().unwrap_or_default();
            CostPaths::new(&costs, event).map_err(anyhow::Error::msg)?.tree(depth, width)
        }
        (Format::Table, _) => CostTable { costs: &costs, rows: args.rows, is_own: args.own }.text(width),
    };
    place.print(&page)?;
    if trace.lost_unknown() || trace.lost() > 0 {
        say!("samples or events were lost while recording; `mote report` says why");
    }
    if cmd::tell(&[trace.problems(), Source::problems(&events)]) {
        return Ok(cmd::FAILED.into());
    }
    if costs.functions.is_empty() {
        say!("{} has no sample: none of the functions was called meanwhile", dir.display());
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}
