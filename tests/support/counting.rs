//! Counts of calls: what `mote functions --count` says.

use super::{programs, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// `mote functions --count WORDS -o DIR`.
pub(crate) fn counting(words: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(programs::mote());
    command.args(["functions", "--count", "--format", "json"]).args(words).arg("-o").arg(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How often each function was called, and how many of these calls are under way.
pub(crate) type Counts = BTreeMap<String, (u64, Option<u64>)>;

/// The counts in a JSON document.
pub(crate) fn counted(json: &[u8]) -> Counts {
    let all: serde_json::Value = serde_json::from_slice(json).expect("JSON");
    let one = |function: &serde_json::Value| {
        let name = function["name"].as_str().expect("a name").to_owned();
        (name, (function["calls"].as_u64().expect("a number"), function["under_way"].as_u64()))
    };
    all["functions"].as_array().expect("functions").iter().map(one).collect()
}

/// The counts among what was said on standard error: there they are where the command prints something itself.
pub(crate) fn counted_of(said: &str) -> Counts {
    let (begin, end) = (said.find("\n{").expect("JSON"), said.rfind('}').expect("JSON"));
    counted(&said.as_bytes()[begin..=end])
}

/// Lines of a name and a number.
pub(crate) fn numbers(text: &str) -> BTreeMap<String, u64> {
    let one = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// Runs a command, which gets a line, and is told apart from mote by its lines: those without a colon.
pub(crate) fn run(keep: &TempDir, words: &[&str], command: &Path) -> (Counts, String) {
    let dir = tempfile::tempdir_in(keep.path()).expect("a directory");
    let mut child =
        counting(words, &dir.path().join("trace")).arg("--").arg(command).spawn().expect("it starts");
    // One that does not read may be gone.
    let _ = child.stdin.take().expect("a pipe").write_all(b"\n");
    let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{said}");
    (counted_of(&said), said)
}

/// Has a recorder end, as Ctrl-C does, and waits for it.
pub(crate) fn ended(child: Child) -> Output {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    child.wait_with_output().expect("it ends")
}

/// Waits until a command has said this on standard error.
pub(crate) fn until_said(child: &mut Child, what: &str) {
    let mut said = String::new();
    let from = child.stderr.as_mut().expect("a pipe");
    wait_for(what, || {
        let mut byte = [0];
        from.read_exact(&mut byte).expect("it says more");
        said.push(char::from(byte[0]));
        said.contains(what).then_some(())
    });
}
