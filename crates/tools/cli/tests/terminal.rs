//! Tables fit the terminal: no line is wider than it, where a path or a name can give way.

#[path = "../../../read/timeline/examples/make_trace/build.rs"]
mod build;
mod support;

use build::Plan;
use nix::pty::{OpenptyResult, Winsize, openpty};
use serde_json::json;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::lacks_rights;
use tempfile::TempDir;

const MOTE: &str = env!("CARGO_BIN_EXE_mote");
/// The terminal's width.
const COLUMNS: u16 = 80;

/// What a verb writes to a terminal of so many columns, without colour, and what it says to a pipe.
fn on_terminal(columns: u16, command: &mut Command) -> (String, String) {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None).expect("a terminal");
    let mut child = command
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .stdout(Stdio::from(slave))
        .stderr(Stdio::piped())
        .spawn()
        .expect("mote runs");
    // What still has the other end of it is the child alone.
    command.stdout(Stdio::null());
    let mut said = child.stderr.take().expect("a pipe");
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = said.read_to_string(&mut text);
        text
    });
    let mut bytes = Vec::new();
    // It ends by an error when nobody has the other end any more.
    let _ = File::from(master).read_to_end(&mut bytes);
    child.wait().expect("it ends");
    (String::from_utf8_lossy(&bytes).replace('\r', ""), said.join().expect("no panic"))
}

fn mote(words: &[&str]) -> Command {
    let mut command = Command::new(MOTE);
    command.args(words);
    command
}

#[track_caller]
fn assert_fits(page: &str, columns: u16) {
    assert!(!page.is_empty());
    for line in page.lines() {
        let wide = line.chars().count();
        assert!(wide <= usize::from(columns), "{wide} columns of {columns}: {line}\n{page}");
    }
}

/// A directory with a long name, that still can be told by its end.
fn long(below: &Path, end: &str) -> PathBuf {
    let dir = below
        .join("a-folder-with-a-name-that-is-rather-long")
        .join("and-another-one-of-the-same-kind")
        .join(end);
    fs::create_dir_all(&dir).expect("made");
    dir
}

/// A recording with long names of everything, and counts by rules.
fn recording(below: &Path) -> PathBuf {
    let dir = long(below, "the-trace");
    build::build(&dir, &Plan { lost: 3, packet_bytes: 1000, text_every: 10, ..Plan::default() })
        .expect("built");
    let columns = json!([{ "name": "path", "type": "text" }, { "name": "len", "type": "unsigned" }]);
    let keys = json!({ "path": format!("/srv/{}/end-of-path", "x".repeat(90)), "len": 7 });
    let rows = json!([{ "keys": keys, "count": 1234 }]);
    let counted = json!({ "name": "count by path, len", "kind": "counts", "dropped": 0, "columns": columns, "rows": rows });
    let all = json!({ "duration_ns": 1, "aggregates": [counted] });
    fs::write(dir.join("mote/aggregates.json"), all.to_string()).expect("written");
    dir
}

#[test]
fn the_report_is_as_wide_as_the_terminal() {
    let below = TempDir::new().expect("a directory");
    let dir = recording(below.path());
    let path = dir.to_str().expect("UTF-8");
    for columns in [60, COLUMNS, 132] {
        let (page, said) = on_terminal(columns, &mut mote(&["report", path]));
        assert_fits(&page, columns);
        let head = page.lines().next().expect("a line");
        assert!(head.ends_with("/the-trace: app"), "the path lost its middle: {head}; {said}");
        for words in ["bench:two", "between ", "in stream_0", "/end-of-path", "count by path, len"] {
            assert!(page.contains(words), "{columns} {words}: {page}");
        }
        assert!(columns < 132 || page.contains(" min "), "{page}");
    }
    // A narrower one is taken to have 60.
    assert_fits(&on_terminal(20, &mut mote(&["report", path])).0, 60);
    // Without a terminal it is a hundred columns, or as many as COLUMNS says.
    let piped = |columns: Option<&str>| {
        let mut command = mote(&["report", path]);
        command.env_remove("COLUMNS").envs(columns.map(|columns| ("COLUMNS", columns)));
        String::from_utf8(command.output().expect("mote runs").stdout).expect("text")
    };
    assert_fits(&piped(None), 100);
    assert_fits(&piped(Some("72")), 72);
    assert!(piped(None).lines().any(|line| line.chars().count() > 80));
}

