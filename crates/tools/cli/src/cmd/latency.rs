//! `mote latency`: system calls that take longer than they may, live and with what they waited for.

mod show;
mod threshold;
mod worst;

use crate::begun::{Begun, ReadyArgs};
use crate::out::Place;
use crate::rules::Rules;
use crate::units;
use anyhow::Context;
use clap::ValueEnum;
use mote_daemon::options::{CallsAre, Mode, Percentile, Stacks, Streams, User};
use mote_daemon::{
    Buffers, Ctf, KernelOptions, Latencies, LatencyOptions, Options, Progress, Recorded, Watch,
};
use mote_filter::Rule;
use mote_words::COLUMNS;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use threshold::Threshold;

/// From how long on system calls are recorded by default.
const DEFAULT_NS: u64 = 10_000_000;

/// Watch the system calls of a command or a process, and record those that take too long
///
/// Every system call is compared with its threshold in the kernel; only the slow ones are recorded, each with what it
/// waited for, who woke it, the kernel's stack of its longest wait and the process's stack. A program that carries
/// mote can set thresholds itself, as it goes (mote::set_threshold).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Thresholds: NAME=TIME or *=TIME, separated by commas; *=10ms is the default. `*` does not apply to calls that wait
because the program wants to wait (nanosleep, poll, epoll_wait, select, futex, wait4, accept ...), nor for reads from
sockets, pipes and terminals:
give these a threshold by name. `NAME=never` leaves a call out.

--adaptive moves each threshold with the call's own distribution, after enough calls were seen (p99.9: 10,000).

A threshold of two ticks of the kernel or more (8 ms at 250 Hz) costs less: the clock is not read for most calls. Below,
it is read twice for each call, and durations are exact.

Needs root, or CAP_BPF and CAP_PERFMON.

Examples:
  mote latency -- ./server                                  what takes over 10 ms
  mote latency -p 4711 --duration 10s                       a running process
  mote latency -p 4711 -- ab -n 9000 http://localhost/     while a command runs; it is watched, too
  mote latency -p $(pgrep -d, postgres)                     several, which run already
  mote latency --threshold 'fsync=20ms,read=1ms,*=5ms' -p 4711
  mote latency --adaptive p99.9 -p 4711                     what is unusual for this process
  mote latency --threshold futex=50ms -- ./app             calls that wait by request must be named
  mote latency -a --duration 30s --format json              the whole system, for machines
  mote latency -e 'http:*' -- ./server                     with the events of the program
  mote latency -e 'http:*' --snapshot -- ./server          of these only what was around slow calls
  mote latency --on 'http:begin do threshold write 1ms' \\
    --on 'http:end do threshold write default' -- ./server

--snapshot makes a flight recorder of the events that -e, -k and --on ask for: the newest are in memory, and a slow call
has them written to DIR.snapshot-1, -2 ..., each a recording of its own with the slow call in it. Then: mote view DIR
--stack, mote report DIR

Beside a command, tables and JSON go to standard error, because standard output is the command's.

