//! What a program puts into an event is what both readers show, for every type of field and every form of macro.

use crate::support::event::{assert_counts, named};
use crate::support::{Event, Record, programs};
use serde_json::{Value, json};
use std::path::Path;

fn every_macro(options: &[&str]) -> Vec<Event> {
    let record = Record::program(&[programs::program("every_macro")]).with(options);
    let trace = record.run().ends_with(0);
    if options.contains(&"2") { trace.view() } else { trace.events() }
}

#[track_caller]
fn assert_fields(events: &[Event], name: &str, fields: &Value) {
    let found = named(events, name);
    assert_eq!(found.len(), 1, "{name}");
    assert_eq!(&Value::from(found[0].fields.clone()), fields, "{name}");
}

#[test]
fn every_type_of_field_arrives() {
    let events = every_macro(&[]);
    assert_fields(
        &events,
        "all:unsigned",
        &json!({"a": u8::MAX, "b": u16::MAX, "c": u32::MAX, "d": u64::MAX, "e": 7}),
    );
    assert_fields(
        &events,
        "all:signed",
        &json!({"a": i8::MIN, "b": i16::MIN, "c": i32::MIN, "d": i64::MIN, "e": -7}),
    );
    assert_fields(&events, "all:special", &json!({"time": 3000, "at": 0x1000}));
    assert_fields(&events, "all:moods", &json!({"low": "Low", "even": "Even", "high": "High"}));
    let odd = "tab\t quote\" back\\ é €";
    assert_fields(
        &events,
        "all:texts",
        &json!({"empty": "", "plain": "plain text", "odd": odd, "c": "from C"}),
    );
    assert_fields(&events, "all:cut", &json!({"nul": "seen"}));
    assert_fields(&events, "all:arrays", &json!({"a": [1, 2, 3, 4], "b": [i64::MIN, i64::MAX], "none": []}));
    assert_fields(&events, "all:long", &json!({"text": "long ".repeat(200), "end": 4711}));
    let others = named(&events, "all:others")[0];
    assert_eq!((&others.fields["half"], &others.fields["tenth"]), (&json!(0.5), &json!(-0.1)));
    assert_eq!(others.fields["letter"], json!('é' as u32));
    assert_ne!(others.fields["yes"], others.fields["no"]);
    let sequences = named(&events, "all:sequences")[0];
    assert_eq!(sequences.fields["some"], json!([1, 2, u32::MAX]));
    assert_eq!(sequences.fields["signed"], json!([-1, i16::MIN]));
    assert_eq!(sequences.fields["real"], json!([1.5, -2.25]));
    assert_eq!(sequences.fields["none"], json!([]));
}

#[test]
fn every_form_of_macro_arrives_once() {
    let events = every_macro(&[]);
    for name in ["all:nothing", "all:meant", "disk:idle"] {
        assert_fields(&events, name, &json!({}));
    }
    assert_fields(&events, "all:levelled", &json!({"a": 1}));
    assert_fields(&events, "disk:block_written", &json!({"sector": 17, "path": "/dev/null"}));
    assert_fields(&events, "disk:block_failed", &json!({"sector": 18}));
    assert_eq!(named(&events, "deep:found")[0].fields["what"], json!([1, 2, 3]));
    assert_fields(&events, "all:shadows", &json!({"event": 1, "record": 2, "len": 3, "type": 4}));
    assert_eq!(events.len(), 20, "each once");
}

#[test]
fn the_journal_knows_level_place_and_meaning() {
    let trace = Record::program(&[programs::program("every_macro")]).run().ends_with(0);
    let events = trace.facts("event");
    let of = |name: &str| events.iter().find(|event| event["name"] == name).expect("it is there");
    assert_eq!(of("levelled")["level"], 4);
    assert_eq!(of("levelled")["text"], "a warning");
    assert_eq!(of("block_failed")["level"], 3);
    assert_eq!(of("block_failed")["provider"], "disk");
    assert_eq!(of("block_written")["text"], "A block went to disk. It took its time.");
    let file = of("nothing")["file"].as_str().expect("a path");
    assert!(Path::new(file).ends_with("tests/programs/every_macro.rs"), "{file}");
    let line = of("nothing")["line"].as_u64().expect("a line") as usize;
    let source = include_str!("../programs/every_macro.rs");
    assert!(source.lines().nth(line - 1).is_some_and(|text| text.contains("all::nothing")), "line {line}");
}

