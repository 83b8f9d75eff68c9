//! Calls are counted in programs that can load no library: static ones, and those of another C library.

use crate::support::asked::Asked;
use crate::support::compiled::{changed_text, compile, compile_by};
use crate::support::counting::{counted, counting, ended, numbers, run, until_said};
use crate::support::is_there;
use crate::support::switched::{self, FLAGS, PROGRAM, Places};
use crate::support::{programs, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use tempfile::TempDir;

/// Ways to link a program.
const WAYS: [&[&str]; 2] = [&["-O2", "-static"], &["-O2", "-static-pie"]];

/// Compiles a program for musl, static and not; says so when there is no such compiler.
fn for_musl(keep: &TempDir, name: &str) -> Vec<PathBuf> {
    if !is_there("musl-gcc") {
        mote_skip::skip("programs of musl: there is no musl-gcc (package musl-tools)");
        return Vec::new();
    }
    // Its programs have names of their own.
    let build = |words: &[&str]| {
        let built = compile_by("musl-gcc", keep, name, words);
        let program = keep.path().join(format!("{}-musl", name_of(&built)));
        fs::rename(built, &program).expect("a program");
        program
    };
    vec![build(&["-O2", "-static"]), build(&["-O2"])]
}

fn name_of(program: &Path) -> &str {
    program.file_name().and_then(|name| name.to_str()).expect("a name")
}

#[test]
fn from_their_begin_with_threads_signals_children_kills_and_exec() {
    let keep = tempfile::tempdir().expect("a directory");
    let own = WAYS.iter().map(|words| compile(&keep, "counted.c", words));
    for program in own.chain(for_musl(&keep, "counted.c")) {
        let pattern = format!("{}:*", name_of(&program));
        let (counts, said) = run(&keep, &[&pattern], &program);
        assert!(said.contains("it loads no library"), "{said}");
        let truth = numbers(&said);
        assert!(truth.len() == 7 && truth["busy"] == 1_600_000, "{said}");
        for (name, calls) in &truth {
            let counted = counts.get(name).map(|counted| counted.0);
            assert_eq!(counted, Some(*calls), "{name} of {}: {said}", program.display());
        }
        assert!(!counts.contains_key("never"), "{said}");
    }
}

#[test]
fn they_are_switched_under_threads_signals_and_exceptions() {
    let keep = tempfile::tempdir().expect("a directory");
    for words in [&["-static"], &["-static-pie"]] {
        let program = compile(&keep, PROGRAM, &[&FLAGS[..], words].concat());
        let mote = programs::mote();
        let places = Places { mote, program: &program, folder: keep.path(), is_static: true };
        let verdict = switched::run(places, 3.0, false).expect("it starts");
        assert!(verdict.violations == 0 && verdict.messages.is_empty(), "{verdict:?}");
        assert!(verdict.calls > 10_000 && verdict.switched > 0, "{verdict:?}");
    }
}

/// Counts all functions of a program, for as long as this runs.
fn counted_in(asked: &Asked, dir: &Path) -> Child {
    let words = ["asked*:*", "-p", &asked.pid().to_string(), "--duration", "60s"];
    let mut child = counting(&words, dir).spawn().expect("it starts");
    until_said(&mut child, "it loads no library");
    child
}

#[test]
fn while_they_run_and_what_was_there_is_put_back() {
    let keep = tempfile::tempdir().expect("a directory");
    let own = WAYS.iter().map(|words| compile(&keep, "asked.c", words));
    for (number, program) in own.chain(for_musl(&keep, "asked.c")).enumerate() {
        let mut asked = Asked::start(&program);
        // Threads that run, sleep, wait in handlers, and a child that lives on.
        assert_eq!(asked.ask("threads"), "threads");
        let child: u32 = asked.ask("child").parse().expect("a number");
        for round in 0..3 {
            let slept = asked.ask("sleep");
            let dir = keep.path().join(format!("trace{number}-{round}"));
            let counting = counted_in(&asked, &dir);
            assert_eq!(asked.ask("call"), "call");
            let newer: u32 = asked.ask("child").parse().expect("a number");
            let output = ended(counting);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            let counts = counted(&output.stdout);
            assert_eq!(counts.get("called").map(|counted| counted.0), Some(1000), "{said}");
            assert!(counts.contains_key("runs"), "threads are counted, too: {said}");
            for pid in [asked.pid(), child, newer] {
                assert_eq!(changed_text(pid), Some(Vec::new()), "{} in {pid}", program.display());
                let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
                assert!(
                    !maps.contains("memfd"),
                    "nothing is left in {pid} of {}: {maps} {said}",
                    program.display()
                );
            }
            assert_eq!(slept, "sleep");
            assert_eq!(asked.ask("slept"), "0", "sleeping threads do not see that they were stopped");
        }
    }
}

#[test]
fn a_recorder_that_is_killed_leaves_them_running_and_another_one_says_so() {
    let keep = tempfile::tempdir().expect("a directory");
    let mut asked = Asked::start(&compile(&keep, "asked.c", WAYS[0]));
    assert_eq!(asked.ask("threads"), "threads");
    let mut killed = counted_in(&asked, &keep.path().join("killed"));
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    assert_eq!(asked.ask("call"), "call");
    let words = ["called", "-p", &asked.pid().to_string(), "--duration", "100ms"];
    let other = counting(&words, &keep.path().join("other")).output().expect("it runs");
    let said = String::from_utf8_lossy(&other.stderr);
    let nothing = "nothing of 1 function, whose calls another recording counts, or one that was killed did";
    assert!(said.contains(nothing), "{said}");
    assert_eq!(asked.ask("call"), "call");
}

/// What needs the library is refused, and says what does not.
#[test]
fn more_than_counts_is_refused_with_what_can_be_had() {
    let keep = tempfile::tempdir().expect("a directory");
    let mut asked = Asked::start(&compile(&keep, "asked.c", WAYS[0]));
    let pid = asked.pid().to_string();
    for words in [&["--under-way"][..], &["--under", "main"]] {
        let words = [words, &["called", "-p", &pid, "--duration", "100ms"]].concat();
        let output = counting(&words, &keep.path().join("refused")).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("calls of its functions can be counted without"), "{words:?}: {said}");
        fs::remove_dir_all(keep.path().join("refused")).expect("a recording");
    }
    assert_eq!(changed_text(asked.pid()), Some(Vec::new()));
    assert_eq!(asked.ask("call"), "call");
    wait_for("its code to be gone", || {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        (!maps.contains("memfd")).then_some(())
    });
}
