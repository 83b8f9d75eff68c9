//! `mote profile`: samples with whole stacks, of programs that know nothing of mote, also for users without rights.

use crate::support::command::{json, json_lines, mote, named, number, printed, text};
use crate::support::compiled::{Steady, compile};
use crate::support::event::of_json;
use crate::support::{Record, is_root};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn shown(trace: &Path) -> Value {
    json(&printed(mote(&["profile", "-i", text(trace), "--format", "json"])))
}

/// Samples of a function: its own, and with what it called.
fn of(all: &Value, name: &str) -> (u64, u64) {
    let found = named(&all["functions"], name);
    (number(&found["self"]), number(&found["total"]))
}

/// That the samples are those of `hot.c`.
fn assert_hot(all: &Value) {
    let samples = number(&all["samples"]);
    assert!(samples > 100, "{samples} samples");
    assert_eq!(all["lost"], 0);
    let complete = number(&all["complete"]);
    assert!(100 * complete >= 95 * samples, "{complete} of {samples} are whole");
    let share = |count: u64| 100 * count / samples;
    let ((spin, _), (_, much), (_, little), (_, work)) =
        (of(all, "spin"), of(all, "much"), of(all, "little"), of(all, "work"));
    assert!(share(spin) >= 90 && share(work) >= 95, "{spin} in spin, {work} below work, of {samples}");
    assert!((65..=85).contains(&share(much)) && (15..=35).contains(&share(little)), "{much} to {little}");
}

#[test]
fn of_a_command_in_all_forms() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "hot.c", &["-O2", "-fomit-frame-pointer"]);
    let trace = keep.path().join("trace");
    let run = mote(&["profile", "-o", text(&trace), "--", text(&program)]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "1\n",
        "the program's own output, and the table beside it"
    );
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("with their whole stack") && said.contains("spin [hot_c"), "{said}");
    assert_hot(&shown(&trace));

    let graph = mote(&["profile", "-i", text(&trace), "--graph"]);
    let graph = String::from_utf8_lossy(&graph.stdout).into_owned();
    let level = |name: &str| {
        let line = graph.lines().find(|line| line.contains(&format!(" {name} ["))).expect("each is there");
        line.find(name).expect("it is")
    };
    assert!(level("work") < level("much") && level("much") < level("spin"), "{graph}");
    let shallow = mote(&["profile", "-i", text(&trace), "--graph", "--depth", "1"]);
    assert!(!String::from_utf8_lossy(&shallow.stdout).contains("spin"));

    // The samples are events: for everybody else, too.
    let view = printed(mote(&["view", text(&trace), "--format", "json"]));
    let first = json_lines(&view).next().expect("samples");
    assert_eq!(first["event"], "profile_sample");
    let folded = keep.path().join("folded");
    let done = mote(&["export", text(&trace), "--to", "folded", "-o", text(&folded)]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let folded = std::fs::read_to_string(folded).expect("written");
    assert!(folded.lines().any(|line| line.contains("work;much;spin")), "{folded}");
    let babeltrace = Command::new("babeltrace2").arg(&trace).output().expect("the tests have it");
    assert!(babeltrace.status.success(), "{}", String::from_utf8_lossy(&babeltrace.stderr));
    let lines = String::from_utf8_lossy(&babeltrace.stdout).lines().count();
    assert_eq!(lines as u64, number(&shown(&trace)["samples"]));
}

