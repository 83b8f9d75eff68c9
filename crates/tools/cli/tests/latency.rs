//! `mote latency`: what is found of slow calls, and what is said of wrong words.

mod support;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::lacks_rights;

fn mote(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mote")).arg("latency").args(args).output().expect("mote runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a run of which nothing was lost.
fn whole_report(args: &[&str]) -> Option<Value> {
    report(args).inspect(|report| assert_eq!(report["counters"]["lost"], 0, "{report}"))
}

/// The report of a run with these arguments, or a loud skip without the rights.
fn report(args: &[&str]) -> Option<Value> {
    let dir = tempfile::tempdir().expect("a directory");
    let recording = dir.path().join("trace").display().to_string();
    let all: Vec<&str> =
        ["--format", "json", "-o", &recording].into_iter().chain(args.iter().copied()).collect();
    let output = mote(&all);
    if said(&output).contains("are missing") {
        mote_skip::skip(said(&output));
        return None;
    }
    // Beside a command, standard output is the command's.
    let text = if args.contains(&"--") {
        said(&output)
    } else {
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let last =
        text.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{}", said(&output)));
    let report: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(report["type"], "report", "{text}");
    Some(report)
}

fn call<'v>(report: &'v Value, name: &str) -> &'v Value {
    let calls = report["calls"].as_array().expect("calls");
    calls.iter().find(|call| call["syscall"] == name).unwrap_or_else(|| panic!("{name} is not in {report}"))
}

#[test]
fn wrong_words_are_refused_with_a_hint() {
    for (args, hint) in [
        (&["--threshold", "raed=1ms", "--", "true"][..], "did you mean read or readv or preadv?"),
        (&["--threshold", "read", "--", "true"], "read=1ms"),
        (&["--threshold", "read=5", "--", "true"], "no unit"),
        (&["--adaptive", "p0", "--", "true"], "p99.9"),
        (&["--adaptive", "p200", "--", "true"], "p99.9"),
        (&["-p", "4194305"], "no process 4194305"),
        (&[], "<CMD>"),
    ] {
        let output = mote(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(said(&output).contains(hint), "{args:?}: {}", said(&output));
    }
}

#[test]
fn a_read_that_waits_is_shown_only_when_it_is_named() {
    // So long that the reader is there before, on a busy machine, too.
    let script = "(sleep 3; echo x) | cat";
    let Some(report_of_all) = whole_report(&["--", "sh", "-c", script]) else { return };
    assert_eq!(call(&report_of_all, "read")["slow"], 0);
    assert!(report_of_all["counters"]["waited_by_request"].as_u64() >= Some(1), "{report_of_all}");
    let Some(named) = whole_report(&["--threshold", "read=50ms", "--", "sh", "-c", script]) else { return };
    assert!(call(&named, "read")["slow"].as_u64() >= Some(1), "{named}");
    let worst = named["worst"].as_array().expect("worst");
    let read = worst.iter().find(|call| call["syscall"] == "read").expect("the read");
    assert_eq!((&read["cause"], &read["wait_state"]), (&"waited".into(), &"S".into()), "{read}");
    assert!(read["words"].as_str().is_some_and(|words| words.contains("for a writer of a pipe")), "{read}");
    let stack = read["callstack_kernel"].to_string();
    assert!(stack.contains("pipe_read"), "{read}");
}

#[test]
fn thresholds_learn_what_is_normal() {
    let copy = "dd if=/dev/zero of=/dev/null bs=1 count=2000000 2>/dev/null";
    let args = ["--adaptive", "p99", "--interval", "50ms", "--threshold", "*=5s", "--", "sh", "-c", copy];
    // A machine that is slower from one moment to the next has every call above what was learned,
    // more than rings hold: calls may be lost here, and counted.
    let Some(report) = report(&args) else { return };
    let write = call(&report, "write");
    let (threshold, p50) = (write["threshold_ns"].as_u64(), write["p50_ns"].as_u64());
    assert!(threshold < Some(100_000_000) && threshold >= p50, "{write}");
    assert!(write["count"].as_u64() >= Some(2_000_000), "{write}");
}

/// A control group with a tenth of a CPU; removed at the end.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Group> {
        let name = format!("mote-latency-{}", std::process::id());
        let settings = [
            ("/sys/fs/cgroup/cpu", &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "10000")][..]),
            ("/sys/fs/cgroup", &[("cpu.max", "10000 100000")]),
        ];
        for (root, values) in settings {
            let path = Path::new(root).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Group(path);
            if values.iter().all(|(file, value)| fs::write(group.0.join(file), value).is_ok()) {
                return Some(group);
            }
        }
        mote_skip::skip("no control group can be made (root, and the cpu controller)");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn who_waits_for_a_throttled_one_is_told_of_it() {
    let Some(group) = Group::make() else { return };
    let procs = group.0.join("cgroup.procs").display().to_string();
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done";
    let script = format!("sh -c 'echo 0 >{procs}; {work}' | cat");
    let Some(report) = whole_report(&["--threshold", "read=50ms", "--", "sh", "-c", &script]) else { return };
    let worst = report["worst"].as_array().expect("worst");
    let read =
        worst.iter().find(|call| call["comm"] == "cat").unwrap_or_else(|| panic!("cat waits: {report}"));
    assert_eq!((&read["syscall"], &read["waker_comm"]), (&"read".into(), &"sh".into()), "{read}");
    // A period is 100 ms, of which 10 are its own.
    assert!(read["waker_throttled_ns"].as_u64() > Some(20_000_000), "{read}");
    assert!(
        read["words"].as_str().is_some_and(|words| words.contains("which its cgroup had held back")),
        "{read}"
    );
}

