//! What `mote report` and `mote view` say of system calls and threads is what strace(1) says, and what a person can act
//! on.

use crate::support::kernel::{self, Beside};
use crate::support::{Record, has_tool};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// How many calls of each name there were, and how many of them failed.
fn calls(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let calls = report["syscalls"].as_array().expect("a list").iter();
    calls
        .map(|call| {
            let number = |name: &str| call[name].as_u64().expect("a number");
            (call["name"].as_str().expect("a name").to_owned(), (number("calls"), number("failed")))
        })
        .collect()
}

/// What `strace -c` has counted: name, calls, failed. The columns: % time, seconds, usecs/call, calls, errors (may be
/// empty), syscall.
fn counted(table: &str) -> BTreeMap<String, (u64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, failed) = match words.as_slice() {
            [.., failed, name] if words.len() == 6 => (name, failed.parse().ok()?),
            [.., name] if words.len() == 5 => (name, 0),
            _ => return None,
        };
        Some(((*name).to_owned(), (words[3].parse().ok()?, failed)))
    };
    table.lines().filter_map(row).filter(|(name, _)| name != "total").collect()
}

#[test]
fn of_each_system_call_how_many_and_how_many_failed() {
    if !kernel::is_there() || !has_tool("strace") {
        return;
    }
    // A shell that looks for what is not there, forks, and execs: the same calls each time.
    let script = "cd /; ls /no/such/file 2>/dev/null; (exit 3); cat /etc/hostname >/dev/null; true";
    let trace = Record::program(&["/bin/sh", "-c", script]).with(&["-k", "syscalls"]).run();
    let output = Command::new("strace").args(["-f", "-c", "-S", "name", "/bin/sh", "-c", script]).output();
    let theirs = counted(&String::from_utf8_lossy(&output.expect("strace runs").stderr));
    let report = trace.report();
    let ours = calls(&report);
    for name in ["openat", "execve", "clone", "vfork", "dup2", "mmap", "mprotect", "chdir", "fadvise64"] {
        assert_eq!(
            ours.get(name).map(|(calls, _)| calls),
            theirs.get(name).map(|(calls, _)| calls),
            "{name}"
        );
    }
    let failed =
        |of: &BTreeMap<String, (u64, u64)>, name: &str| of.get(name).map_or(0, |(_, failed)| *failed);
    for name in ["openat", "execve", "access", "statx", "newfstatat"] {
        assert_eq!(failed(&ours, name), failed(&theirs, name), "{name}");
    }
    let called = |call: &&Value| call["name"] == "access" && call["errors"][0]["error"] == "ENOENT";
    let accesses = report["syscalls"].as_array().expect("a list").iter().find(called);
    assert!(accesses.is_some_and(|call| call["duration_ns"]["max"].as_u64() > Some(0)), "{report:#}");
}

#[test]
fn of_each_system_call_which_thread_made_it() {
    const NAMES: [&str; 7] = ["openat", "execve", "mmap", "dup2", "chdir", "clone", "vfork"];
    if !kernel::is_there() || !has_tool("strace") {
        return;
    }
    let script = "cd /; ls /no/such/file 2>/dev/null; (exit 3); cat /etc/hostname >/dev/null; true";
    let trace = Record::program(&["/bin/sh", "-c", script]).with(&["-k", "syscalls"]).run();
    // A file for each thread, a line for each call.
    let folder = tempfile::tempdir().expect("a directory");
    let to = folder.path().join("calls").to_string_lossy().into_owned();
    let output = Command::new("strace").args(["-ff", "-o", &to, "/bin/sh", "-c", script]).output();
    assert!(output.expect("strace runs").status.success());
    let files =
        std::fs::read_dir(folder.path()).expect("a directory").map(|file| file.expect("a file").path());
    let lines = files.map(|path| std::fs::read_to_string(path).expect("text"));
    let mut theirs: Vec<Vec<u64>> = lines
        .map(|text| {
            let of =
                |name: &str| text.lines().filter(|line| line.split('(').next() == Some(name)).count() as u64;
            NAMES.iter().map(|name| of(name)).collect()
        })
        .collect();
    let report = trace.report();
    let threads = report["thread_syscalls"].as_array().expect("a list");
    let mut ours: Vec<Vec<u64>> = threads
        .iter()
        .map(|thread| {
            let calls = thread["syscalls"].as_array().expect("a list");
            let of = |name: &str| {
                calls
                    .iter()
                    .find(|call| call["name"] == name)
                    .map_or(0, |call| call["calls"].as_u64().expect("a number"))
            };
            NAMES.iter().map(|name| of(name)).collect()
        })
        .collect();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs, "{NAMES:?} of each thread");
    // All of them are those of the system call.
    for (name, (calls, failed)) in calls(&report) {
        let of = |key: &str| -> u64 {
            let each = threads.iter().flat_map(|thread| thread["syscalls"].as_array().expect("a list"));
            each.filter(|call| call["name"] == name.as_str())
                .map(|call| call[key].as_u64().expect("a number"))
                .sum()
        };
        assert_eq!((of("calls"), of("failed")), (calls, failed), "{name}");
    }
    let table = String::from_utf8(trace.mote(&["report"]).stdout).expect("text");
    let cat = threads.iter().find(|thread| thread["name"] == "cat").unwrap_or_else(|| panic!("{report:#}"));
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&"cat") && words.get(1) == Some(&cat["tid"].to_string().as_str())
    };
    assert!(table.contains("system calls of thread") && table.lines().any(row), "{table}");
}