#[test]
fn lists_are_as_wide_as_the_terminal() {
    let below = TempDir::new().expect("a directory");
    let program = long(below.path(), "bin").join("program");
    fs::copy(MOTE, &program).expect("copied");
    let program = program.to_str().expect("UTF-8");
    let (page, said) = on_terminal(COLUMNS, &mut mote(&["list", program]));
    assert_fits(&page, COLUMNS);
    let head = page.lines().next().expect("a line");
    assert!(head.contains("...") && head.contains("/bin/program: "), "{head}; {said}");
    assert!(page.contains("request_start") && page.contains("method: enum u8 Get=0"), "{page}");
    // A pipe gets all of it.
    let output = mote(&["list", program]).env_remove("COLUMNS").output().expect("mote runs");
    let piped = String::from_utf8(output.stdout).expect("text");
    assert!(piped.starts_with(&format!("{program}: ")), "{piped}");

    let mut child = Command::new(program)
        .args(["__demo-server", "--requests", "100000000", "--seconds", "600"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let (page, _) = on_terminal(COLUMNS, &mut mote(&["list"]));
    let _ = child.kill();
    let _ = child.wait();
    assert_fits(&page, COLUMNS);
    assert!(page.contains("/bin/program"), "{page}");
    assert_fits(&on_terminal(COLUMNS, &mut mote(&["list", "-k"])).0, COLUMNS);
}

#[test]
fn the_doctor_is_as_wide_as_the_terminal() {
    let (page, _) = on_terminal(COLUMNS, &mut mote(&["doctor"]));
    assert_fits(&page, COLUMNS);
    assert!(page.contains("\nrecording works"), "{page}");
}

/// A recorder that is ended when it is dropped.
struct Recorder(Child);

impl Drop for Recorder {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn the_status_is_as_wide_as_the_terminal() {
    let below = TempDir::new().expect("a directory");
    let dir = below.path().join("trace");
    let path = dir.to_str().expect("UTF-8");
    let mut record = mote(&["record", "-o", path, "-e", "*", "--count", "by $exe, $comm, $tid"]);
    record.args(["--", MOTE, "__demo-server", "--requests", "100000000", "--seconds", "600"]);
    let mut child = record.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mote runs");
    // It says when it has begun.
    let mut said = child.stderr.take().expect("a pipe");
    let recorder = Recorder(child);
    let mut begun = Vec::new();
    let mut byte = [0];
    while !begun.ends_with(b"\n") && said.read(&mut byte).is_ok_and(|read| read == 1) {
        begun.extend(byte);
    }
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let (page, why) = on_terminal(COLUMNS, &mut mote(&["status", path]));
    drop(recorder);
    assert_fits(&page, COLUMNS);
    assert!(page.starts_with("recording for ") && page.contains(" in the buffers"), "{page} {why}");
    assert!(page.contains("1 process, "), "{page}");
}

#[test]
fn latency_is_as_wide_as_the_terminal() {
    let below = TempDir::new().expect("a directory");
    let dir = below.path().join("trace");
    let file = long(below.path(), "data").join("a-file-that-is-not-there");
    let mut sleep = Command::new("sh");
    let script = format!("while :; do sleep 0.02; cat {} 2>/dev/null; done", file.display());
    let mut sleeper = sleep.args(["-c", &script]).stdout(Stdio::null()).spawn().expect("sh runs");
    let pid = sleeper.id().to_string();
    let words = ["latency", "-p", &pid, "-t", "openat=1ns,wait4=1ns", "--duration", "500ms", "-o"];
    let (page, said) = on_terminal(COLUMNS, mote(&words).arg(&dir));
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    if lacks_rights(&said) {
        return;
    }
    assert_fits(&page, COLUMNS);
    assert!(page.starts_with("SYSTEM CALL") && page.contains("#1 "), "{page} {said}");
}