Exit status: as of `mote record`; without a command 0 when slow calls were found, 1 when there were none.")]
pub(crate) struct Args {
    /// Record system calls that take at least this long [default: *=10ms]
    #[arg(short, long, value_name = "NAME=TIME,...", value_delimiter = ',', value_parser = Threshold::parse)]
    threshold: Vec<Threshold>,
    /// Let thresholds follow this percentile of the durations, p50 to p99.99; those given by name stay
    #[arg(long, value_name = "PERCENTILE")]
    adaptive: Option<Percentile>,
    /// Watch this running process, and what it starts from now on; separate several by commas
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// Watch the whole system
    #[arg(short, long, conflicts_with_all = ["pid", "command"])]
    all: bool,
    /// Stop after this time; the command goes on
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    duration: Option<u64>,
    /// How often the table is shown, and thresholds move
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "1s")]
    interval: u64,
    /// Directory to make for the recording [default: ./NAME-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// As root: give the recording to this user when it has ended [default: the user who called sudo, if all recorded
    /// processes are theirs]
    #[arg(long, value_name = "USER", value_parser = super::owner)]
    owner: Option<User>,
    /// Keep other events in memory only, and write them down when a call was slow, with what was before it; at most
    /// this many times
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_missing_value = "10",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    snapshot: Option<u32>,
    #[command(flatten)]
    rules: Rules,
    /// Show this many of the worst calls at the end
    #[arg(long, value_name = "NUMBER", default_value = "10")]
    worst: usize,
    /// Tables for people, or a line of JSON each interval and one at the end
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    ready: ReadyArgs,
    /// The command and its arguments; with -p, recording stops when this command ends
    #[arg(last = true, required_unless_present_any = ["all", "pid"], value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        let cpus = mote_daemon::options::cpus();
        let buffers = Buffers::default_for(cpus);
        // No flag says which events of programs: none.
        let rules = if self.rules.is_default { Vec::new() } else { self.rules.rules.clone() };
        let keeps = self.snapshot.is_some() || rules.iter().chain(&self.rules.kernel).any(Rule::snapshots);
        let latency = LatencyOptions {
            thresholds: threshold::named(&self.threshold),
            others: threshold::others(&self.threshold).unwrap_or(DEFAULT_NS),
            adaptive: self.adaptive,
            interval: Duration::from_nanos(self.interval.max(10_000_000)),
            snapshots: self.snapshot.unwrap_or(0),
        };
        let kernel = KernelOptions {
            rules: self.rules.kernel.clone(),
            all: self.all,
            buffers: Buffers::kernel_default_for(cpus),
            stacks: Stacks { copy: 0, ..Stacks::BOTH },
            latency: Some(latency),
        };
        let output = match &self.output {
            Some(path) => path.clone(),
            None => super::record::default_output(&self.command)
                .context("cannot choose a name for the recording; give one with -o")?,
        };
        Ok(Options {
            output,
            streams: Streams::Files,
            rules,
            objects: self.rules.objects.clone(),
            keeps_on_fault: false,
            interval: None,
            columns: Place::beside(&self.command).width().unwrap_or(COLUMNS),
            exclude: Vec::new(),
            buffers,
            mode: if keeps { Mode::Overwrite } else { Mode::Discard },
            ctf: Ctf::V1_8,
            duration: self.duration.map(Duration::from_nanos),
            clock: None,
            stack: 0,
            kernel: Some(kernel),
            profile: None,
            hardware: None,
            owner: self.owner,
            attach: self.pid.clone(),
            functions: self.rules.functions.clone(),
            under: self.rules.under.clone(),
            probe_lists: Vec::new(),
            calls: CallsAre::Recorded,
            sampling: None,
            command: self.command.clone(),
        })
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for pid in &args.pid {
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            anyhow::bail!("there is no process {pid}; `pgrep NAME` finds the id of a running program");
        }
    }
    let mut screen = Screen::new(args)?;
    let recorded = mote_daemon::record(&args.options()?, &mut screen);
    screen.finish();
    let recorded = recorded?;
    let latency = recorded.kernel.as_ref().and_then(|kernel| kernel.latency.clone()).unwrap_or_default();
    let worst = worst::of(&recorded.directory, args.worst)?;
    let page = match args.format {
        Format::Text => show::report(&latency, &worst, &recorded, screen.width()),
        Format::Json => show::json("report", &latency, Some((&worst, &recorded)))?,
    };
    screen.place.show(&page);
    Ok(status(args, &recorded, &latency))
}

fn status(args: &Args, recorded: &Recorded, latency: &Latencies) -> ExitCode {
    match recorded.summary.status {
        Some(0) | None if latency.counters.lost > 0 || !recorded.problems.is_empty() => {
            super::record::LOSSY.into()
        }
        Some(status) => (status as u8).into(),
        None if args.command.is_empty() && latency.calls.iter().all(|call| call.slow == 0) => {
            super::NOTHING.into()
        }
        None => ExitCode::SUCCESS,
    }
}

/// The live table, on a terminal; or lines of JSON.
struct Screen<'a> {
    begun: Begun<'a>,
    format: Format,
    /// Where figures go.
    place: Place,
    /// The table replaces the one before.
    live: bool,
    /// Lines of the table that is shown.
    lines: usize,
}

impl<'a> Screen<'a> {
    /// # Errors
    /// For a person: `--ready-fd` cannot be written to.
    fn new(args: &'a Args) -> anyhow::Result<Screen<'a>> {
        let begun = Begun::new(&args.ready, &args.command, &args.pid)?;
        let live = args.format == Format::Text && std::io::stderr().is_terminal();
        let place = Place::beside(&args.command);
        Ok(Screen { begun, format: args.format, place, live, lines: 0 })
    }

    /// Columns of the report.
    fn width(&self) -> usize {
        self.place.width().unwrap_or(usize::MAX)
    }

    /// Takes the table away.
    fn finish(&mut self) {
        if self.lines > 0 {
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.lines);
            self.lines = 0;
        }
    }
}

impl Watch for Screen<'_> {
    fn begun(&mut self, directory: &Path) {
        if let Err(why) = self.begun.tell(directory) {
            self.problem(&why);
        }
        let (subject, directory) = (self.begun.subject(), directory.display());
        self.say(&format!("recording slow system calls of {subject} into {directory}"));
    }

    fn progress(&mut self, _: &Progress) {}

    fn aggregates(&mut self, _: &str) {}

    fn latency(&mut self, now: &Latencies) {
        if self.format == Format::Json {
            if let Ok(line) = show::json("interval", now, None) {
                self.place.show(&line);
            }
        } else if self.live {
            self.finish();
            let table = show::table(now, show::LIVE, Place::Error.width().unwrap_or(COLUMNS));
            self.lines = table.lines().count();
            let _ = std::io::stderr().write_all(table.as_bytes());
        }
    }

    fn say(&mut self, text: &str) {
        self.finish();
        say!("{text}");
    }
}
