//! Sums of calls of functions, of traces whose times are known to the nanosecond.

#[path = "support/calls.rs"]
mod calls;

use calls::What;
use mote_analysis::{CallClasses, CallSums, Callers, Calls, Choice, run};
use mote_timeline::{Range, Trace};

fn of(trace: &Trace, choice: Choice) -> CallSums {
    run(&mut trace.events(Range::ALL), Calls::new(trace).with_choice(choice))
}

/// Name, calls, total, self.
type Row<'s> = (&'s str, u64, u64, u64);

fn rows(sums: &CallSums) -> Vec<Row<'_>> {
    let functions = sums.functions.iter().map(|(function, _)| function);
    functions.map(|f| (f.name.as_str(), f.calls, f.total_ns, f.total_self_ns)).collect()
}

#[track_caller]
fn check(events: &[What], expected: &[Row<'_>]) {
    let (_dir, trace) = calls::trace(events);
    let sums = of(&trace, Choice::default());
    assert_eq!((rows(&sums), sums.estimates), (expected.to_vec(), 0));
}

#[test]
fn own_time_is_what_no_inner_call_took() {
    let events = [
        (1, "leaf", 110, 120),
        (1, "leaf", 125, 130),
        (1, "walk", 105, 140),
        (1, "leaf", 150, 160),
        (1, "app:event", 170, 170),
        (1, "main", 100, 200),
    ];
    check(&events, &[("main", 1, 100, 55), ("walk", 1, 35, 20), ("leaf", 3, 25, 25)]);
    let (_dir, trace) = calls::trace(&events);
    let sums = of(&trace, Choice::default());
    let leaf = sums.functions[2].0.duration_ns;
    assert_eq!((leaf.samples, leaf.min, leaf.mean, leaf.p50, leaf.max), (3, 5, 8, 10, 10));
}

#[test]
fn a_recursive_function_takes_what_its_outermost_call_takes() {
    // walk(walk(walk), walk), leaf(walk), walk
    let events = [
        (1, "walk", 30, 40),
        (1, "walk", 20, 50),
        (1, "walk", 60, 70),
        (1, "walk", 10, 80),
        (1, "walk", 95, 99),
        (1, "leaf", 90, 100),
        (1, "walk", 110, 111),
    ];
    check(&events, &[("walk", 6, 75, 75), ("leaf", 1, 10, 6)]);
    // In turns.
    let turns = [(1, "walk", 30, 40), (1, "leaf", 20, 50), (1, "walk", 10, 60), (1, "leaf", 0, 70)];
    check(&turns, &[("leaf", 2, 70, 40), ("walk", 2, 50, 30)]);
}

#[test]
fn threads_do_not_mix() {
    let events = [(1, "leaf", 10, 20), (2, "leaf", 5, 25), (2, "walk", 8, 30), (1, "main", 0, 40)];
    // What overlaps with a call is inside of it: durations are not exact.
    check(&events, &[("main", 1, 40, 30), ("leaf", 2, 30, 30), ("walk", 1, 22, 2)]);
}

#[test]
fn callers_that_are_missing_leave_the_rest_as_it_is() {
    // The walk around the first leaf was lost, and main has not returned.
    check(&[(1, "leaf", 10, 20), (1, "leaf", 30, 40)], &[("leaf", 2, 20, 20)]);
    check(
        &[(1, "leaf", 10, 20), (1, "leaf", 30, 40), (1, "main", 0, 50)],
        &[("main", 1, 50, 30), ("leaf", 2, 20, 20)],
    );
    check(&[], &[]);
}

#[test]
fn of_calls_that_return_together_the_longest_is_the_outermost() {
    let nested = [("leaf", 1, 10, 10), ("walk", 1, 20, 10), ("main", 1, 40, 20)];
    let sorted = |mut rows: Vec<Row<'static>>| {
        rows.sort_by_key(|(.., total, _)| u64::MAX - total);
        rows
    };
    let [leaf, walk, main]: [What; 3] = [(1, "leaf", 30, 40), (1, "walk", 20, 40), (1, "main", 0, 40)];
    for events in [[leaf, walk, main], [main, walk, leaf], [walk, main, leaf], [leaf, main, walk]] {
        check(&events, &sorted(nested.to_vec()));
    }
    // The same twice: the later one is the outer.
    check(&[(1, "leaf", 10, 20), (1, "walk", 10, 20)], &[("leaf", 1, 10, 10), ("walk", 1, 10, 0)]);
    check(&[(1, "walk", 10, 20), (1, "leaf", 10, 20)], &[("leaf", 1, 10, 0), ("walk", 1, 10, 10)]);
    // Without a duration.
    check(
        &[(1, "leaf", 20, 20), (1, "walk", 10, 20), (1, "leaf", 20, 20)],
        &[("walk", 1, 10, 10), ("leaf", 2, 0, 0)],
    );
}

