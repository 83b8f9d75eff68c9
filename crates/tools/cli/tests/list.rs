//! `mote list`: what the program `mote` itself carries, and what is on in a process that is recorded.

use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MOTE: &str = env!("CARGO_BIN_EXE_mote");

fn list(arguments: &[&str]) -> Output {
    Command::new(MOTE).arg("list").args(arguments).output().expect("runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_is_listed_as_text_and_as_json() {
    let text = list(&[MOTE]);
    assert!(text.status.success(), "{}", said(&text));
    let text = String::from_utf8(text.stdout).expect("text");
    let row = text.lines().find(|line| line.contains("request_start")).expect("a row");
    assert!(row.contains("info") && row.contains("patched") && row.contains("events.rs:"), "{row}");
    assert!(row.contains("method: enum u8 Get=0 Head=1 Other=2, path: str"), "{row}");

    let json = list(&[MOTE, "--format", "json", "-e", "doctor:*"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let event = &json["objects"][0]["events"][0];
    assert_eq!(
        (&event["provider"], &event["name"], &event["level"]),
        (&"doctor".into(), &"proof".into(), &"info".into())
    );
    assert_eq!(event["fields"][0], serde_json::json!({ "name": "number", "type": "u64" }));
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    for (arguments, status, words) in [
        (&["no-such-command"][..], 2, "neither a command in PATH"),
        (&["4000000000"], 2, "there is no process 4000000000"),
        (&["Cargo.toml"], 2, "is not an ELF file"),
        (&["/bin/sh"], 1, "carries no mote events; add one"),
        (&[MOTE, "-e", "nothing"], 1, "no event matches nothing; there are client:request_sent"),
    ] {
        let output = list(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", said(&output));
        assert!(said(&output).starts_with("mote: ") && said(&output).contains(words), "{}", said(&output));
    }
}

/// A recording whose program is ended when it is dropped, which ends the recording.
struct Recording(Child);

impl Drop for Recording {
    fn drop(&mut self) {
        let program = child_of(self.0.id()).unwrap_or(self.0.id());
        let _ = Command::new("kill").args(["-KILL", &program.to_string()]).status();
        let _ = self.0.wait();
    }
}

/// The process whose parent is `parent`.
fn child_of(parent: u32) -> Option<u32> {
    let pids = std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let line = format!("PPid:\t{parent}");
    pids.into_iter().find(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| status.lines().any(|l| l == line))
    })
}

#[test]
fn in_a_recorded_process_the_chosen_events_are_on_and_the_others_off() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(MOTE);
    command.args(["record", "-q", "-e", "http:*", "-o"]).arg(dir.path().join("trace"));
    command.args(["--", MOTE, "__demo-server", "--requests", "100000000", "--seconds", "600"]);
    let recording = Recording(command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().expect("runs"));
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut last = String::new();
    while Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        let Some(pid) = child_of(recording.0.id()) else { continue };
        let output = list(&[&pid.to_string(), "--format", "json"]);
        last = said(&output);
        let Ok(json) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
        let Some(events) = json["objects"][0]["events"].as_array() else { continue };
        let state = |event: &Value| (event["provider"] == "http", event["state"].as_str().map(str::to_owned));
        let states: Vec<_> = events.iter().map(state).collect();
        last = format!("{states:?}");
        if states.iter().any(|(is_http, _)| *is_http)
            && states
                .iter()
                .all(|(is_http, state)| state.as_deref() == Some(if *is_http { "on" } else { "off" }))
        {
            return;
        }
    }
    panic!("the states never were as chosen: {last}");
}

#[test]
fn functions_are_listed_with_the_way_to_probe_them() {
    let output = list(&["--functions", MOTE, "mote_functions::read_with", "--format", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let functions = json["objects"][0]["functions"].as_array().expect("a list");
    let [function] = &functions[..] else { panic!("{json:#}") };
    assert!(function["name"].as_str().expect("text").starts_with("mote_functions::read"), "{function}");
    assert!(function["size"].as_u64().is_some_and(|size| size > 0), "{function}");
    let way = function["entry"]["way"].as_str().expect("text");
    assert!(["jump", "punned", "window"].contains(&way), "{function}");

    let by_source = list(&["--functions", MOTE, "@list/functions.rs"]);
    let text = String::from_utf8(by_source.stdout).expect("text");
    let rows = text.lines().filter(|line| line.trim_start().starts_with("0x"));
    assert!(rows.clone().count() > 0 && rows.clone().all(|row| row.contains("functions.rs")), "{text}");
}

#[test]
fn functions_of_a_process_have_its_addresses() {
    let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep");
    let is_loaded = || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
        maps.lines().any(|line| line.contains("libc.so") && line.contains("r-xp"))
    };
    let until = Instant::now() + Duration::from_secs(10);
    while !is_loaded() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = list(&["--functions", &child.id().to_string(), "libc.so*:nanosleep*", "--format", "json"]);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("its maps");
    let _ = child.kill();
    let _ = child.wait();
    if !maps.contains("libc.so") {
        return mote_skip::skip("sleep has no libc.so");
    }
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", said(&output)));
    let address = json["objects"][0]["functions"][0]["address"].as_u64().expect("a number");
    let holds = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        (hex(start)?..hex(end)?).contains(&address).then(|| line.contains("libc.so") && line.contains("r-xp"))
    };
    assert_eq!(maps.lines().find_map(holds), Some(true), "{address:#x} in {maps}");
}

#[test]
fn functions_that_are_not_there_are_said_with_names_that_are() {
    for (arguments, status, words) in [
        (&["--functions", MOTE, "mote_functions::raed"][..], 1, "similar names: "),
        (&["--functions", "Cargo.toml"], 2, "not an ELF file"),
        (&["--functions"], 2, "give a program or a process"),
        (&["--functions", "4000000000"], 2, "there is no process"),
    ] {
        let output = list(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
}