#[test]
fn of_programs_without_symbols_and_by_frame_pointers() {
    let keep = tempfile::tempdir().expect("a directory");
    let stripped = compile(&keep, "hot.c", &["-O2", "-s"]);
    let trace = keep.path().join("stripped");
    mote(&["profile", "-o", text(&trace), "--", text(&stripped)]);
    let all = shown(&trace);
    let (samples, complete) = (number(&all["samples"]), &all["complete"]);
    assert!(100 * number(complete) >= 95 * samples, "{complete} of {samples}");

    let program = compile(&keep, "hot.c", &["-O2", "-fno-omit-frame-pointer"]);
    let trace = keep.path().join("pointers");
    let run = mote(&["profile", "-F", "499", "--frame-pointers", "-o", text(&trace), "--", text(&program)]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let all = shown(&trace);
    let samples = number(&all["samples"]);
    // A leaf needs no frame: its caller may be missing.
    assert!(of(&all, "work").1 * 100 >= samples * 90, "{all}");
}

/// A rule keeps the samples of a time, and no others: of both threads, from the event on.
#[test]
fn rules_say_when() {
    const WANTED_NS: u64 = 500_000_000;
    // Between the clocks of programs and of samples, and for the samples of a tick.
    const NEAR_NS: u64 = 20_000_000;
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "hot.c", &["-O2"]);
    let trace = keep.path().join("trace");
    let rule = "f:much if first(1) do profile for 500ms";
    let run = mote(&[
        "record",
        "-o",
        text(&trace),
        "-f",
        "hot_c-O2:much",
        "--on",
        rule,
        "--",
        text(&program),
        "4000000",
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let events = of_json(&printed(mote(&["view", text(&trace), "--format", "json"])));
    let times =
        |name: &str| events.iter().filter(|event| event.name == name).map(|event| event.time).collect();
    let (calls, samples): (Vec<u64>, Vec<u64>) = (times("f:much"), times("profile_sample"));
    let begin = calls[0];
    let wanted = begin - NEAR_NS..begin + WANTED_NS + NEAR_NS;
    assert!(calls.last() > Some(&(wanted.end + WANTED_NS)), "the program has gone on: {calls:?}");
    assert!(samples.len() > 50 && samples.iter().all(|time| wanted.contains(time)), "{begin}: {samples:?}");
    // They last as long as they were asked for.
    assert!(samples.last() > Some(&(begin + WANTED_NS / 2)), "{begin}: {samples:?}");
    assert!(of(&shown(&trace), "spin").0 as usize * 10 > 9 * samples.len());
    // A recording that takes no samples cannot keep any.
    let steady = Steady::start(&keep, &[]);
    let other = keep.path().join("other");
    let running = Record::process(steady.pid().into()).with(&["-f", "outer"]).to(&other).start();
    running.wait_until_said("probes in 1 function");
    let asked = mote(&["enable", text(&other), "--on", "f:outer do profile for 1s"]);
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.code() == Some(2) && said.contains("`profile for` needs samples"), "{said}");
    running.signal(Signal::SIGINT);
    running.wait().ends_with(0);
}

/// The times without a CPU, as JSON.
fn off_cpu(trace: &Path) -> String {
    printed(mote(&["profile", "--off-cpu", "-i", text(trace), "--format", "json"]))
}

/// Nanoseconds without a CPU below a function.
fn without_cpu(trace: &Path, name: &str) -> u64 {
    let all = json(&off_cpu(trace));
    assert_eq!((&all["unit"], &all["lost"]), (&"ns".into(), &0.into()));
    of(&all, name).1
}

#[test]
fn off_the_cpu_they_say_what_is_waited_for() {
    if !is_root() {
        // Where threads leave their CPU is in the kernel.
        let keep = tempfile::tempdir().expect("a directory");
        let run = mote(&["profile", "--off-cpu", "-o", text(&keep.path().join("trace")), "--", "true"]);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(2) && said.contains("perf_event_paranoid"), "{said}");
        return;
    }
    const MS: u64 = 1_000_000;
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "waits.c", &["-O2", "-pthread"]);
    let trace = keep.path().join("trace");
    let run = mote(&["profile", "--off-cpu", "-o", text(&trace), "--", text(&program)]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("without a CPU") && said.contains("nanosleep"), "{said}");
    // At least as long as they were to wait; more on a busy machine.
    for (name, least) in [("nap", 550 * MS), ("wait_for_data", 450 * MS), ("wait_for_lock", 40 * MS)] {
        let found = without_cpu(&trace, name);
        assert!((least..10 * least).contains(&found), "{name}: {found} ns");
    }
    // What waits says why: the kernel's function, not the scheduler's.
    let tree = mote(&["profile", "--off-cpu", "-i", text(&trace), "--graph"]);
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    assert!(tree.contains("nap [waits_c") && !tree.contains(" schedule"), "{tree}");
    let folded = mote(&["export", text(&trace), "--to", "folded", "--off-cpu"]);
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
    let naps = folded.lines().filter(|line| line.contains("main;nap;"));
    let ns: u64 = naps.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert!(ns >= 550 * MS, "{folded}");
    let picture = mote(&["export", text(&trace), "--to", "svg", "--off-cpu"]);
    assert!(String::from_utf8_lossy(&picture.stdout).contains("data-name=\"wait_for_lock\""));
    // Each is an event, with why it was.
    let view = printed(mote(&["view", text(&trace), "-e", "profile_off_cpu", "--format", "json"]));
    let waits = json_lines(&view).filter(|event| event["fields"]["reason"] == "waits").count();
    assert!(waits >= 22, "{waits} times: {view}");
    let babeltrace = Command::new("babeltrace2").arg(&trace).output().expect("the tests have it");
    assert!(babeltrace.status.success(), "{}", String::from_utf8_lossy(&babeltrace.stderr));
}

#[test]
fn off_the_cpu_of_processes_that_run() {
    if !is_root() {
        return mote_skip::skip("times without a CPU need root");
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "waits.c", &["-O2", "-pthread"]);
    let trace = keep.path().join("trace");
    let once = || {
        let mut child = Command::new("sleep").arg("600").spawn().expect("every machine has it");
        let mut other = Command::new(&program).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(120));
        let _ = std::fs::remove_dir_all(&trace);
        let pids = format!("{},{}", child.id(), other.id());
        let run = mote(&["profile", "--off-cpu", "-p", &pids, "--duration", "300ms", "-o", text(&trace)]);
        child.kill().and_then(|()| child.wait()).expect("a child");
        other.wait().expect("a child");
        run
    };
    // On a machine that stands still the program's waits are over, all or nearly, before the recorder has come.
    let has_missed = |run: &std::process::Output| {
        run.status.code() == Some(1) || run.status.success() && !off_cpu(&trace).contains("\"nap\"")
    };
    let run = (0..5).fold(once(), |run, _| if has_missed(&run) { once() } else { run });
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    // Waits that had begun before are not known; the last ones go up to the end.
    let found = without_cpu(&trace, "nap");
    assert!((40_000_000..3_000_000_000).contains(&found), "{found} ns");
}

