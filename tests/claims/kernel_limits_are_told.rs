//! What is missing of kernel events, or cannot be had, is said: rights, names, loss, silence.

use crate::support::kernel::{self, trace_of};
use crate::support::{Record, has_tool, wait_for};
use nix::sys::signal::Signal;

#[test]
fn which_right_is_missing() {
    if !kernel::is_there() || !has_tool("setpriv") {
        return;
    }
    for (kept, missing) in [("-all", "CAP_BPF and CAP_PERFMON"), ("-all,+bpf", "CAP_PERFMON")] {
        let rights = format!("--bounding-set={kept}");
        let wrapper = ["setpriv", &rights, "--inh-caps=-all"];
        let trace = Record::scene(&["calls", "1"]).under(&wrapper).with(&["-k", "sched"]).run().ends_with(2);
        assert!(trace.err.contains(missing) && trace.err.contains("run as root"), "{}", trace.err);
        assert_eq!(trace.out, "", "the command must not run");
        assert!(!trace.path.exists());
    }
}

#[test]
fn which_pattern_means_nothing() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["calls", "1"]).with(&["-k", "sched,sched_swich"]).run().ends_with(2);
    assert!(trace.err.contains("sched_swich") && trace.err.contains("sched_switch"), "{}", trace.err);
    assert!(!trace.path.exists());
    for options in [&["-a"][..], &["--stack"], &["-k", ""]] {
        let trace = Record::scene(&["calls", "1"]).with(options).run().ends_with(2);
        assert!(trace.err.contains("-k"), "{options:?}: {}", trace.err);
    }
}

#[test]
fn which_process_is_not_there() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::nothing().with(&["-k", "sched", "-p", "4194303"]).run().ends_with(2);
    assert!(trace.err.contains("4194303") && trace.err.contains("no such process"), "{}", trace.err);
    assert!(!trace.path.exists());
}

#[test]
fn what_was_lost_is_counted() {
    const CALLS: u64 = 300_000;
    if !kernel::is_there() {
        return;
    }
    let options = ["-k", "syscalls:*getsid", "--kernel-buffers", "8K", "-e", "none"];
    let trace = Record::scene(&["calls", &CALLS.to_string()]).with(&options).run().ends_with(3);
    let summary = trace_of(&trace).summary();
    let recorded: u64 = ["entry", "exit"]
        .map(|way| summary["events"][format!("syscalls:syscall_{way}_getsid")].as_u64().expect("a number"))
        .iter()
        .sum();
    let lost = summary["lost"]["ring_full"].as_u64().expect("a number");
    assert!(lost > 0 && recorded > 0);
    assert_eq!(recorded + lost, 2 * CALLS, "{summary}");
    assert!(trace.err.contains("ring_full"), "{}", trace.err);
    let counts = kernel::counts(&trace_of(&trace).view());
    assert_eq!(counts["syscall_entry_getsid"] + counts["syscall_exit_getsid"], recorded);
    let report = trace.mote(&["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["lost"]["events"], lost);
}

#[test]
fn what_there_was_nothing_of() {
    if !kernel::is_there() {
        return;
    }
    let options = ["-k", "sched:sched_process_*,syscalls:*_reboot", "-x", "sched:sched_process_exit"];
    let trace = Record::scene(&["calls", "1"]).with(&options).run().ends_with(0);
    assert!(trace.err.contains("no events of syscalls:*_reboot\n"), "{}", trace.err);
    let counts = kernel::counts(&trace_of(&trace).view());
    assert!(
        counts.contains_key("sched_process_exec") && !counts.contains_key("sched_process_exit"),
        "{counts:?}"
    );
}

#[test]
fn how_it_is_while_it_runs() {
    if !kernel::is_there() {
        return;
    }
    let running = Record::nothing().with(&["-k", "sched:sched_switch", "-a"]).start();
    let status = || {
        let mut command = std::process::Command::new(crate::support::programs::mote());
        let output = command.arg("status").arg(running.output()).output().expect("it runs");
        Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|_| output.status.success())
    };
    let text = wait_for("kernel events", || status().filter(|text| !text.contains("kernel: 0 events")));
    assert!(text.contains("kernel: ") && text.contains("sched:sched_switch"), "{text}");
    running.signal(Signal::SIGINT);
    running.wait().ends_with(0);
}

#[test]
fn a_process_that_runs_in_a_namespace_of_its_own_is_recorded_too() {
    if !kernel::is_there() || !has_tool("unshare") {
        return;
    }
    let scene = crate::support::programs::scenes();
    let command = ["unshare", "--pid", "--fork", "--mount-proc", scene, "calls", "100"];
    let trace = Record::program(&command).with(&["-k", "syscalls:*getsid"]).run().ends_with(0);
    assert_eq!(trace.printed("pid"), 1, "it is the first of its namespace");
    let counts = kernel::counts(&trace.view());
    assert_eq!((counts["syscall_entry_getsid"], counts["e2e:before"]), (100, 100));
}
