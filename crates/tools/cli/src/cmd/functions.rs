//! `mote functions`: calls of functions as a table, as trees, as histograms.

mod choice;
mod counts;
mod show;

use crate::cmd::pt::merged;
use crate::out::Place;
use crate::own_recording::{self, RecordArgs};
use crate::{cmd, rules, units};
use choice::ChoiceArgs;
use clap::ValueEnum;
use mote_analysis::{Calls, run as feed};
use mote_daemon::Options;
use mote_daemon::options::{CallsAre, Counting, cpus};
use mote_functions::{DECLARED, Pattern, Values};
use mote_timeline::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Record and show calls of functions: how many, how long, and what was in them
///
/// Probes are put into the functions of a command, or of a running process, that match PATTERN; the program needs no
/// mote, no source and no new build, and is as it was when the recording has ended. Each call is an event f:NAME with
/// its `duration`, recorded when it returns. With -i, the calls of a recording are shown: of one of `mote record -f`,
/// too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote functions 'http_*' 'db::*' -p 4711       of a running process, until Ctrl-C
  mote functions 'parse_*' --min 1ms -- ./app   of a command; short calls are dropped in the process
  mote functions 'libc.so.6:malloc' -- ./app    of one library
  mote functions '@src/db.c' -- ./app           of one source file
  mote functions --probes app.probes 'db::*' -p 4711   of a stripped program (mote coldpatch)
  mote functions -a 'db::*' --graph -- ./app    with arguments and results, by the debug information
  mote functions 'open(path: str, flags: x32) -> i32' --graph -- ./app
                                                without debug information
  mote functions --count 'db::*' -p 4711        how often they are called
  mote functions --count --under-way --interval 1s '*' -p 4711
                                                each second; and how many are under way
  mote functions -i trace                       all functions, the most time first
  mote functions -i trace 'http_*' --sort self  some of them, as if no others had been recorded
  mote functions -i trace --graph --min 1ms     each call that took at least 1 ms, with those in it
  mote functions -i trace --graph --under handle_request --depth 3
  mote functions 'db::*' --under handle_request -p 4711
                                                only calls below one of handle_request
  mote functions -i trace --hist duration       how long each took, as a histogram
  mote functions -i trace --pt                  of the hardware trace, too (mote record --pt)
  mote functions -i trace --format json | jq '.functions[] | {name, calls, total_ns}'

The table has a row for each function: its calls, the time that all of them took (total; without calls that were inside
of another call of the same function), the part of it that was in no other recorded function (self), and how long one
call took. min, mean and max are exact, the others at most 1.6 % off.

A call is inside of another one of the same thread when it began later and returned earlier. What was not recorded is
missing: what it called is shown as called by the next caller that was, and its time is that caller's own. Calls that
had not returned when the recording ended, and those that had begun before, are not there.

--count records nothing: the process counts, which takes a nanosecond or two for a call, and nothing is lost to threads,
signals, fork or the end of the process. A jump back to a function's first instruction counts as a call. --under-way
counts returns, too, for some 6 ns: a call that an exception or longjmp has ended is noticed at the thread's next call
from the same place or above. The recording has the counts as a table, which `mote report` shows, too.

A line of --graph: when it began (UTC), the thread, the function, how long it took, its arguments; below it with the
time from there on what it called. Trees are printed at the end of the recording, as callers are known by then, or
when 256 MiB are full.

PATTERN: the name of a function with * (any text) and ? (any character), with parameters and generic arguments or
without; FILE:NAME, of one program or library; @SOURCE, of one source file. Behind it may stand how large they are, in
bytes of code: 'db::*{>=256}', '*{<64}'.

Behind it may also stand which arguments and results the events are to have as fields: (..), those of the debug information,
or a list, with names and types (i8 to i64, u8 to u64, x8 to x64, f32, f64, bool, ptr, str; _ is an argument that is
not wanted): 'open(path: str, flags: x32) -> i32'. The result is the field `retval`; `end` is `unwound` where an
exception has ended the call. Texts are up to 200 characters. Of structures, and of what pointers lead to, there are
the first members: of `r`, `r_id`.

What cannot have a probe is counted and said with its reason: functions that return in ways of their own (setjmp,
vfork), and those with too little room at their begin. Programs need glibc 2.34 or newer; of static ones, and of those
with another C library, calls can be counted only (--count without --under-way). Go programs are refused.

JSON: one object. Its keys are stable; times are nanoseconds:
  functions  [{name, calls, total_ns, total_self_ns,
              duration_ns: {samples, min, mean, p50, p90, p99, max}}]
  with --count only name and calls; with --under-way also under_way
  estimates  calls of which total and self are estimates
  histogram  with --hist: as in aggregates of `mote report`
  lost       events that were lost; null where the number is unknown

