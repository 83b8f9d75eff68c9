//! `mote functions --count`: calls are counted in the process, exactly, whatever the calls and the process do.

use crate::support::compiled::{Steady, compile};
use crate::support::counting::{counted, counted_of, counting, ended, numbers, run, until_said};
use crate::support::switched::{self, FLAGS, PROGRAM, Places};
use crate::support::{output_of, programs};
use std::process::{Command, Stdio};

#[test]
fn counts_are_exact_with_threads_signals_children_kills_and_exec() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "counted.c", &["-O2"]);
    for words in [&["counted_c-O2:*"][..], &["counted_c-O2:*", "--under-way"]] {
        let (counts, said) = run(&keep, words, &program);
        let truth = numbers(&said);
        assert!(truth.len() == 7 && truth["busy"] == 1_600_000, "{said}");
        for (name, calls) in &truth {
            // Three of its calls never end, as the program becomes another one.
            let under_way = (words.len() > 1).then_some(if name == "stays" { 3 } else { 0 });
            assert_eq!(counts.get(name), Some(&(*calls, under_way)), "{name}: {said}");
        }
        assert!(!counts.contains_key("never"), "{said}");
    }
}

#[test]
fn odd_calls_are_counted_and_go_on_as_before() {
    let keep = tempfile::tempdir().expect("a directory");
    let truth =
        compile(&keep, "odd_calls.cpp", &["-O0", "-DTRUTH", "-finstrument-functions", "-rdynamic", "-ldl"]);
    let told = Command::new(truth).output().expect("it runs");
    let mut truth = numbers(&String::from_utf8_lossy(&told.stderr));
    // The child of fork has done some, too: 4 frames of thrower, and 101 of deep.
    for (name, more) in [("catcher", 1), ("again", 1), ("thrower", 4), ("deep", 101)] {
        *truth.get_mut(name).unwrap_or_else(|| panic!("no {name}")) += more;
    }
    let program = compile(&keep, "odd_calls.cpp", &["-O1"]);
    let bare = output_of(&mut Command::new(&program));
    for words in [&["odd_calls_cpp-O1:*"][..], &["odd_calls_cpp-O1:*", "--under-way"]] {
        let dir = tempfile::tempdir_in(keep.path()).expect("a directory");
        let mut command = counting(words, &dir.path().join("trace"));
        let output = command.arg("--").arg(&program).stdin(Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), bare, "{said}");
        let counts = counted_of(&said);
        for (name, calls) in &truth {
            assert_eq!(
                counts.get(name).map(|counts| counts.0),
                Some(*calls),
                "{name} with {words:?}: {said}"
            );
        }
    }
}

#[test]
fn a_running_process_is_counted_again_and_by_one_at_a_time() {
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &[]);
    let pid = steady.pid().to_string();
    for round in 0..3 {
        let first = keep.path().join(format!("first{round}"));
        let words = ["outer", "inner", "-p", &pid, "--duration", "60s"];
        let mut child = counting(&words, &first).spawn().expect("it starts");
        until_said(&mut child, "probes in 2 functions");
        steady.goes_on();
        if round == 0 {
            let words = ["outer", "inner", "-p", &pid, "--duration", "50ms"];
            let other = counting(&words, &keep.path().join("other")).output().expect("it runs");
            let said = String::from_utf8_lossy(&other.stderr);
            assert!(said.contains("nothing of 2 functions, whose calls another recording counts"), "{said}");
        }
        let output = ended(child);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let counts = counted(&output.stdout);
        let (outer, inner) = (counts["outer"].0, counts["inner"].0);
        assert!(outer > 10 && (3 * outer).abs_diff(inner) < 100, "{outer} outer, {inner} inner");
        assert_eq!(steady.changed_text(), Vec::<String>::new(), "all code is as in the files");
        steady.goes_on();
    }
}

#[test]
fn functions_are_switched_under_threads_signals_and_exceptions() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, PROGRAM, &FLAGS);
    for returns in [false, true] {
        let mote = programs::mote();
        let places = Places { mote, program: &program, folder: keep.path(), is_static: false };
        let verdict = switched::run(places, 2.0, returns).expect("it starts");
        assert!(verdict.violations == 0 && verdict.messages.is_empty(), "{verdict:?}");
        assert!(verdict.calls > 10_000 && verdict.switched > 0, "{verdict:?}");
    }
}

/// A second recorder comes while the first one loads its library at the program's begin.
#[test]
fn recorders_that_come_while_a_program_begins_leave_it_whole() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, PROGRAM, &FLAGS);
    let mote = programs::mote();
    for round in 0..6 {
        let places = Places { mote, program: &program, folder: keep.path(), is_static: false };
        let verdict = switched::run(places, 0.6, round % 2 == 0).expect("it starts");
        assert!(verdict.violations == 0 && verdict.messages.is_empty(), "round {round}: {verdict:?}");
    }
}
