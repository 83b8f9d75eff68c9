//! As many kernel events are recorded as others count: perf, of the same tracepoints in the same run.

use crate::support::kernel::{self, of_thread, trace_of};
use crate::support::perf::{self, Perf, Same, WITH_TRACEFS};
use crate::support::servers::{Home, Kind, Load, Server};
use crate::support::{Event, Record, programs, skip, wait_for, within};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// System calls of servers under load, and of their beginning and end.
const OF_SERVERS: [&str; 14] = [
    "accept4",
    "clone3",
    "close",
    "epoll_ctl",
    "epoll_wait",
    "exit_group",
    "fdatasync",
    "futex",
    "mmap",
    "openat",
    "read",
    "recvfrom",
    "write",
    "writev",
];

/// How many of these events of these threads there are from a time on.
fn ours(events: &[Event], same: &[Same], threads: &BTreeSet<u64>, start: u64) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = same.iter().map(|(_, name)| (name.clone(), 0)).collect();
    for event in events.iter().filter(|event| event.time >= start && threads.contains(&event.tid)) {
        if let Some(count) = counts.get_mut(&event.name) {
            *count += 1;
        }
    }
    counts
}

#[test]
fn as_many_as_perf_counts() {
    if !perf::is_there() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let out = keep.path().join("perf");
    let mut same = perf::of_calls(&["getsid", "openat", "mmap"]);
    same.extend(perf::of_scheduler(&["process_fork", "process_exec", "process_exit"]));
    let mut command = perf::stat(&same, &out);
    command.extend(["--", programs::scenes(), "calls", "20000"].map(str::to_owned));
    let trace =
        Record::program(&command).under(&WITH_TRACEFS).with(&["-k", "syscalls,sched"]).run().ends_with(0);
    let (pid, events) = (trace.printed("pid"), trace.view());
    // perf counts from the exec on, in all threads of the process.
    let start = of_thread(&events, "sched_process_exec", pid).last().expect("an exec").time;
    let ours = ours(&events, &same, &kernel::threads_of(&events, pid), start);
    assert_eq!(ours, perf::counts(&out, &same));
    assert_eq!(ours["syscall_entry_getsid"], 20_000);
    println!("{ours:?}");
}

#[test]
fn of_a_server_from_its_exec_to_its_end() {
    if !perf::is_there() || !is_installed(Kind::Redis) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let out = keep.path().join("perf");
    let home = Home::new(Kind::Redis, keep.path()).expect("redis");
    let mut same = perf::of_calls(&OF_SERVERS);
    same.extend(perf::of_scheduler(&["switch", "process_fork", "process_exec", "process_exit"]));
    let mut command = perf::stat(&same, &out);
    command.push("--".to_owned());
    command.extend(home.words().iter().map(|word| word.to_str().expect("text").to_owned()));
    let running = Record::program(&command).under(&WITH_TRACEFS).with(&["-k", "syscalls,sched"]).start();
    wait_for("redis", || home.is_up().then_some(()));
    let pid = wait_for("its process id", || home.pid()).into();
    home.rate(Load::Writes, 2000).expect("a rate");
    home.shut_down().expect("redis ends");
    let trace = running.wait().ends_with(0);
    let events = trace.view();
    let start = of_thread(&events, "sched_process_exec", pid).first().expect("an exec").time;
    let threads = kernel::threads_of(&events, pid);
    let mut ours = ours(&events, &same, &threads, start);
    let mut theirs = perf::counts(&out, &same);
    // perf lets go of a thread somewhere between its `sched_process_exit` and the last time that it leaves its CPU.
    let (most, unseen) = (ours.remove("sched_switch"), switches_of_the_dying(&events, &threads));
    let (most, seen) = (most.expect("counted"), theirs.remove("sched_switch").expect("counted"));
    assert!(unseen >= threads.len() as u64, "each thread leaves its CPU once more after its end: {unseen}");
    // And it counts from somewhere in execve(2) on, before `sched_process_exec`.
    let early = switches_in_exec(&events, pid, start);
    let bound = most - unseen..=most - threads.len() as u64 + early;
    assert!(bound.contains(&seen), "perf has counted {seen} switches, not {bound:?}");
    assert_eq!(ours, theirs);
    // A batch of requests is one write, if several have come.
    assert!(ours["syscall_entry_read"] >= 2000 && ours["syscall_entry_fdatasync"] >= 2000 / 4, "{ours:?}");
    kernel::assert_babeltrace_counts(&trace.path.join("kernel"), &kernel::counts(&trace_of(&trace).view()));
    println!("{ours:?}");
}

/// How often a thread was taken off its CPU in the call of execve(2) that ended at `start`.
fn switches_in_exec(events: &[Event], thread: u64, start: u64) -> u64 {
    let before = events.iter().filter(|event| event.tid == thread && event.time < start);
    before.fold(0, |count, event| match event.name.as_str() {
        "syscall_entry_execve" => 0,
        "sched_switch" => count + 1,
        _ => count,
    })
}

