//! `do fperf "PATTERN" for TIME`: functions are sampled behind an event, and only then; before and after their code is
//! that of the file.

use crate::support::command::{json, mote, named, number, printed, text};
use crate::support::compiled::{Steady, compile};
use crate::support::event::Event;
use crate::support::record::Running;
use crate::support::{Record, Trace, is_root, programs, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The times of events of this name.
fn times(events: &[Event], name: &str) -> Vec<u64> {
    events.iter().filter(|event| event.name == name).map(|event| event.time).collect()
}

fn costs(trace: &Trace) -> Value {
    json(&printed(mote(&["fperf", "-i", text(&trace.path), "--format", "json"])))
}

/// Adds a rule to a recording; returns whether it is in force, and what was said.
fn enable(running: &Running, rule: &str) -> (bool, String) {
    let asked = mote(&["enable", text(running.output()), "--on", rule]);
    (asked.status.success(), String::from_utf8_lossy(&asked.stderr).into_owned())
}

fn status(running: &Running) -> String {
    printed(mote(&["status", text(running.output())]))
}

/// Waits until a recording has had so many begins and ends of times that are sampled.
fn wait_for_times(running: &Running, count: usize) {
    let journal = running.output().join("mote/journal.jsonl");
    let facts = || std::fs::read_to_string(&journal).unwrap_or_default().matches("\"sampling\"").count();
    wait_for("the end of a time that is sampled", || (facts() >= count).then_some(()));
}

const MS: u64 = 1_000_000;

/// By an event of the kernel, twice: the second time by a rule that has come later.
#[test]
fn behind_events_of_the_kernel() {
    if !is_root() {
        return mote_skip::skip("events of the kernel need root");
    }
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &[]);
    let event = "syscalls:syscall_exit_clock_nanosleep";
    let rule = |condition: &str| format!("{event} if {condition} do record, fperf \"inner\" for 400ms");
    let running = Record::process(steady.pid().into())
        .with(&["-k", "syscalls:syscall_exit_write", "--on", &rule("ret == 4711")])
        .with(&["--fperf-events", "page-faults", "--fperf-budget", "20%", "--profile"])
        .start();
    running.wait_until_said("probes in 1 function");
    running.wait_until_said("1 of them off until a rule asks for samples");
    steady.goes_on();
    assert_eq!(steady.changed_text(), Vec::<String>::new(), "nobody has asked yet");
    for (number, count) in [("1", 2), ("2", 4)] {
        // Another rule each time.
        let (done, said) = enable(&running, &rule(&format!("first(1) && ret != {number}000")));
        assert!(done, "{said}");
        wait_for_times(&running, count);
        wait_for("the function's own bytes", || steady.changed_text().is_empty().then_some(()));
        steady.goes_on();
    }
    assert_eq!(steady.changed_text(), Vec::<String>::new(), "the time is over");
    let status = status(&running);
    assert!(status.contains(" samples, 0 lost\nfperf: no functions are sampled now"), "{status}");
    let (done, said) = enable(&running, &format!("{event} do fperf \"outer\" for 1s"));
    assert!(
        !done && said.contains("`fperf \"outer\"` finds its functions when a recording begins"),
        "{said}"
    );
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    let events = trace.view();
    let (asked, samples) = (times(&events, "syscall_exit_clock_nanosleep"), times(&events, "f:inner"));
    let written = times(&events, "syscall_exit_write");
    let (&[first, second], Some(last)) = (asked.as_slice(), samples.last()) else {
        panic!("asked at {asked:?}, {} samples", samples.len());
    };
    assert!(samples[0] > first && *last > second + 100 * MS, "{asked:?}: {samples:?}");
    // It was called all the time, before, between and after these times.
    let goes_on =
        |from: u64, until: u64| written.iter().filter(|time| (from..until).contains(time)).count() >= 5;
    let before = samples.iter().rfind(|time| **time < second).expect("some of the first time");
    assert!(*before > first + 100 * MS, "{asked:?}: {samples:?}");
    assert!(
        goes_on(0, first) && goes_on(*before, second) && goes_on(*last, u64::MAX),
        "{asked:?}: {samples:?}"
    );
    let sampling = trace.facts("sampling");
    let is_on: Vec<bool> = sampling.iter().filter_map(|fact| fact["is_on"].as_bool()).collect();
    assert_eq!(is_on, [true, false, true, false], "{sampling:?}");
    let all = costs(&trace);
    assert_eq!((&all["counters"], &all["lost"]), (&serde_json::json!(["page_faults"]), &0.into()));
    let inner = named(&all["functions"], "inner");
    let (samples, calls) = (number(&inner["samples"]), number(&inner["calls"]));
    assert!(samples > 100 && calls > samples && inner["is_estimate"] == true, "{inner}");
}

