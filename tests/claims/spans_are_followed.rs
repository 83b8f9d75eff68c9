//! Events and spans of the crate tracing: a program keeps its own subscriber, and tasks are followed from thread to
//! thread.

use crate::support::command::{json_lines, printed};
use crate::support::{Event, Record, Trace, event, programs};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Tasks of a run.
const TASKS: u64 = 40;

fn recorded(how: &str, options: &[&str]) -> Trace {
    let program = programs::asynchronous();
    Record::program(&[program, how, &TASKS.to_string()]).with(options).run().ends_with(0)
}

#[test]
fn a_program_keeps_its_own_subscriber() {
    for (how, early) in [("before", 0), ("after", 1)] {
        let trace = recorded(how, &["-e", "*"]);
        assert_eq!(trace.printed("seen"), 2 * TASKS, "{how}");
        let events = trace.events();
        assert_eq!(event::named(&events, "mote_tracing:gave_way").len(), 1, "{how}");
        assert_eq!(event::named(&events, "app:early").len(), early, "{how}");
        assert_eq!(events.len(), 1 + early, "{how}: {events:?}");
    }
}

#[test]
fn without_a_recording_nothing_changes() {
    for (how, seen) in [("init", 0), ("layer", 2 * TASKS), ("before", 2 * TASKS), ("after", 2 * TASKS)] {
        let output =
            Command::new(programs::asynchronous()).args([how, &TASKS.to_string()]).output().expect("it runs");
        assert!(output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("seen {seen}\n"), "{how}");
    }
}

#[test]
fn tasks_are_followed_from_thread_to_thread() {
    for how in ["init", "layer"] {
        let trace = recorded(how, &["-e", "*"]);
        // What has no event before it runs is not told so for `*`.
        assert!(!trace.err.contains("no event matches"), "{}", trace.err);
        let events = trace.events();
        let ids = spans_of(&events, "app:request_new");
        assert_eq!(ids.len() as u64, TASKS, "{how}");
        assert_eq!(spans_of(&events, "app:request_close"), ids, "{how}");
        assert!(spans_of(&events, "app:begin").is_subset(&ids));
        let inner = spans_of(&events, "app:step_new");
        assert_eq!((inner.len() as u64, inner.is_disjoint(&ids)), (TASKS, true));
        assert_eq!(spans_of(&events, "app:inside"), inner);
        let around: BTreeSet<u64> =
            event::named(&events, "app:step_new").iter().map(|event| event.number("parent")).collect();
        assert_eq!(around, ids);

        let report = trace.report();
        let spans = report["spans"].as_array().expect("a list");
        assert_eq!(spans.len(), 2, "{spans:?}");
        for span in spans {
            assert_eq!(
                (&span["count"], &span["open"], &span["began_before"]),
                (&TASKS.into(), &0.into(), &0.into())
            );
            let number = |name: &str| span[name].as_u64().expect("a number");
            assert_eq!(number("total_ns"), number("total_busy_ns") + number("total_idle_ns"), "{span}");
            assert!(number("total_self_ns") <= number("total_busy_ns"), "{span}");
            assert!(number("total_self_ns") > 0 && number("total_idle_ns") > 0, "{span}");
        }
        let outer = spans.iter().find(|span| span["name"] == "app:request").expect("it is there");
        assert!(
            outer["total_self_ns"].as_u64() < outer["total_busy_ns"].as_u64(),
            "the inner spans were not taken off"
        );

        let tree = printed(trace.mote(&["view", "--tree"]));
        let lines: Vec<&str> = tree.lines().filter(|line| !line.contains("mote_tracing")).collect();
        assert_eq!(lines.len() as u64, 4 * TASKS, "{tree}");
        for four in lines.chunks(4) {
            let starts = [
                "app:request ",
                "app:begin (warning): { number",
                "app:step ",
                "app:inside (debug_function): ",
            ];
            let all = four.iter().zip(starts).all(|(line, start)| line.contains(start));
            assert!(all && four[2].starts_with("  +") && four[0].contains(", busy "), "{four:#?}");
        }
    }
}

