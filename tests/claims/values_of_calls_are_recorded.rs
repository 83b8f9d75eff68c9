//! `mote record -f 'NAME(..)'`: events of functions have arguments and results, as the debug information or a person
//! says where they are.

use crate::support::compiled::{Steady, compile, has_rustc};
use crate::support::event::Event;
use crate::support::{Record, output_of};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The fields of the calls of a function, without their durations and without addresses.
fn calls(events: &[Event], name: &str) -> Vec<Map<String, Value>> {
    let event = format!("f:{name}");
    let mut calls: Vec<Map<String, Value>> =
        events.iter().filter(|one| one.name == event).map(|one| one.fields.clone()).collect();
    for call in &mut calls {
        let duration = call.remove("duration").expect("each call has it");
        assert!(duration.as_u64().expect("a number") < 60_000_000_000);
    }
    assert!(!calls.is_empty(), "no {event}");
    calls
}

/// Records a program with probes in its own functions; it does what it does without.
fn recorded(program: &Path, pattern: &str) -> Vec<Event> {
    let bare = output_of(&mut Command::new(program));
    let file = program.file_name().expect("a name").to_string_lossy().into_owned();
    let trace = Record::program(&[program]).with(&["-f", &format!("{file}:{pattern}")]).run().ends_with(0);
    assert_eq!(trace.out, bare);
    assert_eq!(trace.lost_total(), 0);
    trace.events()
}

#[track_caller]
fn assert_fields(call: &Map<String, Value>, expected: &Value) {
    assert_eq!(Some(call), expected.as_object());
}

#[test]
fn of_c_by_debug_information() {
    let keep = tempfile::tempdir().expect("a directory");
    for words in [&["-O0", "-g"][..], &["-O1", "-g"], &["-O2", "-g"], &["-O2", "-gdwarf-4"]] {
        let events = recorded(&compile(&keep, "values.c", words), "*(..)");
        assert_fields(
            &calls(&events, "numbers")[0],
            &json!({"a": -5, "b": 65535, "c": -100_000, "d": 9_223_372_036_854_775_811_u64, "e": "true", "f": "BLUE",
                    "end": "returned", "retval": -34467}),
        );
        assert_fields(
            &calls(&events, "floats")[0],
            &json!({"a": 1.5, "b": -2.25, "c": 42, "d": 1e100, "end": "returned", "retval": 1e100}),
        );
        let texts = calls(&events, "texts");
        assert_fields(
            &texts[0],
            &json!({"a": "first", "none": "(null)", "bad": "(unreadable)", "empty": "", "end": "returned",
                    "retval": "first"}),
        );
        // What is too long for a record ends with points.
        let cut = texts[1]["a"].as_str().expect("a text");
        assert!(cut.len() > 80 && cut.len() < 100, "{cut}");
        assert_eq!(cut.trim_start_matches('x'), "...");
        assert_eq!(texts[1]["retval"], texts[1]["a"]);
        assert_fields(
            &calls(&events, "many")[0],
            &json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": -7, "h": "on the stack",
                    "end": "returned", "retval": 26}),
        );
        let mut structures = calls(&events, "structures").remove(0);
        assert_ne!(structures.remove("r"), None, "the address");
        assert_fields(
            &structures,
            &json!({"m_a": -3, "m_b": 2.5, "m_c": 4.25, "b_a": 1, "b_b": 1_099_511_627_776_u64, "b_c": -9,
                    "r_id": 7, "r_path": "/index.html", "r_method": "GET", "r_weight": 0.5,
                    "end": "returned", "retval_a": 4, "retval_b": 3.5, "retval_c": -4.75}),
        );
        assert_fields(&calls(&events, "nothing")[0], &json!({}));
    }
}

#[test]
fn of_cpp_and_of_calls_that_end_with_an_exception() {
    let keep = tempfile::tempdir().expect("a directory");
    for words in [&["-O0", "-g", "-std=c++17"][..], &["-O2", "-g", "-std=c++17"]] {
        let events = recorded(&compile(&keep, "values.cpp", words), "shop::*(..)");
        assert_fields(
            &calls(&events, "shop::check")[0],
            &json!({"name": "short", "view": "viewed", "by_value": "by value", "end": "returned", "retval": 19}),
        );
        let mut orders = calls(&events, "shop::checkout");
        for (order, (end, discount)) in orders.iter_mut().zip([("returned", 0.5), ("unwound", 2.0)]) {
            for address in ["o", "retval"] {
                order.remove(address);
            }
            let name = "a name that is too long to be kept inside";
            let mut expected = json!({"o_id": 17, "o_name": name, "o_paid": "true", "discount": discount, "end": end,
                "retval_id": 17, "retval_name": name, "retval_paid": "true"});
            if end == "unwound" {
                // There is none.
                for (field, nothing) in
                    [("retval_id", json!(0)), ("retval_name", json!("")), ("retval_paid", json!("false"))]
                {
                    expected[field] = nothing;
                }
            }
            assert_fields(order, &expected);
        }
        assert_eq!(orders.len(), 2);
        let twice = [&calls(&events, "shop::twice")[..]].concat();
        assert_eq!(twice.len(), 1, "the other instance has its file behind its name");
    }
}

