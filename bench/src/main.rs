//! `mote-bench`: what mote costs, and that it holds.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "assembly")]
mod arch;
mod calls;
mod figures;
#[allow(unsafe_code, reason = "it shares the cores of the tests of `mote-rcu`, `mote-ring` and `mote-patch`")]
mod torture;

use clap::Parser;
use figures::Effort;
use std::process::ExitCode;

/// Measure mote, beside the floor and beside its peers
///
/// Every figure is the median of at least five repetitions, with its spread: half the distance of the quartiles.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Benchmarks:
  event_cost   an event recorded by a flight recorder, and one that is off (ns; LTTng-UST beside it)
  disk         ten million events at full speed to disk: loss, and slowdown of the program
  view         reading a recording: text, and decoding alone (events/s; babeltrace2 beside it)
  startup      time added before main (ms)
  size         text and data added to a program (KiB)
  filter       an event that is filtered, a filter alone, building one (ns; hand-written Rust and LTTng-UST beside it)
  kernel       what events of the kernel add to a system call, and to a server; memory shared with the kernel
               (ns; ftrace, perf, bpftrace, strace beside it)
  kernel_calls of these, only what is added to a system call; programs that do nothing beside it
  kernel_programs
               what each kind of program that mote makes adds to a system call, without a recorder
  functions    probes in functions of programs that know nothing of mote: what a call costs, which functions can have
               one, and what real programs do with all of them (ns, %, x; uftrace beside it)
  fperf        sampling calls within 5 % of the time: what a program loses that calls 10^8 functions a second, and of
               which functions of another one there are samples (x, %)
  servers      redis, PostgreSQL, nginx: slowdown by looking for slow calls, and by recording all system calls and the
               scheduler (x; bpftrace, strace, ftrace, perf beside it); time on CPUs that samples with stacks cost,
               server and recorder (s for a million requests; perf beside it)
  redis        of these, redis only
  rcu          reading, grace periods, updates (ns, 1/s; liburcu, locks, epochs beside it);
               MOTE_BENCH_PLOTS=DIRECTORY draws its series there as SVG
  pt           reading packets of Intel Processor Trace (bytes/s; libipt beside it)
  pt_analyses  what is asked of packets of Intel Processor Trace: virtual machines (bytes/s)
  jit          copying code that programs make when it becomes executable: a page, whole programs (us, x)
  torture rcu  readers and updaters that are interrupted, moved, forked and die; exit status 1 on any violation
  torture ring writers that are interrupted, moved, stopped and killed; exit status 1 on any violation
  torture patch sites that are armed and disarmed under running threads; exit status 1 on any violation
  torture functions
               functions that are switched on and off under threads, exceptions and signals, and counts that have to be
               exact; exit status 1 on any violation

Examples:
  mote-bench event_cost
  mote-bench disk --quick --json
  mote-bench torture ring --seconds 600

Build everything that is measured: cargo build --release -p mote-bench; cargo build --profile library -p mote-capi"
)]
struct Args {
    /// Name of the benchmark, and what it is told
    #[arg(required = true, value_name = "NAME")]
    name: Vec<String>,
    /// Print one line of JSON for each figure
    #[arg(long)]
    json: bool,
    /// End within 20 seconds
    #[arg(long)]
    quick: bool,
    /// How long a torture lasts (60; 16 with --quick)
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(status) => status,
        Err(why) => {
            eprintln!("mote-bench: {why:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    match args.name.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["work", ..] => figures::work::run(&args.name[1..])?,
        ["torture", what] => return torture::run(what, effort, args.seconds, args.json),
        [name] => figures::run(name, effort, args.json)?,
        _ => anyhow::bail!("'{}' is no benchmark; see --help", args.name.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}
