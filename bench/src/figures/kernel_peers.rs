//! What `kernel` is measured beside: the kernel's own tracer, perf, bpftrace, strace, each around the same workload.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs what follows, which looks for tracefs in one place only: where it is not mounted there, it is so for what
/// follows alone.
pub(super) const WITH_TRACEFS: [&str; 6] = [
    "unshare",
    "-m",
    "sh",
    "-c",
    "{ [ -e /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing; } && exec \"$@\"",
    "sh",
];

/// How a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracer {
    /// No tracer.
    Bare,
    /// ftrace: trace events into the kernel's buffer.
    Ftrace,
    /// `perf record`.
    PerfRecord,
    /// `perf trace`, which prints.
    PerfTrace,
    /// `bpftrace`, which counts in a map.
    BpftraceCount,
    /// `strace -f` into a file.
    Strace,
}

/// What is traced: patterns of trace events, `system/name` with `*`.
pub(super) type Events<'a> = &'a [&'a str];

impl Tracer {
    /// Its name among the peers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tracer::Bare => "none",
            Tracer::Ftrace => "ftrace",
            Tracer::PerfRecord => "perf-record",
            Tracer::PerfTrace => "perf-trace",
            Tracer::BpftraceCount => "bpftrace",
            Tracer::Strace => "strace",
        }
    }

    /// Runs `command` under it, with `events` of all processes, or of the command only where it can.
    ///
    /// # Errors
    /// It is not installed, or has failed.
    pub(super) fn run(
        self,
        command: &[std::ffi::OsString],
        events: Events<'_>,
        home: &Path,
    ) -> anyhow::Result<()> {
        match self {
            Tracer::Bare => finish(words(command)),
            Tracer::Ftrace => {
                let _on = Ftrace::enable(events, home)?;
                finish(words(command))
            }
            Tracer::PerfRecord => {
                let mut perf = Command::new("perf");
                perf.args(["record", "-q", "-m", "4M", "-o"]).arg(home.join("perf.data"));
                for event in events {
                    perf.args(["-e", &event.replacen('/', ":", 1)]);
                }
                perf.arg("--").args(command);
                finish(perf)
            }
            Tracer::PerfTrace => {
                let mut perf = Command::new("perf");
                perf.args(["trace", "-o"]).arg(home.join("perf.txt"));
                for event in events.iter().filter(|event| !event.starts_with("syscalls/")) {
                    perf.args(["-e", &event.replacen('/', ":", 1)]);
                }
                perf.arg("--").args(command);
                finish(perf)
            }
            Tracer::BpftraceCount => {
                let probes = events.iter().map(|event| format!("tracepoint:{}", event.replacen('/', ":", 1)));
                let program = format!("{} {{ @ = count(); }}", probes.collect::<Vec<_>>().join(", "));
                let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                let mut bpftrace = Command::new(WITH_TRACEFS[0]);
                bpftrace.args(&WITH_TRACEFS[1..]);
                bpftrace.args(["bpftrace", "-e", &program, "-c", &command.join(" ")]);
                finish(bpftrace)
            }
            Tracer::Strace => {
                let mut strace = Command::new("strace");
                strace.args(["-f", "-qq", "-o"]).arg(home.join("strace.txt")).arg("--").args(command);
                finish(strace)
            }
        }
    }
}

fn words(command: &[std::ffi::OsString]) -> Command {
    let (program, rest) = command
        .split_first()
        .map_or((Path::new("false").as_os_str(), command), |(first, rest)| (first.as_os_str(), rest));
    let mut command = Command::new(program);
    command.args(rest);
    command
}

fn finish(mut command: Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().with_context(|| format!("{name} is not installed"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{name} has failed: {}",
        said.trim().lines().last().unwrap_or_default()
    );
    Ok(())
}

/// The kernel's tracer with some events on, in an instance of its own; off again when dropped.
pub(super) struct Ftrace {
    instance: PathBuf,
}

impl Ftrace {
    /// Switches the events on.
    ///
    /// # Errors
    /// There is no tracefs, or no event of that name.
    pub(super) fn enable(events: Events<'_>, home: &Path) -> anyhow::Result<Ftrace> {
        let root = tracefs(home)?;
        let instance = root.join("instances/mote-bench");
        if !instance.is_dir() {
            std::fs::create_dir(&instance).context("cannot make an instance of ftrace")?;
        }
        let on = Ftrace { instance };
        on.write("buffer_size_kb", "4096")?;
        for event in events {
            on.write("set_event", &event.replacen('/', ":", 1))?;
        }
        on.write("tracing_on", "1")?;
        Ok(on)
    }

    /// Writes to one of its files.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.instance.join(file);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path)?;
        std::io::Write::write_all(&mut file, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        // It goes with its events; nothing can be done if it stays.
        let _ = std::fs::write(self.instance.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.instance);
    }
}

/// Where tracefs is: as it is mounted, or mounted for this benchmark in its own directory.
pub(super) fn tracefs(home: &Path) -> anyhow::Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| match line.split(' ').collect::<Vec<_>>().as_slice() {
        [_, at, "tracefs", ..] => Some(PathBuf::from(at)),
        _ => None,
    });
    if let Some(at) = mounted {
        return Ok(at);
    }
    let at = home.join("tracefs");
    std::fs::create_dir_all(&at)?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "tracefs", "nodev"]).arg(&at);
    finish(mount).context("tracefs cannot be mounted; run as root")?;
    Ok(at)
}

/// Unmounts what [`tracefs`] has mounted.
pub(super) fn leave_tracefs(home: &Path) {
    let at = home.join("tracefs");
    if at.is_dir() {
        let _ = Command::new("umount").arg(&at).stderr(Stdio::null()).status();
    }
}
