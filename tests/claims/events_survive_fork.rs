//! Children are recorded, however they come to be, and whatever is done to their descriptors.

use crate::support::event::{assert_counts, by, named};
use crate::support::{Record, Trace};

/// The events of the fork scenes, which count by `seq` in each `who`.
#[track_caller]
fn assert_forked(trace: &Trace, whos: u64, each: u64) {
    let events = trace.events();
    let groups = by(&named(&events, "e2e:forked"), "who");
    assert_eq!(groups.len() as u64, whos, "processes that recorded");
    groups.values().for_each(|group| assert_counts(group, "seq", each));
}

#[test]
fn forked_children() {
    let trace = Record::scene(&["fork", "5", "500"]).run().ends_with(0);
    assert_forked(&trace, 7, 500);
    let events = trace.view();
    let parent = trace.printed("pid");
    let children: Vec<u64> =
        trace.out.lines().filter_map(|line| line.strip_prefix("child ")?.parse().ok()).collect();
    for event in named(&events, "e2e:forked") {
        let (who, pid) = (event.number("who"), event.pid.expect("a process"));
        let expected = if (1..=5).contains(&who) { children[who as usize - 1] } else { parent };
        assert_eq!((pid, event.tid), (expected, expected), "of {who}");
    }
    assert_eq!(trace.summary()["processes"], 6);
    assert_eq!(trace.facts("process").iter().filter(|fact| fact["how"] == "fork").count(), 5);
    assert_eq!(trace.facts("exit").len(), 6);
}

#[test]
fn children_of_a_process_with_threads() {
    let trace = Record::scene(&["fork-threaded", "30", "100"]).run().ends_with(0);
    assert_forked(&trace, 30, 100);
    assert_eq!(trace.summary()["processes"], 31);
}

#[test]
fn children_of_children() {
    let trace = Record::scene(&["grandchildren", "12", "20"]).run().ends_with(0);
    assert_forked(&trace, 13, 20);
    assert_eq!(trace.summary()["processes"], 13);
}

#[test]
fn a_child_that_becomes_another_program() {
    let trace = Record::scene(&["exec", "100"]).run().ends_with(0);
    let events = trace.events();
    assert_counts(&named(&events, "e2e:count"), "seq", 100);
    assert_eq!(named(&events, "e2e:before_exec").len() + named(&events, "e2e:after_exec").len(), 2);
    let child = trace.printed("child");
    assert!(named(&events, "e2e:count").iter().all(|event| event.tid == child && event.pid == Some(child)));
}

#[test]
fn an_empty_environment_hides_a_program_and_harms_nothing() {
    let trace = Record::scene(&["exec", "100", "bare"]).run().ends_with(0);
    assert!(trace.out.contains("Exited") && trace.out.contains("emitted 100"), "{}", trace.out);
    let events = trace.events();
    assert_eq!(named(&events, "e2e:count").len(), 0, "it could not know of the session");
    assert_eq!(named(&events, "e2e:after_exec").len(), 1);
}

#[test]
fn a_handler_that_forks_inside_of_an_event() {
    for rseq in [1, 0] {
        let tunables = format!("glibc.pthread.rseq={rseq}");
        let trace =
            Record::scene(&["fork-inside", "20", "100"]).env("GLIBC_TUNABLES", &tunables).run().ends_with(0);
        assert_forked(&trace, 41, 100);
        // A sequence starts over in the child as well; what was reserved is the parent's.
        let events = trace.events();
        let rounds = by(&named(&events, "e2e:forked_in"), "round");
        let of_each = if rseq == 1 { 2 } else { 1 };
        assert_eq!(rounds.len(), 20);
        assert!(rounds.values().all(|round| round.len() == of_each), "rseq={rseq}: {rounds:?}");
    }
}

