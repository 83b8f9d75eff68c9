//! Times of kernel events and of a program's events are of one clock, as far as anybody can see.

use crate::support::Record;
use crate::support::kernel::{self, of_thread, trace_of};

/// How far apart the clocks may be, in nanoseconds.
const TOLERANCE: i64 = 1000;

#[test]
fn what_happens_in_a_thread_is_in_order() {
    const ROUNDS: u64 = 100_000;
    if !kernel::is_there() {
        return;
    }
    let trace =
        Record::scene(&["calls", &ROUNDS.to_string()]).with(&["-k", "syscalls:*getsid"]).run().ends_with(0);
    let pid = trace.printed("pid");
    let events = trace.view();
    let own = events.iter().filter(|event| event.tid == pid && !event.name.starts_with("lttng_"));
    let names: Vec<&str> = own.map(|event| event.name.as_str()).collect();
    let round = ["e2e:before", "syscall_entry_getsid", "syscall_exit_getsid", "e2e:after"];
    assert_eq!(names.len() as u64, 4 * ROUNDS);
    let wrong = names.chunks(4).position(|chunk| chunk != round);
    assert_eq!(wrong, None, "{:?}", wrong.map(|at| &names[4 * at..4 * at + 4]));
    let waits = |from: &str, to: &str| {
        let (from, to) = (of_thread(&events, from, pid), of_thread(&events, to, pid));
        let mut waits: Vec<u64> = from.iter().zip(&to).map(|(from, to)| to.time - from.time).collect();
        waits.sort_unstable();
        (waits[0], waits[waits.len() / 2])
    };
    println!(
        "before to entry {:?}, exit to after {:?} ns (least, median)",
        waits(round[0], round[1]),
        waits(round[2], round[3])
    );
}

#[test]
fn how_far_the_clocks_are_apart_is_in_the_recording() {
    if !kernel::is_there() {
        return;
    }
    for clock in [&[][..], &["--clock", "monotonic"]] {
        let trace =
            Record::scene(&["calls", "1"]).with(&["-k", "syscalls:*getsid"]).with(clock).run().ends_with(0);
        let offset = trace_of(&trace).facts("offset").pop().expect("it was measured");
        println!("{offset}");
        let (offset, error) =
            (offset["offset_ns"].as_i64().expect("it"), offset["error_ns"].as_i64().expect("it"));
        assert!(offset.abs() <= TOLERANCE && error <= TOLERANCE, "{offset} +- {error} ns");
    }
}