#[test]
fn of_rust() {
    if !has_rustc() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    for words in [&["-g", "-Copt-level=0"][..], &["-g", "-Copt-level=2"]] {
        let events = recorded(&compile(&keep, "values.rs", words), "values::*(..)");
        assert_fields(
            &calls(&events, "values::parse")[0],
            &json!({"text": "id=42", "at": 3, "negative": "true", "end": "returned", "retval": -42}),
        );
        let mut orders = calls(&events, "values::checkout");
        for order in &mut orders {
            order.remove("order");
        }
        assert_fields(
            &orders[1],
            &json!({"order_id": 17, "order_paid": "true", "color": "Red", "discount": 2.0, "end": "returned",
                    "retval": 35.0}),
        );
        assert_eq!((&orders[0]["color"], &orders[0]["retval"]), (&json!("Green"), &json!(15.5)));
        assert_eq!(calls(&events, "values::name")[0]["retval"], "a paid order");
    }
}

#[test]
fn of_programs_without_debug_information_as_a_person_gives_them() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "values.c", &["-O2"]);
    let events = recorded(&program, "numbers(a: i8, b: u16, _: i32, d: x64) -> i32");
    assert_fields(
        &calls(&events, "numbers")[0],
        &json!({"a": -5, "b": 65535, "d": 9_223_372_036_854_775_811_u64, "end": "returned", "retval": -34467}),
    );
    let events = recorded(&program, "floats(a: f32, b: f64, c: i32) -> f64");
    assert_fields(
        &calls(&events, "floats")[0],
        &json!({"a": 1.5, "b": -2.25, "c": 42, "end": "returned", "retval": 1e100}),
    );
    let events = recorded(&program, "texts(duration: str, _: ptr, end: str)");
    assert_fields(&calls(&events, "texts")[0], &json!({"duration_": "first", "end_": "(unreadable)"}));
    // What is wanted and not known is said.
    let trace = Record::program(&[&program]).with(&["-f", "numbers(..)"]).run().ends_with(0);
    assert!(trace.err.contains("arguments and results of 1: there is no debug information"), "{}", trace.err);
    let trace = Record::program(&[&program]).with(&["-f", "numbers(a: int)"]).run();
    assert!(trace.err.contains("`int` is not a type of an argument"), "{}", trace.err);
}

#[test]
fn filters_choose_by_them() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "values.c", &["-O2", "-g"]);
    let count = |function: &str, filter: &str| {
        // A rule that names an argument has it recorded.
        [format!("{function}(..)"), function.to_owned()].map(|pattern| {
            let words = ["-f", &pattern, "--filter", filter];
            let trace = Record::program(&[&program]).with(&words).run().ends_with(0);
            trace.events().len()
        })
    };
    for (filter, expected) in [
        ("a == \"first\"", 1),
        ("a == \"x*\"", 1),
        ("retval != \"first\"", 1),
        ("bad == \"(unreadable)\" && end == 0", 2),
    ] {
        assert_eq!(count("texts", filter), [expected; 2], "{filter}");
    }
    for (filter, expected) in
        [("a == -5 && retval < 0", 1), ("f == -1", 1), ("retval > 0", 0), ("d > 9223372036854775807", 1)]
    {
        assert_eq!(count("numbers", filter), [expected; 2], "{filter}");
    }
    let rule = "f:num* if a == -5 do count by d";
    let trace = Record::program(&[&program]).with(&["-f", "numbers", "--on", rule]).run().ends_with(0);
    assert!(!trace.err.contains("has no field"), "{}", trace.err);
    for (words, has) in [("duration >= 0", false), ("a == -5", true)] {
        let trace =
            Record::program(&[&program]).with(&["-f", "numbers", "--filter", words]).run().ends_with(0);
        assert!(trace.events().iter().all(|event| event.fields.contains_key("a") == has), "{words}");
    }
}

#[test]
fn another_recording_of_the_same_process_may_want_others() {
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &[]);
    let fields = |pattern: &str| {
        let running =
            Record::process(steady.pid().into()).with(&["-f", pattern, "--mode", "overwrite"]).start();
        running.wait_until_said("probes in 1 function");
        steady.goes_on();
        running.signal(Signal::SIGINT);
        let events = running.wait().ends_with(0).view();
        let fields = events.last().expect("calls").fields.clone();
        (fields.contains_key("duration"), fields.get("x").is_some(), fields.get("retval").is_some())
    };
    assert_eq!(fields("inner"), (true, false, false));
    assert_eq!(fields("inner(x: i32) -> i32"), (true, true, true));
    assert_eq!(fields("inner(x: i32)"), (true, true, false));
    assert_eq!(fields("inner"), (true, false, false));
    assert_eq!(steady.changed_text(), Vec::<String>::new(), "all code is as in the files");
}

#[test]
fn calls_of_many_threads_keep_theirs_apart() {
    let keep = TempDir::new().expect("a directory");
    let program = compile(&keep, "threads_with_values.c", &["-O2", "-g"]);
    let trace = Record::program(&[&program]).with(&["-f", "deep(..)"]).run().ends_with(0);
    let events = trace.events();
    // 4 threads, 200 times, 50 deep.
    assert_eq!(events.len(), 4 * 200 * 50);
    for event in &events {
        let field = |name: &str| event.fields[name].as_i64().expect("a number");
        let name = event.fields["name"].as_str().expect("a text");
        assert_eq!(name, format!("{}/{}", field("thread"), field("depth")));
        assert_eq!(field("retval"), field("thread") * 1000 + field("depth"));
    }
}