#[test]
fn posix_spawn() {
    let trace = Record::scene(&["spawn", "100"]).run().ends_with(0);
    let events = trace.events();
    assert_counts(&named(&events, "e2e:count"), "seq", 100);
    assert!(named(&events, "e2e:count").iter().all(|event| event.pid == Some(trace.printed("child"))));
    assert_eq!(named(&events, "e2e:spawned")[0].number("status"), 0);
}

#[test]
fn vfork() {
    let trace = Record::scene(&["vfork"]).run().ends_with(0);
    let events = trace.events();
    let names: Vec<&str> =
        events.iter().map(|event| event.name.as_str()).filter(|name| !name.contains("count")).collect();
    assert_eq!(names, ["e2e:before_vfork", "e2e:in_vfork", "e2e:after_vfork"]);
    assert_counts(&named(&events, "e2e:count"), "seq", 5);
}

#[test]
fn a_program_that_closes_all_descriptors() {
    let trace = Record::scene(&["close-all", "100"]).run().ends_with(0);
    assert_forked(&trace, 3, 100);
    // Its child and the program that it starts find the session by its path.
    assert_counts(&named(&trace.view(), "e2e:count"), "seq", 100);
    assert_eq!(trace.summary()["processes"], 3);
}

#[test]
fn a_program_that_uses_the_mailbox_number_for_itself() {
    // With the limit of an ordinary user, no descriptor is left for its child to say hello with.
    for limit in ["--nofile=4096:4096", "--nofile=1024:1024"] {
        let trace = Record::scene(&["steal-number"]).under(&["prlimit", limit]).run().ends_with(0);
        assert_eq!(trace.printed("stolen"), 0, "the program's own socket was written to");
        assert_forked(&trace, 2, 10);
        assert_eq!(trace.summary()["processes"], 2, "{limit}");
    }
}

#[test]
fn a_daemon_outlives_its_command() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("stay");
    std::fs::write(&file, "").expect("written");
    let running = Record::scene(&["daemonise", "50", file.to_str().expect("text")]).start();
    running.wait_until_said("the command has ended");
    // Its events are still to come.
    std::fs::remove_file(file).expect("it was there");
    assert_forked(&running.wait().ends_with(0), 2, 50);
}

#[test]
fn a_killed_process_loses_nothing() {
    let trace = Record::scene(&["killed", "20"]).run().ends_with(0);
    let events = trace.events();
    let rounds = by(&named(&events, "e2e:doomed"), "round");
    let counts: Vec<u64> =
        trace.out.lines().filter_map(|line| line.split_once(' ')?.1.parse().ok()).collect();
    assert_eq!((rounds.len(), counts.len()), (20, 20));
    for (round, group) in &rounds {
        // It may have been killed between an event and its count.
        let emitted = counts[*round as usize];
        let recorded = group.len() as u64;
        assert!(recorded == emitted || recorded == emitted + 1, "recorded {recorded} of {emitted}");
        assert_counts(group, "seq", recorded);
    }
}

#[test]
fn a_container_of_processes() {
    if !crate::support::is_root() || !crate::support::has_tool("unshare") {
        return;
    }
    let scenes = crate::support::programs::scenes();
    let command = ["unshare", "--fork", "--pid", scenes, "fork", "2", "50"];
    let trace = Record::program(&command).run().ends_with(0);
    assert_forked(&trace, 4, 50);
}

#[test]
fn a_recording_in_a_recording() {
    let mote = crate::support::programs::mote().to_str().expect("text");
    let inner = tempfile::tempdir().expect("a directory");
    let path = inner.path().join("inner");
    let scenes = crate::support::programs::scenes();
    let command = [mote, "record", "-o", path.to_str().expect("text"), "--", scenes, "count", "20"];
    let outer = Record::program(&command).run().ends_with(0);
    assert_counts(&named(&outer.events(), "e2e:count"), "seq", 20);
    let inner = Trace {
        path,
        status: 0,
        out: String::new(),
        err: String::new(),
        took: outer.took,
        _keep: Some(inner),
    };
    assert_counts(&named(&inner.events(), "e2e:count"), "seq", 20);
}
