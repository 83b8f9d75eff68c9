//! `--under`: of calls that are chosen by their callers, only these are recorded or counted, by the process itself.

use crate::support::command::{json, mote, named, number, printed, text};
use crate::support::compiled::compile;
use crate::support::counting::{numbers, run, until_said};
use crate::support::event::of_json;
use crate::support::{Event, programs};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const PATTERNS: [&str; 2] = ["below_cpp-O2:step", "below_cpp-O2:leaf"];
const UNDER: [&str; 2] = ["--under", "below_cpp-O2:handle"];

/// Exceptions, longjmp, calls of the caller inside of itself, four threads.
#[test]
fn counts_below_a_caller_are_exact() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "below.cpp", &["-O2"]);
    for more in [&[][..], &["--under-way"]] {
        let words = [&PATTERNS[..], &UNDER, more].concat();
        let (counts, said) = run(&keep, &words, &program);
        let truth = numbers(&said);
        for name in ["handle", "step", "leaf"] {
            assert_eq!(counts.get(name).map(|counts| counts.0), Some(truth[name]), "{name} {more:?}: {said}");
        }
        assert!(truth["outside"] > truth["leaf"] / 2, "{said}");
        // Without it all are counted.
        let (counts, said) = run(&keep, &[&PATTERNS[..], more].concat(), &program);
        let truth = numbers(&said);
        assert_eq!(counts["leaf"].0, truth["leaf"] + truth["outside"], "{said}");
    }
}

/// Starts `mote` with these words and the program behind them, which waits for a line.
fn start(words: &[&str], program: &Path) -> Child {
    let mut command = Command::new(programs::mote());
    command.args(words).arg("--").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Lets the program go on, to its end; returns the numbers that it told, and all that was said.
fn finish(mut child: Child) -> (BTreeMap<String, u64>, String) {
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it waits");
    let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{said}");
    (numbers(&said), said)
}

fn events_of(dir: &str) -> Vec<Event> {
    of_json(&printed(mote(&["view", dir, "--format", "json"])))
}

fn count(events: &[Event], name: &str) -> u64 {
    events.iter().filter(|event| event.name == name).count() as u64
}

#[test]
fn calls_below_a_caller_are_recorded_and_no_others() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "below.cpp", &["-O2"]);
    let dir = keep.path().join("trace");
    let dir = text(&dir);
    let words =
        [&["record", "-o", dir, "-f", PATTERNS[0], "-f", "below_cpp-O2:leaf(n: i64)"][..], &UNDER].concat();
    let (truth, said) = finish(start(&words, &program));
    let events = events_of(dir);
    for name in ["handle", "step", "leaf"] {
        assert_eq!(count(&events, &format!("f:{name}")), truth[name], "{name}: {said}");
    }
    // Filters are of what is left.
    let large = events.iter().filter(|event| event.name == "f:leaf" && event.number("n") > 0).count() as u64;
    std::fs::remove_dir_all(dir).expect("it was there");
    let words = [&words[..5], &["-f", "below_cpp-O2:leaf(n: i64)", "--filter", "n > 0"], &UNDER].concat();
    finish(start(&words, &program));
    let events = events_of(dir);
    assert_eq!(count(&events, "f:leaf"), large);
}

#[test]
fn callers_are_chosen_while_it_runs() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "below.cpp", &["-O2"]);
    let dir = keep.path().join("trace");
    let dir = text(&dir);
    let mut child = start(&["record", "-o", dir, "-f", "below_cpp-O2:main"], &program);
    until_said(&mut child, "probes in 1 function");
    printed(mote(&[&["enable", dir, "-f", PATTERNS[0], "-f", PATTERNS[1]][..], &UNDER].concat()));
    until_said(&mut child, "probes in 3 functions");
    let (truth, said) = finish(child);
    let events = events_of(dir);
    for name in ["handle", "step", "leaf"] {
        assert_eq!(count(&events, &format!("f:{name}")), truth[name], "{name}: {said}");
    }
}

/// A caller that never returns is around its calls all the same.
#[test]
fn what_is_below_a_caller_that_never_returns_is_shown() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "below.cpp", &["-O2"]);
    let dir = keep.path().join("trace");
    let words =
        ["functions", "-o", text(&dir), "--format", "json", PATTERNS[1], "--under", "below_cpp-O2:last"];
    let (_, said) = finish(start(&words, &program));
    let shown = json(&said[said.find("\n{").expect("JSON")..=said.rfind('}').expect("JSON")]);
    assert_eq!(number(&named(&shown["functions"], "leaf")["calls"]), 5, "{said}");
}
