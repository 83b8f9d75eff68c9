//! `mote view` and `mote report` as a person runs them.

#[path = "../../../read/timeline/examples/make_trace/build.rs"]
mod build;

use build::Plan;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn mote(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mote")).args(args).output().expect("mote runs")
}

fn recording(plan: &Plan) -> (TempDir, String) {
    let dir = TempDir::new().expect("a directory");
    build::build(dir.path(), plan).expect("built");
    let path = dir.path().to_str().expect("UTF-8").to_owned();
    (dir, path)
}

fn lines(output: &Output) -> usize {
    output.stdout.split(|b| *b == b'\n').count() - 1
}

#[test]
fn exit_status_tells_what_happened() {
    let (_dir, path) = recording(&Plan::default());
    let whole = mote(&["view", &path]);
    assert_eq!((whole.status.code(), lines(&whole), whole.stderr.len()), (Some(0), 2000, 0));
    let nothing = mote(&["view", &path, "--event", "nothing"]);
    assert_eq!((nothing.status.code(), lines(&nothing)), (Some(1), 0));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("no event in"));
    std::fs::write(format!("{path}/stream_0"), b"\0\0\0\0").expect("written");
    let damaged = mote(&["view", &path]);
    assert_eq!((damaged.status.code(), lines(&damaged)), (Some(2), 1000), "the other stream is shown");
    assert!(String::from_utf8_lossy(&damaged.stderr).contains("stream_0, byte 0"));
    let report = mote(&["report", &path, "--format", "json"]);
    assert_eq!(report.status.code(), Some(2));
    std::fs::remove_file(format!("{path}/metadata")).expect("removed");
    let broken = mote(&["view", &path]);
    assert_eq!(broken.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&broken.stderr).starts_with("mote: no trace in "));
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let (_dir, path) = recording(&Plan { events: 200_000, ..Plan::default() });
    for format in ["text", "json", "csv"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mote"))
            .args(["view", &path, "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("mote runs");
        let mut first = [0; 100];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{format}");
    }
}

#[test]
fn ranges_and_limits() {
    let (_dir, path) = recording(&Plan::default());
    let count = |args: &[&str]| lines(&mote(&[&["view", &path], args].concat()));
    let early = count(&["--to", "+20us"]);
    let late = count(&["--from", "+20001ns"]);
    assert!(early > 0 && late > 0);
    assert_eq!(early + late, 2000);
    assert_eq!(count(&["--from", "15:34:12", "--to", "2026-11-20T15:34:13"]), 2000);
    assert_eq!(count(&["--from", "15:34:13"]), 0);
    assert_eq!(count(&["--to", "1795188852.0005"]), 0);
    assert_eq!(count(&["--limit", "7"]), 7);
    assert_eq!(count(&["--tid", "1000,1001", "--event", "two", "-n", "3"]), 3);
    let bad = mote(&["view", &path, "--from", "noon"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("give HH:MM:SS"));
}

#[test]
fn losses_are_told() {
    let (_dir, path) = recording(&Plan { lost: 3, packet_bytes: 1000, ..Plan::default() });
    let view = mote(&["view", &path]);
    assert!(
        String::from_utf8_lossy(&view.stdout).contains("*** 3 events lost between the start and 15:34:12.")
    );
    assert!(String::from_utf8_lossy(&view.stderr).contains(" lost while recording"));
    let report = String::from_utf8_lossy(&mote(&["report", &path]).stdout).into_owned();
    assert!(
        report.contains("LOST") && report.contains("ring_full") && report.contains("--buffers"),
        "{report}"
    );
}

#[test]
fn the_report_counts() {
    let (_dir, path) = recording(&Plan { text_every: 10, ..Plan::default() });
    let json = mote(&["report", &path, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["events"], 2000);
    assert_eq!(report["kinds"][0]["name"], "bench:two");
    assert_eq!(report["kinds"][0]["events"], 1800);
    assert_eq!(report["kinds"][1]["interval_ns"]["samples"], 198);
    assert_eq!(report["threads"][0]["events"], 1000);
    assert_eq!(report["threads"][0]["pid"], 999);
    assert_eq!(report["cpus"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["complete"], true);
}

/// A packet of the stream is not there; the trace has a journal of mote, or is of another tracer.
fn without_a_packet(journal: bool, mode: &str) -> (TempDir, String) {
    let (dir, path) = recording(&Plan { packet_bytes: 1000, journal, ..Plan::default() });
    let file = dir.path().join("stream_0");
    let bytes = std::fs::read(&file).expect("a stream");
    const MAGIC: [u8; 4] = 0xc1fc_1fc1_u32.to_le_bytes();
    let begins: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&MAGIC)).take(3).collect();
    std::fs::write(&file, [&bytes[..begins[1]], &bytes[begins[2]..]].concat()).expect("written");
    let journal = dir.path().join("mote/journal.jsonl");
    if let Ok(text) = std::fs::read_to_string(&journal) {
        let text = text.replace("\"mode\":\"discard\"", &format!("\"mode\":\"{mode}\""));
        std::fs::write(&journal, text).expect("written");
    }
    (dir, path)
}

#[test]
fn who_has_lost_packets_is_told_by_who_has_written_the_trace() {
    for (journal, mode, why) in [
        (false, "", "1 packet is missing: lost by the tracer, or missing from its files"),
        (true, "discard", "1 packet is missing: lost by the tracer, or missing from its files"),
        (true, "overwrite", "1 packet is missing: overwritten by the flight recorder"),
    ] {
        let (_dir, path) = without_a_packet(journal, mode);
        let view = mote(&["view", &path]);
        let said = String::from_utf8_lossy(&view.stderr);
        assert!(said.contains(why), "{journal} {mode}: {said}");
        assert!(
            String::from_utf8_lossy(&view.stdout).contains("*** 1 packet lost between "),
            "{journal} {mode}"
        );
        let report = String::from_utf8_lossy(&mote(&["report", &path]).stdout).into_owned();
        assert!(report.contains(why), "{journal} {mode}: {report}");
        let json = mote(&["report", &path, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
        let lost = &report["lost"];
        assert_eq!((&lost["packets"], &lost["flight_recorder"]), (&1.into(), &(mode == "overwrite").into()));
    }
}
