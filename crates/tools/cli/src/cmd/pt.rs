//! `mote pt`: Intel Processor Trace.

mod calls;
mod check;
mod delta;
mod diff;
mod differences;
mod dump;
mod export;
mod filter;
mod flow;
mod gather;
mod impact;
mod lines;
pub(crate) mod merged;
mod output;
mod record;
mod shown;
mod slices;
mod stats;
mod streams;
mod synth;
mod syscalls;
mod times;
mod vm;

use clap::Subcommand;
use std::process::ExitCode;

/// Look at what a processor has executed, branch by branch (Intel PT)
///
/// A processor with Intel PT writes down each branch; what was executed follows from that and the code. `record` keeps
/// that; `synth` makes the same packets on machines without it, with what was really executed beside them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt record -o cap -- ./app      run a program, and record what the CPU writes
  mote pt synth -o cap -- ./app       the same without such a CPU: what it would have written
  mote pt calls cap                   its functions: calls, instructions
  mote pt calls cap --graph | less    the tree of calls
  mote pt flow cap --function main    the instructions of a function, as they were executed
  mote pt lines cap                   how much of each source file was executed
  mote pt dump cap                    the packets
  mote pt check cap                   how much was decoded, each gap with its cause
  mote pt stats cap                   bytes by kind of packet, how fine times are
  mote pt calls perf.data             of perf record -e intel_pt//u; each verb reads these
  mote pt export --perf cap           a file that perf decodes
  mote pt vm cap                      virtual machines, from packets alone
  mote pt delta cap cli sti           instructions and time between two instructions
  mote pt syscalls cap                what the kernel does in system calls
  mote pt diff before after           what one executes, and the other does not
  mote pt impact -- ./app             what tracers add to a program, in instructions for each event
  mote record --pt -o trace -- ./app  beside events, in one recording
  mote pt flow trace                  of that: each verb opens a recording that has a hardware trace

Exit status: 0 done, 1 nothing found, 2 failed, or a part could not be followed.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(record::Args),
    Synth(synth::Args),
    Dump(dump::Args),
    Flow(flow::Args),
    Calls(calls::Args),
    Lines(lines::Args),
    Check(check::Args),
    Stats(stats::Args),
    Export(export::Args),
    Vm(vm::Args),
    Delta(delta::Args),
    Syscalls(syscalls::Args),
    Diff(diff::Args),
    Impact(impact::Args),
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.verb {
        Verb::Record(args) => record::run(args),
        Verb::Synth(args) => synth::run(args),
        Verb::Dump(args) => dump::run(args),
        Verb::Flow(args) => flow::run(args),
        Verb::Calls(args) => calls::run(args),
        Verb::Lines(args) => lines::run(args),
        Verb::Check(args) => check::run(args),
        Verb::Stats(args) => stats::run(args),
        Verb::Export(args) => export::run(args),
        Verb::Vm(args) => vm::run(args),
        Verb::Delta(args) => delta::run(args),
        Verb::Syscalls(args) => syscalls::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Impact(args) => impact::run(args),
    }
}