/// How often threads were taken off a CPU after the event that says that they end.
fn switches_of_the_dying(events: &[Event], threads: &BTreeSet<u64>) -> u64 {
    let mut dying = BTreeSet::new();
    let mut count = 0;
    for event in events.iter().filter(|event| threads.contains(&event.tid)) {
        match event.name.as_str() {
            "sched_process_exit" => drop(dying.insert(event.tid)),
            "sched_switch" if dying.contains(&event.tid) => count += 1,
            _ => {}
        }
    }
    count
}

#[test]
fn of_a_server_that_runs() {
    if !perf::is_there() || !is_installed(Kind::Nginx) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let server = Server::start(Kind::Nginx, keep.path()).expect("nginx");
    let worker = *server.pids().last().expect("a worker");
    let running = Record::process(worker.into()).with(&["-k", "syscalls,sched"]).start();
    wait_for("events on disk", || {
        server.home().rate(Load::Reads, 10).expect("a rate");
        (0..64).any(|cpu| running.output().join(format!("kernel/cpu_{cpu}")).exists()).then_some(())
    });
    // Both begin and end while it sleeps.
    wait_until_idle(worker);
    let mut same = perf::of_calls(&OF_SERVERS);
    same.extend(perf::of_scheduler(&["switch", "wakeup", "waking", "wakeup_new", "migrate_task"]));
    let mut counted = same.clone();
    counted.extend(perf::of_scheduler(&["stat_runtime"]));
    let perf = Perf::begin(worker, counted, keep.path());
    let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    server.home().rate(Load::Reads, 5000).expect("a rate");
    wait_until_idle(worker);
    let mut theirs = perf.end();
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    let mut events = trace.view();
    events.retain(|event| event.time >= start);
    let threads = BTreeSet::from([u64::from(worker)]);
    let ours = ours(&events, &same, &threads, start);
    // Of this one perf adds up the values: nanoseconds on a CPU.
    let runtime = theirs.remove("sched_stat_runtime").expect("it was counted");
    let ran = of_thread(&events, "sched_stat_runtime", worker.into());
    assert_eq!(ran.iter().map(|event| event.number("runtime")).sum::<u64>(), runtime);
    assert_eq!(ours, theirs);
    assert!(ours["syscall_entry_writev"] >= 5000, "{ours:?}");
    kernel::assert_babeltrace_counts(&trace.path.join("kernel"), &kernel::counts(&trace_of(&trace).view()));
    println!("{ours:?}");
}

/// Whether a server can be run; says so when not.
fn is_installed(kind: Kind) -> bool {
    if let Some(packages) = kind.missing() {
        skip(format_args!("{} is not installed: apt-get install {packages}", kind.name()));
        return false;
    }
    true
}

/// Waits until a process sleeps and goes on sleeping, and not only waits for a CPU.
fn wait_until_idle(pid: u32) {
    let look = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let of_interest = |line: &&str| line.contains("ctxt_switches") || line.starts_with("State:");
        status.lines().filter(of_interest).collect::<Vec<_>>().join(" ")
    };
    let mut before = String::new();
    wait_for("a server that has nothing to do", || {
        let now = look();
        let idle = now == before && now.contains("(sleeping)");
        before = now;
        std::thread::sleep(Duration::from_millis(300));
        idle.then_some(())
    });
}

/// perf lets go of a thread when it ends, before its last switch, which is in the trace.
#[test]
fn all_switches_and_the_last_of_each_thread() {
    if !perf::is_there() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let out = keep.path().join("perf");
    let same = perf::of_scheduler(&["switch"]);
    // The kernel frees a task after a grace period of RCU, which takes as long as it takes.
    let made = |ms: u64| {
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), "\"$@\"; sleep $0".to_owned()];
        command.push(format!("{}.{:03}", ms / 1000, ms % 1000));
        command.extend(perf::stat(&same, &out));
        command.extend(["--", programs::scenes(), "calling-threads", "20", "10"].map(str::to_owned));
        let running =
            Record::program(&command).under(&WITH_TRACEFS).with(&["-k", "sched,syscalls:sys_enter_execve"]);
        let events = trace_of(&running.run().ends_with(0)).view();
        (perf::counts(&out, &same)["sched_switch"], events)
    };
    let has_freed = |events: &[Event]| events.iter().any(|event| event.name == "sched_process_free");
    let (theirs, events) = within(200, made, |(_, events)| has_freed(events));
    assert!(has_freed(&events), "also what happens when nobody runs any more");
    let is_exec = |event: &&Event| event.name == "sched_process_exec";
    let exec = events.iter().filter(is_exec).find(|event| event.fields["filename"] == programs::scenes());
    let exec = exec.expect("an exec");
    let mut threads = BTreeSet::from([exec.tid]);
    for fork in events.iter().filter(|event| event.name == "sched_process_fork" && event.time >= exec.time) {
        if threads.contains(&fork.tid) {
            threads.insert(fork.number("child_tid"));
        }
    }
    assert!(threads.len() > 20, "{threads:?}");
    let all = ours(&events, &same, &threads, exec.time)["sched_switch"];
    let after = switches_of_the_dying(&events, &threads);
    assert!(after >= threads.len() as u64, "each has left its CPU for ever: {after}");
    let early = switches_in_exec(&events, exec.tid, exec.time);
    assert!(
        (all - after..=all - threads.len() as u64 + early).contains(&theirs),
        "perf has counted {theirs} of {all}, {after} at the end, {early} in execve"
    );
}
