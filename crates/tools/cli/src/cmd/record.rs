//! `mote record`: runs a command and records the events of it and of all its children.

mod stacks;
mod summary;

use crate::begun::{Begun, ReadyArgs};
use crate::hardware::Wanted;
use crate::out::Place;
use crate::rules::Rules;
use crate::sampling::{FunctionSamplingArgs, SamplingArgs};
use crate::units;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mote_daemon::options::{CallsAre, Streams, User};
use mote_daemon::{Buffers, Ctf, HardwareOptions, KernelOptions, Options, Progress, Recorded, Watch};
use mote_filter::Rule;
use mote_journal::Summary;
use mote_words::{COLUMNS, counted, counted_grouped, grouped};
use stacks::StackArgs;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Exit status: the command succeeded, but events were lost or the trace is not complete.
pub(crate) const LOSSY: u8 = 3;

/// Run a command and record the events of it and of all its children, and of the kernel
///
/// The command is started with its events switched on, before its `main` runs. Children, threads and libraries
/// loaded later are recorded too. No daemon is needed: `mote record` is the session while it runs. Ctrl-C goes to the
/// command, and the trace is finished all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote record -- ./server --port 8080          everything, into ./server-DATE-TIME
  mote record -o /tmp/t -e 'net:*' -- ./app    one provider's events
  mote record -x '*:debug_*' -- ./app          all events but some
  mote record --mode overwrite -- ./app        a flight recorder: the newest events only
  mote record --duration 10s -- ./server       the first ten seconds; the server goes on
  mote record -e 'net:*' --stack -- ./app      who has called; mote view DIR --stack

Filters run in the program, on its own arguments, before anything is recorded:
  mote record -e 'net:*' --filter 'len > 1500 && proto == \"tcp*\"' -- ./app
  mote record -e 'net:*' --filter 'dur > 250us && sample(10%)' -e 'disk:*' -- ./app
  mote record -e 'net:*' --count 'by proto' -- ./app        counted in the program, not recorded
  mote record -e 'net:*' --hist 'len by proto' --interval 1s -- ./app
  mote record -e 'net:*' --filter-file large.o -- ./app     compiled by clang; see list --c-header
All the events of requests that ended with an error or took over 10 ms, and no others:
  mote record -e 'http:*' --on 'http:begin do speculate' \\
    --on 'http:end if status >= 500 || $elapsed > 10ms do commit' \\
    --on 'http:end do discard' -- ./server
`mote filter --help` explains the language.

Kernel events (root, or CAP_BPF and CAP_PERFMON) of the command and all that it starts, in the same recording:
  mote record -k sched,syscalls,block -- ./app   families; `mote list -k` shows all
  mote record -k 'syscalls:*open*,sched:sched_switch' -- ./app
  mote record -k syscalls --filter 'ret < 0' -k sched -- ./app
  mote record -k sched -a --duration 10s         of the whole system
  mote record -k syscalls -p 4711                of a running process; -e adds its own events
  mote record -k block:block_rq_issue --stack=kernel -a
  mote record -k 'syscalls:*write' --stack -p 4711
                                                 with stacks, without frame pointers, too

Samples of threads with their stacks, in the same recording (`mote profile` shows them):
  mote record --profile -e 'net:*' -k sched -- ./app

Samples of functions, with what is counted in each call, in the 2 s behind an event (`mote fperf -i DIR` shows them):
  mote record -e 'req:*' --on 'req:done if duration > 50ms do fperf \"parse_*\" for 2s' -- ./server
  mote record -f checkout --on 'f:checkout if duration > 50ms do fperf \"db::*\" for 2s' -p 4711

What processors write down of each branch (a CPU with Intel PT is needed), on the same clock, in DIR/pt:
  mote record --pt -e 'net:*' -k sched -- ./app    each verb of `mote pt` opens the recording then
  mote record --pt=cyc=6,kernel -a --duration 100ms
  mote record --pt --jit -- node app.js            with all versions of the code that it makes
  mote view --pt trace                             calls of the hardware trace among the events
Of that only what was executed before an event, in DIR/pt/snapshot-N, of each event that matches:
  mote record -e 'req:*' --on 'req:end if ns > 20ms do pt snapshot 5ms' -- ./app

Patterns: `*` any characters, `?` one character. `net:*` is compared with provider:name, `net` with
the provider and with the name.

