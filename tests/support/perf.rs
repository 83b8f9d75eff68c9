//! `perf stat`, which counts tracepoints: what kernel events are compared with.

use super::{has_tool, kernel, wait_for};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs what follows with tracefs at its usual place: where there is none, for what follows alone.
pub(crate) const WITH_TRACEFS: [&str; 6] = [
    "unshare",
    "-m",
    "sh",
    "-c",
    "{ [ -e /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing; } && exec \"$@\"",
    "sh",
];

/// An event, as perf calls it and as the trace does.
pub(crate) type Same = (String, String);

/// Whether perf can count beside a recording; says so when not.
pub(crate) fn is_there() -> bool {
    kernel::is_there() && has_tool("perf") && has_tool("unshare")
}

/// Both ends of these system calls.
pub(crate) fn of_calls(calls: &[&str]) -> Vec<Same> {
    let ends = [("sys_enter", "syscall_entry"), ("sys_exit", "syscall_exit")];
    let both = |call: &&str| {
        ends.map(|(theirs, ours)| (format!("syscalls:{theirs}_{call}"), format!("{ours}_{call}")))
    };
    calls.iter().flat_map(both).collect()
}

/// Events of the scheduler, without `sched_`.
pub(crate) fn of_scheduler(names: &[&str]) -> Vec<Same> {
    names.iter().map(|name| (format!("sched:sched_{name}"), format!("sched_{name}"))).collect()
}

/// The beginning of a command line: count these, write that file.
pub(crate) fn stat(events: &[Same], out: &Path) -> Vec<String> {
    let names = events.iter().map(|(theirs, _)| theirs.as_str()).collect::<Vec<_>>().join(",");
    let out = out.to_str().expect("text");
    ["perf", "stat", "-x,", "-o", out, "-e", &names].map(str::to_owned).to_vec()
}

/// What it has written, by the names that the trace has: lines of `COUNT,UNIT,EVENT,...`.
pub(crate) fn counts(out: &Path, events: &[Same]) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(out).expect("perf has written");
    let count = |line: &str| {
        let mut words = line.split(',');
        let count = words.next()?.parse().ok()?;
        let name = words.nth(1)?;
        let (_, ours) = events.iter().find(|(theirs, _)| theirs == name)?;
        Some((ours.clone(), count))
    };
    text.lines().filter_map(count).collect()
}

/// perf that counts events of a running process.
pub(crate) struct Perf {
    child: Child,
    events: Vec<Same>,
    out: PathBuf,
    control: File,
    answers: File,
}

impl Perf {
    /// Begins; returns when it counts. It makes its files in `home`.
    pub(crate) fn begin(pid: u32, events: Vec<Same>, home: &Path) -> Perf {
        let (control, answers, out) = (home.join("control"), home.join("answers"), home.join("perf"));
        let fifo = |path: &Path| {
            mkfifo(path, Mode::S_IRWXU).expect("a fifo");
            // For both ways, so that it opens at once.
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits());
            options.open(path).expect("a fifo")
        };
        let files = (fifo(&control), fifo(&answers));
        let mut command = Command::new(WITH_TRACEFS[0]);
        command.args(&WITH_TRACEFS[1..]).args(stat(&events, &out));
        command.args(["-p", &pid.to_string(), "-D", "-1"]);
        command.arg(format!("--control=fifo:{},{}", control.display(), answers.display()));
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let mut perf = Perf { child, events, out, control: files.0, answers: files.1 };
        perf.tell("enable");
        perf
    }

    fn tell(&mut self, what: &str) {
        self.control.write_all(format!("{what}\n").as_bytes()).expect("a fifo");
        wait_for("perf's answer", || {
            assert!(self.child.try_wait().expect("our child").is_none(), "perf has ended");
            matches!(self.answers.read(&mut [0; 16]), Ok(1..)).then_some(())
        });
    }

    /// Ends it; what it has counted, by the names that the trace has.
    pub(crate) fn end(mut self) -> BTreeMap<String, u64> {
        self.tell("disable");
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("it runs");
        self.child.wait().expect("our child");
        counts(&self.out, &self.events)
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
