//! What `mote record` says of rules that do not fit all the events of their pattern, and of patterns.

use std::process::Command;

const MOTE: &str = env!("CARGO_BIN_EXE_mote");

/// What is said of a recording of the demo, with these rules.
fn said(rules: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let mut record = Command::new(MOTE);
    record.args(["record", "-o"]).arg(dir.path().join("trace")).args(rules);
    let output = record.args(["--", MOTE, "__demo-server", "--requests", "20"]).output().expect("mote runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn events_without_a_field_are_told_one_by_one_and_then_as_a_number() {
    // The demo has 15 events, of which 9 have a field `connection`, and 3 one that is called `bytes`.
    for (filter, more) in [
        (
            "connection > 0",
            "mote: 1 more event lacks a field that a rule uses, and is not recorded by that rule\n",
        ),
        (
            "bytes > 0",
            "mote: 7 more events lack fields that rules use, and are not recorded by those rules\n",
        ),
    ] {
        let said = said(&["-e", "*", "--filter", filter]);
        assert_eq!(said.matches("warning: ").count(), 5, "{said}");
        assert!(said.contains(more), "{said}");
    }
}

#[test]
fn a_pattern_without_an_event_is_told_unless_it_is_all_of_them() {
    assert!(said(&["-e", "nett:*"]).contains("mote: no event matches 'nett:*' yet; waiting for it"));
    assert!(!said(&["-e", "*"]).contains("no event matches"));
}

#[test]
fn what_there_is_one_of_is_told_as_one() {
    let said = said(&["-e", "http:request_start"]);
    assert!(said.contains(" http (1 kind)\n") && said.contains("  processes  1, with "), "{said}");
    assert!(
        !said.contains("1 kinds") && !said.contains("1 packets") && !said.contains("1 threads"),
        "{said}"
    );
}