#[test]
fn a_running_process_is_watched_until_it_ends() {
    let mut sleeper =
        Command::new("sh").args(["-c", "i=0; while [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done"]).spawn();
    let sleeper = sleeper.as_mut().expect("sh runs");
    let pid = sleeper.id().to_string();
    let watched = whole_report(&["--threshold", "wait4=50ms", "-p", &pid]);
    sleeper.wait().expect("it ends");
    let Some(report) = watched else { return };
    assert!(call(&report, "wait4")["slow"].as_u64() >= Some(3), "{report}");
    assert_eq!(report["problems"], Value::Array(Vec::new()));
}

#[test]
fn the_commands_standard_output_stays_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    for (number, format) in ["text", "json"].into_iter().enumerate() {
        let recording = dir.path().join(number.to_string()).display().to_string();
        let mut args = vec!["--format", format, "-o", &recording, "--interval", "50ms"];
        args.extend(["-k", "sched:sched_switch", "--count", "by prev_comm"]);
        args.extend(["--threshold", "wait4=10ms", "--", "sh", "-c", "echo one; sleep 0.3; echo two"]);
        let output = mote(&args);
        if lacks_rights(&said(&output)) {
            return;
        }
        assert_eq!(String::from_utf8_lossy(&output.stdout), "one\ntwo\n", "{format}");
        let said = said(&output);
        assert!(said.contains(&format!("recording slow system calls of sh into {recording}")), "{said}");
        if format == "text" {
            assert!(said.contains("SYSTEM CALL") && said.contains("#1 wait4 of sh"), "{said}");
            assert!(
                said.contains("sched:sched_switch") && said.contains("prev_comm") && said.contains('█'),
                "{said}"
            );
        } else {
            let lines: Vec<Value> = said
                .lines()
                .filter(|line| line.starts_with('{'))
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect();
            assert!(lines.iter().any(|line| line["type"] == "interval"), "{said}");
            let report = lines.last().expect("a report");
            assert_eq!(
                (&report["type"], &report["aggregates"][0]["kind"]),
                (&"report".into(), &"counts".into())
            );
        }
    }
    // Without a command it is mote's.
    let recording = dir.path().join("beside").display().to_string();
    let own = std::process::id().to_string();
    let output = mote(&["-p", &own, "--duration", "200ms", "-o", &recording]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("SYSTEM CALL"), "{}", said(&output));
}

#[test]
fn a_script_is_told_that_it_has_begun() {
    let dir = tempfile::tempdir().expect("a directory");
    let (recording, told) = (dir.path().join("trace"), dir.path().join("told"));
    let line = "exec \"$0\" latency --ready-fd 3 -o \"$1\" --duration 200ms -- sleep 1 3>\"$2\"";
    let output = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_mote")])
        .args([&recording, &told])
        .output()
        .expect("sh runs");
    if lacks_rights(&said(&output)) {
        return;
    }
    assert_eq!(
        fs::read_to_string(told).expect("a file"),
        format!("{}\n", recording.display()),
        "{}",
        said(&output)
    );
    let closed = mote(&["--ready-fd", "77", "-o", &recording.display().to_string(), "--", "true"]);
    assert_eq!(closed.status.code(), Some(2), "{}", said(&closed));
    assert!(said(&closed).contains("descriptor 77 of --ready-fd"), "{}", said(&closed));
}
