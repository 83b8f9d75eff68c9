//! Kernel events stand in the same recording as those of programs: of a command, of running processes, of the whole
//! system.

use crate::support::event::{assert_counts, named};
use crate::support::kernel::{self, Beside, of_thread, trace_of};
use crate::support::{Record, Trace, babeltrace, wait_for, wait_for_sleeps, within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Command;
use std::time::Duration;

const ENTRY: &str = "syscall_entry_getsid";
const EXIT: &str = "syscall_exit_getsid";

#[test]
fn of_a_command_from_its_exec_to_its_end() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["calls", "1000"]).with(&["-k", "sched,syscalls"]).run().ends_with(0);
    let pid = trace.printed("pid");
    let events = trace.view();
    // Both sides, merged by time.
    assert!(events.is_sorted_by_key(|event| event.time));
    assert_counts(&named(&events, "e2e:before"), "seq", 1000);
    assert_eq!(of_thread(&events, ENTRY, pid).len(), 1000);
    assert_eq!(of_thread(&events, EXIT, pid).len(), 1000);
    // From the recorder's fork over the command's own exec to its exit.
    let at = |name: &str| {
        let event = of_thread(&events, name, pid).first().copied();
        event.unwrap_or_else(|| panic!("no {name} of {pid}")).time
    };
    assert!(at("syscall_entry_execve") <= at("sched_process_exec"), "exec");
    assert!(at("sched_process_exec") < at("e2e:before"));
    assert!(at("e2e:after") < at("syscall_entry_exit_group"));
    assert!(at("syscall_entry_exit_group") < at("sched_process_exit"));
    // Nothing of anybody else.
    let threads = kernel::threads_of(&events, pid);
    let mut calls = events.iter().filter(|event| event.name.starts_with("syscall_"));
    assert!(calls.all(|event| threads.contains(&event.tid)), "{threads:?}");
    let counts = kernel::counts(&trace_of(&trace).view());
    kernel::assert_babeltrace_counts(&trace.path.join("kernel"), &counts);
    let all = kernel::counts(&events);
    kernel::assert_babeltrace_counts(&trace.path, &all);
    let summary = trace_of(&trace).summary();
    assert_eq!(summary["events"]["syscalls:syscall_entry_getsid"], 1000, "{summary}");
    assert!(trace.err.contains("kernel"), "{}", trace.err);
}

#[test]
fn of_its_children_too() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["fork", "5", "3"]).with(&["-k", "sched:sched_process_*"]).run().ends_with(0);
    let events = trace.view();
    let pid = trace.printed("pid");
    let forks = of_thread(&events, "sched_process_fork", pid);
    let processes: Vec<_> = forks.iter().filter(|fork| fork.number("child_pid") != pid).collect();
    assert_eq!(processes.len(), 5, "{forks:?}");
    for fork in processes {
        let child = fork.number("child_tid");
        assert_eq!(of_thread(&events, "sched_process_exit", child).len(), 1, "the end of {child}");
    }
}

#[test]
fn with_names_and_fields_as_lttng_has_them() {
    if !kernel::is_there() {
        return;
    }
    let trace =
        Record::scene(&["opens", "/etc/hostname"]).with(&["-k", "sched:sched_switch,syscalls:*open*"]).run();
    let trace = trace.ends_with(0);
    let (pid, events) = (trace.printed("pid"), trace.view());
    let path = |name: &str| {
        let opens = of_thread(&events, "syscall_entry_openat", pid);
        let at = opens.iter().position(|event| event.fields["filename"] == name);
        at.unwrap_or_else(|| panic!("{name} was not opened: {opens:?}"))
    };
    let (there, missing) = (path("/etc/hostname"), path("/no/such/file"));
    let exits = of_thread(&events, "syscall_exit_openat", pid);
    assert!(exits[there].fields["ret"].as_i64().is_some_and(|ret| ret >= 0), "{:?}", exits[there]);
    assert_eq!(exits[missing].fields["ret"].as_i64(), Some(-2), "{:?}", exits[missing]);
    // The last one: before its exec the thread still has the recorder's name.
    let switch = named(&events, "sched_switch").into_iter().rfind(|event| event.number("prev_tid") == pid);
    let switch = switch.expect("it has left the CPU");
    for field in ["prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm", "next_tid", "next_prio"] {
        assert!(switch.fields.contains_key(field), "no {field} in {switch:?}");
    }
    assert_eq!(switch.fields["prev_comm"], "scenes");
    let metadata = std::fs::read_to_string(trace.path.join("kernel/metadata")).expect("metadata");
    assert!(metadata.contains("domain = \"kernel\""));
}

