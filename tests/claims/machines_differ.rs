//! Fewer CPUs, no rseq, another clock, no patching: events arrive all the same.

use crate::support::event::{assert_counts, by, named};
use crate::support::{Record, Trace, has_tool, programs};

fn threads() -> Record {
    Record::scene(&["threads", "3", "2000"])
}

#[track_caller]
fn assert_all(trace: &Trace) {
    let events = trace.events();
    let groups = by(&named(&events, "e2e:threaded"), "who");
    assert_eq!(groups.len(), 3);
    groups.values().for_each(|group| assert_counts(group, "seq", 2000));
}

#[test]
fn recorder_on_one_cpu() {
    if has_tool("taskset") {
        assert_all(&threads().under(&["taskset", "-c", "0"]).run().ends_with(0));
    }
}

#[test]
fn program_on_one_cpu() {
    if has_tool("taskset") {
        let command = ["taskset", "-c", "0", programs::scenes(), "threads", "3", "2000"];
        let trace = Record::program(&command).run().ends_with(0);
        assert_all(&trace);
        assert_eq!(trace.streams(), ["cpu_0"]);
    }
}

#[test]
fn without_rseq() {
    let trace = threads().env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").run().ends_with(0);
    assert_all(&trace);
    let streams = trace.streams();
    assert!(!streams.is_empty() && streams.iter().all(|name| name.starts_with("shared_")), "{streams:?}");
}

#[test]
fn with_rseq() {
    let trace = threads().run().ends_with(0);
    assert_all(&trace);
    let streams = trace.streams();
    assert!(streams.iter().all(|name| name.starts_with("cpu_")), "rseq is not used: {streams:?}");
}

#[test]
fn by_the_monotonic_clock() {
    let trace = threads().with(&["--clock", "monotonic"]).run().ends_with(0);
    assert_all(&trace);
    assert_eq!(trace.facts("session")[0]["clock"], "monotonic");
}

#[test]
fn without_rseq_by_the_monotonic_clock() {
    let record = threads().with(&["--clock", "monotonic"]);
    assert_all(&record.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").run().ends_with(0));
}

#[test]
fn with_tested_bytes_instead_of_patched_code() {
    let scenes = programs::scenes_with_tested_byte();
    let scenes = scenes.to_str().expect("text");
    assert_all(&Record::program(&[scenes, "threads", "3", "2000"]).run().ends_with(0));
    let off = Record::program(&[scenes, "unevaluated", "100"]).with(&["-x", "e2e:*"]).run().ends_with(0);
    assert_eq!(off.printed("made"), 0);
    assert_eq!(Record::program(&[scenes, "fork", "2", "50"]).run().ends_with(0).events().len(), 4 * 50);
    // No site to patch.
    let sites = Record::program(&[scenes, "until-disarmed"]).with(&["--duration", "100ms"]).run();
    assert_eq!(sites.printed("sites"), 0);
}

#[test]
fn release_builds_and_debug_builds() {
    let scenes = programs::release().join("scenes");
    let scenes = scenes.to_str().expect("text");
    assert_all(&Record::program(&[scenes, "threads", "3", "2000"]).run().ends_with(0));
}