#[test]
fn events_say_in_which_span_they_are() {
    let trace = recorded("layer", &["-e", "*"]);
    let inside = trace.events();
    let inside = event::named(&inside, "app:inside");
    let tid = inside[0].tid.to_string();
    // Of a span that another thread has begun, too.
    let of_thread = inside.iter().filter(|event| event.tid.to_string() == tid).count() as u64;
    for (chosen, expected) in [
        (&["--event", "inside"][..], TASKS),
        (&["--event", "inside", "--tid", &tid], of_thread),
        (&["--event", "inside", "--level", "debug_function"], TASKS),
    ] {
        let view = printed(trace.mote(&[&["view"], chosen].concat()));
        assert_eq!(view.lines().count() as u64, expected, "{chosen:?}: {view}");
        assert!(view.lines().all(|line| line.ends_with(" } in app:step")), "{chosen:?}: {view}");
    }
    let begun = printed(trace.mote(&["view", "--level", "warning"]));
    assert_eq!(
        begun.lines().filter(|line| line.ends_with(" } in app:request")).count() as u64,
        TASKS,
        "{begun}"
    );
    let inside = printed(trace.mote(&["view", "--event", "inside", "--format", "json"]));
    let spans = json_lines(&inside).map(|event| event["span"].clone());
    assert_eq!(spans.collect::<Vec<_>>(), vec![Value::from("app:step"); TASKS as usize], "{inside}");
    let tree = printed(trace.mote(&["view", "--tree", "--event", "inside"]));
    assert_eq!(tree.lines().filter(|line| line.contains("    app:inside ")).count() as u64, TASKS, "{tree}");
    assert!(!tree.contains("app:begin"), "{tree}");
}

/// The numbers of requests that a rule finds bad.
fn bad() -> BTreeSet<u64> {
    (0..TASKS).step_by(10).collect()
}

fn numbers(events: &[Event], name: &str, field: &str) -> BTreeSet<u64> {
    event::named(events, name).iter().map(|event| event.number(field)).collect()
}

#[test]
fn requests_are_kept_aside_by_a_field_from_thread_to_thread() {
    let recorded = |by: &str| {
        let begin = format!("app:begin do speculate{by}");
        let commit = format!("app:inside if number % 10 == 0 && $elapsed{by} < 1h do commit{by}");
        let discard = format!("app:inside do discard{by}");
        let options =
            ["-e", "app:begin", "-e", "app:inside", "--on", &begin, "--on", &commit, "--on", &discard];
        recorded("layer", &options)
    };
    let trace = recorded(" by number");
    let events = trace.events();
    for name in ["app:begin", "app:inside"] {
        assert_eq!(
            (numbers(&events, name, "number"), event::named(&events, name).len()),
            (bad(), bad().len())
        );
    }
    let of = |request: u64| events.iter().filter(move |event| event.number("number") == request);
    let threads = |request| of(request).map(|event| event.tid).collect::<BTreeSet<_>>().len();
    assert!(bad().into_iter().all(|request| threads(request) == 2), "{events:?}");
    assert_eq!((trace.lost_total(), trace.problems()), (0, vec![]));
    // By thread, what a thread has begun is ended by what another request does there.
    let events = recorded("").events();
    assert_ne!(numbers(&events, "app:begin", "number"), bad());
}

#[test]
fn requests_are_kept_aside_by_their_span_with_the_spans_inside() {
    let options = [
        "-e",
        "app:*",
        "--on",
        "app:request_new do speculate by $span",
        "--on",
        "app:inside if number % 10 == 0 do commit by $span",
        "--on",
        "app:inside do discard by $span",
    ];
    let trace = recorded("layer", &options);
    let events = trace.events();
    for (name, field) in [("app:request_new", "number"), ("app:begin", "number"), ("app:step_new", "of")] {
        assert_eq!(numbers(&events, name, field), bad(), "{name}");
    }
    // What comes behind the end of a speculation is recorded.
    assert_eq!(event::named(&events, "app:request_close").len() as u64, TASKS);
    assert_eq!((trace.lost_total(), trace.problems()), (0, vec![]));
}