/// By an event of the program, and by a call of another function. One that is recorded all the time stays so.
#[test]
fn behind_events_of_programs_and_calls() {
    let rule =
        "net:noise if number == 50 do record, fperf \"everyday:wo*\" for 300ms, fperf \"work\" for 400ms";
    let running =
        Record::program(&[programs::everyday(), "forever"]).with(&["-e", "disk:read", "--on", rule]).start();
    wait_for_times(&running, 4);
    // Some more, before the end.
    std::thread::sleep(Duration::from_millis(200));
    running.signal(Signal::SIGINT);
    let trace = running.wait();
    let events = trace.events();
    let (asked, reads) = (times(&events, "net:noise"), times(&events, "disk:read"));
    let samples = times(&events, "f:work");
    let (&[asked], &[first, .., last]) = (asked.as_slice(), samples.as_slice()) else {
        panic!("asked at {asked:?}, {} samples", samples.len());
    };
    // `work` is called once for each of these.
    let between = |from: u64, until: u64| reads.iter().filter(|time| (from..until).contains(time)).count();
    assert!(first > asked && between(0, first) >= 50 && between(last, u64::MAX) > 5, "{asked}: {samples:?}");
    let all = costs(&trace);
    let work = named(&all["functions"], "work");
    // Samples may be used up before the time is over, for which the calls are estimated.
    let known = between(first, last.max(first + 400 * MS)) as u64;
    assert!((known / 2..2 * known + 2).contains(&number(&work["calls"])), "{work}, {known} calls");

    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "costs.c", &["-O2"]);
    let rule = "f:rarely if first(1) do fperf \"costs_c*:*\" for 10s";
    let trace = Record::program(&[&program]).with(&["-f", "rarely", "--on", rule]).run().ends_with(0);
    assert!(trace.err.contains("of them off until a rule asks for samples"), "{}", trace.err);
    let events = trace.events();
    let recorded: Vec<&Event> = events.iter().filter(|event| event.name == "f:rarely").collect();
    assert_eq!(recorded.len(), 3, "all its calls");
    assert!(recorded.iter().all(|event| !event.fields.contains_key("round")), "{recorded:?}");
}

#[test]
fn what_cannot_be_asked_for_is_said() {
    let keep: TempDir = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "costs.c", &["-O2"]);
    let output = keep.path().join("trace");
    let says = |words: &[&str], status: i32, what: &str| {
        let mut command = Command::new(programs::mote());
        let run = command.arg("record").arg("-o").arg(&output).args(words).output().expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(what), "{words:?}: {said}");
        assert_eq!(output.exists(), status != 2, "{words:?}: nothing is left");
    };
    let program = ["--", text(&program)];
    let with = |rule: &'static str| [&["--on", rule], &program[..]].concat();
    says(&with("a:b do fperf often for 1s"), 2, "expected a pattern of functions in quotes, found `often`");
    says(&with("a:b do fperf \"often\""), 2, "expected `for` and a time, found the end");
    says(&with("a:b do fperf \"often\" for 0s"), 2, "functions can be sampled for 20 ms to 1 h");
    says(&with("a:b do fperf \"often(a: b)\" for 1s"), 2, "not a type");
    says(
        &["-a", "--on", "sched:sched_switch do fperf \"often\" for 1s"],
        2,
        "in a command and in the processes of -p",
    );
    says(
        &[&["--fperf-budget", "5%"], &program[..]].concat(),
        2,
        "--fperf-budget says how functions are sampled",
    );
    says(
        &with("a:b do fperf \"oftn\" for 1s"),
        3,
        "no function of it is called `oftn`; similar names: often",
    );
}
