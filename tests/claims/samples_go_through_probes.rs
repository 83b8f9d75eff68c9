//! Stacks of samples, of times without a CPU and of kernel events go on through functions that are recorded at the
//! time: to where the program or the thread began, with the functions that are there, in their order.

use crate::support::command::{json_lines, mote, printed, text};
use crate::support::compiled::compile;
use crate::support::counting::counting;
use crate::support::{Record, has_tool, is_root, programs, skip};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// So long after a program's first sample it may not be known yet what was replaced on its stacks: some rounds of
/// reading samples (20 ms), on a busy machine.
const UNKNOWN_NS: u64 = 200_000_000;
/// How often `nested.c` goes down by recursion.
const DEPTH: usize = 13;

/// Whether the kernel runs programs for us, and there is a compiler; says so when not.
fn can_be_seen() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid").expect("every kernel has it");
    if !is_root() || namespace.to_str() != Some("pid:[4026531836]") {
        skip("stacks through functions with probes need root in the outermost pid namespace");
        return false;
    }
    has_tool("gcc")
}

/// Whether these functions, the outermost first, are the begin of the only way through `nested.c`, as far as they go:
/// where a function begins or returns, it may be missing.
fn is_in_order(functions: &[&str]) -> bool {
    // There is none before `main`, or behind it.
    let Some((first, rest)) = functions.split_first() else { return true };
    let way = ["work", "probed_top"];
    let below = ["probed_a", "plain_b", "probed_c", "leaf"];
    let downs = rest.iter().filter(|name| **name == "probed_down").count();
    let way = way.iter().chain(std::iter::repeat_n(&"probed_down", DEPTH)).chain(&below);
    // What is below the recursion is called by its innermost call only.
    let is_deep = !rest.iter().any(|name| below.contains(name)) || downs == DEPTH;
    ["main", "thread"].contains(first)
        && is_deep
        && rest.len() <= way.clone().count()
        && way.zip(rest).all(|(wanted, found)| wanted == found)
}

/// How many samples a recording has of `nested.c`, how many of these are whole and in order, and those that are not.
fn samples(trace: &Path, event: &str) -> (usize, usize, Vec<String>) {
    let view = printed(mote(&["view", text(trace), "-e", event, "--stack", "--format", "json"]));
    let known =
        ["main", "thread", "work", "probed_top", "probed_down", "probed_a", "plain_b", "probed_c", "leaf"];
    let (mut all, mut good, mut bad) = (0, 0, Vec::new());
    // What says that some were lost has none.
    let time = |event: &serde_json::Value| event["time"].as_u64();
    let known_from = json_lines(&view).filter_map(|event| time(&event)).min().unwrap_or(0) + UNKNOWN_NS;
    for event in json_lines(&view).filter(|event| time(event) >= Some(known_from)) {
        let stack: Vec<&str> = event["stack"]["user"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|frame| frame.as_str())
            .collect();
        let names = stack.iter().rev().map(|frame| frame.split(['+', '@', ' ']).next().unwrap_or_default());
        let functions: Vec<&str> = names.filter(|name| known.contains(name)).collect();
        // Of samples a field says whether they are whole, of other events the last frame.
        let is_whole = match &event["fields"]["complete"] {
            serde_json::Value::Null => !stack.last().is_some_and(|last| last.starts_with('[')),
            complete => *complete == "true",
        };
        let is_good = is_whole && is_in_order(&functions);
        all += 1;
        good += usize::from(is_good);
        if !is_good {
            bad.push(format!("{stack:?}"));
        }
    }
    (all, good, bad)
}

/// That nearly all of at least so many samples are whole.
#[track_caller]
fn assert_whole(trace: &Path, event: &str, least: usize) {
    let (all, good, bad) = samples(trace, event);
    let shown = bad.get(..bad.len().min(20)).unwrap_or_default().join("\n");
    assert!(all >= least && 100 * good >= 95 * all, "{good} of {all}\n{shown}");
}

#[test]
fn of_a_command_with_and_without_frame_pointers() {
    if !can_be_seen() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    for flags in [&["-O2", "-fomit-frame-pointer"][..], &["-O1"], &["-O2", "-fno-omit-frame-pointer"]] {
        let program = compile(&keep, "nested.c", &[flags, &["-fno-optimize-sibling-calls"]].concat());
        let trace = Record::program(&[program.to_str().expect("text"), "40000"])
            .with(&["--profile", "-f", "probed_*"])
            .run()
            .ends_with(0);
        assert_whole(&trace.path, "profile_sample", 200);
    }
}

/// `nested.c` sleeps for so many microseconds each time.
const SLEEPING: &[&str] = &["1000"];
/// It sleeps now and then, and does little but calls between, and handles signals; others have the CPUs first.
const CALLING: &[&str] = &["1000", "10000", "1"];

/// `nested.c` as it runs.
fn running(program: &Path, how: &[&str]) -> Child {
    let mut command = Command::new("nice");
    command
        .args(["-n", if how == CALLING { "5" } else { "0" }])
        .arg(program)
        .arg("100000000")
        .args(how)
        .stdout(Stdio::null());
    command.spawn().expect("it starts")
}

