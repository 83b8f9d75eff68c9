//! `mote doctor`: its table, and its proof.

use serde_json::Value;
use std::process::Command;

const MOTE: &str = env!("CARGO_BIN_EXE_mote");

#[test]
fn an_event_is_proved_to_arrive() {
    let output = Command::new(MOTE).args(["doctor", "--format", "json"]).output().expect("runs");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &json["works"]), (Some(0), &Value::Bool(true)), "{json:#}");
    let checks = json["checks"].as_array().expect("a list");
    let proof = checks.iter().find(|check| check["what"] == "an event, end to end").expect("the proof");
    assert_eq!(proof["verdict"], "ok", "{proof}");
    assert!(
        proof["found"].as_str().is_some_and(|found| found.starts_with("10000 emitted, 10000 read back")),
        "{proof}"
    );
    for check in checks {
        assert_eq!(check["advice"] == "", check["verdict"] == "ok", "{check}");
    }
}

#[test]
fn what_is_missing_is_told_and_what_to_do() {
    let output = Command::new(MOTE)
        .arg("doctor")
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        .output()
        .expect("runs");
    let table = String::from_utf8(output.stdout).expect("text");
    let line = table.lines().position(|line| line.contains("restartable sequences")).expect("the line");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[line].starts_with("warn") && lines[line + 1].contains("-> use glibc 2.35"), "{table}");
    assert!(output.status.success(), "recording works with the atomic writer too: {table}");
    assert!(table.lines().all(|line| !line.contains('\x1b')), "colour off a terminal");
}

#[test]
fn without_a_place_for_the_trace_recording_does_not_work() {
    let output = Command::new(MOTE).arg("doctor").env("TMPDIR", "/no/such/place").output().expect("runs");
    let table = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(2), "{table}");
    assert!(table.contains("FAIL  an event, end to end"), "{table}");
}
