//! As many kernel events are recorded as others count: perf, of the same tracepoints in the same run.

use crate::support::kernel::{self, of_thread};
use crate::support::{Event, Record, has_tool, programs};
use std::collections::BTreeMap;

/// Runs what follows with tracefs at its usual place, which nobody else sees.
const WITH_TRACEFS: [&str; 6] =
    ["unshare", "-m", "sh", "-c", "mount -t tracefs nodev /sys/kernel/tracing && exec \"$@\"", "sh"];

/// Events as perf calls them, and as the trace does.
const SAME: [(&str, &str); 9] = [
    ("syscalls:sys_enter_getsid", "syscall_entry_getsid"),
    ("syscalls:sys_exit_getsid", "syscall_exit_getsid"),
    ("syscalls:sys_enter_openat", "syscall_entry_openat"),
    ("syscalls:sys_exit_openat", "syscall_exit_openat"),
    ("syscalls:sys_enter_mmap", "syscall_entry_mmap"),
    ("syscalls:sys_exit_mmap", "syscall_exit_mmap"),
    ("sched:sched_process_fork", "sched_process_fork"),
    ("sched:sched_process_exec", "sched_process_exec"),
    ("sched:sched_process_exit", "sched_process_exit"),
];

/// `COUNT,UNIT,EVENT,...` as `perf stat -x,` writes it.
fn perf_counts(text: &str) -> BTreeMap<String, u64> {
    let counts = text.lines().filter_map(|line| {
        let mut words = line.split(',');
        let count = words.next()?.parse().ok()?;
        Some((words.nth(1)?.to_owned(), count))
    });
    counts.collect()
}

#[test]
fn as_many_as_perf_counts() {
    if !kernel::is_there() || !has_tool("perf") || !has_tool("unshare") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let out = keep.path().join("perf");
    let perf = ["perf", "stat", "-x,", "-o", out.to_str().expect("text"), "-e"];
    let scene = ["--", programs::scenes(), "calls", "20000"];
    let names = SAME.map(|(theirs, _)| theirs).join(",");
    let command = [&perf[..], &[&names], &scene[..]].concat();
    let trace =
        Record::program(&command).under(&WITH_TRACEFS).with(&["-k", "syscalls,sched"]).run().ends_with(0);
    let text = std::fs::read_to_string(&out).expect("perf has written");
    let theirs = perf_counts(&text);
    let (pid, events) = (trace.printed("pid"), trace.view());
    // perf counts from the exec on, in all threads of the process.
    let start = of_thread(&events, "sched_process_exec", pid).last().expect("an exec").time;
    let threads = kernel::threads_of(&events, pid);
    let count = |name: &str| {
        let ours = |event: &&Event| event.name == name && event.time >= start && threads.contains(&event.tid);
        events.iter().filter(ours).count() as u64
    };
    let ours: BTreeMap<String, u64> =
        SAME.into_iter().map(|(theirs, ours)| (theirs.to_owned(), count(ours))).collect();
    assert_eq!(ours, theirs, "{text}");
    assert_eq!(ours["syscalls:sys_enter_getsid"], 20_000);
    println!("{ours:?}");
}
