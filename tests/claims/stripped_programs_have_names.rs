//! `mote coldpatch`: a program whose hooks have become NOPs does what it did, and its functions are found by the list
//! alone when it has no symbols, wherever it is loaded.

use crate::support::compiled::compile;
use crate::support::{Record, Trace, has_tool, programs, wait_for};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// `mote` with these words.
fn mote(words: &[&str]) -> Output {
    Command::new(programs::mote()).args(words).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

/// The program, prepared and stripped, with its list beside it; and as it was built.
fn prepared(keep: &TempDir, more: &[&str]) -> (PathBuf, PathBuf) {
    let words = [&["-O2", "-g", "-finstrument-functions", "-Wl,--build-id"], more].concat();
    let built = compile(keep, "instrumented.c", &words);
    let cold = keep.path().join("app");
    let done = mote(&["coldpatch", &text(&built), "-o", &text(&cold), "--strip"]);
    assert_eq!((done.status.code(), said(&done)), (Some(0), String::new()));
    let page = String::from_utf8(done.stdout).expect("text");
    // Each of four functions has both, and an exit may be a jump.
    assert!(page.contains("8 placeholders in 4 functions") && page.contains("enter       4 calls"), "{page}");
    (cold, built)
}

/// How often each function was called.
fn calls(trace: &Trace) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    trace.view().into_iter().for_each(|event| *calls.entry(event.name).or_default() += 1);
    calls
}

#[test]
fn a_stripped_program_is_recorded_by_the_names_of_the_list_beside_it() {
    let keep = tempfile::tempdir().expect("a directory");
    for more in [&[][..], &["-no-pie"]] {
        let (cold, built) = prepared(&keep, more);
        let run = |program: &Path| String::from_utf8(Command::new(program).output().expect("it runs").stdout);
        assert_eq!(run(&built).expect("text"), "5, hooks 8\n");
        assert_eq!(run(&cold).expect("text"), "5, hooks 0\n");
        if has_tool("nm") {
            let symbols = Command::new("nm").arg(&cold).output().expect("it runs");
            assert_eq!(String::from_utf8_lossy(&symbols.stdout), "", "it is stripped");
        }
        for pattern in ["inner", "app:inn*", "in*{>=2}"] {
            let trace = Record::program(&[&cold]).with(&["-f", pattern, "-f", "outer"]).run().ends_with(0);
            assert_eq!(trace.out, "5, hooks 0\n");
            let expected = [("f:inner".to_owned(), 2), ("f:outer".to_owned(), 1)];
            assert_eq!(calls(&trace), BTreeMap::from(expected), "{pattern}");
        }
        // By the source file, which only the list knows.
        let trace = Record::program(&[&cold]).with(&["-f", "@instrumented.c"]).run().ends_with(0);
        let called = calls(&trace);
        assert!(["f:inner", "f:outer", "f:say"].iter().all(|name| called.contains_key(*name)), "{called:?}");
    }
}

#[test]
fn a_running_stripped_program_is_recorded_by_a_list_that_lies_elsewhere() {
    let keep = tempfile::tempdir().expect("a directory");
    let (cold, _) = prepared(&keep, &[]);
    let list = keep.path().join("elsewhere.probes");
    fs::rename(keep.path().join("app.probes"), &list).expect("it is there");
    let out = fs::File::create(keep.path().join("out")).expect("a file");
    let mut child =
        Command::new(&cold).arg("steadily").stdout(out).stdin(Stdio::null()).spawn().expect("it starts");
    let lines = || fs::read_to_string(keep.path().join("out")).expect("lines");
    wait_for("its first lines", || (lines().lines().count() > 2).then_some(()));
    let without =
        mote(&["functions", "outer", "-p", &child.id().to_string(), "-o", &text(&keep.path().join("none"))]);
    assert_eq!(without.status.code(), Some(3), "{}", said(&without));
    assert!(said(&without).contains("no function of it is called `outer`"), "{}", said(&without));
    let running = Record::process(child.id().into())
        .with(&["-f", "outer", "--probes", &text(&list), "--mode", "overwrite"])
        .start();
    running.wait_until_said("probes in 1 function");
    let before = lines().lines().count();
    wait_for("more lines", || (lines().lines().count() > before + 5).then_some(()));
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    let _ = child.kill();
    let _ = child.wait();
    assert!(calls(&trace)["f:outer"] >= 5);
    assert!(lines().lines().all(|line| line == "13, hooks 0"), "{}", lines());
}

#[test]
fn a_list_of_another_build_is_refused() {
    let keep = tempfile::tempdir().expect("a directory");
    let (cold, _) = prepared(&keep, &[]);
    let list = text(&keep.path().join("app.probes"));
    let other = text(&compile(&keep, "instrumented.c", &["-O1", "-Wl,--build-id"]));
    let refused = "which is another one; `mote coldpatch` writes the right list";
    let listed = mote(&["list", "--functions", &other, "--probes", &list]);
    assert_eq!(listed.status.code(), Some(2));
    assert!(said(&listed).contains(refused), "{}", said(&listed));
    let recorded = Record::program(&[&other]).by("functions").with(&["outer", "--probes", &list]).run();
    assert!(recorded.err.contains(refused), "{}", recorded.err);
    // Beside it, it is only said.
    fs::copy(&list, format!("{other}.probes")).expect("copied");
    let listed = mote(&["list", "--functions", &other, "outer"]);
    assert_eq!(listed.status.code(), Some(0), "{}", said(&listed));
    assert!(said(&listed).contains(refused), "{}", said(&listed));
    // Something that is no list at all.
    let wrong = mote(&["list", "--functions", &text(&cold), "--probes", &other]);
    assert!(said(&wrong).contains("it is no probe list"), "{}", said(&wrong));
}

#[test]
fn a_program_is_prepared_once() {
    let keep = tempfile::tempdir().expect("a directory");
    let (cold, built) = prepared(&keep, &[]);
    let again = mote(&["coldpatch", &text(&cold)]);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("has been prepared already"), "{}", said(&again));
    // In its own place.
    let done = mote(&["coldpatch", &text(&built), "-o", &text(&built), "--format", "json"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(told["placeholders"]["enter"]["calls"], 4, "{told:#}");
    assert_eq!(Command::new(&built).output().expect("it runs").stdout, b"5, hooks 0\n");
    let plain = compile(&keep, "instrumented.c", &["-O1"]);
    let nothing = mote(&["coldpatch", &text(&plain)]);
    assert_eq!(nothing.status.code(), Some(1), "{}", said(&nothing));
    assert!(said(&nothing).contains("has no placeholder"), "{}", said(&nothing));
    assert!(!keep.path().join("instrumented_c-O1.cold").exists());
}
