//! Exports: what Perfetto and the Firefox Profiler would find in them.

#[path = "../../analysis/tests/support/spans.rs"]
mod spans;

#[path = "../../analysis/tests/support/calls.rs"]
mod calls;

use mote_timeline::{Range, Trace};
use mote_view::{Firefox, FlameGraph, Folded, Format, Perfetto, Selection, Stacks, pump};
use serde_json::Value;
use spans::What::{self, *};

/// A span that goes from thread 1 to thread 2, another one in it, which is left after it, and events.
const EVENTS: [(u64, u32, What); 11] = [
    (1000, 1, Outer(1)),
    (1010, 1, Enter("outer", 1)),
    (1015, 1, Event(1)),
    (1020, 1, Inner(2, 1)),
    (1030, 1, Enter("inner", 2)),
    (1040, 1, Exit("outer", 1)),
    (1050, 1, Exit("inner", 2)),
    (1055, 2, Other(5)),
    (1060, 2, Enter("outer", 1)),
    (1070, 2, Close("inner", 2)),
    (1200, 2, Close("outer", 1)),
];

fn exported(trace: &Trace, format: &mut impl Format) -> Vec<u8> {
    let mut out = Vec::new();
    let all = Selection::new(trace, &[], &[], &[]);
    pump(&mut trace.events(Range::ALL), &all, None, format, &mut out).expect("a vector takes it");
    out
}

/// The fields of a message, by the rules of Protocol Buffers alone: number, and value or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let len = bytes.iter().position(|byte| byte & 0x80 == 0).expect("an end") + 1;
        let (number, rest) = bytes.split_at(len);
        *bytes = rest;
        number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (value, len) = match key & 7 {
            0 => (varint(&mut bytes), 0),
            1 => (0, 8),
            2 => (0, varint(&mut bytes) as usize),
            other => panic!("wire type {other}"),
        };
        let (inner, rest) = bytes.split_at(len);
        bytes = rest;
        all.push((key >> 3, value, inner));
    }
    all
}

fn field(bytes: &[u8], number: u64) -> Option<(u64, &[u8])> {
    fields(bytes).into_iter().find(|(known, ..)| *known == number).map(|(_, value, bytes)| (value, bytes))
}

fn text(bytes: &[u8], number: u64) -> String {
    field(bytes, number).map_or(String::new(), |(_, text)| String::from_utf8_lossy(text).into_owned())
}

/// What happens on the tracks of a Perfetto trace: time, track as its description says, and what.
fn tracks(out: &[u8]) -> Vec<(u64, String, String)> {
    let mut names: Vec<(u64, String)> = Vec::new();
    let mut happened = Vec::new();
    for (number, _, packet) in fields(out) {
        assert_eq!(number, 1, "a packet");
        assert_eq!(field(packet, 10).expect("a sequence").0, 1);
        if let Some((_, track)) = field(packet, 60) {
            let uuid = field(track, 1).expect("a number").0;
            let name = match (field(track, 3), field(track, 4)) {
                (Some((_, process)), _) => format!("process {}", field(process, 1).expect("an id").0),
                (_, Some((_, thread))) => format!("thread {}", field(thread, 2).expect("an id").0),
                _ => text(track, 2),
            };
            assert!(names.iter().all(|(known, _)| *known != uuid), "described once");
            names.push((uuid, name));
        }
        let Some((_, event)) = field(packet, 11) else { continue };
        let track = field(event, 11).expect("a track").0;
        let track = names.iter().find(|(uuid, _)| *uuid == track).expect("described before").1.clone();
        let what = match field(event, 9).expect("a kind").0 {
            1 => format!("begin {}", text(event, 23)),
            2 => "end".to_owned(),
            3 => format!("at {}", text(event, 23)),
            other => panic!("kind {other}"),
        };
        happened.push((field(packet, 8).expect("a time").0, track, what));
    }
    happened
}

#[test]
fn slices_of_a_thread_lie_inside_of_each_other() {
    let (_dir, trace) = spans::trace(&EVENTS);
    let happened = tracks(&exported(&trace, &mut Perfetto::new(&trace, None)));
    let on = |track: &str| -> Vec<(u64, &str)> {
        happened.iter().filter(|(_, on, _)| on == track).map(|(time, _, what)| (*time, &**what)).collect()
    };
    // `outer` is left before `inner`, which was entered later: it goes on in a slice of its own.
    let expect = [
        (1010, "begin app:outer"),
        (1015, "at app:event"),
        (1030, "begin app:inner"),
        (1040, "end"),
        (1040, "end"),
        (1040, "begin app:inner"),
        (1050, "end"),
    ];
    assert_eq!(on("thread 1"), expect);
    assert_eq!(on("thread 2"), [(1055, "at other:event"), (1060, "begin app:outer")]);
    assert_eq!(on("app:outer"), [(1000, "begin app:outer"), (1200, "end")]);
    assert_eq!(on("app:inner"), [(1020, "begin app:inner"), (1070, "end")]);
    assert_eq!(happened.len(), 13);
}

