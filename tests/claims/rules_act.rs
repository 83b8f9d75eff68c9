//! What a filter can do instead of recording: keep records aside, set flags, emit events, ask for a snapshot. And rules
//! change while the program runs.

use crate::support::event::{by, named};
use crate::support::{Record, programs, wait_for, wait_for_sleeps};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::process::{Command, Output};

#[test]
fn records_kept_aside_are_there_when_their_request_was_bad() {
    let rules = [
        "-e",
        "http:*",
        "--on",
        "http:begin do speculate",
        "--on",
        "http:end if status >= 500 || $elapsed > 10ms do commit",
        "--on",
        "http:end do discard",
    ];
    let trace = Record::scene(&["http", "3", "200"]).with(&rules).run().ends_with(0);
    let events = trace.events();
    let bad: BTreeSet<u64> = (0..200).filter(|number| number % 10 == 0 || number % 25 == 7).collect();
    for name in ["http:begin", "http:step", "http:end"] {
        let threads = by(&named(&events, name), "thread");
        assert_eq!(threads.len(), 3, "{name}");
        for events in threads.values() {
            let numbers: BTreeSet<u64> = events.iter().map(|event| event.number("number")).collect();
            let missing: Vec<_> = bad.difference(&numbers).collect();
            assert!(missing.is_empty(), "{name}: {missing:?} are missing");
            // A request that was not to blame may have been slow on a busy machine; most were not.
            assert!(numbers.len() < 100, "{name}: {}", numbers.len());
            let each = if name == "http:step" { 3 } else { 1 };
            assert_eq!(events.len(), each * numbers.len(), "{name}");
        }
    }
    assert_eq!(trace.lost_total(), 0);
}

#[test]
fn a_flag_of_one_event_opens_another() {
    let rules = [
        "--on",
        "net:packet if id == 100 do set open",
        "--on",
        "net:packet if id == 200 do clear open",
        "-e",
        "net:noise",
        "--filter",
        "$flag.open",
    ];
    let trace = Record::scene(&["net", "1000"]).with(&rules).run().ends_with(0);
    let ids: Vec<u64> = trace.events().iter().map(|event| event.number("id")).collect();
    assert_eq!(ids, (100..200).collect::<Vec<_>>());
}

#[test]
fn a_rule_emits_an_event() {
    let rules = ["--on", "net:packet if len > 2990 do emit mine:large(size = len * 2, proto = proto)"];
    let trace = Record::scene(&["net", "1000"]).with(&rules).run().ends_with(0);
    let events = trace.events();
    let expect: Vec<u64> =
        (0..1000).map(|id| id * 7 % 3000).filter(|len| *len > 2990).map(|len| 2 * len).collect();
    assert!(events.iter().all(|event| event.name == "mine:large"));
    assert_eq!(events.iter().map(|event| event.number("size")).collect::<Vec<_>>(), expect);
}

#[test]
fn a_filter_asks_for_a_snapshot() {
    let rules = ["--mode", "overwrite", "-e", "net:*", "--on", "net:packet if id == 500 do snapshot"];
    let running = Record::scene(&["net-until"]).with(&rules).start();
    let path = format!("{}.snapshot-1", running.output().display());
    wait_for("the snapshot", || {
        running.said().1.contains(&format!("snapshot written: {path}")).then_some(())
    });
    let view = Command::new(programs::mote()).args(["view", &path]).output().expect("mote runs");
    let text = String::from_utf8_lossy(&view.stdout);
    assert!(text.contains("id = 499") && text.contains("net:packet"), "{}", &text[..text.len().min(500)]);
    running.signal(Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn rules_change_while_the_program_runs() {
    let running = Record::scene(&["net-until"]).with(&["-e", "net:packet", "--filter", "id == 0"]).start();
    let mote = |words: &[&str]| -> Output {
        let (verb, rest) = words.split_first().expect("a verb");
        Command::new(programs::mote()).arg(verb).arg(running.output()).args(rest).output().expect("mote runs")
    };
    let pid = running.wait_for("pid");
    wait_for("the control socket", || mote(&["status"]).status.success().then_some(()));
    wait_for_sleeps(pid, 100);
    let enabled = mote(&["enable", "-e", "net:packet", "--filter", "id % 2 == 1"]);
    assert!(enabled.status.success(), "{}", String::from_utf8_lossy(&enabled.stderr));
    wait_for_sleeps(pid, 100);
    assert!(mote(&["enable", "-e", "net:noise"]).status.success());
    wait_for_sleeps(pid, 100);
    assert!(mote(&["disable", "net:packet"]).status.success());
    wait_for_sleeps(pid, 100);
    let status = String::from_utf8(mote(&["status"]).stdout).expect("text");
    assert!(status.contains("net:noise") && !status.contains("net:packet"), "{status}");
    assert_eq!(mote(&["disable", "nothing"]).status.code(), Some(2));
    assert_eq!(mote(&["enable", "-e", "net:*", "--filter", "id >"]).status.code(), Some(2));
    running.signal(Signal::SIGTERM);
    let trace = running.wait().ends_with(128 + 15);
    let events = trace.events();
    let ids = |name| named(&events, name).iter().map(|event| event.number("id")).collect::<Vec<_>>();
    let (packets, noise) = (ids("net:packet"), ids("net:noise"));
    assert!(packets.iter().all(|id| *id == 0 || id % 2 == 1), "{packets:?}");
    assert!(packets.len() > 20 && noise.len() > 20, "{} {}", packets.len(), noise.len());
    assert!(packets.last() < noise.last(), "net:packet went on after it was disabled");
    assert!(noise.windows(2).all(|pair| pair[1] == pair[0] + 1), "a gap");
}

#[test]
fn what_is_changed_later_takes_nothing_away() {
    let running =
        Record::scene(&["net-until"]).with(&["-e", "net:packet", "--filter", "id % 10 == 0"]).start();
    let enable = |words: &[&str]| -> Output {
        Command::new(programs::mote())
            .arg("enable")
            .arg(running.output())
            .args(words)
            .output()
            .expect("mote runs")
    };
    let pid = running.wait_for("pid");
    wait_for("the control socket", || {
        enable(&["--on", "net:packet do count by proto"]).status.success().then_some(())
    });
    // A wrong rule is refused, and the one that is there stays.
    let wrong = enable(&["-e", "net:packet", "--filter", "idd > 5"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("idd") && said.contains("`id`"), "{said}");
    wait_for_sleeps(pid, 100);
    // The first rule that keeps records aside.
    assert!(enable(&["--on", "net:noise if id % 50 == 0 do speculate"]).status.success());
    assert!(enable(&["--on", "net:noise if id % 50 == 49 do commit"]).status.success());
    wait_for_sleeps(pid, 1000);
    running.signal(Signal::SIGTERM);
    let trace = running.wait().ends_with(128 + 15);
    let ids: Vec<u64> = named(&trace.events(), "net:packet").iter().map(|event| event.number("id")).collect();
    assert!(ids.len() > 50 && ids.iter().all(|id| id % 10 == 0), "{ids:?}");
    assert!(trace.err.contains("tcp4"), "the first rule with another action is still there: {}", trace.err);
    assert_eq!(trace.problems(), [""; 0]);
}
