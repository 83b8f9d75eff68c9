//! Sums of spans, of traces whose times are known to the nanosecond.

#[path = "support/spans.rs"]
mod spans;

use mote_analysis::{SpanCount, SpanSums, Spans, run};
use mote_timeline::Range;
use spans::{What, What::*};

fn sums(events: &[(u64, u32, What)], limit: usize) -> SpanSums {
    let (_dir, trace) = spans::trace(events);
    run(&mut trace.events(Range::ALL), Spans::new(&trace).with_limit(limit))
}

fn of<'s>(sums: &'s SpanSums, name: &str) -> &'s SpanCount {
    sums.kinds.iter().find(|span| span.name == name).expect("it is there")
}

/// Count, total, busy, idle, self, open, began before.
fn figures(span: &SpanCount) -> [u64; 7] {
    let SpanCount {
        count, total_ns, total_busy_ns, total_idle_ns, total_self_ns, open, began_before, ..
    } = span;
    [*count, *total_ns, *total_busy_ns, *total_idle_ns, *total_self_ns, *open, *began_before]
}

#[test]
fn a_span_is_busy_on_any_thread_and_itself_without_those_inside() {
    let events = [
        (1000, 1, Outer(1)),
        (1010, 1, Enter("outer", 1)),
        (1020, 1, Inner(2, 1)),
        (1030, 1, Enter("inner", 2)),
        (1050, 1, Exit("inner", 2)),
        (1060, 1, Exit("outer", 1)),
        (1100, 2, Enter("outer", 1)),
        (1110, 2, Exit("outer", 1)),
        (1120, 2, Close("inner", 2)),
        (1200, 3, Close("outer", 1)),
    ];
    let sums = sums(&events, 100);
    assert_eq!(figures(of(&sums, "app:outer")), [1, 200, 60, 140, 40, 0, 0]);
    assert_eq!(figures(of(&sums, "app:inner")), [1, 100, 20, 80, 20, 0, 0]);
    let outer = of(&sums, "app:outer").duration_ns.expect("it was closed");
    assert_eq!((outer.min, outer.p50, outer.p99, outer.max), (200, 200, 200, 200));
}

#[test]
fn two_threads_at_once_are_busy_once_and_spans_may_be_left_in_any_order() {
    let at_once = [
        (0, 1, Outer(1)),
        (10, 1, Enter("outer", 1)),
        (20, 2, Enter("outer", 1)),
        (30, 1, Exit("outer", 1)),
        (50, 2, Exit("outer", 1)),
        (60, 1, Close("outer", 1)),
    ];
    assert_eq!(figures(of(&sums(&at_once, 100), "app:outer")), [1, 60, 40, 20, 50, 0, 0]);
    let crossed = [
        (0, 1, Outer(1)),
        (0, 1, Inner(2, 1)),
        (10, 1, Enter("outer", 1)),
        (20, 1, Enter("inner", 2)),
        (30, 1, Exit("outer", 1)),
        (40, 1, Exit("inner", 2)),
        (50, 1, Close("outer", 1)),
        (50, 1, Close("inner", 2)),
    ];
    let sums = sums(&crossed, 100);
    assert_eq!(figures(of(&sums, "app:outer")), [1, 50, 20, 30, 10, 0, 0]);
    assert_eq!(figures(of(&sums, "app:inner")), [1, 50, 20, 30, 20, 0, 0]);
}

#[test]
fn what_is_not_whole_is_told_apart() {
    let events = [
        // Made before the recording: one that ends, one that does not.
        (10, 1, Enter("outer", 1)),
        (20, 1, Exit("outer", 1)),
        (30, 1, Close("outer", 1)),
        (40, 1, Enter("outer", 2)),
        // Not closed.
        (50, 2, Outer(3)),
    ];
    let sums = sums(&events, 100);
    assert_eq!(figures(of(&sums, "app:outer")), [0, 0, 0, 0, 0, 2, 2]);
    assert_eq!(of(&sums, "app:outer").duration_ns, None);
}

#[test]
fn memory_is_bounded_and_what_is_left_out_is_counted() {
    let mut events: Vec<(u64, u32, What)> = (1..=10).map(|id| (id, 1, Outer(id))).collect();
    events.extend((1..=10).map(|id| (100, 1, Close("outer", id))));
    let sums = sums(&events, 4);
    assert_eq!((of(&sums, "app:outer").count, sums.not_followed), (4, 6));
}
