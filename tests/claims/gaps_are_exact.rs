//! Where a full ring has lost events, and how many, is told exactly: by the numbers that programs give their events,
//! read by mote and by babeltrace2.

use crate::support::gaps::{self, Gap, Numbered, assert_exact};
use crate::support::kernel;
use crate::support::slow_disk::SlowDisk;
use crate::support::{Record, Trace};
use std::time::Duration;

const THREADED: Numbered = Numbered { event: "e2e:threaded", who: "who", from: 0, number: "seq" };
/// Without rseq: the atomic writer.
const NO_RSEQ: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// Asserts that a trace of `bursts` is exact, and that summary and report say the same as the gaps. Returns the gaps.
#[track_caller]
fn exact(trace: &Trace) -> Vec<Gap> {
    let gaps = assert_exact(trace, &THREADED, (trace.printed("threads"), trace.printed("each")));
    let sum = gaps.iter().map(|gap| gap.ring_full).sum::<u64>();
    assert_eq!(trace.lost().get("ring_full").copied().unwrap_or(0), sum, "the summary");
    let report = trace.report();
    let lost = &report["lost"];
    assert_eq!(lost["events"], sum, "the report");
    let listed = lost["gaps"].as_array().expect("gaps");
    let all = listed.len() as u64 + lost["more_gaps"].as_u64().expect("a number");
    assert_eq!(all, gaps.len() as u64, "{lost}");
    for (ours, theirs) in gaps.iter().zip(listed) {
        assert_eq!(
            (theirs["since_ns"].as_u64(), theirs["until_ns"].as_u64(), theirs["events"].as_u64()),
            (Some(ours.since), Some(ours.until), ours.events)
        );
        assert_eq!((theirs["stream"].as_str(), theirs["exact"].as_bool()), (Some(&*ours.stream), Some(true)));
    }
    gaps
}

#[test]
fn bursts_that_do_not_fit_leave_gaps_between_the_events_before_and_after() {
    for format in ["1.8", "2"] {
        let bursts = Record::scene(&["bursts", "1", "5", "400000", "200"]);
        let trace = bursts.with(&["--buffers", "64kx2", "--ctf", format]).run().ends_with(3);
        let gaps = exact(&trace);
        assert!(gaps.len() >= 5, "each burst overflows: {gaps:?}");
        let text = String::from_utf8(trace.mote(&["view", "--time", "monotonic"]).stdout).expect("UTF-8");
        let told = text.lines().filter(|line| line.contains(" *** ")).count();
        assert_eq!(told, gaps.len());
        assert!(!text.contains("not exact"), "a full ring's gaps are");
    }
}

#[test]
fn the_gaps_of_a_consumer_that_is_far_behind_are_exact() {
    let Some(disk) = SlowDisk::new() else { return };
    let bursts = Record::scene(&["bursts", "1", "20", "200000", "50"]);
    let running = bursts.with(&["--buffers", "64kx8"]).to(&disk.path().join("trace")).start();
    running.wait_until_recorded();
    disk.stand_still(Duration::from_millis(500));
    let trace = running.wait().ends_with(3);
    assert!(exact(&trace).len() >= 3);
}

#[test]
fn the_gaps_of_threads_at_full_speed_are_exact() {
    for (events, buffers) in [("2000000", "64kx4"), ("300000", "4kx2"), ("2000000", "256kx8")] {
        let trace = Record::scene(&["bursts", "2", "1", events, "0"]).with(&["--buffers", buffers]).run();
        exact(&trace);
    }
}

#[test]
fn threads_on_one_cpu_share_its_gaps() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (2 * cpus).to_string();
    let trace = Record::scene(&["bursts", &threads, "3", "100000", "20"]).with(&["--buffers", "16kx2"]).run();
    assert!(!exact(&trace.ends_with(3)).is_empty());
}

#[test]
fn without_rseq_the_gaps_are_exact_too() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for (threads, buffers) in [(1, "64kx2"), (2, "64kx2"), (4 * cpus, "4kx4")] {
        let bursts = Record::scene(&["bursts", &threads.to_string(), "4", "100000", "50"]);
        let trace = bursts.with(&["--buffers", buffers]).env(NO_RSEQ.0, NO_RSEQ.1).run().ends_with(3);
        let gaps = exact(&trace);
        assert!(gaps.iter().all(|gap| gap.stream.starts_with("shared_")) && gaps.len() >= 3, "{gaps:?}");
    }
}

