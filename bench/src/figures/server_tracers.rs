//! Tracers that are attached to a running server, and let go again: mote's two verbs, and its peers.
//!
//! They do one of three things. *Slow calls*: look at every system call, and tell of those over 10 ms (`mote latency`,
//! bpftrace; `strace -c` adds up times). *All events*: every system call and all of the scheduler (`mote record`, `perf
//! record`, ftrace; `perf trace` has system calls only). *Profile*: 999 samples a second with stacks by `.eh_frame`
//! (`mote record --profile`, `perf record --call-graph dwarf`).

use super::kernel::mote;
use super::kernel_peers::{Ftrace, WITH_TRACEFS};
use super::servers::stage::{Kind, Server};
use super::session::Lab;
use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A tracer gets so long to attach: more than any of them needs.
const SETTLE: Duration = Duration::from_millis(1500);
/// ... and so long to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a server is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracer {
    /// `mote latency`.
    Latency,
    /// bpftrace: slow calls, by a map and two probes.
    Bpftrace,
    /// `strace -c`: times of system calls, added up.
    StraceCount,
    /// `mote record`: to disk.
    Record,
    /// ftrace: into the kernel's buffer only.
    Ftrace,
    /// `perf record`: to disk.
    PerfRecord,
    /// `perf trace`: system calls as text, to disk.
    PerfTrace,
    /// `mote record --profile`: stacks, unwound at once, to disk.
    Profile,
    /// `perf record --call-graph dwarf`: copies of stacks, to disk; unwound later.
    PerfDwarf,
}

impl Tracer {
    /// All that see each call, those that look for slow ones first.
    pub(super) const ALL: [Tracer; 7] = [
        Tracer::Latency,
        Tracer::Bpftrace,
        Tracer::StraceCount,
        Tracer::Record,
        Tracer::Ftrace,
        Tracer::PerfRecord,
        Tracer::PerfTrace,
    ];
    /// Those that sample.
    pub(super) const SAMPLING: [Tracer; 2] = [Tracer::Profile, Tracer::PerfDwarf];

