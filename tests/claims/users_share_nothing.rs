//! Processes of one user share rings; who is root, or could become somebody else, has rings of its own, and so have its
//! children from their first event on.

use crate::support::event::{assert_counts, by, named};
use crate::support::{Record, Trace, is_root, programs};

/// Any user but root.
const USER: &str = "12345";

/// What `scenes master` has to come to, however it is recorded.
#[track_caller]
fn assert_parted(record: Record, workers: u64, events: u64) -> Trace {
    let trace = record.run().ends_with(0);
    assert_eq!(trace.lost_total(), 0);
    let all = trace.events();
    let groups = by(&named(&all, "e2e:served"), "who");
    assert_eq!(groups.len() as u64, 2 * workers + 1);
    groups.values().for_each(|group| assert_counts(group, "seq", events));
    assert!(trace.printed("master") > 0, "the master finds its own words: {}", trace.out);
    for who in 1..=workers {
        assert!(trace.printed(&format!("own-{who}")) > 0, "a worker finds its own words: {}", trace.out);
        assert_eq!(
            trace.printed(&format!("secrets-{who}")),
            0,
            "words of the master that worker {who} can read"
        );
    }
    trace
}

#[test]
fn workers_of_a_master_that_is_root_cannot_read_its_events() {
    if !is_root() {
        return;
    }
    assert_parted(Record::scene(&["master", "3", "200", USER]), 3, 200);
}

#[test]
fn workers_without_rseq_cannot_read_events_of_their_master() {
    if !is_root() {
        return;
    }
    let record = Record::scene(&["master", "2", "200", USER]);
    assert_parted(record.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), 2, 200);
}

#[test]
fn workers_cannot_read_what_a_flight_recorder_holds_of_their_master() {
    if !is_root() {
        return;
    }
    assert_parted(Record::scene(&["master", "3", "200", USER]).with(&["--mode", "overwrite"]), 3, 200);
}

#[test]
fn workers_cannot_read_what_filters_keep_of_their_master() {
    if !is_root() {
        return;
    }
    let rules = [
        ["-e", "e2e:*"],
        ["--on", "e2e:served if seq == 0 do speculate"],
        ["--on", "e2e:served if seq == 199 do commit"],
        ["--on", "e2e:served do count by text"],
        ["--on", "e2e:served do last 1000"],
    ];
    let record = Record::scene(&["master", "3", "200", USER]).with(&rules.concat());
    let trace = assert_parted(record, 3, 200);
    let counts = trace.counts("e2e:served do count by text");
    assert_eq!(
        counts,
        [("a worker's own words", 600), ("the master's secret", 800)]
            .map(|(text, count)| (text.to_owned(), count))
            .into()
    );
}

#[test]
fn workers_in_two_recordings_cannot_read_events_of_their_master() {
    if !is_root() {
        return;
    }
    let keep = tempfile::tempdir().expect("a temporary directory");
    let inner = keep.path().join("inner");
    let mote = programs::mote().to_str().expect("UTF-8");
    let command = [mote, "record", "-q", "-o", inner.to_str().expect("UTF-8"), "--"];
    let scene = [programs::scenes(), "master", "2", "200", USER];
    assert_parted(Record::program(&[&command[..], &scene].concat()), 2, 200);
}

#[test]
fn many_workers_at_a_time_all_find_room() {
    if !is_root() {
        return;
    }
    assert_parted(Record::scene(&["master", "24", "100", USER]), 24, 100);
}

#[test]
fn processes_without_room_for_buffers_are_reported() {
    if !is_root() {
        return;
    }
    // Room for two: the least that a group gets is two sub-buffers of 4 KiB.
    let trace = Record::scene(&["master", "6", "10", USER]).with(&["--buffers", "8kx2"]).run();
    let trace = trace.ends_with(3);
    let problems = trace.problems().join("\n");
    assert!(problems.contains("is not recorded: all memory for buffers is taken"), "{problems}");
    let all = trace.events();
    assert_counts(&by(&named(&all, "e2e:served"), "who")[&0], "seq", 10);
    for who in 1..=6 {
        assert_eq!(trace.printed(&format!("secrets-{who}")), 0);
    }
}

#[test]
fn a_process_that_becomes_another_user_and_program_stays_recorded() {
    if !is_root() {
        return;
    }
    let trace = Record::scene(&["become", USER, programs::scenes(), "fork", "3", "100"]).run().ends_with(0);
    let events = trace.events();
    assert_eq!(named(&events, "e2e:before").len(), 1);
    let groups = by(&named(&events, "e2e:forked"), "who");
    assert_eq!(groups.len(), 5);
    groups.values().for_each(|group| assert_counts(group, "seq", 100));
}