#[test]
fn the_gaps_of_kernel_events_are_exact() {
    if !kernel::is_there() {
        return;
    }
    const CALLS: Numbered =
        Numbered { event: "syscall_entry_lseek", who: "fd", from: 1_000_000, number: "offset" };
    let recording = Record::scene(&["numbered-calls", "2", "300000"])
        .with(&["-k", "syscalls:sys_enter_lseek", "-e", "none", "--kernel-buffers", "16kx2"])
        .run()
        .ends_with(3);
    let trace = kernel::trace_of(&recording);
    let gaps = assert_exact(&trace, &CALLS, (2, recording.printed("each")));
    assert!(gaps.len() >= 3, "{}", gaps.len());
    let lost = gaps.iter().map(|gap| gap.ring_full).sum::<u64>();
    assert_eq!(trace.lost().get("ring_full"), Some(&lost));
}

/// A process writes into the counters of lost events that hundreds of thousands of millions of millions were lost, in a
/// few milliseconds.
#[test]
fn a_number_that_cannot_be_is_told_as_unknown() {
    for value in [673_000_000_000_000_000, u64::MAX] {
        let scene = ["scribble-counts", "4", &value.to_string()];
        let trace = Record::scene(&scene).with(&["--buffers", "64kx4"]).run().ends_with(3);
        assert!(trace.err.contains("LOST") && trace.err.contains("unknown"), "{}", trace.err);
        let summary = trace.summary();
        assert!(summary["lost_unknown"].as_u64() >= Some(2), "{summary}");
        assert_eq!(
            (trace.lost_total(), summary["events"]["e2e:scribbled"].as_u64()),
            (0, Some(200)),
            "{summary}"
        );
        let gaps = gaps::shown(&trace);
        assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.events.is_none()), "{gaps:?}");
        let view = trace.mote(&["view"]);
        let text = String::from_utf8(view.stdout).expect("UTF-8");
        assert!(text.contains("*** an unknown number of events lost between"), "{text}");
        assert!(String::from_utf8_lossy(&view.stderr).contains("an unknown number of events"));
        let lost = trace.report()["lost"].clone();
        assert!(lost["events"].is_null() && lost["causes"][0]["cause"] == "unknown", "{lost}");
        let report = String::from_utf8(trace.mote(&["report"]).stdout).expect("UTF-8");
        assert!(report.contains("LOST an unknown number of events"), "{report}");
        assert!(!report.contains("no event was lost"), "{report}");
    }
}

/// What is too big is no gap: it is bounded by two looks at the counters, and said so.
#[test]
fn other_causes_are_bounded_and_said_not_to_be_exact() {
    // On one CPU: all events are in one stream.
    let trace = Record::scene(&["big"]).under(&["taskset", "-c", "0"]).run().ends_with(3);
    let gaps = gaps::shown(&trace);
    let [gap] = &gaps[..] else { panic!("one event is too big: {gaps:?}") };
    assert_eq!((gap.events, gap.ring_full, gap.exact), (Some(1), 0, false), "{gap:?}");
    let events = trace.events();
    // The event that is too big is emitted between these two.
    let time_of = |name| events.iter().find(|event| event.name == name).expect("recorded").time;
    let (before, after) = (time_of("e2e:most"), time_of("e2e:long_text"));
    assert!(gap.since <= after && before <= gap.until, "{gap:?}, {before} {after}");
    gaps::assert_same_as_babeltrace(&trace, &gaps);
    let text = String::from_utf8(trace.mote(&["view"]).stdout).expect("UTF-8");
    assert!(
        text.contains("*** 1 event lost between") && text.contains("(too_big 1, the place is not exact)"),
        "{text}"
    );
    let report = String::from_utf8(trace.mote(&["report"]).stdout).expect("UTF-8");
    assert!(report.contains("too_big, not exact"), "{report}");
}
