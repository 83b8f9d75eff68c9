//! `mote fperf`: what calls of functions cost, of programs that know nothing of mote, within a budget.

use crate::support::command::{json, json_lines, mote, named, number, printed, text};
use crate::support::compiled::compile;
use crate::support::{output_of, programs};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

fn shown(trace: &Path) -> Value {
    json(&printed(mote(&["fperf", "-i", text(trace), "--format", "json"])))
}

fn of<'v>(all: &'v Value, name: &str) -> &'v Value {
    named(&all["functions"], name)
}

/// What was counted of a call, in the mean: with what it called, and without.
fn each(all: &Value, name: &str, counter: &str) -> (f64, f64) {
    let counters = all["counters"].as_array().expect("a list");
    let at = counters.iter().position(|known| known == counter).expect("it was counted");
    let function = of(all, name);
    let each = |part: &str| number(&function[part]["counts"][at]) as f64 / number(&function["calls"]) as f64;
    (each("total"), each("self"))
}

/// That the costs are those of `costs.c`, however many calls were recorded.
fn assert_costs(all: &Value) {
    assert_eq!(all["lost"], 0);
    let near =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1.0, "{found}, not {expected}: {all}");
    near(each(all, "fault", "page_faults").1, 8.0);
    near(each(all, "rarely", "page_faults").0, 8.0);
    assert!(each(all, "often", "page_faults").0 < 0.5 && each(all, "spin", "page_faults").0 < 0.5, "{all}");
    assert!(each(all, "nap", "context_switches").0 >= 0.9, "{all}");
    let callers = |name: &str| {
        let callers = of(all, name)["callers"].as_array().expect("a list");
        callers.iter().map(|caller| caller["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(callers("fault"), ["round_of", "rarely"], "{all}");
    assert_eq!(callers("often"), ["round_of"]);
    let nap = of(all, "nap");
    let ns = number(&nap["total"]["ns"]) / number(&nap["calls"]);
    assert!((100_000..10_000_000).contains(&ns), "a nap takes {ns} ns");
}

const COUNTED: &str = "task-clock,page-faults,context-switches,migrations";

#[test]
fn of_every_call_where_there_is_no_budget() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "costs.c", &["-O2", "-pthread"]);
    let trace = keep.path().join("trace");
    let run = mote(&[
        "fperf",
        "--budget",
        "none",
        "-e",
        COUNTED,
        "-F",
        "costs_c*:*",
        "-o",
        text(&trace),
        "--",
        text(&program),
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "1\n",
        "the program's own output, and the table beside it"
    );
    let all = shown(&trace);
    assert_costs(&all);
    for (name, calls) in
        [("round_of", 3_000), ("often", 300_000), ("fault", 3_003), ("rarely", 3), ("nap", 30)]
    {
        let function = of(&all, name);
        assert_eq!((number(&function["calls"]), number(&function["samples"])), (calls, calls), "{name}");
        assert_eq!(function["is_estimate"], false);
    }
    // By a jump (tail call).
    let callers = of(&all, "spin")["callers"].as_array().expect("a list");
    assert_eq!(callers.iter().map(|caller| &caller["name"]).collect::<Vec<_>>(), ["round_of"]);
    // The samples are events of functions: for everybody else, too.
    let view = printed(mote(&["view", text(&trace), "-e", "f:rarely"]));
    assert_eq!(view.lines().count(), 3, "{view}");
    let babeltrace = Command::new("babeltrace2").arg(&trace).output().expect("the tests have it");
    assert!(babeltrace.status.success(), "{}", String::from_utf8_lossy(&babeltrace.stderr));
}

#[test]
fn of_some_calls_within_a_budget() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "costs.c", &["-O2", "-pthread"]);
    let trace = keep.path().join("trace");
    let words = ["fperf", "-e", COUNTED, "-F", "costs_c*:*", "-o", text(&trace), "--", text(&program)];
    let run = mote(&[&words[..], &["30000"]].concat());
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("~ is an estimate"), "{said}");
    let all = shown(&trace);
    assert_costs(&all);
    let often = of(&all, "often");
    let samples = number(&often["samples"]);
    assert!((16..300_000).contains(&samples) && often["is_estimate"] == true, "{often}");
    // What was not recorded is estimated: half an order of magnitude is enough to tell what is called often.
    let calls = number(&often["calls"]);
    assert!((1_000_000..10_000_000).contains(&calls), "{calls} calls for 3,000,000");
    // Of the faults of a round none is its own; what is estimated may leave some there on a busy machine.
    let (faults, own) = each(&all, "round_of", "page_faults");
    assert!((7.5..8.6).contains(&faults) && own < 4.0, "{faults}, {own}: {all}");
    // Functions that are seldom called have their probe all the time.
    assert_eq!(
        (number(&of(&all, "rarely")["calls"]), &of(&all, "rarely")["is_estimate"]),
        (3, &false.into())
    );
    let (ran, took) = (number(&all["ran_ns"]), number(&all["took_ns"]));
    assert!(ran > 0 && took < ran / 2, "samples took {took} ns of {ran}");

    let graph = mote(&["fperf", "-i", text(&trace), "--graph=page-faults"]);
    let graph = String::from_utf8_lossy(&graph.stdout).into_owned();
    let level = |name: &str| {
        let line = graph.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("each is there");
        line.find(name).expect("it is")
    };
    assert!(level("main") < level("work") && level("work") < level("round_of"), "{graph}");
    assert!(!graph.contains("spin"), "{graph}");
    let flame = mote(&["fperf", "-i", text(&trace), "--flame", "page-faults"]);
    let flame = String::from_utf8_lossy(&flame.stdout).into_owned();
    assert!(flame.starts_with("<?xml") && flame.contains("data-name=\"round_of\""), "{flame:.300}");
}