/// Much of its time goes to the code that counts, and to a handler that interrupts that.
#[test]
fn of_a_process_whose_calls_are_counted() {
    if !can_be_seen() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = compile(&keep, "nested.c", &["-O2", "-fno-optimize-sibling-calls"]);
    let mut child = running(&program, CALLING);
    let pid = child.id().to_string();
    let words = ["probed_*", "-p", &pid, "--duration", "5s"];
    let mut counts = counting(&words, &keep.path().join("counts")).spawn().expect("it starts");
    let mut said = BufReader::new(counts.stderr.take().expect("a pipe")).lines();
    said.by_ref().map_while(Result::ok).find(|line| line.contains("probes in 4 functions")).expect("probes");
    let trace = keep.path().join("trace");
    let run = mote(&["profile", "-p", &pid, "--duration", "2s", "-o", text(&trace)]);
    counts.wait().expect("it ends");
    child.kill().and_then(|()| child.wait()).expect("a child");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(matches!(run.status.code(), Some(0 | 3)), "{said}");
    assert_whole(&trace, "profile_sample", 20);
}

#[test]
fn of_a_process_whose_functions_another_recording_has_on() {
    if !can_be_seen() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = compile(&keep, "nested.c", &["-O2", "-fno-optimize-sibling-calls"]);
    let mut child = running(&program, SLEEPING);
    let functions = Record::process(child.id().into()).with(&["-f", "probed_*"]).start();
    functions.wait_until_said("probes in 4 functions");
    let trace = keep.path().join("trace");
    let pid = child.id().to_string();
    let options = ["--off-cpu", "--duration", "2s", "-o", text(&trace)];
    let run = mote(&[&["profile", "-p", &pid], &options[..]].concat());
    functions.signal(nix::sys::signal::Signal::SIGINT);
    functions.wait().ends_with(0);
    child.kill().and_then(|()| child.wait()).expect("a child");
    // On a busy machine some may be lost.
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(matches!(run.status.code(), Some(0 | 3)), "{said}");
    assert_whole(&trace, "profile_off_cpu", 500);
}

/// Another user's process, whose functions were counted before, runs behind a page of a file that never comes: samples
/// are taken of it, and of all others, and the recording ends.
#[test]
fn of_a_stranger_that_holds_up_what_reads_its_memory() {
    if !can_be_seen() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    if !Path::new("/dev/fuse").exists() {
        return skip("a file that never comes needs /dev/fuse");
    }
    let program = compile(&keep, "holds_up.c", &["-O2"]);
    let file = keep.path().join("served");
    std::fs::write(&file, "").expect("a file");
    let mut child = Command::new(&program).arg(file).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(said.next().is_some_and(|line| line.is_ok_and(|line| line == "there")), "it cannot serve a file");
    let pid = child.id().to_string();
    let counts = keep.path().join("counts");
    let words = ["called", "-p", &pid, "--duration", "100ms"];
    let counted = counting(&words, &counts).stdin(Stdio::null()).output().expect("it runs");
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    for of in [&["-p", &pid][..], &["-a"]] {
        let trace = keep.path().join(of.concat());
        let options = ["--duration", "1s", "-o", text(&trace)];
        let mut profile = Command::new("timeout");
        profile.args(["--signal=KILL", "60"]).arg(programs::mote()).arg("profile").args(of).args(options);
        let output = profile.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {said}", output.status);
        let view = mote(&["view", text(&trace), "-e", "profile_sample", "--format", "json"]);
        let samples = json_lines(&printed(view)).filter(|event| event["pid"] == child.id()).count();
        assert!(samples > 20, "{samples} samples; {said}");
    }
    child.kill().and_then(|()| child.wait()).expect("a child");
}

/// The times at which it sleeps.
const SLEEPS: [&str; 3] = ["-k", "syscalls:clock_nanosleep", "--stack=user"];

#[test]
fn of_events_of_the_kernel() {
    if !can_be_seen() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = compile(&keep, "nested.c", &["-O2", "-fno-optimize-sibling-calls"]);
    // It is a shell before, whose calls are recorded, too.
    let words = format!("ls >&2; exec {} 2000 100", program.to_str().expect("text"));
    let trace = Record::program(&["sh", "-c", &words])
        .with(&["-f", "probed_*", "-k", "syscalls:*", "-x", "*futex"])
        .with(&SLEEPS)
        .run()
        .ends_with(0);
    assert_whole(&trace.path, "*nanosleep", 2000);
    // Those that another recording has on, and a flight recorder, which makes stacks of what it holds at its end.
    let mut child = running(&program, SLEEPING);
    let functions = Record::process(child.id().into()).with(&["-f", "probed_*"]).start();
    functions.wait_until_said("probes in 4 functions");
    let flight =
        Record::process(child.id().into()).with(&SLEEPS).with(&["--mode", "overwrite", "--duration", "1s"]);
    let trace = flight.run().ends_with(0);
    functions.signal(nix::sys::signal::Signal::SIGINT);
    functions.wait().ends_with(0);
    child.kill().and_then(|()| child.wait()).expect("a child");
    assert_whole(&trace.path, "*nanosleep", 500);
    // Both in one, of a process that runs.
    let mut child = running(&program, SLEEPING);
    let flight =
        Record::process(child.id().into()).with(&SLEEPS).with(&["--mode", "overwrite", "--duration", "2s"]);
    let trace = flight.with(&["-f", "probed_*"]).run().ends_with(0);
    child.kill().and_then(|()| child.wait()).expect("a child");
    assert_whole(&trace.path, "*nanosleep", 500);
}
