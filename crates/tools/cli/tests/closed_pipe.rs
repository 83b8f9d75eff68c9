//! A closed pipe is an ordinary end for every verb: `mote VERB | head -1` says nothing and succeeds.

#[path = "../../../read/timeline/examples/make_trace/build.rs"]
mod build;

use build::Plan;
use std::io::Read;
use std::process::{Command, Stdio};
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