#[test]
fn of_the_whole_system_for_a_time() {
    if !kernel::is_there() {
        return;
    }
    let beside = Beside::scene(&["calls-until-killed"]);
    let record = |ms: u64| {
        let duration = format!("{ms}ms");
        Record::nothing().with(&["-a", "-k", "syscalls:*getsid", "--duration", &duration]).run()
    };
    let calls = |trace: &Trace| of_thread(&trace.view(), ENTRY, beside.pid()).len();
    let trace = within(500, record, |trace| calls(trace) > 20).ends_with(0);
    let events = trace.view();
    let (entries, exits) = (of_thread(&events, ENTRY, beside.pid()), of_thread(&events, EXIT, beside.pid()));
    assert!(entries.len() > 20, "{} calls", entries.len());
    assert!(entries.len().abs_diff(exits.len()) <= 1);
    // The state of the system at the start.
    let states = named(&events, "lttng_statedump_process_state");
    assert!(states.iter().any(|event| event.fields["name"] == "scenes"), "{} states", states.len());
    assert!(entries[0].thread.as_deref() == Some("scenes"), "{:?}", entries[0]);
}

#[test]
fn of_running_processes_until_the_last_has_ended() {
    if !kernel::is_there() {
        return;
    }
    let (mut one, mut other) =
        (Beside::scene(&["calls-until-killed"]), Beside::scene(&["calls-until-killed"]));
    let bystander = Beside::scene(&["calls-until-killed"]);
    let pids = [one.pid().to_string(), other.pid().to_string()];
    let options = ["-k", "syscalls:*getsid,sched:sched_process_exit", "-p", &pids[0], "-p", &pids[1]];
    let mut running = Record::nothing().with(&options).start();
    running.wait_until_kernel_recorded();
    [&one, &other].iter().for_each(|program| wait_for_sleeps(program.pid(), 20));
    one.end();
    std::thread::sleep(Duration::from_millis(400));
    assert!(!running.has_ended(), "the other one still runs");
    other.end();
    let trace = running.wait().ends_with(0);
    let events = trace.view();
    for pid in [one.pid(), other.pid()] {
        assert!(of_thread(&events, ENTRY, pid).len() > 10);
        assert_eq!(of_thread(&events, "sched_process_exit", pid).len(), 1);
    }
    assert!(of_thread(&events, ENTRY, bystander.pid()).is_empty());
}

#[test]
fn of_no_other_process_that_gets_the_id() {
    if !kernel::is_there() {
        return;
    }
    let (mut one, mut other) =
        (Beside::scene(&["calls-until-killed"]), Beside::scene(&["calls-until-killed"]));
    let pids = [one.pid().to_string(), other.pid().to_string()];
    let running = Record::nothing()
        .with(&["-k", "syscalls:*getsid,sched:sched_process_exit", "-p", &pids[0], "-p", &pids[1]])
        .start();
    running.wait_until_kernel_recorded();
    one.end();
    let again =
        Command::new(crate::support::programs::scenes()).args(["as-process", &pids[0], "5000"]).output();
    let again = again.expect("it runs");
    assert!(again.status.success(), "{again:?}");
    other.end();
    let trace = running.wait().ends_with(0);
    let events = trace.view();
    let end = of_thread(&events, "sched_process_exit", one.pid());
    assert_eq!(end.len(), 1, "the end of the first with this id, and not of the second");
    assert!(of_thread(&events, ENTRY, one.pid()).iter().all(|event| event.time <= end[0].time));
}

#[test]
fn of_thousands_of_threads() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["calling-threads", "3000", "10"])
        .with(&["-k", "syscalls:*getsid,sched:sched_process_*"]);
    let trace = trace.run().ends_with(0);
    let counts = kernel::counts(&trace.view());
    assert_eq!(counts[ENTRY], trace.printed("calls"));
    assert_eq!(counts[EXIT], trace.printed("calls"));
    // The scene's, the first, and the agent's.
    assert_eq!(counts["sched_process_exit"], 3000 + 1 + 1);
}

