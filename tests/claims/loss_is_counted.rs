//! What is lost is counted exactly, by cause, and said everywhere; a flight recorder keeps the newest.

use crate::support::command::json_lines;
use crate::support::event::named;
use crate::support::{Record, Trace};

/// Events that cannot all fit: they are emitted faster than they are written.
fn flood(options: &[&str]) -> Trace {
    Record::scene(&["threads", "2", "300000"]).with(options).run()
}

#[test]
fn emitted_is_recorded_plus_lost() {
    let trace = flood(&["--buffers", "4kx2"]).ends_with(3);
    let events = trace.events();
    let recorded = events.len() as u64;
    assert_eq!(recorded + trace.lost_total(), trace.printed("emitted"), "{:?}", trace.lost());
    assert!(trace.lost()["ring_full"] > 0 && recorded > 0, "{:?}", trace.lost());
    // Said in the summary of the recording, by view, and by babeltrace2, which warns of discarded events.
    assert!(trace.err.contains("LOST") && trace.err.contains("ring_full"), "{}", trace.err);
    let view = trace.mote(&["view"]);
    assert!(String::from_utf8_lossy(&view.stderr).contains("lost"), "{view:?}");
    let json = trace.mote(&["view", "--format", "json"]);
    let text = String::from_utf8(json.stdout).expect("JSON is UTF-8");
    let lost = json_lines(&text).filter_map(|line| line.get("lost")?["events"].as_u64());
    assert_eq!(lost.sum::<u64>(), trace.lost_total(), "what the packets say");
}

#[test]
fn what_is_recorded_is_in_order_without_repetition() {
    let trace = flood(&["--buffers", "4kx2"]);
    let events = trace.view();
    for who in [0, 1] {
        let mine: Vec<u64> = named(&events, "e2e:threaded")
            .iter()
            .filter(|event| event.number("who") == who)
            .map(|event| event.number("seq"))
            .collect();
        assert!(mine.windows(2).all(|pair| pair[0] < pair[1]), "of thread {who}");
    }
}

#[test]
fn without_rseq_the_sum_is_exact_too() {
    let record = Record::scene(&["threads", "3", "100000"]).with(&["--buffers", "4kx2"]);
    let trace = record.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").run().ends_with(3);
    let recorded = trace.events().len() as u64;
    assert_eq!(recorded + trace.lost_total(), trace.printed("emitted"), "{:?}", trace.lost());
}

#[test]
fn default_buffers_lose_nothing() {
    let trace = flood(&[]).ends_with(0);
    assert_eq!(trace.lost_total(), 0);
    assert_eq!(trace.summary()["events"]["e2e:threaded"], trace.printed("emitted"));
}

#[test]
fn a_flight_recorder_keeps_the_newest() {
    let trace = Record::scene(&["count", "200000"])
        .with(&["--mode", "overwrite", "--buffers", "4kx4"])
        .run()
        .ends_with(0);
    let events = trace.view();
    let newest = named(&events, "e2e:count");
    assert!(newest.len() > 100 && newest.len() < 20_000, "{}", newest.len());
    let last = newest.iter().map(|event| event.number("seq")).max();
    assert_eq!(last, Some(199_999), "the newest is there");
    assert!(newest.windows(2).all(|pair| pair[0].number("seq") < pair[1].number("seq")));
    assert!(trace.err.contains("overwritten"), "{}", trace.err);
    trace.babeltrace();
}

#[test]
fn a_flight_recorder_that_is_large_enough_keeps_everything() {
    let trace = Record::scene(&["count", "2000"]).with(&["--mode", "overwrite"]).run().ends_with(0);
    assert_eq!(trace.events().len(), 2000);
}
