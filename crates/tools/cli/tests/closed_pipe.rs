//! A closed pipe is an ordinary end for every verb: `mote VERB | head -1` says nothing and succeeds.

#[path = "../../../read/timeline/examples/make_trace/build.rs"]
mod build;

use build::Plan;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Runs a verb whose output is closed after the first byte, or at once; returns its status and what it said.
fn closed(args: &[&str], bytes: usize) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mote"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mote runs");
    let mut out = child.stdout.take().expect("a pipe");
    let _ = out.read(&mut vec![0; bytes]);
    drop(out);
    let done = child.wait_with_output().expect("it ends");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn verbs_end_well_when_their_reader_goes() {
    let dir = TempDir::new().expect("a directory");
    build::build(dir.path(), &Plan { events: 200_000, ..Plan::default() }).expect("built");
    let path = dir.path().to_str().expect("UTF-8");
    let own = env!("CARGO_BIN_EXE_mote");
    let verbs: [&[&str]; 10] = [
        &["view", path],
        &["view", path, "--format", "json"],
        &["report", path],
        &["report", path, "--format", "json"],
        &["list", own],
        &["list", own, "--format", "json"],
        &["filter", "a > 1", "--fields", "a: u32"],
        &["--help"],
        &["view", "--help"],
        &["--version"],
    ];
    for verb in verbs {
        for bytes in [0, 1] {
            let (status, said) = closed(verb, bytes);
            assert_eq!((status, said.as_str()), (Some(0), ""), "{verb:?}, closed after {bytes} bytes");
        }
    }
}

#[test]
fn the_demo_ends_well_when_its_reader_goes() {
    let dir = TempDir::new().expect("a directory");
    let trace = dir.path().join("trace");
    let (status, said) = closed(&["demo", "-o", trace.to_str().expect("UTF-8"), "--requests", "100"], 1);
    assert_eq!(status, Some(0), "{said}");
    assert!(trace.is_dir(), "what was recorded stays");
}

#[test]
fn the_doctor_ends_well_when_its_reader_goes() {
    for format in ["text", "json"] {
        for bytes in [0, 1] {
            let (status, said) = closed(&["doctor", "--format", format], bytes);
            assert_eq!((status, said.as_str()), (Some(0), ""), "{format}, closed after {bytes} bytes");
        }
    }
}

/// A program that is ended when it is dropped, and `mote record` with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn the_status_ends_well_when_its_reader_goes() {
    let dir = TempDir::new().expect("a directory");
    let trace = dir.path().join("trace");
    let path = trace.to_str().expect("UTF-8");
    let own = env!("CARGO_BIN_EXE_mote");
    let mut record = Command::new(own);
    record.args([
        "record",
        "-o",
        path,
        "--",
        own,
        "__demo-server",
        "--requests",
        "100000000",
        "--seconds",
        "600",
    ]);
    let mut running =
        Running(record.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mote runs"));
    // It says when it has begun.
    let mut said = running.0.stderr.take().expect("a pipe");
    said.read_exact(&mut [0]).expect("it says so");
    for bytes in [0, 1] {
        let (status, said) = closed(&["status", path], bytes);
        assert_eq!((status, said.as_str()), (Some(0), ""), "closed after {bytes} bytes");
    }
}

/// Whether kernel events cannot be had here; says so.
fn is_without_kernel(said: &str) -> bool {
    let is_without = said.contains(" missing; run as root") || said.contains("not permitted to");
    if is_without {
        mote_skip::skip(said);
    }
    is_without
}

#[test]
fn recordings_go_on_when_the_reader_of_their_tables_goes() {
    let dir = TempDir::new().expect("a directory");
    let own = std::process::id().to_string();
    let counts =
        ["record", "-a", "-k", "sched:sched_switch", "--count", "by prev_comm", "--interval", "50ms"];
    let latency = ["latency", "-p", &own, "--interval", "50ms"];
    let json = ["latency", "-p", &own, "--interval", "50ms", "--format", "json"];
    for (number, verb) in [&counts[..], &latency, &json].into_iter().enumerate() {
        for bytes in [0, 1] {
            let trace = dir.path().join(format!("trace-{number}-{bytes}"));
            let path = trace.to_str().expect("UTF-8");
            let (status, said) = closed(&[verb, &["--duration", "400ms", "-o", path]].concat(), bytes);
            if is_without_kernel(&said) {
                return;
            }
            // Without a slow call there is status 1.
            assert!(matches!(status, Some(0 | 1)), "{verb:?}, closed after {bytes} bytes: {status:?} {said}");
            assert!(!said.contains("closed") && !said.contains("panicked"), "{verb:?}: {said}");
            assert!(trace.join("kernel/metadata").is_file(), "the recording is whole: {said}");
        }
    }
}
