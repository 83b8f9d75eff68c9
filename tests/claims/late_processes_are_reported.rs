//! A process that cannot join at once goes on, joins as soon as it can, and what is missing of it is told.

use crate::support::Record;
use crate::support::event::{assert_counts, named};
use crate::support::programs::scenes;

fn shell(script: &str) -> Record {
    Record::program(&["sh", "-c", script, scenes()])
}

#[test]
fn a_recorder_that_stands_still_while_a_program_starts() {
    // The recorder is the shell's parent.
    let trace =
        shell("kill -STOP $PPID; { sleep 4; kill -CONT $PPID; } & exec \"$0\" late").run().ends_with(3);
    assert_eq!(trace.printed("early"), 0, "it did not wait for ever");
    let events = trace.events();
    assert_eq!(named(&events, "e2e:early").len(), 0);
    assert_counts(&named(&events, "e2e:late"), "seq", 100);
    let problems = trace.problems().join("\n");
    assert!(problems.contains("s late, and its events before that are missing"), "{problems}");
    assert!(trace.summary()["lost_unknown"].as_u64().is_some_and(|times| times > 0), "{}", trace.summary());
}

#[test]
fn a_program_that_starts_and_ends_while_the_recorder_stands_still() {
    let script = "kill -STOP $PPID; { sleep 6; kill -CONT $PPID; } & \"$0\" count 10; wait";
    let trace = shell(script).run().ends_with(3);
    let problems = trace.problems().join("\n");
    assert!(problems.contains("is not recorded: it disconnected before it was ready"), "{problems}");
    assert!(trace.summary()["lost_unknown"].as_u64().is_some_and(|times| times > 0), "{}", trace.summary());
}

#[test]
fn a_program_without_descriptors() {
    let trace = shell("ulimit -n 4; exec \"$0\" count 100").run().ends_with(0);
    assert_counts(&named(&trace.events(), "e2e:count"), "seq", 100);
}

#[test]
fn a_program_without_address_space() {
    let trace = shell("ulimit -v 40000; exec \"$0\" count 100").run().ends_with(3);
    let problems = trace.problems().join("\n");
    assert!(problems.contains("cannot join: out of memory"), "{problems}");
    assert!(problems.contains("ulimit -v"), "{problems}");
    assert!(trace.summary()["lost_unknown"].as_u64().is_some_and(|times| times > 0), "{}", trace.summary());
    assert!(trace.err.contains("LOST"), "{}", trace.err);
}
