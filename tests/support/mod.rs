//! What the claims stand on: builds, recordings, and two independent readers of a trace.

pub(crate) mod asked;
pub(crate) mod babeltrace;
pub(crate) mod cgroup;
pub(crate) mod command;
pub(crate) mod compiled;
pub(crate) mod counting;
pub(crate) mod emulated;
pub(crate) mod event;
pub(crate) mod gaps;
pub(crate) mod kernel;
pub(crate) mod killer;
pub(crate) mod latency;
pub(crate) mod panics;
pub(crate) mod perf;
pub(crate) mod programs;
pub(crate) mod record;
pub(crate) mod servers;
pub(crate) mod slow_disk;
pub(crate) mod switched;
pub(crate) mod trace;

pub(crate) use event::Event;
pub(crate) use mote_skip::skip;
pub(crate) use record::{DEFAULT_SIGNALS, Record, Running, wait_for_sleeps};
pub(crate) use trace::Trace;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether a tool can be run; says so when it cannot.
pub(crate) fn has_tool(name: &str) -> bool {
    let there = is_there(name);
    if !there {
        skip(format_args!("{name} is not installed"));
    }
    there
}

/// Whether a program is in `PATH`.
pub(crate) fn is_there(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(name).is_file()))
}

/// True for root; says so when not.
pub(crate) fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip("needs root");
    }
    root
}

/// Runs a tool; returns what it printed. Panics, with what it said, unless it succeeds.
pub(crate) fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Copies a program that is to be started. Another process does it: while a file is open for writing in this one, a
/// test beside us may fork, and its child keeps the file busy (`ETXTBSY`) until it has called execve(2).
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    output_of(Command::new("cp").arg(from.as_ref()).arg(to.as_ref()));
}

/// How long something may take that is waited for: far longer than it takes on any machine, however busy, that comes to
/// it at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `done` answers something, [`PATIENCE`] at most.
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = done() {
            return answer;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes what takes `ms`, and if it does not serve, what takes longer, three times at most: a machine may stand still
/// for seconds at any moment, and then a time is over before anything has happened. Returns the last in any case, whose
/// assertions say what is missing.
pub(crate) fn within<T>(ms: u64, make: impl Fn(u64) -> T, serves: impl Fn(&T) -> bool) -> T {
    [10, 50].iter().fold(make(ms), |made, longer| if serves(&made) { made } else { make(ms * longer) })
}