#[test]
fn also_when_the_recorder_is_killed() {
    if !kernel::is_there() {
        return;
    }
    for round in 0..3u64 {
        let running = Record::scene(&["calls", "30000000"]).with(&["-k", "syscalls,sched"]).start();
        let pid = running.wait_for("pid") as i32;
        let stream = || {
            running.output().join("kernel/cpu_0").exists() || running.output().join("kernel/cpu_1").exists()
        };
        wait_for("events on disk", || stream().then_some(()));
        std::thread::sleep(Duration::from_millis(11 + 97 * round));
        running.signal(Signal::SIGKILL);
        let trace = running.wait();
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        babeltrace::assert_valid(&trace.path.join("kernel"));
        babeltrace::assert_valid(&trace.path);
        let view = trace.mote(&["view", "--format", "null"]);
        assert_eq!(view.status.code(), Some(0), "{view:?}");
    }
}

#[test]
fn a_snapshot_has_events_of_both_sides() {
    if !kernel::is_there() {
        return;
    }
    let running = Record::scene(&["calls", "30000000"])
        .with(&[
            "-k",
            "syscalls:*getsid",
            "--mode",
            "overwrite",
            "--buffers",
            "256K",
            "--kernel-buffers",
            "256K",
        ])
        .start();
    let pid = running.wait_for("pid") as i32;
    running.wait_for("thousand");
    running.signal(Signal::SIGUSR2);
    let mut name = running.output().file_name().expect("a name").to_owned();
    name.push(".snapshot-1");
    let path = running.output().with_file_name(name);
    wait_for("the snapshot", || running.said().1.contains("snapshot written").then_some(()));
    babeltrace::assert_valid(&path);
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    let mut trace = running.wait().ends_with(128 + 9);
    trace.path = path;
    let counts = kernel::counts(&trace.view());
    assert!(counts["e2e:before"] > 100 && counts[ENTRY] > 100, "{counts:?}");
}

#[test]
fn system_calls_that_have_not_returned_are_told() {
    if !kernel::is_there() {
        return;
    }
    // It must have come to its long call before the time is over, and stay there.
    let record = |ms: u64| {
        let (duration, sleep) = (format!("{ms}ms"), format!("{}", 3.0 + ms as f64 / 1000.0));
        Record::program(&["sleep", &sleep]).with(&["-k", "syscalls", "--duration", &duration]).run()
    };
    let open = |trace: &Trace| {
        let report = trace.report();
        report["open_syscalls"].as_array().expect("a list").clone()
    };
    let trace = within(500, record, |trace| open(trace).iter().any(|open| open["name"] == "clock_nanosleep"));
    let trace = trace.ends_with(0);
    let open = open(&trace);
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0]["name"], "clock_nanosleep");
    let table = trace.mote(&["report"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("1 system call still open"), "{table:?}");
}

#[test]
fn a_thread_is_called_as_it_was_called_last() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::program(&["sh", "-c", "exec sleep 0.05"]).with(&["-k", "sched"]).run().ends_with(0);
    let events = trace.view();
    let slept = named(&events, "sched_process_exec").last().expect("an exec").tid;
    let report = trace.report();
    let threads = report["threads"].as_array().expect("threads");
    let thread = threads.iter().find(|thread| thread["tid"] == slept).expect("it has events");
    assert_eq!(thread["name"], "sleep", "{threads:?}");
}

#[test]
fn a_family_is_a_provider() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["calls", "10"]).with(&["-k", "syscalls,sched"]).run().ends_with(0);
    let view = trace.mote(&["view", "--provider", "sched"]);
    let text = String::from_utf8_lossy(&view.stdout);
    assert!(text.contains("sched_switch") && !text.contains("syscall_"), "{text}");
    let view = trace.mote(&["view", "--event", "syscalls:*getsid"]);
    let text = String::from_utf8_lossy(&view.stdout);
    assert_eq!(text.lines().count(), 20, "{text}");
    let report = trace.report();
    let providers: Vec<&str> = report["providers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for provider in ["sched", "syscalls", "e2e"] {
        assert!(providers.contains(&provider), "{providers:?}");
    }
}