#[test]
fn of_each_thread_how_long_it_ran_and_how_often_it_gave_its_cpu_up() {
    const NAPS: u64 = 40;
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["naps", &NAPS.to_string(), "0"]).with(&["-k", "sched,syscalls"]).run();
    let pid = trace.printed("pid");
    let report = trace.report();
    let threads = report["scheduling"].as_array().expect("a list");
    let of = |thread: &&Value| thread["tid"].as_u64() == Some(pid);
    let thread = threads.iter().find(of).unwrap_or_else(|| panic!("no {pid} in {report:#}"));
    let number = |name: &str| thread[name].as_u64().expect("a number");
    assert_eq!(thread["name"], "scenes");
    // A kernel may leave out a switch now and then; perf does not get it either.
    assert!(number("switches") >= NAPS / 2 && number("running_ns") > 0, "{thread:#}");
    assert!(number("preemptions") <= number("switches"), "{thread:#}");
    assert!(number("running_ns") < report["duration_ns"].as_u64().expect("a number"), "{thread:#}");
    // Others are seen beside it, and are not shown: what is known of them is a part.
    let other = threads.iter().find(|thread| thread["tid"] == 0 || thread["name"] == "mote");
    assert!(other.is_none(), "{report:#}");
    let table = String::from_utf8(trace.mote(&["report"]).stdout).expect("text");
    assert!(table.contains("system call ") && table.contains("without a CPU"), "{table}");
}

#[test]
fn numbers_are_shown_as_people_write_them() {
    if !kernel::is_there() {
        return;
    }
    let options = ["-k", "syscalls:*openat,syscalls:*mmap,syscalls:*mkdir"];
    let trace = Record::program(&["mkdir", "-m", "750", "/proc/no"]).with(&options).run();
    let text = String::from_utf8(trace.mote(&["view", "--provider", "syscalls"]).stdout).expect("text");
    for part in
        ["dfd = -100 (AT_FDCWD)", "mode = 488 (0750)", "addr = 0x0,", "fd = -1,", "(0x7", "ret = -2 (ENOENT)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let trace =
        Record::program(&["true"]).with(&["-k", "syscalls:*openat", "--filter", "dfd == AT_FDCWD"]).run();
    let events = trace.view();
    assert!(events.iter().any(|event| event.name == "syscall_entry_openat"), "{events:#?}");
}

#[test]
fn a_slow_call_says_on_what() {
    if !kernel::is_there() {
        return;
    }
    let options = ["-t", "openat=1ns,*=never", "--format", "json"];
    let trace = Record::program(&["cat", "/no/such/file"]).by("latency").with(&options).run();
    // Standard output is the command's.
    assert_eq!(trace.out, "");
    let mut lines = trace.err.lines().filter(|line| line.starts_with('{'));
    let report = lines.next_back().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let report = report.unwrap_or_else(|| panic!("{}\n{}", trace.out, trace.err));
    let shown = trace.mote(&["view", "--event", "syscall_slow"]);
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(
        text.contains("file = \"/no/such/file\"") && report["slow"].as_u64() > Some(1),
        "{text}\n{report:#}"
    );
}

#[test]
fn beside_a_process_the_command_says_how_long() {
    if !kernel::is_there() {
        return;
    }
    let beside = Beside::scene(&["calls-until-killed"]);
    let pid = beside.pid().to_string();
    for verb in ["record", "latency"] {
        let options =
            if verb == "record" { &["-k", "syscalls:*getsid", "-p", &pid][..] } else { &["-p", &pid][..] };
        // It ends by itself, although the process lives on.
        let trace = Record::program(&["sleep", "0.2"]).by(verb).with(options).run().ends_with(0);
        assert!(!trace.err.contains("recording goes on until"), "{}", trace.err);
    }
}