The trace is CTF: `mote view`, `mote report`, babeltrace2 and Trace Compass read it.

Exit status: that of the command, 128 and the signal's number if a signal ended it; 2 when nothing could be recorded;
3 when the command succeeded but events were lost or a part of the trace could not be written.")]
pub(crate) struct Args {
    /// Directory to make for the trace [default: ./NAME-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// As root: give the recording to this user when it has ended [default: the user who called sudo, if all recorded
    /// processes are theirs]
    #[arg(long, value_name = "USER", value_parser = super::owner)]
    owner: Option<User>,
    #[command(flatten)]
    rules: Rules,
    /// Names for functions of a stripped binary: its list, which `mote coldpatch` has written; one that lies beside the
    /// binary (BINARY.probes) is taken by itself
    #[arg(long = "probes", value_name = "LIST")]
    probe_lists: Vec<PathBuf>,
    /// What to do with an event whose filter cannot read its memory
    #[arg(long, value_enum, default_value = "drop", value_name = "WHAT")]
    on_fault: OnFault,
    /// Print counts and histograms this often while recording
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    interval: Option<u64>,
    /// Leave out events that match; may be given several times
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Record kernel events of the whole system, not only of the command; without a command, until Ctrl-C or --duration
    #[arg(short, long)]
    all: bool,
    /// Record kernel events of this running process (with -e, its own events, too), and of what it starts from now on;
    /// separate several by commas
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    #[command(flatten)]
    stacks: StackArgs,
    #[command(flatten)]
    profile: SamplingArgs,
    #[command(flatten)]
    functions: FunctionSamplingArgs,
    /// Record what processors write down of each branch (Intel PT), too: of the command or the processes, or with -a of
    /// everything. OPTIONS, separated by commas: cyc=N, mtc=N, no-mtc, psb=N, no-return-compression, kernel, jit,
    /// snapshot=SIZE, buffer=SIZE, filter=FILTER (the last one); see `mote pt record`. Where a rule says `pt snapshot
    /// TIME`, the last packets are kept, as with snapshot=4M, also without this
    #[arg(long, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pt: Option<Wanted>,
    /// With --pt: copy code that programs make at run time when it becomes executable, as --pt=jit does
    #[arg(long, requires = "pt")]
    jit: bool,
    /// Buffer memory per CPU for kernel events, as --buffers [default: 16M, all together at most 256M]
    #[arg(long, value_name = "SIZE[xCOUNT]", value_parser = buffers)]
    kernel_buffers: Option<Buffers>,
    /// Buffer memory per CPU, or the size of a sub-buffer and how many: `16M`, `1Mx8` [default: 64M, all together at
    /// most 1G]
    #[arg(long, value_name = "SIZE[xCOUNT]", value_parser = buffers)]
    buffers: Option<Buffers>,
    /// What to do when a buffer is full: drop and count new events, or overwrite the oldest
    #[arg(long, value_enum, default_value = "discard")]
    mode: Mode,
    /// Format of the trace's metadata
    #[arg(long, value_enum, default_value = "1.8")]
    ctf: Format,
    /// Stop recording after this time; the command goes on
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    duration: Option<u64>,
    /// Trace clock [default: the best that the machine has]
    #[arg(long, value_enum)]
    clock: Option<Clock>,
    /// Print only errors, and the counts and histograms that were asked for
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    ready: ReadyArgs,
    /// The command and its arguments; with -p, recording stops when this command ends
    #[arg(last = true, required_unless_present_any = ["all", "pid"], value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    Discard,
    Overwrite,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnFault {
    Drop,
    Keep,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    #[value(name = "1.8")]
    V1_8,
    #[value(name = "2")]
    V2,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Clock {
    Tsc,
    Monotonic,
}

fn buffers(text: &str) -> Result<Buffers, String> {
    match text.split_once(['x', 'X']) {
        None => Buffers::of_cpu_bytes(units::size(text)?).map_err(|bad| bad.to_string()),
        Some((size, count)) => {
            let count = count
                .parse()
                .map_err(|_| format!("`{count}` is not a number of sub-buffers; give for example 1Mx8"))?;
            Buffers::of_sub_buffers(units::size(size)?, count).map_err(|bad| bad.to_string())
        }
    }
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        let cpus = mote_daemon::options::cpus();
        Ok(Options {
            streams: Streams::Files,
            output: match &self.output {
                Some(path) => path.clone(),
                None => default_output(&self.command)
                    .context("cannot choose a name for the recording; give one with -o")?,
            },
            rules: self.program_rules(),
            objects: self.rules.objects.clone(),
            keeps_on_fault: matches!(self.on_fault, OnFault::Keep),
            interval: self.interval.map(Duration::from_nanos),
            columns: Place::beside(&self.command).width().unwrap_or(COLUMNS),
            exclude: self.exclude.clone(),
            buffers: self.buffers.unwrap_or_else(|| self.default_buffers(cpus)),
            mode: match self.mode {
                Mode::Discard => mote_daemon::options::Mode::Discard,
                Mode::Overwrite => mote_daemon::options::Mode::Overwrite,
            },
            ctf: match self.ctf {
                Format::V1_8 => Ctf::V1_8,
                Format::V2 => Ctf::V2,
            },
            duration: self.duration.map(Duration::from_nanos),
            clock: self.clock.map(|clock| match clock {
                Clock::Tsc => mote_daemon::options::Source::Tsc,
                Clock::Monotonic => mote_daemon::options::Source::Monotonic,
            }),
            stack: self.stacks.of_processes()?,
            kernel: self.kernel(cpus)?,
            profile: self.profile.options(self.all, self.stacks.bytes(), self.asks_for_samples()),
            hardware: match &self.pt {
                Some(wanted) => {
                    let options = wanted.options(self.all, self.keeps_last_packets())?;
                    Some(HardwareOptions { jit: options.jit || self.jit, ..options })
                }
                None if self.asks_for_packets() => Some(Wanted::default().options(self.all, true)?),
                None => None,
            },
            owner: self.owner,
            attach: self.pid.clone(),
            functions: self.rules.functions.clone(),
            under: self.rules.under.clone(),
            probe_lists: self.probe_lists.clone(),
            calls: CallsAre::Recorded,
            sampling: self.functions.options(self.asks_for_functions())?,
            command: self.command.clone(),
        })
    }

    /// What is asked for of programs. Running processes of which kernel events are wanted are left alone unless their
    /// own are, too.
    fn program_rules(&self) -> Vec<Rule> {
        let is_seen = self.is_profiled() || self.is_traced() || !self.rules.kernel.is_empty();
        let kernel_only = self.command.is_empty() && is_seen;
        if kernel_only && self.rules.is_default { Vec::new() } else { self.rules.rules.clone() }
    }

    /// Whether there is a hardware trace.
    fn is_traced(&self) -> bool {
        self.pt.is_some() || self.asks_for_packets()
    }

    /// Whether rules ask for the packets before events.
    fn asks_for_packets(&self) -> bool {
        self.rules.rules.iter().chain(&self.rules.kernel).any(Rule::snapshots_packets)
    }

    /// Whether rules ask for samples behind events.
    fn asks_for_samples(&self) -> bool {
        self.rules.rules.iter().chain(&self.rules.kernel).any(Rule::profiles)
    }

    /// Whether rules ask for samples of functions.
    fn asks_for_functions(&self) -> bool {
        let mut rules = self.rules.rules.iter().chain(&self.rules.kernel);
        rules.any(|rule| rule.sampled_functions().next().is_some())
    }

    /// Whether a hardware trace keeps the last packets only, whatever is said of it.
    fn keeps_last_packets(&self) -> bool {
        matches!(self.mode, Mode::Overwrite) || self.asks_for_packets()
    }

    fn is_profiled(&self) -> bool {
        self.profile.options(false, 0, self.asks_for_samples()).is_some()
    }

    /// Nobody writes into the buffers of a recording without a program.
    fn default_buffers(&self, cpus: u32) -> Buffers {
        let program = !self.command.is_empty() || !self.pid.is_empty();
        if program { Buffers::default_for(cpus) } else { Buffers::least() }
    }

    /// What is asked for of the kernel.
    fn kernel(&self, cpus: u32) -> anyhow::Result<Option<KernelOptions>> {
        if self.rules.kernel.is_empty() {
            let flags = [
                (self.all && !self.is_profiled() && !self.is_traced(), "-a"),
                (self.stacks.are_of_kernel(), "--stack=kernel"),
                (self.kernel_buffers.is_some(), "--kernel-buffers"),
            ];
            if let Some((_, flag)) = flags.into_iter().find(|(given, _)| *given) {
                anyhow::bail!(
                    "{flag} is about kernel events; say which with -k, for example -k sched,syscalls"
                );
            }
            return Ok(None);
        }
        Ok(Some(KernelOptions {
            rules: self.rules.kernel.clone(),
            all: self.all,
            buffers: self.kernel_buffers.unwrap_or_else(|| Buffers::kernel_default_for(cpus)),
            stacks: self.stacks.stacks()?,
            latency: None,
        }))
    }
}

/// `./NAME-DATE-TIME` in UTC, with a number behind it when it is taken.
pub(crate) fn default_output(command: &[OsString]) -> anyhow::Result<PathBuf> {
    let name = command.first().map_or_else(|| PathBuf::from("system"), PathBuf::from);
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let stamp = crate::moment::compact(since_epoch.as_secs());
    let base = format!("{name}-{stamp}");
    let tries = std::iter::once(base.clone()).chain((2..100).map(|n| format!("{base}.{n}")));
    tries
        .map(PathBuf::from)
        .find(|path| !path.exists())
        .context("a hundred recordings that were begun in this second exist already")
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let command = args.command.first().map(OsString::as_os_str).unwrap_or_default();
    crate::check::rules(&args.rules.rules, command).map_err(anyhow::Error::msg)?;
    let options = args.options()?;
    let only_counts = options.only_counts();
    let mut screen = Screen::new(args)?;
    let recorded = mote_daemon::record(&options, &mut screen);
    screen.bar.finish_and_clear();
    let recorded = recorded?;
    Place::beside(&args.command).show(&recorded.aggregates);
    if !args.quiet {
        let summary = summary::summary(&recorded, only_counts);
        let _ = std::io::stderr().write_all(summary.as_bytes());
    }
    Ok(status(&recorded))
}

fn status(recorded: &Recorded) -> ExitCode {
    match recorded.summary.status {
        Some(0) | None if is_lossy(recorded) || !recorded.problems.is_empty() => LOSSY.into(),
        Some(status) => (status as u8).into(),
        None => ExitCode::SUCCESS,
    }
}

/// Whether either side has lost anything.
pub(crate) fn is_lossy(recorded: &Recorded) -> bool {
    let is_lossy = |summary: Option<&Summary>| summary.is_some_and(Summary::is_lossy);
    recorded.summary.is_lossy()
        || is_lossy(recorded.kernel.as_ref().map(|kernel| &kernel.summary))
        || is_lossy(recorded.profile.as_ref())
}

/// The progress line and the messages, on stderr.
struct Screen<'a> {
    args: &'a Args,
    bar: ProgressBar,
    begun: Begun<'a>,
    /// When the recording began.
    began: Instant,
}

