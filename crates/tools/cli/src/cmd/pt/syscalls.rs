//! `mote pt syscalls`: what the kernel does in system calls, by the paths of its functions.

mod json;
mod page;
mod text;
mod weight;

use super::gather::{self, Gathered};
use super::shown;
use crate::{cmd, out};
use clap::ValueEnum;
use mote_hardware::paths::Syscalls;
use mote_pattern::{Glob, similar};
use mote_view::flames;
use mote_words::counted_grouped;
use std::path::PathBuf;
use std::process::ExitCode;
use weight::{Weight, paths};

/// Show which way system calls go through the kernel, and how many instructions each part has
///
/// From a call's entry to its return, with the interrupts between. A capture with the kernel is needed: of
/// `mote pt record --kernel`, or of `mote pt synth --engine system`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt syscalls cap                        a table, and the paths of each
  mote pt syscalls cap --call 'm*map' --depth 20
  mote pt syscalls cap --by time
  mote pt syscalls cap --format svg >calls.svg      a flame graph
  mote pt syscalls cap --format folded        lines a;b;c NUMBER, for other viewers
  mote pt syscalls cap --html calls.html      a sunburst, to zoom and search
  mote pt diff before after --syscalls        what two captures differ in

Names are those of the kernel's functions: openat of __x64_sys_openat. Times are at least..at most; of calls that wait
they count what runs meanwhile, paths only what they execute. By time, paths weigh what they took at most. Medians and
99 % are up to 1.6 % off.

Exit status: 0 done, 1 there is no system call whose kernel side is known, 2 failed.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// Only system calls whose name matches PATTERN (* any text, ? any character); repeat for more
    #[arg(long, value_name = "PATTERN")]
    call: Vec<String>,

    /// What paths weigh
    #[arg(long, value_name = "WHAT", default_value = "instructions")]
    by: Weight,

    /// Show paths of so many functions at most
    #[arg(long, value_name = "NUMBER", default_value_t = 12)]
    depth: usize,

    /// Leave out paths with less than this share of a system call, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    least: f64,

    /// Write a page with pictures into FILE, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// What to print: for people, JSON objects, folded stacks, a flame graph
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// One line a path.
    Folded,
    /// A flame graph.
    Svg,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut found = gather::syscalls(&args.input)?;
    missing(&found);
    choose(&mut found.of, args)?;
    if args.by == Weight::Time {
        anyhow::ensure!(
            found.times.are_known,
            "there are no times in {}: it was recorded without TSC packets; leave --by time out",
            args.input.capture.display()
        );
    }
    out::print(&match args.format {
        Format::Text => text::page(&found, (args.by, args.depth, args.least)),
        Format::Json => json::objects(&found).iter().map(|object| format!("{object}\n")).collect(),
        Format::Folded => {
            lines(&found, args.by).iter().map(|(line, weight)| format!("{line} {weight}\n")).collect()
        }
        Format::Svg => picture(&found, args),
    })?;
    if let Some(path) = &args.html {
        super::output::page(path, &page::page(&found, args.by, &args.input.capture))?;
    }
    Ok(if found.of.calls.is_empty() { cmd::NOTHING.into() } else { ExitCode::SUCCESS })
}

/// Says what the capture has not.
fn missing(found: &Gathered) {
    let Syscalls { untraced, open, calls, .. } = &found.of;
    if *untraced > 0 {
        let calls = counted_grouped(*untraced, "system call was", "system calls were");
        let why = match found.has_kernel {
            true => "the kernel was not traced there",
            false => {
                "the capture has no code of the kernel: mote pt record --kernel, or synth --engine system"
            }
        };
        say!("{calls} made whose kernel side is not known: {why}");
    } else if calls.is_empty() {
        say!("no system call was made from its begin to its end");
    }
    if *open > 0 {
        let calls = counted_grouped(*open, "system call has", "system calls have");
        say!("{calls} no end: the program ends there, code is missing, or the thread waits on");
    }
}

/// Leaves the system calls that are meant.
fn choose(syscalls: &mut Syscalls, args: &Args) -> anyhow::Result<()> {
    let globs: Vec<Glob> = args.call.iter().map(|pattern| Glob::new(pattern)).collect();
    for (glob, pattern) in globs.iter().zip(&args.call) {
        if !syscalls.calls.keys().any(|name| glob.matches(name)) {
            let names = syscalls.calls.keys().map(String::as_str);
            let similar = similar(pattern, names.clone());
            let names: Vec<&str> = if similar.is_empty() { names.take(20).collect() } else { similar };
            let hint =
                if names.is_empty() { String::new() } else { format!(": there are {}", names.join(", ")) };
            anyhow::bail!(
                "no system call `{pattern}` has returned in {}{hint}",
                args.input.capture.display()
            );
        }
    }
    if !globs.is_empty() {
        syscalls.calls.retain(|name, _| globs.iter().any(|glob| glob.matches(name)));
    }
    Ok(())
}

/// Folded stacks.
fn lines(found: &Gathered, by: Weight) -> Vec<(String, u64)> {
    let is_meant = paths(found);
    let nodes = found.of.tree.nodes().iter().zip(0..).zip(is_meant).filter(|(_, is_meant)| *is_meant);
    let lines = nodes.map(|((node, number), _)| {
        let path = found.of.tree.path(number, &found.functions);
        let names: Vec<String> = path.iter().map(|named| named.folded()).collect();
        (names.join(";"), by.of(node, found.times))
    });
    lines.filter(|(_, weight)| *weight > 0).collect()
}

fn picture(found: &Gathered, args: &Args) -> String {
    let lines = lines(found, args.by);
    let lines = lines.iter().map(|(line, weight)| (line.as_str(), *weight));
    let title = format!("System calls in {}", args.input.capture.display());
    flames(&title, lines, |weight| args.by.words(weight))
}