#[test]
fn memory_is_bounded_and_sums_stay_right() {
    // 10000 leaves in 10 walks in main.
    let mut events: Vec<What> = Vec::new();
    for walk in 0..10 {
        let begin = 100_000 * walk;
        events.extend((1..=1000).map(|leaf| (1, "leaf", begin + 10 * leaf, begin + 10 * leaf + 4)));
        events.push((1, "walk", begin, begin + 20_000));
    }
    events.push((1, "main", 0, 2_000_000));
    let (_dir, trace) = calls::trace(&events);
    let expected =
        [("main", 1, 2_000_000, 1_800_000), ("walk", 10, 200_000, 160_000), ("leaf", 10_000, 40_000, 40_000)];
    for sums in [of(&trace, Choice::default()), limited(&trace, 64)] {
        assert_eq!((rows(&sums), sums.estimates), (expected.to_vec(), 0));
    }
    // Calls begin in the middle of what was put together.
    let few = limited(&trace, 16);
    let [main, walk, leaf] = rows(&few)[..] else { panic!("{few:?}") };
    assert_eq!((main.2, walk.2, leaf), (2_000_000, 200_000, expected[2]));
    assert!(few.estimates > 0 && main.3 < 2_000_000 && walk.3 < 200_000, "{few:?}");
}

fn limited(trace: &Trace, limit: usize) -> CallSums {
    run(&mut trace.events(Range::ALL), Calls::new(trace).with_limits(limit, limit))
}

const CHOSEN: [What; 8] = [
    (1, "leaf", 5, 8),
    (1, "leaf", 20, 30),
    (1, "spare", 32, 34),
    (1, "walk", 15, 35),
    (1, "walk", 10, 40),
    (2, "leaf", 20, 30),
    (1, "leaf", 50, 55),
    (1, "main", 0, 60),
];

#[test]
fn a_choice_is_by_function_by_caller_and_by_duration() {
    let (_dir, trace) = calls::trace(&CHOSEN);
    let classes = CallClasses::new(&trace);
    let some = Choice::default().of_functions(&classes, |name| name == "main" || name == "leaf");
    assert_eq!(rows(&of(&trace, some)), [("main", 1, 60, 42), ("leaf", 4, 28, 28)]);

    let under = |name: &'static str| {
        let mut callers = Callers::new(&trace, |known| known == name);
        run(&mut trace.events(Range::ALL), &mut callers);
        Choice::default().under(callers)
    };
    assert_eq!(
        rows(&of(&trace, under("walk"))),
        [("walk", 2, 30, 28 + 10 - 20), ("leaf", 1, 10, 10), ("spare", 1, 2, 2)]
    );
    assert_eq!(rows(&of(&trace, under("leaf"))), [("leaf", 4, 28, 28)]);
    assert!(of(&trace, under("nothing")).functions.is_empty());

    // What is too short is not counted, and still no part of its caller's own time.
    let long = Choice::default().of_at_least(10);
    assert_eq!(rows(&of(&trace, long)), [("main", 1, 60, 22), ("walk", 2, 30, 18), ("leaf", 2, 20, 20)]);
}

#[test]
fn callers_that_return_together_with_what_they_called_are_around_it() {
    let events = [(1, "leaf", 20, 40), (1, "walk", 10, 40), (1, "main", 0, 40)];
    let (_dir, trace) = calls::trace(&events);
    let mut callers = Callers::new(&trace, |name| name == "walk");
    run(&mut trace.events(Range::ALL), &mut callers);
    let sums = of(&trace, Choice::default().under(callers));
    assert_eq!(rows(&sums), [("walk", 1, 30, 10), ("leaf", 1, 20, 20)]);
}