#[test]
fn of_threads_of_a_process_that_runs() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "costs.c", &["-O2", "-pthread"]);
    let mut command = Command::new(&program);
    command.args(["100000000", "3"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let pid = child.id().to_string();
    // Twice: what the first has left there serves the second, with other counters and another budget.
    for (name, events, budget) in [("first", COUNTED, "5%"), ("second", "migrations,page-faults", "20%")] {
        let trace = keep.path().join(name);
        let run = mote(&[
            "fperf",
            "-p",
            &pid,
            "--duration",
            "1s",
            "--budget",
            budget,
            "-e",
            events,
            "-F",
            "costs_c*:*",
            "-o",
            text(&trace),
        ]);
        assert!(child.try_wait().expect("a child").is_none(), "it goes on");
        assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
        let all = shown(&trace);
        let (faults, own) = (each(&all, "fault", "page_faults").0, each(&all, "often", "page_faults").0);
        assert!((7.5..8.6).contains(&faults) && own < 0.5, "{faults}, {own}: {all}");
        // Whoever comes by takes from the quota; the main thread only waits.
        let threads = threads_of(&trace, "f:fault");
        assert!((1..=3).contains(&threads.len()) && !threads.contains(&pid), "{threads:?}");
        assert!(number(&of(&all, "fault")["samples"]) > 16, "{all}");
    }
    child.kill().and_then(|()| child.wait()).expect("a child");
}

/// The threads that events of this name are of.
fn threads_of(trace: &Path, name: &str) -> BTreeSet<String> {
    let view = printed(mote(&["view", text(trace), "-e", name, "--format", "json"]));
    json_lines(&view).map(|event| event["tid"].to_string()).collect()
}

#[test]
fn of_programs_as_they_are_with_all_their_functions() {
    let keep = tempfile::tempdir().expect("a directory");
    let trace = keep.path().join("trace");
    let script = "create table t(a, b); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000) \
        insert into t select i, hex(i * 7919) from n; \
        create index b on t(b); select count(*), min(b), max(b) from t where b like '%3A%';";
    let plain = output_of(Command::new("sqlite3").args([":memory:", script]));
    let run = mote(&["fperf", "-o", text(&trace), "--", "sqlite3", ":memory:", script]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(String::from_utf8_lossy(&run.stdout), plain, "it does what it does");
    let all = shown(&trace);
    assert!(all["functions"].as_array().expect("a list").len() > 200, "{all}");
    assert_eq!(all["lost"], 0);
    assert!(number(&of(&all, "sqlite3_step")["samples"]) > 0);
}

#[test]
fn what_cannot_be_is_said() {
    let keep = tempfile::tempdir().expect("a directory");
    let says = |words: &[&str], what: &str| {
        let run = Command::new(programs::mote()).args(words).current_dir(&keep).output().expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let status = if words.contains(&"-F") { 3 } else { 2 };
        assert_eq!(run.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(what), "{words:?}: {said}");
    };
    says(&["fperf"], "what is to be sampled?");
    says(&["fperf", "-e", "page-fault", "--", "true"], "did you mean page-faults");
    says(&["fperf", "-e", "cpu/nothing/", "--", "true"], "there is no event `cpu/nothing/`");
    says(
        &[
            "fperf",
            "-e",
            "task-clock,cs,faults,minor-faults,major-faults,page-faults,context-switches,migrations,cpu-migrations",
            "--",
            "true",
        ],
        "at most",
    );
    says(&["fperf", "--budget", "0%", "--", "true"], "0.01% to 100%");
    says(&["fperf", "-F", "nothing_of_it", "--", "true"], "nothing_of_it");
    let trace = keep.path().join("trace");
    let run = mote(&[
        "fperf",
        "-F",
        "main",
        "-o",
        text(&trace),
        "--",
        text(&compile(&keep, "costs.c", &["-pthread"])),
    ]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    says(&["fperf", "-i", text(&trace), "--flame", "cycle"], "was not counted");
}
