//! What programs have of mote for themselves: switches, probes of their own, quick text; with and without a recorder.

use crate::support::event::{assert_counts, by, named};
use crate::support::record::value_of;
use crate::support::{Record, output_of, programs, wait_for};
use nix::sys::signal::Signal;
use std::process::Command;

/// What a scene prints when nobody records it.
fn untraced(program: &std::path::Path, scene: &[&str]) -> String {
    output_of(Command::new(program).args(scene).env_remove("MOTE_SESSION"))
}

fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
}

#[track_caller]
fn value(text: &str, name: &str) -> u64 {
    value_of(text, name).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn probes_of_a_program_see_its_events_whether_or_not_they_are_recorded() {
    let expected = |out: &str| {
        assert_eq!((value(out, "sum"), value(out, "half")), ((0..200).sum(), 100), "{out}");
    };
    let scene = ["probed", "200"];
    expected(&untraced(programs::scenes().as_ref(), &scene));
    expected(&untraced(&programs::scenes_with_tested_byte(), &scene));
    let whole = Record::scene(&scene).run().ends_with(0);
    expected(&whole.out);
    let events = whole.events();
    assert_counts(&named(&events, "own:request_done"), "seq", 201);
    // A filter decides what is recorded, and nothing else.
    for filter in ["seq < 20", "seq < 0"] {
        let some = Record::scene(&scene).with(&["-e", "own:*", "--filter", filter]).run();
        expected(&some.out);
        let recorded = if filter == "seq < 20" { 20 } else { 0 };
        assert_eq!(named(&some.events(), "own:request_done").len(), recorded, "{filter}");
    }
    let other = Record::scene(&scene).with(&["-e", "e2e:*"]).run();
    expected(&other.out);
}

#[test]
fn a_probe_outlives_the_recorder_and_its_event_is_off_afterwards() {
    let running = Record::scene(&["outlive"]).start();
    running.wait_for("started");
    let pid = running.wait_for("pid") as i32;
    running.wait_until_recorded();
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait_for("on-at-end"), 0, "sites that are on");
    wait_for("the program's end", || (!is_alive(pid)).then_some(()));
    // While the probe was connected its event's site was on, and no other.
    assert_eq!(running.wait_for("left"), 1);
    assert_eq!((running.wait_for("missed"), running.wait_for("surplus")), (0, 0));
    let emitted = running.wait_for("emitted");
    let trace = running.wait().ends_with(1009);
    let events = trace.events();
    let recorded = named(&events, "own:request_done").len() as u64;
    assert!(recorded > 0 && recorded < emitted, "{recorded} of {emitted}");
}

#[test]
fn switches_are_turned_while_recorders_come_and_go() {
    for program in [programs::scenes().into(), programs::scenes_with_tested_byte()] {
        assert_eq!(value(&untraced(&program, &["flip", "200"]), "wrong"), 0, "{program:?}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let over = directory.path().join("over");
    let scene = ["flip", "200", over.to_str().expect("text")];
    let first = Record::scene(&scene).with(&["-e", "own:turning", "--filter", "seq % 64 == 0"]).start();
    first.wait_for("started");
    let pid = first.wait_for("pid");
    for _ in 0..2 {
        let second = Record::process(pid).with(&["-e", "own:*", "--duration", "100ms"]).run();
        assert!(matches!(second.status, 0 | 3), "{}", second.err);
    }
    std::fs::write(over, "").expect("a file");
    let trace = first.wait().ends_with(0);
    assert_eq!(trace.printed("wrong"), 0);
    let events = trace.events();
    let turning = named(&events, "own:turning");
    assert!(!turning.is_empty());
    for (who, of_one) in by(&turning, "who") {
        assert!(of_one.iter().zip(0u64..).all(|(event, n)| event.number("seq") == 64 * n), "thread {who}");
    }
}

#[test]
fn children_of_a_program_that_turns_switches_are_whole() {
    assert_eq!(value(&untraced(programs::scenes().as_ref(), &["flip-and-fork", "40"]), "failed"), 0);
    let trace = Record::scene(&["flip-and-fork", "20"]).run().ends_with(0);
    assert_eq!(trace.printed("failed"), 0);
    let events = trace.events();
    assert_counts(&named(&events, "own:in_child"), "seq", 20);
}

#[test]
fn quick_text_is_an_event_and_made_only_while_it_is_on() {
    assert_eq!(untraced(programs::scenes().as_ref(), &["notes"]), "made 0\n");
    let off = Record::scene(&["notes"]).with(&["-e", "e2e:*"]).run();
    assert_eq!(off.printed("made"), 0);
    let on = Record::scene(&["notes"]).with(&["-e", "mote:note"]).run().ends_with(0);
    assert_eq!(on.printed("made"), 1);
    let events = on.events();
    let texts: Vec<&str> = events.iter().filter_map(|event| event.fields["text"].as_str()).collect();
    let cut = format!("a{}", "é".repeat(255));
    assert_eq!(texts, ["plain", "17 and   2.5", "captured {}", &cut]);
}
