//! The verifier of an older kernel than this machine's (Debian's, in a guest) takes the programs of kernel events, and
//! they record.

use crate::kernels_are_followed::kernel;
use crate::support::command::{mote, text};
use crate::support::programs;

/// Runs `mote` with these words in a guest; what it says there.
fn in_guest(words: &[&str]) -> Option<String> {
    let kernel = kernel()?;
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let own = programs::mote();
    let synth = [
        "pt",
        "synth",
        "--engine",
        "system",
        "--kernel",
        text(&kernel),
        "-o",
        text(&capture),
        "--",
        text(own),
    ];
    let run = mote(&[&synth[..], words].concat());
    let said = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(run.status.code(), Some(0), "{words:?}: {said}");
    Some(said)
}

#[test]
fn all_system_calls_with_stacks() {
    let words =
        ["record", "-k", "syscalls:*,sched:*,block:*", "--stack", "-o", "/tmp/trace", "--", "/bin/true"];
    let Some(said) = in_guest(&words) else { return };
    assert!(!said.contains("cannot record"), "{said}");
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix("kernel "));
    let events =
        line.and_then(|rest| rest.split_ascii_whitespace().next()?.replace(',', "").parse::<u64>().ok());
    // A program's begin and end are some dozens of calls.
    assert!(events.is_some_and(|events| events > 100), "{said}");
}

#[test]
fn slow_calls() {
    let Some(said) = in_guest(&["latency", "--threshold", "*=1s", "--", "/bin/true"]) else { return };
    assert!(said.contains("openat") && !said.contains("cannot"), "{said}");
}
