//! Trees of spans, and in which span an event is.

#[path = "../../analysis/tests/support/spans.rs"]
mod spans;

use mote_pattern::Glob;
use mote_timeline::Range;
use mote_view::{Format, Json, Selection, Text, TimeStyle, Tree, pump};
use spans::{What, What::*};

fn printed(trace: &mote_timeline::Trace, format: &mut impl Format) -> String {
    chosen(trace, &[], &[], format)
}

/// What is printed of the events with one of these names, in one of these threads.
fn chosen(trace: &mote_timeline::Trace, names: &[&str], tids: &[u32], format: &mut impl Format) -> String {
    let mut out = Vec::new();
    let names: Vec<Glob> = names.iter().map(|name| Glob::new(name)).collect();
    let selection = Selection::new(trace, &[], &names, tids);
    pump(&mut trace.events(Range::ALL), &selection, None, format, &mut out).expect("a vector takes it");
    String::from_utf8(out).expect("text")
}

fn tree(events: &[(u64, u32, What)], room: usize) -> String {
    let (_dir, trace) = spans::trace(events);
    printed(&trace, &mut Tree::new(&trace, TimeStyle::Relative(0), false).with_room(room))
}

const EVENTS: [(u64, u32, What); 12] = [
    (1000, 1, Outer(1)),
    (1010, 1, Enter("outer", 1)),
    (1015, 1, Event(1)),
    (1020, 1, Inner(2, 1)),
    (1030, 1, Enter("inner", 2)),
    (1040, 1, Other(5)),
    (1050, 1, Exit("inner", 2)),
    (1055, 1, Event(0)),
    (1060, 1, Exit("outer", 1)),
    (1120, 2, Close("inner", 2)),
    (1130, 3, Outer(3)),
    (1200, 3, Close("outer", 1)),
];

#[test]
fn a_tree_has_the_spans_and_events_that_were_in_a_span() {
    let expected = "\
[     0.000001055] 1                  app:event: { number = 7 }
[     0.000001000] 1                  app:outer 200ns, busy 50ns
  +15ns     app:event: { number = 7 }
  +20ns     app:inner 100ns, busy 20ns
  +40ns       other:event: { number = 5 }
[     0.000001130] 3                  app:outer open at the end, busy 0ns
";
    assert_eq!(tree(&EVENTS, 1 << 20), expected);
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let mut events = vec![(0, 1, Outer(1))];
    events.extend((0..100).map(|time| (time, 1, Event(1))));
    events.push((200, 1, Close("outer", 1)));
    let text = tree(&events, 2000);
    let shown = text.lines().filter(|line| line.contains("app:event")).count();
    assert!(shown > 0 && shown < 100, "{text}");
    assert!(text.contains(&format!("*** {} more: too many to keep in memory ***", 100 - shown)), "{text}");
}

#[test]
fn a_line_says_in_which_span_an_event_is() {
    let (_dir, trace) = spans::trace(&EVENTS);
    let text = printed(&trace, &mut Text::new(&trace, TimeStyle::Relative(0), false));
    let ends = |what: &str, end: &str| text.lines().any(|line| line.contains(what) && line.ends_with(end));
    assert!(ends("app:event: { span = 1", "} in app:outer"), "{text}");
    assert!(ends("app:inner_new", "} in app:outer"), "{text}");
    assert!(ends("app:event: { span = 0", "number = 7 }"), "{text}");
}

#[test]
fn events_that_are_chosen_say_in_which_span_they_are() {
    let (_dir, trace) = spans::trace(&EVENTS);
    let text = || Text::new(&trace, TimeStyle::Relative(0), false);
    let by_name = chosen(&trace, &["app:event"], &[], &mut text());
    let ends: Vec<bool> = by_name.lines().map(|line| line.ends_with("} in app:outer")).collect();
    assert_eq!(ends, [true, false], "{by_name}");
    let events =
        [(1000, 1, Outer(1)), (1010, 2, Event(1)), (1020, 2, Close("outer", 1)), (1030, 2, Event(1))];
    let (_dir, trace) = spans::trace(&events);
    let by_thread = chosen(&trace, &[], &[2], &mut Text::new(&trace, TimeStyle::Relative(0), false));
    let ends: Vec<bool> = by_thread.lines().map(|line| line.ends_with(" in app:outer")).collect();
    assert_eq!(ends, [true, false, false], "{by_thread}");
    let json = chosen(&trace, &["app:event"], &[], &mut Json::new(&trace, TimeStyle::Relative(0)));
    let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["span"].clone();
    let names: Vec<serde_json::Value> = json.lines().map(of).collect();
    assert_eq!(names, ["app:outer".into(), serde_json::Value::Null], "{json}");
}

#[test]
fn what_tells_of_a_span_tells_its_name_where_its_beginning_is_not_there() {
    for first in [Enter("outer", 1), Exit("outer", 1)] {
        let (_dir, trace) = spans::trace(&[(1000, 1, first), (1010, 1, Event(1)), (1020, 1, Outer(2))]);
        let text = printed(&trace, &mut Text::new(&trace, TimeStyle::Relative(0), false));
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("} in app:outer")), "{text}");
    }
}

#[test]
fn a_tree_has_the_spans_of_the_events_that_are_chosen() {
    let (_dir, trace) = spans::trace(&EVENTS);
    let mut tree = Tree::new(&trace, TimeStyle::Relative(0), false);
    let expected = "\
[     0.000001000] 1                  app:outer 200ns, busy 50ns
  +20ns     app:inner 100ns, busy 20ns
  +40ns       other:event: { number = 5 }
";
    assert_eq!(chosen(&trace, &["other:event"], &[], &mut tree), expected);
}
