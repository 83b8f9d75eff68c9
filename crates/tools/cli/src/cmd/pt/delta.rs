//! `mote pt delta`: instructions and time between two patterns of instructions.

mod found;
mod json;
mod page;
mod text;

use super::shown::{self, Format};
use super::streams::Threads;
use super::times::Times;
use crate::{cmd, out};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use found::Found;
use mote_capture::{Capture, Code, Stream, follow_timed};
use mote_hardware::Running;
use mote_hardware::delta::{Answer, By, Case, Delta, Names, Pattern, Question};
use mote_hardware::paths::{Named, Stacks};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show how many instructions and how much time lie between two patterns of instructions
///
/// Patterns are of decoded instructions: by mnemonic, operand, function, or a sequence of them. An interval goes from
/// where FROM ends to where TO is. Without TO: how often FROM was, and how long.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt delta cap superCLI superSTI          how long interrupts were disabled
  mote pt delta cap cli sti --by instructions --worst 20
  mote pt delta cap '@malloc' '@free'          from one function's begin to another's
  mote pt delta cap rdtsc rdtsc                from each to the next
  mote pt delta cap 'lock:*'                   how often, and where
  mote pt delta cap cpu_relax                  runs of pause, and how long they are
  mote pt delta cap 'mov(cr3,*)' 'sysretq | iretq' --html delta.html

Patterns:
  cli   j*   *               by mnemonic (* any text, ? any character)
  mov(cr3,*)   call(malloc)  by operands, as Intel writes them; of a call or jump also the function
  lock:xadd   rep:*          by prefix
  x87   simd                 with registers of the FPU, of MMX, SSE, AVX
  cli@native_*   @main       in a function; the first instruction of a function
  sti/popf                   one instruction that is the one or the other
  popf{if}                   unless it is known to restore that interrupts are disabled
  pushf cli                  directly one behind the other
  pushf ...8 cli             with at most 8 others between (...: 16)
  pause+                     a run of them, at most 16 others between (+4: 4)
  sti | pushf ... sti        one sequence or the other
  superCLI                   a name: --names lists all; those of a file are lines NAME = PATTERN

Times have bounds, at least..at most; where no packet tells one, it is absent. Medians and 99 % are up to 1.6 % off.

Exit status: 0 done, 1 no interval was found, 2 failed.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// Where intervals begin
    #[arg(value_name = "FROM", required_unless_present = "names")]
    from: Option<String>,

    /// Where they end
    #[arg(value_name = "TO")]
    to: Option<String>,

    /// Names of patterns of one's own
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,

    /// List the names of patterns instead
    #[arg(long)]
    names: bool,

    /// If FROM comes again before TO, begin anew from there; otherwise the first one counts
    #[arg(long)]
    restart: bool,

    /// By what intervals are the worst
    #[arg(long, value_name = "WHAT", default_value = "time")]
    by: Worst,

    /// Show so many of the worst, with their stacks of calls
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    worst: usize,

    /// Write a page with pictures into FILE, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// What to print: for people, or JSON objects
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Most of the worst that are kept.
const WORST_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Worst {
    /// That took most time for certain.
    Time,
    /// That had most instructions.
    Instructions,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let names = names(args.patterns.as_deref())?;
    let Some(from) = args.from.as_ref().filter(|_| !args.names) else {
        let line = |(name, pattern): (&str, &str)| format!("{name:<16} {pattern}\n");
        out::print(&names.all().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    };
    let question = Question {
        from: Pattern::parse(from, &names)?,
        to: args.to.as_ref().map(|to| Pattern::parse(to, &names)).transpose()?,
        restarts: args.restart,
    };
    let found = find(args, question)?;
    for sentence in found.answer.missing(&found.question) {
        say!("{sentence}");
    }
    out::print(&match args.format {
        Format::Text => text::page(&found),
        Format::Json => json::objects(&found).iter().map(|object| format!("{object}\n")).collect(),
    })?;
    if let Some(path) = &args.html {
        super::output::page(path, &page::page(&found))?;
    }
    let is_nothing = found.answer.profile.all.instructions.count() == 0;
    Ok(if is_nothing { cmd::NOTHING.into() } else { ExitCode::SUCCESS })
}

fn names(path: Option<&Path>) -> anyhow::Result<Names> {
    let Some(path) = path else { return Ok(Names::default()) };
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Names::parse(&text).with_context(|| format!("patterns in {}", path.display()))
}

/// Reads all streams; those that have the worst a second time, up to these, for their stacks.
fn find(args: &Args, question: Question) -> anyhow::Result<Found<'_>> {
    let by = match args.by {
        Worst::Time => By::Time,
        Worst::Instructions => By::Instructions,
    };
    let mut answer = Answer::new(by, args.worst.min(WORST_MAX));
    let capture = args.input.with_streams(|capture, stream, code| {
        let running = Running::of(capture.notes(), stream.of);
        let are_known = Times::new(capture.processor()).are_known;
        let clock = capture.processor().nanoseconds().filter(|_| are_known);
        let mut delta = Delta::new(&question, code, (stream.of, running), clock, std::mem::take(&mut answer));
        follow_timed(&stream.bytes, code, &capture.clocks(stream), &mut delta, |_| true)?;
        answer = delta.finish();
        Ok(())
    })?;
    ensure!(capture.streams().next().is_some(), "the capture has no packets");
    let mut stacks = vec![Vec::new(); answer.profile.worst.len()];
    args.input.streams_of(&capture, |stream, code| {
        let is_here =
            |(at, case): (usize, &Case)| (case.who.of == stream.of).then_some((at, case.from.number));
        let here: Vec<(usize, u64)> = answer.profile.worst.iter().enumerate().filter_map(is_here).collect();
        for (number, stack) in
            stacks_at(&capture, stream, code, here.iter().map(|(_, number)| *number).collect())?
        {
            here.iter()
                .filter(|(_, wanted)| *wanted == number)
                .for_each(|(at, _)| stacks[*at].clone_from(&stack));
        }
        Ok(())
    })?;
    let (threads, times) = (Threads::of(&capture), Times::new(capture.processor()));
    Ok(Found { input: &args.input, question, answer, threads, times, stacks })
}

/// The stacks at instructions of a stream.
fn stacks_at(
    capture: &Capture,
    stream: &Stream,
    code: &Code,
    numbers: Vec<u64>,
) -> anyhow::Result<Vec<(u64, Vec<Named>)>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut stacks = Stacks::new(code, Running::of(capture.notes(), stream.of), numbers);
    follow_timed(&stream.bytes, code, &capture.clocks(stream), &mut stacks, |stacks| !stacks.is_done())?;
    Ok(stacks.finish())
}
