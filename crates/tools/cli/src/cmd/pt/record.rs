//! `mote pt record`: what a processor writes down of a program.

use super::shown::Format;
use super::{filter, output};
use crate::{cmd, hardware, units};
use anyhow::{Context, bail};
use mote_daemon::command::Signals;
use mote_pmu::device::FOLDER;
use mote_pmu::{Command, Device, Kept, Linux, Options, Period, Recorded, Settings, Summary, Targets, folder};
use mote_symbol::collect;
use mote_words::counted_grouped;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Record what processors write down of a program (a CPU with Intel PT is needed)
///
/// The packets of each CPU, and what is to be known beside them, go to a directory, for the other verbs. Only programs'
/// code is recorded, unless --kernel says so; of a command, its children and threads are, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt record -- ./app input
  mote pt record -p 4711 --duration 2s            a running process
  mote pt record --snapshot 16M -p 4711           the last 16 MiB of each CPU, until Ctrl-C
  mote pt record --cyc 6 --mtc 3 --psb 3 -- ./app numbers are those of perf
  mote pt record --filter 'filter main @ ./app' -- ./app
                                                  this function only: offset or name, @ file
  mote pt record -C 0,2-3 --kernel --duration 1s  whole CPUs, as root
  mote pt record --jit -- node app.js             with all versions of the code that it makes

A CPU without Intel PT: mote pt synth writes the same packets of a program. mote doctor --pt says what a machine has.

Rights: of own processes where sysctl kernel.perf_event_paranoid is 2 or less; the kernel's code with 1 or less; whole
CPUs with 0 or less, or as root.

Exit status: that of the command, 0 without one; 2 failed, or packets or mappings were lost and the command was
successful.")]
pub(super) struct Args {
    /// Directory to write to [default: NAME-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Record running processes
    #[arg(short, long, value_name = "ID,...", value_delimiter = ',', conflicts_with = "cpus")]
    pid: Vec<i32>,

    /// Record all that runs on these CPUs, as in 0,2-3 [default: of processes and commands, on all CPUs]
    #[arg(short = 'C', long, value_name = "LIST")]
    cpus: Option<String>,

    /// Each thread of -p has packets of its own; threads that they start have none
    #[arg(long, requires = "pid")]
    per_thread: bool,

    /// Keep only the last packets of each CPU, so many bytes
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    snapshot: Option<u64>,

    /// Bytes of memory for packets of each CPU [default: 4M, or what a user may lock]
    #[arg(long, value_name = "SIZE", value_parser = units::size, conflicts_with = "snapshot")]
    buffer: Option<u64>,

    /// Packets with cycles (CYC), at least 2^(N-1) cycles apart; 0: all
    #[arg(long, value_name = "N")]
    cyc: Option<u8>,

    /// A time packet (MTC) each 2^N ticks of the crystal clock [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "no_mtc")]
    mtc: Option<u8>,

    /// No MTC packets
    #[arg(long)]
    no_mtc: bool,

    /// 2^(N+11) bytes between the places where readers may begin (PSB) [default: 3]
    #[arg(long, value_name = "N")]
    psb: Option<u8>,

    /// Returns are not compressed: each has an address
    #[arg(long)]
    no_return_compression: bool,

    /// The kernel's code, too
    #[arg(long)]
    kernel: bool,

    /// Copy code that programs make at run time when it becomes executable (by eBPF, as root)
    #[arg(long)]
    jit: bool,

    /// Only there: filter 0xOFFSET/SIZE @ FILE or filter FUNCTION @ FILE; stop ... ends tracing
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    duration: Option<u64>,

