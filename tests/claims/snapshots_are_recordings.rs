//! What a flight recorder holds can be written down while it goes on, as a recording of its own.

use crate::support::event::named;
use crate::support::{Record, Running, Trace, programs, wait_for, wait_for_sleeps};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

fn flight_recorder() -> Record {
    // Large enough for minutes, so that what the first snapshot had is in the second one.
    Record::scene(&["counting"]).with(&["--mode", "overwrite", "--buffers", "8M"])
}

/// The directory of a snapshot that is whole.
fn snapshot(of: &Running, number: u32) -> PathBuf {
    let mut name = of.output().file_name().expect("a name").to_owned();
    name.push(format!(".snapshot-{number}"));
    let path = of.output().with_file_name(name);
    wait_for("the snapshot", || {
        of.said().1.contains(&format!("snapshot written: {}", path.display())).then_some(())
    });
    path
}

/// The numbers of the events in a directory, which must be without a gap.
fn numbers(path: PathBuf) -> std::ops::RangeInclusive<u64> {
    let trace =
        Trace { path, status: 0, out: String::new(), err: String::new(), took: Duration::ZERO, _keep: None };
    let numbers: Vec<u64> = named(&trace.events(), "e2e:count")
        .iter()
        .map(|event| event.fields["seq"].as_u64().expect("a number"))
        .collect();
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    assert_eq!(numbers, (first..=last).collect::<Vec<_>>());
    assert_eq!(trace.summary()["events"]["e2e:count"], numbers.len());
    first..=last
}

#[test]
fn at_a_signal() {
    let running = flight_recorder().start();
    let pid = running.wait_for("pid");
    wait_for_sleeps(pid, 100);
    running.signal(Signal::SIGUSR2);
    let first = numbers(snapshot(&running, 1));
    wait_for_sleeps(pid, 100);
    running.signal(Signal::SIGUSR2);
    let second = numbers(snapshot(&running, 2));
    assert!(second.end() > first.end() && second.contains(first.end()), "{first:?} {second:?}");
    running.signal(Signal::SIGTERM);
    let trace = running.wait().ends_with(128 + 15);
    assert!(numbers(trace.path.clone()).contains(second.end()));
}

/// Asks the recorder.
fn ask(running: &Running, verb: &str) -> (Option<i32>, String) {
    let output = Command::new(programs::mote()).arg(verb).arg(running.output()).output().expect("mote runs");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_request_is_answered_when_the_snapshot_can_be_read() {
    let running = flight_recorder().start();
    let pid = running.wait_for("pid");
    wait_for_sleeps(pid, 100);
    for number in 1..=5 {
        let (status, said) = ask(&running, "snapshot");
        assert_eq!(status, Some(0), "{said}");
        let path = said.trim().strip_prefix("snapshot written: ").expect("where it is");
        assert!(path.ends_with(&format!(".snapshot-{number}")), "{path}");
        // At once.
        assert!(numbers(PathBuf::from(path)).count() > 50);
    }
    // What cannot be is said, with the reason.
    let mut taken = running.output().as_os_str().to_owned();
    taken.push(".snapshot-6");
    std::fs::create_dir(&taken).expect("a directory");
    let (status, said) = ask(&running, "snapshot");
    assert!(status == Some(2) && said.contains("snapshot-6") && said.contains("exists"), "{said}");
    let (status, said) = ask(&running, "snapshot");
    assert!(status == Some(0) && said.contains("snapshot-7"), "{said}");
    running.signal(Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn the_status_counts_bytes_in_the_buffers() {
    let running = flight_recorder().start();
    wait_for_sleeps(running.wait_for("pid"), 100);
    let (status, said) = ask(&running, "status");
    let in_buffers =
        said.split_once("iB in the buffers").is_some_and(|(before, _)| before.ends_with(['K', 'M']));
    assert!(status == Some(0) && in_buffers && said.contains(": 0 events (0 bytes) on disk"), "{said}");
    running.signal(Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
    // Otherwise they are emptied before the answer: what has happened by then is in it.
    let line = format!("{} count 1234; exec sleep 1000", programs::scenes());
    let running = Record::program(&["sh", "-c", &line]).start();
    running.wait_for("emitted");
    let (_, said) = ask(&running, "status");
    assert!(said.contains(": 1234 events") && said.contains(" 0 bytes in the buffers"), "{said}");
    running.signal(Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn only_flight_recorders_have_snapshots() {
    let running = Record::scene(&["counting"]).start();
    running.wait_until_recorded();
    running.signal(Signal::SIGUSR2);
    wait_for("an answer", || running.said().1.contains("record with --mode overwrite").then_some(()));
    running.signal(Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}
