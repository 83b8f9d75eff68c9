//! Stacks of events are followed to where the program or the thread began, without frame pointers; where that cannot
//! be, they say so.

use crate::support::command::json_lines;
use crate::support::compiled::compile;
use crate::support::servers::{Kind, Load, Server};
use crate::support::{Record, Trace, babeltrace, has_tool, kernel, skip, wait_for};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use tempfile::TempDir;

const EVENT: &str = "syscalls:syscall_entry_getsid";
const CUT: &str = "[cut short]";

/// Functions by the number that the program asks with, without offsets; the innermost first.
fn stacks(trace: &Trace, number: &str) -> BTreeMap<u64, Vec<String>> {
    let shown = trace.mote(&["view", "--stack", "--format", "json"]);
    let text = String::from_utf8(shown.stdout).expect("JSON is text");
    let function = |frame: &serde_json::Value| {
        let frame = frame.as_str().expect("text");
        frame.split(['+', '@']).next().expect("a name").to_owned()
    };
    let stack = |event: serde_json::Value| {
        let frames = event["stack"]["user"].as_array().expect("a stack").iter().map(function).collect();
        (event["fields"][number].as_u64().expect("a number"), frames)
    };
    json_lines(&text).map(stack).collect()
}

/// What the stderr of `mote view --stack` says.
fn said(trace: &Trace) -> String {
    String::from_utf8_lossy(&trace.mote(&["view", "--stack"]).stderr).into_owned()
}

fn is_there() -> bool {
    has_tool("gcc") && kernel::is_there()
}

#[test]
fn of_programs_without_frame_pointers_from_handlers_threads_and_the_c_library() {
    if !is_there() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    for words in [&["-O2", "-fomit-frame-pointer"][..], &["-O2", "-static"]] {
        let program = compile(&keep, "deep.c", words);
        let trace = Record::program(&[&program]).with(&["-k", EVENT, "--stack=user"]).run().ends_with(0);
        let found = stacks(&trace, "pid");
        let has = |number: u64, functions: &[&str]| {
            let stack = &found[&number];
            let mut rest = stack.iter();
            let all = functions.iter().all(|function| rest.any(|found| found == function));
            assert!(all && !stack.contains(&CUT.to_owned()), "{number}, {words:?}: {stack:?}");
        };
        let inner = ["ask", "third", "second", "first"];
        let below = |outer: &[&'static str]| [&inner, outer].concat();
        has(900_001, &below(&["main", "_start"]));
        has(900_002, &below(&["compare", "main", "_start"]));
        has(900_003, &below(&["handler", "interrupted", "main", "_start"]));
        // Its handler has a stack of its own: of the other one there is the function that was interrupted.
        let on_its_own = &found[&900_004];
        assert!(on_its_own.contains(&"handler".to_owned()), "{on_its_own:?}");
        assert_eq!(on_its_own.last().map(String::as_str), Some(CUT), "{on_its_own:?}");
        assert!(said(&trace).contains("on a stack of its own"), "{}", said(&trace));
        has(900_005, &below(&["thread"]));
        // 30 frames of a thousand bytes do not fit in 8 KiB.
        let cut = &found[&900_006];
        assert_eq!(cut.last().map(String::as_str), Some(CUT), "{cut:?}");
        let depth = cut.iter().filter(|function| *function == "dig").count();
        assert!((4..=8).contains(&depth), "{cut:?}");
        assert!(said(&trace).contains("record with a larger --stack-size"), "{}", said(&trace));
        babeltrace::assert_valid(&trace.path);
    }
}

#[test]
fn of_stripped_programs_and_with_more_or_less_of_the_stack() {
    if !is_there() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = compile(&keep, "deep.c", &["-O2", "-s"]);
    let record = |options: &[&str]| {
        let options = [&["-k", EVENT, "--stack=user"], options].concat();
        Record::program(&[&program]).with(&options).run().ends_with(0)
    };
    let whole = |trace: &Trace| {
        let found = stacks(trace, "pid").into_iter();
        let is_whole = |stack: &[String]| stack.len() > 3 && stack.last().is_none_or(|last| last != CUT);
        found.filter(|(_, stack)| is_whole(stack)).map(|(number, _)| number % 10).collect::<Vec<_>>()
    };
    assert_eq!(whole(&record(&[])), [1, 2, 3, 5]);
    // What two frames take more than that.
    let trace = record(&["--stack-size", "16k"]);
    let dug = &stacks(&trace, "pid")[&900_006];
    assert!((12..=22).contains(&dug.len()) && dug.last().is_some_and(|last| last == CUT), "{dug:?}");
    // By frame pointers, none is.
    let trace = record(&["--frame-pointers"]);
    let short = stacks(&trace, "pid");
    assert!(short.values().all(|stack| stack.len() < 5), "{short:?}");
    let refused = Record::program(&["true"]).with(&["-k", EVENT, "--stack", "--stack-size", "32k"]).run();
    assert!(refused.err.contains("16k"), "{}", refused.err);
}

#[test]
fn of_debians_redis() {
    if let Some(packages) = Kind::Redis.missing() {
        skip(format_args!("redis is not installed: apt-get install {packages}"));
        return;
    }
    if !kernel::is_there() {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let server = Server::start(Kind::Redis, keep.path()).expect("redis");
    let running = Record::process(u64::from(server.pid()))
        .with(&["-k", "syscalls:syscall_entry_write", "--stack=user"])
        .start();
    let load = server.home().load(Load::Reads).expect("a load");
    running.wait_until_kernel_recorded();
    let sleeps = server.sleeps() + 2000;
    wait_for("some requests", || (server.sleeps() >= sleeps).then_some(()));
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    drop(load);
    let folded = trace.mote(&["view", "--format", "folded"]);
    let folded = String::from_utf8(folded.stdout).expect("text");
    let (mut all, mut whole) = (0, 0);
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a line");
        let count: u64 = count.parse().expect("a number");
        all += count;
        // Its name, `_start`, `__libc_start_main` and what that calls, `main`, and some more up to `write`.
        let depth = stack.split(';').count();
        whole += if depth >= 7 && !stack.contains("[cut]") { count } else { 0 };
    }
    assert!(all > 1000, "{all} stacks");
    assert!(100 * whole >= 95 * all, "{whole} of {all}:\n{folded}");
}