/// The trace has two classes of each event: of packets with counts of losses, and without.
#[test]
fn csv_of_one_kind_of_event_has_its_fields_as_columns() {
    let trace = Record::scene(&["count", "5"]).run().ends_with(0);
    let csv = |words: &[&str]| {
        let output = trace.mote(&[&["view", "--format", "csv"], words].concat());
        String::from_utf8(output.stdout).expect("text")
    };
    let one = csv(&["--event", "e2e:count"]);
    let (head, rows) = one.split_once('\n').expect("a header");
    let columns: Vec<&str> = head.split(',').collect();
    let seq = columns.iter().position(|column| *column == "seq").unwrap_or_else(|| panic!("{head}"));
    let numbers: Vec<&str> = rows.lines().filter_map(|row| row.split(',').nth(seq)).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4"], "{one}");
    assert!(csv(&[]).starts_with("time,cpu,pid,tid,thread,event,context,fields\n"));
}

#[test]
fn ctf_2_says_the_same_as_ctf_1_8() {
    let bare = |events: Vec<Event>| events.into_iter().map(|e| (e.name, e.fields)).collect::<Vec<_>>();
    let (old, new) = (bare(every_macro(&["--ctf", "1.8"])), bare(every_macro(&["--ctf", "2"])));
    assert_eq!(old.len(), new.len());
    for (old, new) in old.iter().zip(&new) {
        // Truth values are an enumeration in 1.8, which has no others.
        let same = old.0 == "all:others" || old == new;
        assert!(same && old.0 == new.0, "1.8: {old:?}\n2: {new:?}");
    }
}

#[test]
fn large_events_are_whole_and_too_large_ones_are_counted() {
    let trace = Record::scene(&["big"]).run().ends_with(3);
    let events = trace.events();
    let bytes: Vec<u8> = (0..70_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let big = named(&events, "e2e:big");
    assert_eq!(big.len(), 2);
    assert_eq!((big[0].number("seq"), big[1].number("seq")), (0, 2));
    assert_eq!(big[0].fields["bytes"], json!(bytes[..60_000]));
    assert_eq!(named(&events, "e2e:most")[0].fields["bytes"], json!(bytes[..(64 << 10) - 2]));
    assert_eq!(named(&events, "e2e:long_text")[0].fields["text"], json!("x".repeat(61_000)));
    assert_eq!(trace.lost(), [("too_big".to_owned(), 1)].into());
    assert!(trace.err.contains("too_big"), "{}", trace.err);
}

#[test]
fn a_program_and_its_pipes_are_left_alone() {
    let trace = Record::scene(&["echo"]).input(b"first\nsecond\n").run().ends_with(0);
    assert_eq!(trace.out, "first\nsecond\n");
    let events = trace.events();
    let texts: Vec<&Value> = events.iter().map(|event| &event.fields["text"]).collect();
    assert_eq!(texts, ["first", "second"]);
}

#[test]
fn the_summary_fits_one_screen_and_says_what_there_is() {
    let trace = Record::scene(&["count", "1000"]).run().ends_with(0);
    let said = &trace.err;
    for word in [
        "events     1,000",
        "e2e",
        "size",
        "processes  1",
        "lost       none",
        "mote view",
        "babeltrace2",
        " s\n",
    ] {
        assert!(said.contains(word), "no '{word}' in {said}");
    }
    assert!(said.lines().count() < 25, "{said}");
    assert_counts(&named(&trace.events(), "e2e:count"), "seq", 1000);
    let quiet = Record::scene(&["count", "10"]).with(&["--quiet"]).run().ends_with(0);
    assert_eq!(quiet.err, "");
}

#[test]
fn a_program_without_mote_is_recorded_as_nothing() {
    let trace = Record::program(&["true"]).run().ends_with(0);
    assert!(trace.err.contains("no process carried mote events"), "{}", trace.err);
    assert!(trace.events().is_empty());
}

#[test]
fn patterns_choose_events() {
    let names = |options: &[&str]| {
        let mut names: Vec<String> = every_macro(options).into_iter().map(|event| event.name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&["-e", "disk:*"]), ["disk:block_failed", "disk:block_written", "disk:idle"]);
    assert_eq!(names(&["-e", "disk"]), ["disk:block_failed", "disk:block_written", "disk:idle"]);
    assert_eq!(names(&["-e", "disk:*", "-x", "*:block_*"]), ["disk:idle"]);
    assert_eq!(names(&["-e", "idle", "-e", "deep:*"]), ["deep:found", "disk:idle"]);
    assert_eq!(names(&["-x", "all", "-x", "deep:foun?"]).len(), 3);
}
