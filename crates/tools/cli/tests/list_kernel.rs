//! `mote list -k`: the events of the kernel.

use serde_json::Value;
use std::process::{Command, Output};

fn list(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mote")).args(["list", "-k"]).args(arguments).output().expect("runs")
}

/// Whether this kernel shows its events to us; else it says so, which is the reason to skip.
fn is_shown() -> bool {
    let said = list(&[]).stderr;
    if !said.is_empty() {
        mote_skip::skip(String::from_utf8_lossy(&said));
    }
    said.is_empty()
}

#[test]
fn families_are_counted_and_events_have_fields() {
    if !is_shown() {
        return;
    }
    let families = String::from_utf8(list(&[]).stdout).expect("text");
    for family in ["sched", "syscalls", "block", "net", "irq", "mm", "power", "timer", "signal"] {
        let line = families.lines().find(|line| line.split_whitespace().next() == Some(family));
        let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u32>().ok());
        assert!(count.is_some_and(|count| count > 0), "{family}: {families}");
    }
    let events = String::from_utf8(list(&["softirq_entry", "syscall_entry_openat"]).stdout).expect("text");
    for words in [
        "  irq_softirq_entry (softirq_entry)\n",
        "      vec: u32 HI=0 ",
        "      filename: str\n",
        "flags: flags u32 ",
    ] {
        assert!(events.contains(words), "{words}: {events}");
    }
    let one = list(&["syscalls:openat", "--format", "json"]);
    let json: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!(json["events"][0]["name"], "syscall_entry_openat");
    assert_eq!(json["events"][0]["fields"][1], serde_json::json!({ "name": "filename", "type": "str" }));
    assert_eq!(json["events"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_unknown_event_is_said_with_near_names() {
    if !is_shown() {
        return;
    }
    let output = list(&["sched_swich"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the kernel has no event sched_swich; did you mean sched_switch"), "{said}");
}
