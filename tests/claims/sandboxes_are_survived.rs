//! Programs that lock themselves in live on while they are recorded: without the time-stamp counter, without system
//! calls.

use crate::support::event::{assert_counts, named};
use crate::support::{Record, Running, Trace, programs, wait_for};
use nix::sys::signal::Signal;
use std::os::unix::fs::FileExt;
use std::process::Command;

const CLOCKS: [&str; 2] = ["tsc", "monotonic"];

/// Each event is in the trace, or counted as lost for want of a clock.
#[track_caller]
fn assert_whole(trace: &Trace) -> u64 {
    let (emitted, without) = (trace.printed("emitted"), trace.lost().get("no_clock").copied().unwrap_or(0));
    assert_eq!(trace.lost_total(), without, "{}", trace.err);
    assert_eq!(trace.events().len() as u64 + without, emitted, "{}", trace.err);
    without
}

/// Events that the recorder has, by its own word.
fn recorded(running: &Running) -> u64 {
    let said = mote(running, &["status"]);
    let number = said.split_once(" s: ").and_then(|(_, rest)| rest.split_once(" events"));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

fn mote(running: &Running, words: &[&str]) -> String {
    let (verb, rest) = words.split_first().expect("a verb");
    let mut command = Command::new(programs::mote());
    let output = command.arg(verb).arg(running.output()).args(rest).output().expect("mote runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_program_that_forbids_the_counter_lives_and_is_recorded_once_the_recorder_has_looked() {
    for clock in CLOCKS {
        let word = Word::new();
        let running = Record::scene(&["no-tsc-until", "1000", word.path()]).with(&["--clock", clock]).start();
        // The first half of them had the counter.
        wait_for("events without it", || (recorded(&running) > 1000).then_some(()));
        word.set();
        let trace = running.wait();
        assert_whole(&trace);
        let events = trace.view();
        assert_counts(&named(&events, "e2e:calm_last"), "seq", 1000);
        let times: Vec<u64> = events.iter().map(|event| event.time).collect();
        assert!(times.is_sorted(), "{clock}");
    }
}

#[test]
fn children_of_a_program_that_forbids_the_counter_are_recorded_from_the_beginning() {
    for (clock, rseq) in [("tsc", 1), ("tsc", 0), ("monotonic", 1), ("monotonic", 0)] {
        let tunables = format!("glibc.pthread.rseq={rseq}");
        let record = Record::scene(&["no-tsc-child", "1000"]).env("GLIBC_TUNABLES", &tunables);
        let trace = record.with(&["--clock", clock]).run().ends_with(0);
        assert!(trace.out.contains("Exited") && assert_whole(&trace) == 0, "{clock} {rseq}: {}", trace.out);
    }
}

#[test]
fn strict_seccomp_leaves_no_clock_and_its_program_lives_to_its_end() {
    for (clock, rseq) in [("tsc", 1), ("tsc", 0), ("monotonic", 1), ("monotonic", 0)] {
        let tunables = format!("glibc.pthread.rseq={rseq}");
        let record = Record::scene(&["strict", "1000"]).env("GLIBC_TUNABLES", &tunables);
        let trace = record.with(&["--clock", clock]).run().ends_with(3);
        assert_eq!(trace.printed("survived"), 1, "{clock} {rseq}");
        assert_eq!(assert_whole(&trace), 1000, "{clock} {rseq}");
    }
}

#[test]
fn a_program_in_a_sandbox_that_kills_lives_and_exits_in_it() {
    for everybody in [&[][..], &["everybody"], &["everybody", "read"]] {
        let trace = Record::scene(&[&["locked", "1000"], everybody].concat()).run().ends_with(0);
        assert_eq!(assert_whole(&trace), 0, "{everybody:?}");
    }
}

/// A file whose first word tells a program, which has mapped it, to end.
struct Word(tempfile::NamedTempFile);

impl Word {
    fn new() -> Word {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(4096).expect("room");
        Word(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("text")
    }

    fn set(&self) {
        self.0.as_file().write_all_at(&[1; 4], 0).expect("written");
    }
}

/// A program that has put all of its threads into a sandbox, and emits until it is told to end.
fn start_locked(word: &Word, options: &[&str]) -> (Running, u64) {
    let running = Record::scene(&["locked", "10", "everybody", "until", word.path()]).with(options).start();
    let pid = running.wait_for("locked");
    running.wait_until_said("has put all of its threads into a sandbox");
    (running, pid)
}

fn is_alive(pid: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

#[test]
fn a_process_with_all_threads_in_a_sandbox_is_sent_nothing() {
    let word = Word::new();
    let (running, pid) = start_locked(&word, &[]);
    mote(&running, &["disable", "e2e:calm"]);
    running.wait_until_said("cannot get new rules; it is recorded by the old ones");
    assert!(is_alive(pid));
    word.set();
    let trace = running.wait().ends_with(3);
    assert_eq!(assert_whole(&trace), 0);
}

#[test]
fn a_recording_that_stops_leaves_processes_in_sandboxes_alone() {
    let word = Word::new();
    let (running, pid) = start_locked(&word, &["--duration", "3s"]);
    wait_for("the recording's end", || (!mote(&running, &["status"]).contains(" s: ")).then_some(()));
    assert!(is_alive(pid));
    word.set();
    let trace = running.wait();
    assert!(trace.printed("emitted") > 20 && trace.summary()["status"] == 0, "{}", trace.err);
}

#[test]
fn a_recorder_that_is_killed_leaves_processes_in_sandboxes_running() {
    for allowed in [&[][..], &["read"]] {
        let word = Word::new();
        let running =
            Record::scene(&[&["locked", "10", "everybody"], allowed, &["until", word.path()]].concat())
                .start();
        let pid = running.wait_for("locked");
        running.wait_until_said("has put all of its threads into a sandbox");
        running.signal(Signal::SIGKILL);
        wait_for("its new parent", || (parent(pid)? != running.pid().as_raw()).then_some(()));
        word.set();
        assert!(running.wait_for("emitted") > 20, "{allowed:?}");
        let _ = running.wait().ends_with(1009);
    }
}

fn parent(pid: u64) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
