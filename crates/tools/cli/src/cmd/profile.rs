//! `mote profile`: where time goes, by samples.

use crate::cmd;
use crate::out::Place;
use crate::own_recording::{self, RecordArgs};
use crate::sampling::{FREQUENCY, stack};
use mote_analysis::run as feed;
use mote_daemon::{Options, ProfileOptions};
use mote_timeline::{Range, Source, Trace};
use mote_view::{Hotspots, Sampled};
use mote_words::COLUMNS;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sample threads, and show in which functions they are
///
/// The kernel interrupts each thread that runs on a CPU some times a second, and notes where it is, with its stack:
/// also of programs without frame pointers, by their .eh_frame. The programs need nothing, and know nothing of it. With
/// -i, the samples of a recording are shown: of one of `mote record --profile`, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote profile -- ./app                    a table of functions, when it has ended
  mote profile -p 4711 --duration 10s      of a running process
  mote profile -a --duration 10s           of the whole system, as root
  mote profile -i trace --graph            what was called, from the outermost functions on
  mote export trace --to svg               a flame graph, of the same recording; --off-cpu
  mote profile --off-cpu -p 4711           where threads wait, and for how long; as root
  mote profile -F 99 --frame-pointers -- ./app
                                           cheaper, for programs that were built with frame pointers

The table has a row for each function: self, the samples in it, and total, those in it or in what it called (once,
where it calls itself). Inlined functions count like others, where there is debug information.

Samples are events profile_sample, with the fields callstack_kernel, callstack_user and complete (the stack was
followed to its begin), in the directory `profile` of the recording; `mote view`, `mote export` and other programs show
them. Where the processor's cycles can be counted they are by these, else by the time on a CPU.

With --off-cpu, the numbers are times: of each moment when a thread leaves its CPU there is an event profile_off_cpu,
when it has one again, with duration and reason (waits, or preempted by others). The kernel's functions say what it
waits for. Both kinds of samples are in the recording.

Rights: users may sample their own processes where sysctl kernel.perf_event_paranoid is 2 or less, the kernel's code
with 1 or less; the whole system with 0 or less, or as root. --off-cpu needs what the kernel's code needs.

JSON: one object. Its keys are stable:
  samples    how many; with --off-cpu the sum of all times
  unit       what numbers are: samples, or ns
  events     how many samples or times there are
  complete   of how many the stack was followed to its begin; null where that is not known
  functions  [{name, module, self, total}]
  tree       [{name, module, total, calls: [...]}], from the outermost functions on
  lost       samples and other events that were lost; null where the number is unknown

Exit status: 0 done, 1 there is no sample, 2 failed, or a part of the recording is damaged (what is readable is
shown).")]
pub(crate) struct Args {
    /// Show this recording
    #[arg(short, long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// Show calls as a tree
    #[arg(short, long, conflicts_with = "format")]
    graph: bool,
    /// Show so many levels of the tree
    #[arg(long, value_name = "NUMBER", requires = "graph", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Show so many functions
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    rows: usize,
    /// A table for people, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Show times without a CPU: where threads waited, and for how long; and record them
    #[arg(long)]
    off_cpu: bool,
    /// Sample the whole system; without a command, until Ctrl-C or --duration
    #[arg(short, long, conflicts_with = "input")]
    all: bool,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    record: RecordArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

/// How threads are sampled.
#[derive(Debug, clap::Args)]
struct HowArgs {
    /// Samples in a second
    #[arg(short = 'F', long, value_name = "NUMBER", default_value_t = FREQUENCY)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000), conflicts_with = "input")]
    frequency: u64,
    /// Bytes of each thread's stack that are copied to follow it
    #[arg(long, value_name = "SIZE", default_value = "8k", value_parser = stack, conflicts_with = "input")]
    stack_size: u32,
    /// Follow stacks by frame pointers instead: programs have to be built with them
    #[arg(long, conflicts_with_all = ["stack_size", "input"])]
    frame_pointers: bool,
}

impl HowArgs {
    fn options(&self, off_cpu: bool, all: bool) -> ProfileOptions {
        let stack = if self.frame_pointers { 0 } else { self.stack_size };
        ProfileOptions { frequency: self.frequency, stack, off_cpu, all, when_asked: false }
    }
}

/// Shows the samples; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(dir) = &args.input else {
        anyhow::ensure!(
            args.all || args.record.has_subject(),
            "what is to be sampled? mote profile -- CMD, -p PID, or -a; -i DIR shows a recording"
        );
        let profile = Some(args.how.options(args.off_cpu, args.all));
        let options = Options { profile, ..args.record.options()? };
        let recorded = own_recording::record(&args.record, &options, "samples")?;
        let shown = shown(args, &recorded.directory, args.record.place())?;
        return Ok(own_recording::status(&recorded).unwrap_or(shown));
    };
    shown(args, dir, Place::Output)
}

fn shown(args: &Args, dir: &Path, place: Place) -> anyhow::Result<ExitCode> {
    let trace = Trace::open(dir)?;
    let mut stacks = cmd::stacks(&trace, dir, None)?;
    let mut events = trace.events(Range::ALL);
    let sampled = Sampled::new(&mut stacks);
    let sampled = if args.off_cpu { sampled.of_off_cpu() } else { sampled };
    let hotspots: Hotspots = feed(&mut events, sampled);
    let width = place.width().unwrap_or(COLUMNS);
    let depth = cmd::levels(args.depth);
    let page = match args.format {
        Format::Json => {
            let mut all = serde_json::to_value(&hotspots)?;
            all["lost"] = (!trace.lost_unknown()).then(|| trace.lost()).into();
            serde_json::to_string_pretty(&all)? + "\n"
        }
        Format::Table if args.graph => hotspots.tree(depth, width),
        Format::Table => hotspots.table(args.rows, width),
    };
    place.print(&page)?;
    stacks.doubts().iter().for_each(|doubt| say!("{doubt}"));
    if trace.lost_unknown() || trace.lost() > 0 {
        say!("samples or events were lost while recording; `mote report` says why");
    }
    if cmd::tell(&[trace.problems(), Source::problems(&events)]) {
        return Ok(cmd::FAILED.into());
    }
    if hotspots.samples == 0 {
        let what = if args.off_cpu { "was without a CPU" } else { "ran on a CPU" };
        say!("{} has no sample: nothing of what was sampled {what} meanwhile", dir.display());
        return Ok(cmd::NOTHING.into());
    }
    Ok(ExitCode::SUCCESS)
}
