//! However a recording ends, its trace is whole and its exit status tells.

use crate::support::event::{assert_counts, named};
use crate::support::{DEFAULT_SIGNALS, Record, Trace, has_tool, programs, wait_for, within};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Events until the program is stopped (after minutes it ends by itself).
fn endless() -> Record {
    Record::scene(&["count", "500000", "1000"])
}

fn interrupted_by(signal: Signal) -> Trace {
    let running = endless().start();
    running.wait_until_recorded();
    running.signal(signal);
    running.wait()
}

#[track_caller]
fn assert_whole(trace: &Trace) {
    let events = trace.events();
    let count = events.len() as u64;
    assert!(count > 0, "{count}");
    assert_counts(&named(&events, "e2e:count"), "seq", count);
    assert_eq!(trace.summary()["events"]["e2e:count"], count);
    assert!(trace.err.contains("recorded "), "no summary: {}", trace.err);
}

#[test]
fn sigint_to_the_recorder_alone() {
    let trace = interrupted_by(Signal::SIGINT).ends_with(128 + 2);
    assert_whole(&trace);
}

#[test]
fn sigterm_to_the_recorder() {
    let trace = interrupted_by(Signal::SIGTERM).ends_with(128 + 15);
    assert_whole(&trace);
}

#[test]
fn sighup_to_the_recorder() {
    let trace = interrupted_by(Signal::SIGHUP).ends_with(128 + 1);
    assert_whole(&trace);
}

#[test]
fn ctrl_c_on_a_terminal() {
    if !has_tool("script") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let mote = programs::mote().display();
    let line = format!("{mote} record -o {} -- {} count 500000 1000", path.display(), programs::scenes());
    let screen = directory.path().join("screen");
    let mut child = Command::new("env")
        .args([DEFAULT_SIGNALS, "script", "--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(File::create(&screen).expect("a file"))
        .spawn()
        .expect("script runs");
    wait_for("events on disk", || {
        let len = std::fs::metadata(path.join("cpu_0")).or_else(|_| std::fs::metadata(path.join("cpu_1")));
        len.ok().filter(|file| file.len() > 5000)
    });
    // Progress is drawn on the terminal meanwhile.
    wait_for("progress", || {
        let shown = std::fs::read(&screen).ok()?;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        (shown.contains("recording") && shown.contains("events")).then_some(())
    });
    let mut terminal = child.stdin.take().expect("a pipe");
    terminal.write_all(b"\x03").expect("it listens");
    let status = child.wait().expect("it ends");
    let shown = String::from_utf8_lossy(&std::fs::read(&screen).expect("a file")).into_owned();
    assert_eq!(status.code(), Some(130), "{shown}");
    let took = Duration::ZERO;
    let trace = Trace { path, status: 130, out: String::new(), err: shown, took, _keep: Some(directory) };
    assert_whole(&trace);
}

#[test]
fn the_status_of_the_command_is_passed_through() {
    for status in ["0", "1", "42", "255"] {
        let trace = Record::scene(&["exit", status]).run().ends_with(status.parse().expect("a number"));
        assert_eq!(trace.events().len(), 1);
    }
    let trace = Record::scene(&["exit", "signal"]).run().ends_with(128 + 9);
    assert_eq!(trace.events().len(), 1, "the event before the signal");
    assert!(trace.err.contains("the command ended with 137"), "{}", trace.err);
    assert_eq!(trace.summary()["status"], 137);
}

#[test]
fn after_the_duration_the_command_goes_on() {
    let trace = for_a_time();
    let events = trace.events();
    let count = events.len() as u64;
    assert!(count > 0, "nothing was recorded");
    assert_counts(&named(&events, "e2e:waiting"), "seq", count);
    // It goes on until it sees that its sites are off, and comes to its own end.
    assert!(count <= trace.printed("emitted"), "{count} of {}", trace.printed("emitted"));
}

/// A recording that ends while the program, which waits for that, goes on; with all of its sites on at first.
fn for_a_time() -> Trace {
    let record = |ms: u64| Record::scene(&["until-disarmed"]).with(&["--duration", &format!("{ms}ms")]).run();
    within(200, record, |trace| trace.status == 0 && trace.printed("off") == 0).ends_with(0)
}

#[test]
fn after_the_duration_the_sites_are_off() {
    let trace = for_a_time();
    assert_eq!(trace.printed("off"), 0, "all were on at first");
    assert_eq!(trace.printed("off-at-end"), trace.printed("sites"));
    assert!(trace.printed("sites") > 20, "{}", trace.printed("sites"));
    assert_eq!(named(&trace.events(), "e2e:afterwards").len(), 0);
}

#[test]
fn nothing_is_left_behind() {
    let mut running = endless().start();
    wait_for("the session's directory", || (running.sockets() > 0).then_some(()));
    running.signal(Signal::SIGTERM);
    wait_for("the recorder's end", || running.has_ended().then_some(()));
    assert_eq!(running.sockets(), 0, "directories of sockets");
    running.wait().ends_with(128 + 15);
}
