//! Events of programs and calls of their functions have stacks, copied in the process: whole, from handlers, threads,
//! through functions that have probes, with filters and what is kept aside, in children; where a stack cannot be
//! followed to its begin, it says so.

use crate::support::command::json_lines;
use crate::support::compiled::compile;
use crate::support::{Record, Trace, babeltrace, has_tool, programs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CUT: &str = "[cut short]";
const INNER: [&str; 3] = ["third", "second", "first"];

/// An event with the names of the functions of its stack, without offsets; the innermost first.
struct Stacked {
    name: String,
    fields: serde_json::Value,
    stack: Vec<String>,
}

impl Stacked {
    /// Whether these are in it, in this order, and it is whole.
    fn has(&self, functions: &[&str]) -> bool {
        let mut rest = self.stack.iter();
        functions.iter().all(|function| rest.any(|found| found == function)) && self.is_whole()
    }

    fn is_whole(&self) -> bool {
        self.stack.last().is_some_and(|last| last != CUT)
    }
}

fn stacked(trace: &Trace) -> Vec<Stacked> {
    let shown = trace.mote(&["view", "--stack", "--format", "json"]);
    let text = String::from_utf8(shown.stdout).expect("JSON is text");
    let function = |frame: &serde_json::Value| {
        let frame = frame.as_str().expect("text");
        if frame == CUT { CUT } else { frame.split(['+', '@', ' ']).next().expect("a name") }.to_owned()
    };
    let of = |event: serde_json::Value| Stacked {
        name: event["event"].as_str().or(event["name"].as_str()).expect("a name").to_owned(),
        stack: event["stack"]["user"].as_array().map_or(Vec::new(), |all| all.iter().map(function).collect()),
        fields: event["fields"].clone(),
    };
    json_lines(&text).filter(|line| line["lost"].is_null()).map(of).collect()
}

/// By the number that the program gives each event.
fn by_number(trace: &Trace) -> BTreeMap<u64, Stacked> {
    let of_program = stacked(trace).into_iter().filter(|event| event.name.starts_with("stacked:"));
    of_program.map(|event| (event.fields["number"].as_u64().expect("a number"), event)).collect()
}

/// The program whose events say by a number where they are.
fn program(keep: &TempDir, words: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let include = root.join("crates/traced/capi/include");
    let library = programs::library().to_str().expect("text");
    let rpath = format!("-Wl,-rpath,{library}");
    let own = ["-I", include.to_str().expect("text"), "-L", library, "-Wl,--no-as-needed", "-lmote", &rpath];
    compile(keep, "stacked.c", &[words, &own].concat())
}

#[test]
fn of_events_from_handlers_threads_coroutines_and_children() {
    if !has_tool("gcc") {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    for words in [&["-O2", "-fomit-frame-pointer"][..], &["-O1", "-fno-inline"]] {
        let program = program(&keep, words);
        let trace = Record::program(&[&program]).with(&["-e", "stacked:*", "--stack"]).run().ends_with(0);
        let found = by_number(&trace);
        let has = |number: u64, outer: &[&str]| {
            assert!(found[&number].has(&[&INNER, outer].concat()), "{number}: {:?}", found[&number].stack);
        };
        for event in found.values() {
            // What the header makes of an event is not the program's.
            assert_eq!(event.stack.first().map(String::as_str), Some("third"), "{:?}", event.stack);
        }
        has(1, &["main", "_start"]);
        has(2, &["compare", "main", "_start"]);
        has(3, &["interrupted", "main", "_start"]);
        has(5, &["thread"]);
        has(6, &["digging"]);
        has(9, &["main", "_start"]);
        let cut = |number: u64| {
            let stack = &found[&number].stack;
            assert_eq!(stack.last().map(String::as_str), Some(CUT), "{number}: {stack:?}");
            stack.iter().filter(|function| function.starts_with("dig")).count()
        };
        // On a stack of its own there is no more than the function that was interrupted.
        assert_eq!(cut(4), 0);
        // 30 frames of a thousand bytes do not fit in 8 KiB.
        assert!((4..=8).contains(&cut(7)) && (4..=8).contains(&cut(10)));
        let said = String::from_utf8_lossy(&trace.mote(&["view", "--stack"]).stderr).into_owned();
        for words in ["record with a larger --stack-size", "on a stack of its own"] {
            assert!(said.contains(words), "{said}");
        }
        babeltrace::assert_valid(&trace.path);
    }
}

#[test]
fn as_long_as_is_asked_for_and_not_when_it_is_not() {
    if !has_tool("gcc") {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = program(&keep, &["-O2"]);
    let record =
        |options: &[&str]| Record::program(&[&program]).with(&[&["-e", "stacked:*"], options].concat()).run();
    let dug = |size: &str| {
        let trace = record(&["--stack=user", "--stack-size", size]).ends_with(0);
        by_number(&trace)[&7].stack.len()
    };
    let (little, much) = (dug("2k"), dug("16k"));
    assert!(little < 8 && much >= 14, "{little} and {much} functions");
    let plain = record(&[]).ends_with(0);
    assert!(stacked(&plain).iter().all(|event| event.stack.is_empty()));
    // In small buffers they are smaller. On a busy machine there is no room for some of them, which is said.
    let small = record(&["--stack", "--buffers", "32k"]);
    assert!(matches!(small.status, 0 | 3), "{}", small.err);
    assert!(by_number(&small).values().any(|event| event.stack.len() >= 3));
    let of_kernel = record(&["--stack=kernel"]);
    assert!(of_kernel.err.contains("--stack=kernel is about kernel events"), "{}", of_kernel.err);
}

#[test]
fn with_filters_and_what_is_kept_aside_and_beside_another_recording() {
    if !has_tool("gcc") {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = program(&keep, &["-O2"]);
    let filtered = Record::program(&[&program])
        .with(&["-e", "stacked:*", "--filter", "number == 5 || number == 9", "--stack"])
        .run()
        .ends_with(0);
    let found = by_number(&filtered);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [5, 9]);
    assert!(found[&5].has(&["third", "second", "first", "thread"]), "{:?}", found[&5].stack);
    // What is kept aside until it is known to be wanted has its stack from where it was.
    let kept = Record::program(&[&program])
        .with(&[
            "--on",
            "stacked:here if number == 1 do speculate",
            "--on",
            "stacked:here if number == 3 do commit",
        ])
        .with(&["--on", "stacked:here", "--stack"])
        .run()
        .ends_with(0);
    let found = by_number(&kept);
    for number in [1, 2, 3, 10] {
        assert_eq!(found[&number].stack.first().map(String::as_str), Some("third"), "{number}");
    }
    assert!(found[&1].has(&["third", "second", "first", "main", "_start"]), "{:?}", found[&1].stack);
    // Of two recordings one wants stacks.
    let inner = keep.path().join("inner");
    let mote = programs::mote().to_str().expect("text");
    let words = [mote, "record", "-q", "-o", inner.to_str().expect("text"), "-e", "stacked:*", "--"];
    let command: Vec<&str> = words.into_iter().chain([program.to_str().expect("text")]).collect();
    let outer = Record::program(&command).with(&["-e", "stacked:*", "--stack"]).run().ends_with(0);
    let found = by_number(&outer);
    assert!(found[&1].has(&["third", "second", "first", "main", "_start"]), "{:?}", found[&1].stack);
    let plain = crate::support::command::mote(&["view", "--stack", inner.to_str().expect("text")]);
    let text = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(text.contains("stacked:here") && !text.contains("third+"), "{text}");
}

#[test]
fn of_calls_through_functions_that_have_probes() {
    if !has_tool("gcc") {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    // Nothing of ours is in it.
    let program = compile(&keep, "deep.c", &["-O2"]);
    let functions = ["ask", "third", "second", "first", "compare"].map(|name| ["-f", name]);
    for values in [&[][..], &["-a"]] {
        let trace = match values {
            [] => Record::program(&[&program]).with(functions.as_flattened()),
            _ => {
                Record::program(&[&program]).with(&["-f", "ask(number: i64)", "-f", "second", "-f", "first"])
            }
        };
        let trace = trace.with(&["--stack"]).run().ends_with(0);
        let all = stacked(&trace);
        let of =
            |name: &str| all.iter().filter(|event| event.name == format!("f:{name}")).collect::<Vec<_>>();
        // One of the six comes from elsewhere.
        let asked: Vec<_> = of("ask").into_iter().filter(|event| event.stack[1] != "dig").collect();
        assert_eq!(asked.len(), 5);
        for event in &asked {
            // Itself, who has called it, and so on: stubs are between none of them.
            let shown = &event.stack;
            assert_eq!(shown[..4], ["ask", "third", "second", "first"], "{shown:?}");
        }
        let whole = asked.iter().filter(|event| event.is_whole()).count();
        assert!(asked.iter().any(|event| event.has(&["ask", "first", "main", "_start"])));
        assert!(whole >= 4, "{whole} of {}", asked.len());
        assert!(of("first").iter().any(|event| event.has(&["first", "compare", "main", "_start"])));
        babeltrace::assert_valid(&trace.path);
    }
}

#[test]
fn of_calls_that_exceptions_have_ended() {
    if !has_tool("g++") {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    let program = compile(&keep, "thrown.cpp", &["-O2"]);
    let trace =
        Record::program(&[&program]).with(&["-f", "deep", "-f", "again", "--stack"]).run().ends_with(0);
    let all = stacked(&trace);
    // Each call has at least itself, as far as that is known.
    assert!(!all.is_empty());
    assert!(all.iter().all(|event| !event.stack.is_empty()));
}

#[test]
fn of_rust_programs() {
    let trace = Record::program(&[programs::everyday()]).with(&["-e", "*", "--stack"]).run().ends_with(0);
    let all = stacked(&trace);
    assert!(all.len() >= 600, "{} events", all.len());
    for event in &all {
        let inner = event.stack.first().map(String::as_str).unwrap_or_default();
        assert!(["step", "everyday::step"].contains(&inner), "{:?}", event.stack);
        assert!(event.has(&["main", "_start"]), "{:?}", event.stack);
    }
}

#[test]
fn of_events_through_functions_that_another_copy_of_the_library_has_probed() {
    if !has_tool("gcc") {
        return;
    }
    let keep = TempDir::new().expect("a directory");
    // The library that comes for the probes is not the program's.
    let program = program(&keep, &["-O2"]);
    let functions = ["second", "first", "compare", "interrupted"].map(|name| ["-f", name]);
    // The program's copy learns of the other one when that has its probes: events before that end there.
    let trace = Record::program(&[program.as_path(), Path::new("later")])
        .with(functions.as_flattened())
        .with(&["-e", "stacked:*", "--stack"])
        .run()
        .ends_with(0);
    let found = by_number(&trace);
    for (number, outer) in [
        (1, &["main", "_start"][..]),
        (2, &["compare", "main"]),
        (3, &["interrupted", "main"]),
        (5, &["thread"]),
    ] {
        let event = &found[&number];
        assert!(event.has(&[&INNER, outer].concat()), "{number}: {:?}", event.stack);
    }
}
