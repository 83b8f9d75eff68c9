//! A traced process may write garbage into its rings and lie in its handshake: the recorder does not crash, says so,
//! and the trace is readable.

use crate::support::event::{assert_counts, named};
use crate::support::{Record, Trace, babeltrace, programs};
use std::process::Command;
use std::time::Duration;

/// What every such recording must be: ended in order, readable to the end by both readers.
#[track_caller]
fn assert_survived(trace: &Trace) {
    assert!([0, 3].contains(&trace.status), "status {}: {}", trace.status, trace.err);
    assert!(!trace.err.contains("panicked"), "{}", trace.err);
    trace.summary();
    let view = trace.mote(&["view", "--format", "json"]);
    assert!(matches!(view.status.code(), Some(0..=2)), "mote view: {view:?}");
    assert!(!String::from_utf8_lossy(&view.stderr).contains("panicked"), "{view:?}");
}

#[track_caller]
fn assert_scribbled(how: &str, options: &[&str], rseq: &str) {
    let mut reported = 0;
    for seed in 1..=6u64 {
        let record = Record::scene(&["scribble", &(seed * 7919).to_string(), how]).with(options);
        let trace = record.env("GLIBC_TUNABLES", &format!("glibc.pthread.rseq={rseq}")).run();
        assert_survived(&trace);
        reported += u32::from(!trace.problems().is_empty());
        babeltrace::assert_valid(&trace.path);
    }
    assert!(reported > 0, "nobody said that the rings were damaged");
}

#[test]
fn garbage_in_the_control_words() {
    assert_scribbled("control", &["--buffers", "64kx4"], "1");
}

#[test]
fn garbage_in_the_records() {
    assert_scribbled("records", &["--buffers", "4kx4"], "1");
}

#[test]
fn garbage_everywhere() {
    assert_scribbled("all", &["--buffers", "4kx4"], "1");
}

#[test]
fn garbage_in_a_flight_recorder() {
    assert_scribbled("all", &["--buffers", "4kx4", "--mode", "overwrite"], "1");
}

#[test]
fn garbage_without_rseq() {
    assert_scribbled("all", &["--buffers", "4kx4"], "0");
}

#[test]
fn lies_in_the_handshake() {
    let trace = Record::scene(&["lie"]).run().ends_with(3);
    assert_survived(&trace);
    assert_counts(&named(&trace.events(), "e2e:honest"), "seq", 100);
    let problems = trace.problems().join("\n");
    for word in
        ["malformed first message", "disconnected", "version", "does not belong there", "cannot be recorded"]
    {
        assert!(problems.contains(word), "no '{word}' in {problems}");
    }
}

#[test]
fn one_process_does_not_silence_others() {
    const NAGS: u64 = 700;
    let trace = Record::scene(&["nag", &NAGS.to_string()]).run().ends_with(3);
    let problems = trace.problems();
    let of = |pid: u64| {
        let text = format!("an event of process {pid} cannot be recorded");
        problems.iter().filter(|problem| problem.starts_with(&text)).count() as u64
    };
    let (own, other) = (of(trace.printed("pid")), of(trace.printed("other")));
    assert_eq!(other, 1, "{problems:?}");
    assert!((1..10).contains(&own), "{problems:?}");
    // The others are counted.
    let more = format!("{} more problems of this kind: an event of process", NAGS - own);
    assert_eq!(
        problems.iter().filter(|problem| problem.starts_with(&more)).count(),
        1,
        "{more}: {problems:?}"
    );
    assert!(trace.err.contains(&more), "{}", trace.err);
}

#[test]
fn names_that_a_format_could_stumble_over() {
    for ctf in ["1.8", "2"] {
        let trace = Record::scene(&["odd-names"]).with(&["--ctf", ctf]).run();
        assert_survived(&trace);
        let events = if ctf == "2" { trace.view() } else { trace.events() };
        assert_counts(&named(&events, "e2e:honest"), "seq", 10);
    }
}

#[test]
fn a_door_that_is_shut_from_inside() {
    let running = Record::scene(&["silent"]).start();
    running.wait_for("emitted");
    let ticks = || cpu_ticks(running.pid());
    let before = ticks();
    std::thread::sleep(Duration::from_millis(400));
    let spent = ticks() - before;
    assert!(spent < 15, "the recorder spins: {spent} hundredths of a second of CPU in 0.4 s");
    let trace = running.wait();
    assert_survived(&trace);
    assert_counts(&named(&trace.events(), "e2e:count"), "seq", 10);
}

/// User and system time of a process in clock ticks (proc_pid_stat(5)).
fn cpu_ticks(pid: nix::unistd::Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let behind_name = stat.rsplit_once(") ").expect("a name").1;
    behind_name.split(' ').skip(11).take(2).map(|word| word.parse::<u64>().expect("a number")).sum()
}

/// A process of a user is next to one that damages what both share.
#[track_caller]
fn assert_parted_from(how: &str) {
    if !crate::support::is_root() {
        return;
    }
    let options = ["--buffers", "64kx8", "-e", "e2e:*", "--on", "e2e:honest do count"];
    let running = Record::scene(&["neighbours", "12345", how]).with(&options).start();
    let pid = running.wait_for("pid") as i32;
    running.wait_until_said("each has buffers of its own from now on");
    let status =
        Command::new(programs::mote()).arg("status").arg(running.output()).output().expect("mote runs");
    let status = String::from_utf8_lossy(&status.stdout);
    assert!(status.contains("an unknown number lost"), "{status}");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM)
        .expect("it runs");
    let trace = running.wait().ends_with(3);
    let events = trace.view();
    assert_counts(&named(&events, "e2e:afterwards"), "seq", 1000);
    let (honest, emitted) = (named(&events, "e2e:honest"), trace.printed("honest"));
    assert!(!honest.is_empty() && honest.len() as u64 <= emitted);
    let mut numbers: Vec<u64> = honest.iter().map(|event| event.number("seq")).collect();
    let recorded = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), recorded, "none is there twice");
    assert_eq!(numbers.last(), Some(&(emitted - 1)), "it goes on in the new buffers");
    assert_eq!(
        trace.counts("e2e:honest do count")[""],
        emitted,
        "what filters count is in none of the rings"
    );
    assert!(trace.summary()["lost_unknown"].as_u64().is_some_and(|times| times > 0), "{}", trace.summary());
    babeltrace::assert_valid(&trace.path);
}

#[test]
fn a_hole_in_shared_buffers_costs_the_neighbour_a_moment() {
    assert_parted_from("hole");
}

#[test]
fn positions_that_are_set_back_cost_the_neighbour_a_moment() {
    assert_parted_from("back");
}