    /// What is measured, as part of the figure's name.
    pub(super) fn what(self) -> &'static str {
        match self {
            Tracer::Latency | Tracer::Bpftrace | Tracer::StraceCount => "slow-calls",
            Tracer::Record | Tracer::Ftrace | Tracer::PerfRecord => "all-events",
            Tracer::PerfTrace => "system-calls",
            Tracer::Profile | Tracer::PerfDwarf => "profile",
        }
    }

    /// How its figures are called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tracer::Latency => "mote latency",
            Tracer::Record => "mote record",
            Tracer::Bpftrace => "bpftrace",
            Tracer::StraceCount => "strace -c",
            Tracer::Ftrace => "ftrace",
            Tracer::PerfRecord => "perf record",
            Tracer::PerfTrace => "perf trace",
            Tracer::Profile => "mote record --profile",
            Tracer::PerfDwarf => "perf record --call-graph dwarf",
        }
    }

    /// Attaches it to a server and what that starts.
    ///
    /// # Errors
    /// It is not installed, or has ended at once.
    pub(super) fn attach(self, server: &Server, lab: &mut Lab) -> anyhow::Result<Attached> {
        let pids: Vec<String> = server.pids().iter().map(u32::to_string).collect();
        if self == Tracer::Ftrace {
            let ftrace = Ftrace::enable(&["raw_syscalls/*", "sched/*"], lab.path())?;
            ftrace.write("trace_options", "event-fork")?;
            for pid in &pids {
                ftrace.write("set_event_pid", pid)?;
            }
            return Ok(Attached { by: By::Kernel { _on: ftrace }, output: None, has_stacks: false });
        }
        let output = lab.fresh("watched");
        let log = lab.fresh("log");
        let mut command = self.command(&pids, server.home().kind(), &output)?;
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("{name} is not installed"))?;
        std::thread::sleep(SETTLE);
        if child.try_wait()?.is_some() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            anyhow::bail!("{name} has failed: {}", said.trim().lines().last().unwrap_or_default());
        }
        let has_stacks = self == Tracer::Profile;
        Ok(Attached { by: By::Process(child), output: Some(output), has_stacks })
    }

    fn command(self, pids: &[String], kind: Kind, output: &PathBuf) -> anyhow::Result<Command> {
        let each =
            |option: &str| pids.iter().flat_map(|pid| [option.to_owned(), pid.clone()]).collect::<Vec<_>>();
        let list = pids.join(",");
        let perf = |words: &[&str]| {
            let mut command = Command::new("perf");
            command.args(words).arg("-o").arg(output).args(["-p", &list]);
            command
        };
        Ok(match self {
            Tracer::Latency => {
                let mut command = Command::new(mote()?);
                command.arg("latency").args(each("-p")).arg("-o").arg(output);
                command
            }
            Tracer::Record => {
                let mut command = Command::new(mote()?);
                command.args(["record", "-q", "-k", "syscalls,sched"]).args(each("-p")).arg("-o").arg(output);
                command
            }
            Tracer::StraceCount => {
                let mut command = Command::new("strace");
                command.args(["-c", "-f", "-o"]).arg(output).args(each("-p"));
                command
            }
            Tracer::PerfRecord => {
                perf(&["record", "-q", "-m", "4M", "-e", "raw_syscalls:*", "-e", "sched:*"])
            }
            Tracer::PerfTrace => perf(&["trace"]),
            Tracer::PerfDwarf => perf(&["record", "-q", "-F", "999", "--call-graph", "dwarf"]),
            Tracer::Profile => {
                let mut command = Command::new(mote()?);
                command.args(["record", "-q", "--profile=999"]).args(each("-p")).arg("-o").arg(output);
                command
            }
            Tracer::Bpftrace => {
                // Of children it knows nothing but the name that they share.
                let name = if kind == Kind::Redis { "redis-server" } else { kind.name() };
                let program = format!(
                    "tracepoint:raw_syscalls:sys_enter /comm == \"{name}\"/ {{ @s[tid] = nsecs; }} \
                     tracepoint:raw_syscalls:sys_exit /@s[tid]/ {{ $d = nsecs - @s[tid]; delete(@s[tid]); \
                     if ($d > 10000000) {{ printf(\"%s %d %d\\n\", comm, args->id, $d); }} }}"
                );
                let mut command = Command::new(WITH_TRACEFS[0]);
                command.args(&WITH_TRACEFS[1..]).args(["bpftrace", "-o"]).arg(output).args(["-e", &program]);
                command
            }
            Tracer::Ftrace => anyhow::bail!("the kernel traces by itself"),
        })
    }
}

enum By {
    Process(Child),
    Kernel { _on: Ftrace },
}

/// A tracer that is attached; it lets go at the latest with the value.
pub(super) struct Attached {
    by: By,
    output: Option<PathBuf>,
    /// It has recorded stacks of ours.
    has_stacks: bool,
}

impl Attached {
    /// The process that records, where the kernel does not.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.by {
            By::Process(child) => Some(child.id()),
            By::Kernel { .. } => None,
        }
    }

    /// Lets go of the server. Returns how many of a hundred stacks are whole, where it has recorded stacks.
    ///
    /// # Errors
    /// mote has lost events; the tracer does not end.
    pub(super) fn end(mut self) -> anyhow::Result<Option<f64>> {
        self.let_go()?;
        let Some(output) = self.output.as_ref().filter(|_| self.has_stacks) else { return Ok(None) };
        let shown = Command::new(mote()?).args(["profile", "--format", "json", "-i"]).arg(output).output()?;
        let all: serde_json::Value = serde_json::from_slice(&shown.stdout).context("no samples")?;
        let number = |name: &str| all[name].as_f64().context("no number of samples");
        Ok(Some(100.0 * number("complete")? / number("samples")?))
    }

    fn let_go(&mut self) -> anyhow::Result<()> {
        let By::Process(child) = &mut self.by else { return Ok(()) };
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).context("the tracer has ended too early")?;
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                anyhow::ensure!(status.code() != Some(3), "events were lost");
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < until, "the tracer does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let By::Process(child) = &mut self.by {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A file or a directory, large in either case.
        if let Some(output) = &self.output {
            let _ = std::fs::remove_file(output).or_else(|_| std::fs::remove_dir_all(output));
        }
    }
}