Exit status: 0 done, 1 there is no such call, 2 failed, or a part of the recording is damaged (what is readable is
shown).")]
pub(crate) struct Args {
    /// Record these functions; with -i show only these, as if no others had been recorded
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Record arguments and results, too: of each PATTERN that does not say which
    #[arg(short, long, conflicts_with = "input")]
    arguments: bool,
    /// Names for functions of a stripped binary: its list, which `mote coldpatch` has written; one that lies beside the
    /// binary (BINARY.probes) is taken by itself
    #[arg(long = "probes", value_name = "LIST", conflicts_with = "input")]
    probe_lists: Vec<PathBuf>,
    /// Show this recording
    #[arg(short, long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Show the calls of the recording's hardware trace, too (mote record --pt)
    #[arg(long, requires = "input")]
    pt: bool,
    /// Show calls as trees
    #[arg(short, long, conflicts_with_all = ["count", "hist", "sort", "format"])]
    graph: bool,
    /// Show so many levels of a tree
    #[arg(long, value_name = "NUMBER", requires = "graph", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Show how many calls there were, and no times: they are counted in the process, and not recorded (with --min
    /// or -a they are)
    #[arg(short, long, conflicts_with = "hist")]
    count: bool,
    /// With --count: how many calls are under way, too
    #[arg(long, requires = "count", conflicts_with_all = ["input", "min", "arguments"])]
    under_way: bool,
    /// With --count: show the counts so far as often as this TIME
    #[arg(long, value_name = "TIME", value_parser = units::time, requires = "count")]
    #[arg(conflicts_with_all = ["input", "min", "arguments"])]
    interval: Option<u64>,
    /// Show a histogram for each function: of the durations of its calls
    #[arg(long, value_name = "FIELD")]
    hist: Option<Field>,
    /// Order of the functions: by the largest number, or by name [default: total, with --count calls]
    #[arg(long, value_name = "COLUMN")]
    sort: Option<show::Sort>,
    #[command(flatten)]
    choice: ChoiceArgs,
    /// A table for people, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    #[command(flatten)]
    record: RecordArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// What there can be a histogram of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Field {
    Duration,
}

impl Args {
    /// Whether counts are all that is asked for: of calls that are chosen already, or of all.
    fn shows_counts(&self, is_chosen: bool) -> bool {
        let is_all = self.choice.min().is_none() && (is_chosen || self.choice.under().is_empty());
        !self.graph && self.hist.is_none() && is_all
    }

    /// What becomes of calls that are recorded by this.
    fn calls(&self) -> CallsAre {
        if self.count && !self.arguments && self.choice.min().is_none() {
            CallsAre::Counted(Counting { returns: self.under_way, cpus: cpus() })
        } else {
            CallsAre::Recorded
        }
    }
}

/// Shows the calls; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.input {
        // Which functions are recorded was said by the patterns already.
        None => {
            let patterns = with_values(args)?;
            anyhow::ensure!(
                !patterns.is_empty() && args.record.has_subject(),
                "which functions, and of what? mote functions 'parse_*' -- CMD, or -p PID; -i DIR shows a recording"
            );
            let under = args.choice.under().to_vec();
            let all = [&patterns[..], &under].concat();
            let rules = rules::of_functions(&all, args.choice.min()).map_err(anyhow::Error::msg)?;
            let probe_lists = args.probe_lists.clone();
            let (calls, interval) = (args.calls(), args.interval.map(Duration::from_nanos));
            let options = args.record.options()?;
            let options =
                Options { rules, functions: patterns, under, probe_lists, calls, interval, ..options };
            let recorded = own_recording::record(&args.record, &options, "functions")?;
            let shown = shown(args, &recorded.directory, None, args.record.place())?;
            Ok(own_recording::status(&recorded).unwrap_or(shown))
        }
        Some(dir) => shown(args, dir, Some(&args.patterns), Place::Output),
    }
}

/// The patterns, with the values that are wanted.
fn with_values(args: &Args) -> anyhow::Result<Vec<String>> {
    let with_values = |text: &String| {
        let pattern = Pattern::new(text).map_err(anyhow::Error::msg)?;
        Ok(match pattern.values {
            Values::Nothing if args.arguments => format!("{text}{DECLARED}"),
            _ => text.clone(),
        })
    };
    args.patterns.iter().map(with_values).collect()
}

/// Shows those of a recording that fit one of the patterns, or all, below the callers that are asked for; without
/// patterns the recording has nothing else.
fn shown(args: &Args, dir: &Path, patterns: Option<&[String]>, place: Place) -> anyhow::Result<ExitCode> {
    let merged = merged::open(dir, args.pt)?;
    let trace = &merged.trace;
    let is_chosen = patterns.is_none();
    let patterns = patterns.unwrap_or_default();
    let counted = counts::of(dir);
    if !counted.is_empty() && args.shows_counts(is_chosen) {
        let chosen = choice::of_counted(counted, patterns)?;
        let found = !chosen.is_empty();
        counts::show(args, chosen, place)?;
        return Ok(if found { ExitCode::SUCCESS } else { cmd::NOTHING.into() });
    }
    let choice = args.choice.of(trace, patterns, is_chosen)?;
    let mut events = trace.events(Range::ALL);
    let found = if args.graph {
        let depth = cmd::levels(args.depth);
        show::graph(trace, &mut events, choice, depth, place)?
    } else {
        let sums = feed(&mut events, Calls::new(trace).with_choice(choice));
        show::sums(args, trace, sums, place)?
    };
    show::tell_loss(trace);
    if cmd::tell(&[trace.problems(), mote_timeline::Source::problems(&events)]) {
        return Ok(cmd::FAILED.into());
    }
    if !found {
        say!("{}", args.choice.nothing(trace, dir, patterns));
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}