#[test]
fn of_processes_that_run() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "hot.c", &["-O2"]);
    let start = || Command::new(&program).arg("100000000").stdout(Stdio::null()).spawn().expect("it starts");
    let mut children = [start(), start()];
    let trace = keep.path().join("trace");
    let pids = children.each_ref().map(|child| child.id().to_string()).join(",");
    let run = mote(&["profile", "-p", &pids, "--duration", "1s", "-o", text(&trace)]);
    for child in &mut children {
        assert!(child.try_wait().expect("a child").is_none(), "it goes on");
        child.kill().and_then(|()| child.wait()).expect("a child");
    }
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let all = shown(&trace);
    let samples = number(&all["samples"]);
    assert!(samples > 100 && of(&all, "work").1 * 100 >= samples * 90, "{all}");
    // Two threads of each.
    let view = printed(mote(&["view", text(&trace), "--format", "json"]));
    let thread = |event: Value| (event["thread"].to_string(), number(&event["tid"]));
    let threads: BTreeSet<(String, u64)> = json_lines(&view).map(thread).collect();
    assert_eq!(threads.len(), 4, "{threads:?}");
    assert!(threads.iter().all(|(name, _)| name.contains("hot_c")), "{threads:?}");
}

#[test]
fn beside_events_and_functions_in_one_recording() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "hot.c", &["-O2"]);
    let trace = Record::program(&[&program]).with(&["-f", "work", "--profile=499"]).run().ends_with(0);
    let events = trace.events();
    let count = |name: &str| events.iter().filter(|event| event.name == name).count();
    assert_eq!(count("f:work"), 2);
    assert!(count("profile_sample") > 50, "{}", count("profile_sample"));
    assert!(trace.err.contains("samples "), "{}", trace.err);
    // On one clock: samples lie inside of the calls.
    let work: Vec<_> = events.iter().filter(|event| event.name == "f:work").collect();
    let begin = work.iter().map(|event| event.time - event.number("duration")).min().expect("two");
    let end = work.iter().map(|event| event.time).max().expect("two");
    let samples = events.iter().filter(|event| event.name == "profile_sample");
    let inside = samples.filter(|event| (begin..=end).contains(&event.time)).count();
    assert!(inside * 10 >= count("profile_sample") * 8, "{inside}");
}

#[test]
fn what_cannot_be_is_said() {
    let keep = tempfile::tempdir().expect("a directory");
    let trace = |name: &str| keep.path().join(name).to_str().expect("text").to_owned();
    let says = |words: &[&str], status: i32, what: &str| {
        let run = mote(words);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(what), "{words:?}: {said}");
    };
    says(&["profile"], 2, "what is to be sampled?");
    says(&["profile", "-p", "1999999999", "-o", &trace("gone")], 2, "1999999999");
    says(&["profile", "--stack-size", "1M", "--", "true"], 2, "512 to 63k");
    says(&["profile", "-F", "0", "--", "true"], 2, "1..=100000");
    // A program that does nothing has no samples, and that is said.
    let mut idle = Command::new("sleep").arg("600").spawn().expect("every machine has it");
    std::thread::sleep(Duration::from_millis(100));
    let pid = idle.id().to_string();
    says(&["profile", "-p", &pid, "--duration", "300ms", "-o", &trace("idle")], 1, "has no sample");
    idle.kill().and_then(|()| idle.wait()).expect("a child");
    if !is_root() {
        says(&["profile", "-a", "--duration", "1s", "-o", &trace("all")], 2, "perf_event_paranoid");
        says(&["profile", "-p", "1", "--duration", "1s", "-o", &trace("init")], 2, "does not let this user");
    }
}

#[test]
fn ctrl_c_ends_it_with_a_whole_recording() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "hot.c", &["-O2"]);
    let mut child = Command::new(&program).arg("100000000").stdout(Stdio::null()).spawn().expect("it starts");
    let running = Record::process(child.id().into()).with(&["--profile"]).start();
    running.wait_until_said("recording");
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    child.kill().and_then(|()| child.wait()).expect("a child");
    let samples = trace.events().iter().filter(|event| event.name == "profile_sample").count();
    let summary =
        trace.err.lines().find(|line| line.starts_with("  samples ")).unwrap_or_default().to_owned();
    assert!(samples > 0 && summary.contains(&format!(" {samples} ")), "{samples} of {summary}");
}
