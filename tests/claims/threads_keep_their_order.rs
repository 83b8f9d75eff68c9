//! Threads: each one's events are all there, in order, with its name.

use crate::support::Record;
use crate::support::event::{assert_counts, by, named};

#[test]
fn every_event_of_every_thread() {
    let trace = Record::scene(&["threads", "8", "20000"]).run().ends_with(0);
    let events = trace.events();
    let groups = by(&named(&events, "e2e:threaded"), "who");
    assert_eq!(groups.len(), 8);
    for (who, group) in &groups {
        assert_counts(group, "seq", 20_000);
        let tid = group[0].tid;
        let name = format!("worker-{who}");
        let good = group.iter().all(|event| {
            event.tid == tid
                && event.thread.as_deref() == Some(&name)
                && event.number("check") == (who * 1_000_003) ^ event.number("seq")
        });
        assert!(good, "thread {tid} of {name}");
    }
    // A program's first thread introduces itself before `main`, whether it will record or not.
    let threads = trace.summary()["threads"].as_u64().expect("a number");
    assert!((8..=9).contains(&threads), "{threads}");
}

#[test]
fn a_thread_that_changes_cpus() {
    let trace = Record::scene(&["migrate", "2000"]).run().ends_with(0);
    assert_counts(&named(&trace.events(), "e2e:migrated"), "seq", 2000);
    let rings = trace.streams().len() as u64;
    assert_eq!(rings, trace.printed("cpus"), "one ring for each CPU: {:?}", trace.streams());
}

#[test]
fn times_never_decrease_in_what_is_shown() {
    let trace = Record::scene(&["threads", "4", "5000"]).run().ends_with(0);
    let events = trace.view();
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
}

#[test]
fn names_of_threads() {
    let trace = Record::scene(&["renamed"]).run().ends_with(0);
    let events = trace.events();
    let threads: Vec<Option<&str>> = events.iter().map(|event| event.thread.as_deref()).collect();
    assert_eq!(threads, [Some("first-name"), Some("scenes")]);
}