    /// What to say at the end: a sentence, or one JSON object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", conflicts_with = "pid")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let device = Device::read(Path::new(FOLDER))?;
    let is_of_cpus = args.command.is_empty() && args.pid.is_empty();
    if is_of_cpus && args.cpus.is_none() {
        bail!("nothing to record: give a command (-- CMD), a process (-p PID) or CPUs (-C LIST)");
    }
    let filter = args.filter.as_deref().map(filter::parse).transpose()?;
    let cpus = hardware::cpus(args.cpus.as_deref())?;
    let folder = output::of_capture(args.output.as_deref(), &args.command)?;
    let mut command = match args.command.as_slice() {
        [] => None,
        words => Some(Command::stopped(words).with_context(|| format!("cannot run {}", words[0].display()))?),
    };
    let options = Options {
        settings: args.settings(),
        targets: args.targets(command.as_ref()),
        cpus,
        memory: args.snapshot.or(args.buffer).unwrap_or(hardware::MEMORY) as usize,
        kept: if args.snapshot.is_some() { Kept::Last } else { Kept::All },
        filter,
        jit: args.jit,
    };
    let recorded = record(args, &device, &options, &folder, &mut command).inspect_err(|_| {
        // Nothing was recorded: an empty directory is no use.
        let _ = fs::remove_dir(&folder);
    })?;
    say(args, &folder, &recorded);
    let lost = recorded.summary.has_lost();
    let status = command.as_mut().and_then(Command::status);
    if let Some(command) = command.filter(|_| status.is_none()) {
        say!("the command still runs: process {}", command.pid());
        command.leave();
    }
    let status = status.unwrap_or(0);
    Ok(if status == 0 && lost { cmd::FAILED.into() } else { ExitCode::from(status as u8) })
}

fn record(
    args: &Args,
    device: &Device,
    options: &Options,
    folder: &Path,
    command: &mut Option<Command>,
) -> anyhow::Result<Recorded> {
    let known = match options.targets {
        Targets::Command(_) => Vec::new(),
        Targets::Threads(_) | Targets::EachThread(_) => args.pid.clone(),
        Targets::All => collect::processes().map(u32::cast_signed).collect(),
    };
    let signals = Signals::catch()?;
    let begun = Instant::now();
    let duration = args.duration.map(Duration::from_nanos);
    let waiting = command.as_ref().map(Command::pid);
    let mut is_asked = 0;
    let goes_on = |_: &Linux| {
        while let Some(arrived) = signals.next() {
            if !arrived.asks_to_end() {
                continue;
            }
            is_asked += 1;
            if let Some(command) = command.as_mut().filter(|_| !arrived.from_terminal) {
                command.signal(arrived.signal as i32);
            }
        }
        let has_ended = match command.as_mut() {
            Some(command) => command.status().is_some(),
            None => {
                is_asked > 0
                    || (!args.pid.is_empty() && args.pid.iter().all(|pid| folder::threads(*pid).is_empty()))
            }
        };
        // Who asks twice does not wait for the command.
        !has_ended && is_asked < 2 && duration.is_none_or(|duration| begun.elapsed() < duration)
    };
    let (recorded, _) = mote_pmu::record(Linux, device, options, folder, &known, || go(waiting), goes_on)?;
    Ok(recorded)
}

/// Lets the command begin, when all events are open.
fn go(waiting: Option<i32>) {
    if let Some(pid) = waiting {
        Command::go(pid);
    }
}

impl Args {
    fn settings(&self) -> Settings {
        let mtc = match (self.mtc, self.no_mtc) {
            (Some(period), _) => Period::Exactly(period),
            (None, true) => Period::Off,
            (None, false) => Period::Usual,
        };
        Settings {
            cyc: self.cyc,
            mtc,
            psb: self.psb,
            no_return_compression: self.no_return_compression,
            kernel: self.kernel,
        }
    }

    fn targets(&self, command: Option<&Command>) -> Targets {
        let threads = || self.pid.iter().flat_map(|pid| folder::threads(*pid)).collect();
        match command {
            Some(command) => Targets::Command(command.pid()),
            None if self.pid.is_empty() => Targets::All,
            None if self.per_thread => Targets::EachThread(threads()),
            None => Targets::Threads(threads()),
        }
    }
}

fn say(args: &Args, folder: &Path, recorded: &Recorded) {
    let Recorded { summary, unknown, missing } = recorded;
    let Summary { bytes, truncated, partial, collisions, records_lost, bytes_lost } = *summary;
    if args.format == Format::Json {
        let line = serde_json::json!({
            "output": folder, "bytes": bytes, "truncated": truncated, "partial": partial, "collisions": collisions,
            "records_lost": records_lost, "bytes_lost": bytes_lost, "unknown_mappings": unknown, "missing": missing,
        });
        say!("{line}");
        return;
    }
    say!("{} into {}", counted_grouped(bytes, "byte of packets", "bytes of packets"), folder.display());
    recorded.losses().iter().chain(missing).for_each(|text| say!("{text}"));
}