impl<'a> Screen<'a> {
    /// # Errors
    /// For a person: `--ready-fd` cannot be written to.
    fn new(args: &'a Args) -> anyhow::Result<Screen<'a>> {
        let begun = Begun::new(&args.ready, &args.command, &args.pid)?;
        let target = if args.quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(5)
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("recording {elapsed}  {msg}") {
            bar.set_style(style);
        }
        Ok(Screen { args, bar, begun, began: Instant::now() })
    }
}

impl Watch for Screen<'_> {
    fn begun(&mut self, directory: &Path) {
        if let Err(why) = self.begun.tell(directory) {
            self.problem(&why);
        }
        self.began = Instant::now();
        self.say(&format!("recording {} into {}", self.begun.subject(), directory.display()));
    }

    fn progress(&mut self, now: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        let lost = match (now.lost, now.lost_unknown) {
            (0, 0) => String::new(),
            (lost, 0) => format!("  LOST {}", grouped(lost)),
            (0, _) => "  LOST an unknown number".to_owned(),
            (lost, _) => format!("  LOST {} and an unknown number", grouped(lost)),
        };
        self.bar.set_message(format!(
            "{}  {}  {}{lost}",
            counted_grouped(now.events, "event", "events"),
            mote_words::size(now.bytes),
            counted(now.processes, "process", "processes")
        ));
        self.bar.tick();
    }

    fn aggregates(&mut self, text: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let place = Place::beside(&self.args.command);
        self.bar.suspend(|| place.show(&format!("after {seconds:.1} s\n{text}\n")));
    }

    fn problem(&mut self, text: &str) {
        self.bar.suspend(|| say!("{text}"));
    }

    fn say(&mut self, text: &str) {
        if !self.args.quiet {
            self.bar.suspend(|| say!("{text}"));
        }
    }
}
