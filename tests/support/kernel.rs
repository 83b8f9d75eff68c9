//! Recordings with kernel events.

use super::{Event, Trace, babeltrace, is_root, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Whether kernel events can be recorded here; says so when not.
pub(crate) fn is_there() -> bool {
    if !is_root() {
        return false;
    }
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !btf {
        skip("this kernel has no BTF");
    }
    btf
}

/// The kernel's trace of a recording by itself.
pub(crate) fn trace_of(recording: &Trace) -> Trace {
    Trace {
        path: recording.path.join("kernel"),
        status: 0,
        out: String::new(),
        err: String::new(),
        took: Duration::ZERO,
        _keep: None,
    }
}

/// How many there are of each name.
pub(crate) fn counts(events: &[Event]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.name.clone()).or_default() += 1;
    }
    counts
}

/// Events of a name and a thread.
pub(crate) fn of_thread<'e>(events: &'e [Event], name: &str, tid: u64) -> Vec<&'e Event> {
    events.iter().filter(|event| event.name == name && event.tid == tid).collect()
}

/// The threads of a process, one that its agent has started included: from the forks that were recorded.
pub(crate) fn threads_of(events: &[Event], pid: u64) -> BTreeSet<u64> {
    let forks =
        events.iter().filter(|event| event.name == "sched_process_fork" && event.number("child_pid") == pid);
    forks.map(|fork| fork.number("child_tid")).chain([pid]).collect()
}

/// Asserts that babeltrace2 reads a trace of the kernel, with as many events of each name as these.
#[track_caller]
pub(crate) fn assert_babeltrace_counts(path: &Path, ours: &BTreeMap<String, u64>) {
    if let Some(theirs) = babeltrace::names(path) {
        assert_eq!(&theirs, ours, "events that babeltrace2 and mote show");
    }
}

/// A program that runs beside recordings, until it goes out of scope.
pub(crate) struct Beside {
    child: Child,
}

impl Beside {
    /// Starts a scene.
    pub(crate) fn scene(words: &[&str]) -> Beside {
        let mut command = Command::new(super::programs::scenes());
        Beside { child: command.args(words).stdout(Stdio::null()).spawn().expect("it runs") }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u64 {
        u64::from(self.child.id())
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.end();
    }
}
