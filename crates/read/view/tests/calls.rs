//! Trees of calls, of traces whose times are known to the nanosecond.

#[path = "../../analysis/tests/support/calls.rs"]
mod calls;

use calls::What;
use mote_analysis::{Callers, Choice, run};
use mote_pattern::Glob;
use mote_timeline::{Entry, Range, Trace};
use mote_view::{Format, Selection, TimeStyle, Tree, pump};

fn printed(trace: &Trace, names: &[&str], tree: Tree<'_>) -> String {
    let (mut out, mut tree) = (Vec::new(), tree);
    let names: Vec<Glob> = names.iter().map(|name| Glob::new(name)).collect();
    let selection = Selection::new(trace, &[], &names, &[]);
    pump(&mut trace.events(Range::ALL), &selection, None, &mut tree, &mut out).expect("a vector takes it");
    String::from_utf8(out).expect("text")
}

fn tree(trace: &Trace) -> Tree<'_> {
    Tree::new(trace, TimeStyle::Relative(0), false)
}

const EVENTS: [What; 9] = [
    (1, "leaf", 1010, 1020),
    (2, "leaf", 1005, 1025),
    (1, "app:event", 1033, 1033),
    (1, "db::open", 1032, 1034),
    (1, "walk", 1030, 1040),
    (1, "walk", 1008, 1050),
    (2, "app:event", 1055, 1055),
    (1, "main", 1000, 1100),
    (1, "leaf", 1110, 1120),
];

#[test]
fn a_call_has_what_its_thread_did_meanwhile() {
    let (_dir, trace) = calls::trace(&EVENTS);
    let expected = "\
[     0.000001000] 1                  main 100ns { number = 7 }
  +8ns      walk 42ns { number = 5 }
  +10ns       leaf 10ns { number = 0 }
  +30ns       walk 10ns { number = 4 }
  +32ns         db::open 2ns { number = 3 }
  +33ns           app:event: { number = 0, more = 2 }
[     0.000001005] 2                  leaf 20ns { number = 1 }
[     0.000001055] 2                  app:event: { number = 0, more = 6 }
[     0.000001110] 1                  leaf 10ns { number = 8 }
";
    assert_eq!(printed(&trace, &[], tree(&trace)), expected);
}

#[test]
fn calls_are_shown_around_the_events_that_are_chosen() {
    let (_dir, trace) = calls::trace(&EVENTS);
    let expected = "\
[     0.000001000] 1                  main 100ns { number = 7 }
  +8ns      walk 42ns { number = 5 }
  +30ns       walk 10ns { number = 4 }
  +32ns         db::open 2ns { number = 3 }
  +33ns           app:event: { number = 0, more = 2 }
[     0.000001055] 2                  app:event: { number = 0, more = 6 }
";
    assert_eq!(printed(&trace, &["app:event"], tree(&trace)), expected);
}

#[test]
fn a_choice_is_by_caller_by_duration_and_by_depth() {
    let (_dir, trace) = calls::trace(&EVENTS);
    let mut callers = Callers::new(&trace, |name| name == "walk");
    run(&mut trace.events(Range::ALL), &mut callers);
    let choice = Choice::default().under(callers).of_at_least(10);
    let expected = "\
[     0.000001008] 1                  walk 42ns { number = 5 }
  +2ns      leaf 10ns { number = 0 }
  +22ns     walk 10ns { number = 4 }
";
    assert_eq!(printed(&trace, &[], tree(&trace).of_calls(choice, 9)), expected);
    let expected = "\
[     0.000001000] 1                  main 100ns { number = 7 }
  +8ns      walk 42ns { number = 5 }
[     0.000001005] 2                  leaf 20ns { number = 1 }
[     0.000001110] 1                  leaf 10ns { number = 8 }
";
    assert_eq!(printed(&trace, &[], tree(&trace).of_calls(Choice::default(), 2)), expected);
}

#[test]
fn calls_that_return_together_are_in_the_longest() {
    let [leaf, walk, main]: [What; 3] = [(1, "leaf", 30, 40), (1, "walk", 20, 40), (1, "main", 0, 40)];
    for events in [[leaf, walk, main], [main, walk, leaf], [walk, main, leaf], [main, leaf, walk]] {
        let (_dir, trace) = calls::trace(&events);
        let text = printed(&trace, &[], tree(&trace));
        let lines: Vec<&str> = text.lines().collect();
        let starts = ["main 40ns", "  +20ns     walk 20ns", "  +30ns       leaf 10ns"];
        assert!(lines.iter().zip(starts).all(|(line, start)| line.contains(start)), "{events:?}: {text}");
    }
}

#[test]
fn what_there_is_no_room_for_is_printed_before_its_caller() {
    let mut events: Vec<What> = (1..100).map(|n| (1, "leaf", 10 * n, 10 * n + 5)).collect();
    events.push((1, "main", 0, 2000));
    let (_dir, trace) = calls::trace(&events);
    let text = printed(&trace, &[], tree(&trace).with_room(5000));
    assert_eq!(text.lines().filter(|line| line.contains(" leaf 5ns")).count(), 99, "{text}");
    let mut main = text.lines().skip_while(|line| !line.contains("main 2.00us"));
    assert_eq!(main.nth(1), Some("            *** more above: too many to keep in memory ***"), "{text}");
}

#[test]
fn calls_may_be_nested_as_deeply_as_they_like() {
    const DEPTH: u64 = 200_000;
    let mut events: Vec<What> = (1..=DEPTH).map(|n| (1, "walk", DEPTH - n, DEPTH + n)).collect();
    events.push((2, "leaf", 3 * DEPTH, 3 * DEPTH));
    let (_dir, trace) = calls::trace(&events);
    let deepest = printed(&trace, &[], tree(&trace)).lines().filter(|line| line.contains("walk")).count();
    assert_eq!(deepest as u64, DEPTH);
    // What is kept can be given up.
    let (mut events, mut kept, mut out) = (trace.events(Range::ALL), tree(&trace), Vec::new());
    while let Some(Entry::Event(record)) = events.next() {
        kept.event(&mut out, &record);
    }
    assert!(out.is_empty());
}