#[test]
fn fields_are_annotations() {
    let (_dir, trace) = spans::trace(&EVENTS);
    let out = exported(&trace, &mut Perfetto::new(&trace, None));
    let events: Vec<&[u8]> =
        fields(&out).into_iter().filter_map(|(_, _, packet)| Some(field(packet, 11)?.1)).collect();
    let event = events.iter().find(|event| text(event, 23) == "other:event").expect("it is there");
    let (_, annotation) = field(event, 4).expect("a field");
    assert_eq!(
        (text(annotation, 10), field(annotation, 3).map(|(value, _)| value)),
        ("number".to_owned(), Some(5))
    );
    assert_eq!(text(event, 22), "other");
}

#[test]
fn markers_have_the_durations_of_spans() {
    let (_dir, trace) = spans::trace(&EVENTS);
    let out = exported(&trace, &mut Firefox::new(&trace, None, 1000));
    let profile: Value = serde_json::from_slice(&out).expect("JSON");
    let threads = profile["threads"].as_array().expect("threads");
    let mut markers: Vec<(String, f64, Option<f64>)> = Vec::new();
    for thread in threads {
        let texts = thread["stringArray"].as_array().expect("texts");
        let table = &thread["markers"];
        for index in 0..table["length"].as_u64().expect("a length") as usize {
            let name = table["name"][index].as_u64().expect("a text") as usize;
            let name =
                format!("{} {}", thread["tid"].as_str().expect("an id"), texts[name].as_str().expect("text"));
            let ns = |time: &Value| time.as_f64().map(|ms| (ms * 1e6).round());
            // Phase 0 is a moment, and has no end.
            let end = (table["phase"][index] == 1).then(|| ns(&table["endTime"][index]).expect("a time"));
            markers.push((name, ns(&table["startTime"][index]).expect("a time"), end));
        }
    }
    markers.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let expect = [
        ("1 app:event", 15.0, None),
        ("1 app:inner", 20.0, Some(70.0)),
        ("1 app:outer", 0.0, Some(200.0)),
        ("2 other:event", 55.0, None),
    ];
    let markers: Vec<_> = markers.iter().map(|(name, start, end)| (&**name, *start, *end)).collect();
    assert_eq!(markers, expect);
}

/// The caller comes last; its first callee seems to begin before it, and its last one ends with it.
const CALLS: [calls::What; 7] = [
    (1, "leaf", 1000, 1010),
    (1, "app:event", 1025, 1025),
    (1, "db::open", 1020, 1030),
    (2, "leaf", 1022, 1032),
    (1, "walk", 1020, 1040),
    (1, "main", 1001, 1040),
    (1, "leaf", 1050, 1060),
];

#[test]
fn calls_are_slices_that_lie_inside_of_each_other() {
    let (_dir, trace) = calls::trace(&CALLS);
    let happened = tracks(&exported(&trace, &mut Perfetto::new(&trace, None)));
    let on = |track: &str| -> Vec<(u64, &str)> {
        let on = happened.iter().filter(|(_, on, what)| on == track && !what.starts_with("at "));
        on.map(|(time, _, what)| (*time, &**what)).collect()
    };
    let expect = [
        (1001, "begin main"),
        (1001, "begin leaf"),
        (1010, "end"),
        (1020, "begin walk"),
        (1020, "begin db::open"),
        (1030, "end"),
        (1040, "end"),
        (1040, "end"),
        (1050, "begin leaf"),
        (1060, "end"),
    ];
    assert_eq!(on("thread 1"), expect);
    assert_eq!(on("thread 2"), [(1022, "begin leaf"), (1032, "end")]);
}

#[test]
fn calls_are_markers_with_a_duration() {
    let (_dir, trace) = calls::trace(&CALLS);
    let profile: Value =
        serde_json::from_slice(&exported(&trace, &mut Firefox::new(&trace, None, 1000))).expect("JSON");
    let threads = profile["threads"].as_array().expect("threads");
    let thread = threads.iter().find(|thread| thread["tid"] == "1").expect("thread 1");
    let markers = &thread["markers"];
    let ends: Vec<f64> =
        markers["endTime"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert!(ends.iter().any(|end| (end * 1e6).round() == 60.0), "{markers}");
    assert_eq!(markers["length"], 6, "{markers}");
}

#[test]
fn calls_make_stacks_where_there_are_no_others() {
    let (_dir, trace) = calls::trace(&CALLS);
    let mut stacks = Stacks::new(&trace, "nowhere".as_ref(), &Default::default()).expect("none is read");
    let folded = exported(&trace, &mut Folded::new(&mut stacks).or_calls(&trace));
    let expect = "\
[thread];leaf 20
[thread];main 9
[thread];main;leaf 10
[thread];main;walk 10
[thread];main;walk;db::open 10
";
    assert_eq!(String::from_utf8_lossy(&folded), expect);
    let picture = exported(&trace, &mut FlameGraph::new(&trace, &mut stacks, "t"));
    let picture = String::from_utf8_lossy(&picture);
    assert!(picture.contains("<title>walk (20ns, 33.90 %)</title>"), "{picture}");
    assert!(exported(&trace, &mut Folded::new(&mut stacks)).is_empty(), "no event has a stack");
}
