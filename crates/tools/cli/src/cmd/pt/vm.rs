//! `mote pt vm`: virtual machines, from the packets of processors alone.

mod ctf;
mod hosts;
mod input;
mod json;
mod label;
mod page;
mod text;

use super::shown::Format;
use crate::{cmd, out};
use anyhow::Context;
use input::Input;
use label::Labels;
use mote_hardware::vm::{Counts, Names, Summary, merge};
use mote_words::counted_grouped;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show which virtual machines, vCPUs and processes had the processors, and what waited for them
///
/// The packets of processors are enough (PIP, VMCS, TSC, MTC): no code, no agent in a guest. A vCPU is its VMCS, a
/// machine the address space (CR3) of its VMM, a process the CR3 of the guest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt vm cap                                a table
  mote pt vm cap --names names.txt              the same, with names
  mote pt vm cap --intervals --format json      each interval: the data of a picture
  mote pt vm cap -o trace                       the same as a CTF trace, for other viewers
  mote pt vm cap --html machines.html           pictures: by processors, and by machines
  mote pt vm cpu0.pt cpu1.pt --tsc-hz 2016000000     bare packets

vCPUs are named after their threads where the host says which of them had the processors: in a
recording with its events (mote record --pt=kernel -a -k sched -k 'kvm:*'), or in a capture whose
notes have switches of threads. Names of a file go before.

Lines of a file of names:
  vmcs 0x1f3a6000 web, vCPU 0
  cr3 0x10c2e4000 web                a machine, by its VMM; or another program of the host
  cr3 0x10c2e4000:0x6a000 postgres   a process of this machine
  idle 0x2a10000                     the host idles there

vmm: the host's code for a vCPU. exits: from the guest to the VMM. handling: from an exit to the entry after it.
waited: the longest that a vCPU can have waited for its processor, while others had it; it may have slept.

Exit status: 0 done, 1 no virtual machine was seen, 2 failed, or packets are missing or damaged.")]
pub(super) struct Args {
    #[command(flatten)]
    source: input::Source,

    /// Names of machines, vCPUs and processes
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,

    /// Each interval, as it happened
    #[arg(long)]
    intervals: bool,

    /// Write the intervals as a CTF trace into this directory, too
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write a page with pictures into FILE, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// What to print: tables for people, or JSON objects
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut names = names(args)?;
    let (inputs, mut hosts) = input::inputs(&args.source)?;
    let mut summary = Summary::new(names.clone());
    let mut poll = hosts::Poll::of(&mut hosts);
    let counts = read(&inputs, |place, interval| {
        summary.add(place, interval);
        inputs.get(place).into_iter().for_each(|input| poll.add(input, interval));
    })?;
    let summary = summary.finish();
    hosts::name(&mut names, &hosts).iter().for_each(|doubt| say!("{doubt}"));
    let labels = Labels::new(&names, &summary, &inputs);
    if let Some(folder) = &args.output {
        write(folder, &labels)?;
    }
    if let Some(path) = &args.html {
        let mut pictures = page::Pictures::new(&labels, args.source.shown());
        read(&inputs, |cpu, interval| pictures.add(cpu, interval))?;
        super::output::page(path, &pictures.page())?;
    }
    if args.intervals {
        intervals(args.format, &labels)?;
    } else {
        out::print(&match args.format {
            Format::Text => text::tables(&labels, &counts),
            Format::Json => json::objects(&labels, &counts),
        })?;
    }
    let is_missing = |counts: &Counts| counts.damaged + counts.overflows + counts.contradictions > 0;
    Ok(match counts.iter().any(is_missing) {
        true => cmd::FAILED.into(),
        false if summary.vcpus().is_empty() => cmd::NOTHING.into(),
        false => ExitCode::SUCCESS,
    })
}

fn names(args: &Args) -> anyhow::Result<Names> {
    let Some(path) = &args.names else { return Ok(Names::default()) };
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Names::parse(&text).with_context(|| format!("names in {}", path.display()))
}

/// All intervals, by the time at which they end.
fn read(
    inputs: &[Input],
    mut to: impl FnMut(usize, &mote_hardware::vm::Interval),
) -> anyhow::Result<Vec<Counts>> {
    let streams = inputs.iter().map(|input| (input.parts(), input.machine())).collect();
    merge(streams, |cpu, interval| to(cpu, &interval))
}

/// Writes all intervals as a CTF trace.
fn write(folder: &Path, labels: &Labels<'_>) -> anyhow::Result<()> {
    let mut trace = ctf::Trace::create(folder, labels)?;
    let mut done = Ok(());
    read(labels.inputs, |cpu, interval| {
        if done.is_ok() {
            done = trace.add(cpu, interval);
        }
    })?;
    done?;
    let untimed = trace.finish()?;
    if untimed > 0 {
        let intervals = counted_grouped(untimed, "interval", "intervals");
        say!("{intervals} without a time are not in {}", folder.display());
    }
    Ok(())
}

fn intervals(format: Format, labels: &Labels<'_>) -> anyhow::Result<()> {
    let mut to = BufWriter::new(out::lock());
    let mut done = Ok(());
    read(labels.inputs, |cpu, interval| {
        if done.is_ok() {
            done = match format {
                Format::Text => writeln!(to, "{}", text::interval(labels, cpu, interval)),
                Format::Json => writeln!(to, "{}", json::interval(labels, cpu, interval)),
            };
        }
    })?;
    done?;
    to.flush()?;
    Ok(())
}