#[test]
fn keys_without_room_are_recorded_and_counted() {
    const MANY: u64 = 300;
    let program = programs::asynchronous();
    let options = [
        "-e",
        "app:begin",
        "-e",
        "app:inside",
        "--on",
        "app:begin do speculate by number",
        "--on",
        "app:inside if number % 10 == 0 do commit by number",
        "--on",
        "app:inside do discard by number",
    ];
    let trace = Record::program(&[program, "layer", &MANY.to_string()]).with(&options).run();
    let said = &trace.err;
    let refused: u64 = said
        .split_once("no room to keep records aside for ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    let events = trace.events();
    let (begun, ended) = (numbers(&events, "app:begin", "number"), numbers(&events, "app:inside", "number"));
    assert_eq!(begun, ended);
    let good = begun.iter().filter(|number| *number % 10 != 0).count() as u64;
    assert!((0..MANY).step_by(10).all(|number| begun.contains(&number)), "{begun:?}");
    assert!(good > 0 && good <= refused && refused < MANY, "{good} {refused}");
    assert_eq!(trace.lost_total(), 0);
}

#[test]
fn ids_of_spans_are_unique_over_processes() {
    let program = programs::asynchronous();
    let both = format!("{program} layer {TASKS} & {program} layer {TASKS}; wait");
    let trace = Record::program(&["sh", "-c", &both]).with(&["-e", "*"]).run().ends_with(0);
    let events = trace.events();
    let made = [spans_of(&events, "app:request_new"), spans_of(&events, "app:step_new")];
    assert_eq!(made.iter().map(BTreeSet::len).sum::<usize>() as u64, 4 * TASKS);
    assert!(made[0].is_disjoint(&made[1]));
    assert_eq!(trace.report()["spans"][0]["count"], Value::from(2 * TASKS));
}

#[test]
fn spans_that_are_not_whole_are_told() {
    let whole = recorded("layer", &["-e", "*"]);
    let without = recorded("layer", &["-e", "*_enter", "-e", "*_exit", "-e", "*_close"]);
    let (whole, without) = (whole.report(), without.report());
    assert_eq!(whole["spans_not_followed"], 0);
    for span in without["spans"].as_array().expect("a list") {
        assert_eq!((&span["count"], &span["began_before"]), (&0.into(), &TASKS.into()), "{span}");
        assert!(span["duration_ns"].is_null());
    }
    let open = recorded("layer", &["-e", "*_new"]);
    let open = open.report();
    assert!(open["spans"].as_array().expect("a list").iter().all(|span| span["open"] == TASKS), "{open}");
}

#[test]
fn levels_choose() {
    let all = recorded("layer", &["-e", "*"]);
    let chosen = printed(all.mote(&["view", "--level", "warning"]));
    assert_eq!(chosen.lines().count() as u64, TASKS);
    assert!(chosen.lines().all(|line| line.contains(" app:begin (warning): ")), "{chosen}");
    let wrong = all.mote(&["view", "--level", "loud"]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("no such level"));

    let trace = recorded("layer", &["-e", "*", "--filter", "$level <= warning"]);
    let events = trace.events();
    assert_eq!(events.len() as u64, TASKS);
    assert_eq!(event::named(&events, "app:begin").len() as u64, TASKS);
    assert!(!trace.err.contains("never holds"), "{}", trace.err);
}

#[test]
fn the_list_says_that_events_come_at_run_time() {
    let list =
        |program: &str| Command::new(programs::mote()).args(["list", program]).output().expect("mote runs");
    for program in [programs::asynchronous(), programs::layered()] {
        let said = String::from_utf8_lossy(&list(program).stderr).into_owned();
        assert!(
            said.contains("events and spans of the crate tracing appear at run time"),
            "{program}: {said}"
        );
    }
    let said = String::from_utf8_lossy(&list(programs::scenes()).stderr).into_owned();
    assert!(!said.contains("run time"), "{said}");
}

#[test]
fn a_layer_says_that_it_was_made() {
    let events = Record::program(&[programs::layered()]).run().ends_with(0).events();
    assert_eq!(event::named(&events, "mote_tracing:layer_made").len(), 1);
    assert_eq!(event::named(&events, "app:done").len(), 1);
}

fn spans_of(events: &[Event], name: &str) -> BTreeSet<u64> {
    event::named(events, name).iter().map(|event| event.number("span")).collect()
}
