//! What is missing of kernel events, or cannot be had, is said: rights, names, loss, silence.

use crate::support::kernel::{self, of_thread, trace_of};
use crate::support::{Event, Record, has_tool, wait_for, within};
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
    for options in [&["-a"][..], &["--stack=kernel"], &["-k", ""]] {
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
    let report = trace.report();
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

/// Runs what follows in a mount namespace of its own, after these commands.
fn in_mounts(commands: &str) -> [String; 5] {
    ["unshare", "-m", "sh", "-c", &format!("{commands} && exec \"$@\"")].map(str::to_owned)
}

fn under(wrapper: &[String]) -> Vec<&str> {
    wrapper.iter().map(String::as_str).chain(["sh"]).collect()
}

/// A tracefs with these changed formats of events of the system `task`, in a directory that `$TRACEFS` names.
fn changed_tracefs(keep: &std::path::Path, changes: &[(&str, &str)]) -> [String; 5] {
    let made = keep.join("made");
    let edits: String = changes
        .iter()
        .map(|(event, edit)| format!(" && sed -i '{edit}' {}/events/task/{event}/format", made.display()))
        .collect();
    in_mounts(&format!(
        "mkdir -p {made}/events/task {real} && mount -t tracefs nodev {real} && \
         for e in task_newtask task_rename; do mkdir {made}/events/task/$e && \
         for f in id format; do cat {real}/events/task/$e/$f > {made}/events/task/$e/$f; done; done{edits} && \
         mount --bind {made} /sys/kernel/tracing",
        made = made.display(),
        real = keep.join("real").display(),
    ))
}

#[test]
fn which_event_the_verifier_refuses() {
    if !kernel::is_there() || !has_tool("unshare") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    // A field behind all that a trace event can have.
    let wrong = "s/field:short oom_score_adj;.*/field:int beyond;\\toffset:9000;\\tsize:4;\\tsigned:1;/";
    let wrapper = changed_tracefs(keep.path(), &[("task_rename", wrong)]);
    let trace = Record::program(&["sh", "-c", "true & wait"])
        .under(&under(&wrapper))
        .with(&["-k", "task:*"])
        .run()
        .ends_with(0);
    let told: Vec<&str> = trace.err.lines().filter(|line| line.contains("is not recorded")).collect();
    assert_eq!(told.len(), 1, "{}", trace.err);
    assert!(told[0].contains("task:task_rename") && told[0].contains("off=9000"), "{told:?}");
    let counts = kernel::counts(&trace_of(&trace).view());
    assert!(counts["task_newtask"] > 0 && !counts.contains_key("task_rename"), "{counts:?}");
    let facts = trace_of(&trace).facts("refused");
    assert!(facts.len() == 1 && facts[0]["name"] == "task_rename", "{facts:?}");
    // When it is all that was asked for, nothing is recorded.
    let keep = tempfile::tempdir().expect("a directory");
    let wrapper = changed_tracefs(keep.path(), &[("task_rename", wrong)]);
    let trace = Record::program(&["true"])
        .under(&under(&wrapper))
        .with(&["-k", "task:task_rename"])
        .run()
        .ends_with(2);
    assert!(trace.err.contains("no kernel event could be attached, of 1"), "{}", trace.err);
}

#[test]
fn layouts_are_read_and_never_assumed() {
    if !kernel::is_there() || !has_tool("unshare") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    // As if a later kernel called the field otherwise, had dropped another one, and had moved its comm to where the
    // number was.
    let edit = "s/field:pid_t pid;/field:pid_t newcomer;/;/clone_flags/d;\
        s/field:short oom_score_adj;.*/field:unsigned char first;\\toffset:8;\\tsize:1;\\tsigned:0;/";
    let wrapper = changed_tracefs(keep.path(), &[("task_newtask", edit)]);
    let options = ["-k", "task:task_newtask", "-k", "sched:sched_process_fork"];
    let trace = Record::program(&["sh", "-c", "true & wait"]).under(&under(&wrapper)).with(&options).run();
    // The altered directory has no other events than those of `task`.
    assert!(trace.err.contains("sched_process_fork"), "{}", trace.err);
    let keep = tempfile::tempdir().expect("a directory");
    let wrapper = changed_tracefs(keep.path(), &[("task_newtask", edit)]);
    let trace = Record::program(&["sh", "-c", "true & echo child $!; wait"])
        .under(&under(&wrapper))
        .with(&["-k", "task:task_newtask"])
        .run()
        .ends_with(0);
    let child = trace.printed("child");
    let events = trace_of(&trace).view();
    let event = events.iter().find(|event| event.name == "task_newtask" && event.fields["newcomer"] == child);
    let event = event.unwrap_or_else(|| panic!("no event of {child}: {events:?}"));
    assert!(!event.fields.contains_key("pid") && !event.fields.contains_key("clone_flags"), "{event:?}");
    assert_eq!(event.number("first"), child & 255, "the first byte of the number, which lies there");
}

#[test]
fn that_the_kernel_does_not_tell_its_types() {
    if !kernel::is_there() || !has_tool("unshare") {
        return;
    }
    let wrapper = in_mounts("mount -t tmpfs none /sys/kernel/btf");
    let trace = Record::scene(&["calls", "5"])
        .under(&under(&wrapper))
        .with(&["-k", "syscalls:*getsid"])
        .run()
        .ends_with(2);
    assert!(trace.err.contains("/sys/kernel/btf/vmlinux") && trace.err.contains("-a"), "{}", trace.err);
    assert_eq!(trace.out, "", "the command must not run");
    // The calls of all other programs are recorded, too: there may be more than the rings hold.
    let options = ["-k", "syscalls:*getsid", "-a", "--kernel-buffers", "32M"];
    let made = |_| Record::scene(&["calls", "5"]).under(&under(&wrapper)).with(&options).run();
    let trace = within(0, made, |trace| trace.status == 0).ends_with(0);
    assert!(trace.err.contains("no BTF"), "{}", trace.err);
    let calls = of_thread(&trace_of(&trace).view(), "syscall_entry_getsid", trace.printed("pid")).len();
    assert_eq!(calls, 5);
}

#[test]
fn that_there_is_no_tracefs() {
    if !kernel::is_there() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    // Who may mount has one of his own.
    let empty = "mount -t tmpfs none /sys/kernel/tracing && mount -t tmpfs none /sys/kernel/debug";
    let mut wrapper: Vec<String> = in_mounts(empty).into();
    wrapper
        .extend(["sh", "setpriv", "--bounding-set=-all,+bpf,+perfmon", "--inh-caps=-all"].map(str::to_owned));
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let options = ["-k", "sched", "-k", "syscalls:*getsid"];
    let trace = Record::scene(&["calls", "5"]).under(&wrapper).with(&options).run().ends_with(0);
    assert!(trace.err.contains("no tracefs"), "{}", trace.err);
    let counts = kernel::counts(&trace_of(&trace).view());
    assert!(counts["syscall_entry_getsid"] == 5 && counts.contains_key("sched_process_exec"), "{counts:?}");
    let trace = Record::scene(&["calls", "5"]).under(&wrapper).with(&["-k", "task"]).run().ends_with(2);
    assert!(trace.err.contains("task"), "{}", trace.err);
}

#[test]
fn how_large_rings_may_be() {
    if !kernel::is_there() {
        return;
    }
    let trace =
        Record::scene(&["calls", "1"]).with(&["-k", "sched", "--kernel-buffers", "1G"]).run().ends_with(2);
    assert!(trace.err.contains("512 MiB") && trace.err.contains("--kernel-buffers"), "{}", trace.err);
    assert_eq!(trace.out, "", "the command must not run");
}

#[test]
fn that_descriptors_are_too_few() {
    if !kernel::is_there() || !has_tool("prlimit") {
        return;
    }
    let few = |files: &str| {
        let wrapper = ["prlimit", files];
        Record::program(&["true"]).under(&wrapper).with(&["-k", "mm:*"]).run()
    };
    let trace = few("--nofile=20").ends_with(2);
    assert!(trace.err.contains("ulimit -n"), "{}", trace.err);
    let trace = few("--nofile=150");
    let told = trace.err.lines().filter(|line| line.contains("ulimit -n")).count();
    assert!((1..=6).contains(&told) && trace.err.contains("more events are not recorded"), "{}", trace.err);
}

#[test]
fn which_texts_are_empty() {
    if !kernel::is_there() || !has_tool("python3") {
        return;
    }
    let script = "import ctypes\nfor _ in range(3): ctypes.CDLL(None).openat(-100, 16, 0o123)\n";
    let options = ["-k", "syscalls:syscall_entry_openat"];
    let trace = Record::program(&["python3", "-c", script]).with(&options).run().ends_with(0);
    assert!(trace.err.contains("EMPTY"), "{}", trace.err);
    let texts = trace_of(&trace).summary()["empty_texts"].as_u64().expect("a number");
    let empty = |event: &&Event| event.name == "syscall_entry_openat" && event.fields["filename"] == "";
    assert_eq!(trace_of(&trace).view().iter().filter(empty).count() as u64, texts);
    assert!(texts >= 3);
    let report = trace.report();
    assert_eq!((report["lost"]["texts"].as_u64(), report["lost"]["events"].as_u64()), (Some(texts), Some(0)));
    let report = trace.mote(&["report"]);
    assert!(String::from_utf8_lossy(&report.stdout).contains("EMPTY"));
}

#[test]
fn events_that_are_detached_later_are_said_and_delay_nothing() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::program(&["true"]).with(&["-k", "mm:*"]).run();
    assert!(matches!(trace.status, 0 | 3), "{}", trace.err);
    assert!(trace.err.contains("the kernel is still detaching "), "{}", trace.err);
}
