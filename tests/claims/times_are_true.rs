//! The time of an event lies between two looks at CLOCK_REALTIME that the program takes around it.

use crate::support::Record;
use crate::support::event::{assert_counts, named};

/// How far beyond the looks a time may lie, in nanoseconds: the clock's conversion.
const TOLERANCE: u128 = 1000;

#[track_caller]
fn assert_true(options: &[&str], rseq: bool) {
    let mut record = Record::scene(&["times", "400"]).with(options);
    if !rseq {
        record = record.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    }
    let trace = record.run().ends_with(0);
    let events = trace.events();
    let timed = named(&events, "e2e:timed");
    assert_counts(&timed, "seq", 400);
    let mut worst = 0;
    for (event, line) in timed.iter().zip(trace.out.lines()) {
        let numbers: Vec<u128> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let (seq, before, after, time) = (numbers[0], numbers[1], numbers[2], u128::from(event.time));
        assert_eq!(seq, u128::from(event.number("seq")));
        let beyond = before.saturating_sub(time).max(time.saturating_sub(after));
        assert!(beyond <= TOLERANCE, "event {seq} at {time} lies {beyond} ns outside of {before}..{after}");
        worst = worst.max(beyond);
    }
    println!("worst {worst} ns outside");
}

#[test]
fn by_the_best_clock() {
    assert_true(&[], true);
}

#[test]
fn by_the_monotonic_clock() {
    assert_true(&["--clock", "monotonic"], true);
}

#[test]
fn by_the_atomic_writer() {
    assert_true(&[], false);
}

#[test]
fn by_the_atomic_writer_and_the_monotonic_clock() {
    assert_true(&["--clock", "monotonic"], false);
}
