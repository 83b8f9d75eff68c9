//! A process is in several recordings at the same time: each has exactly the events that it wants, from its beginning
//! to its end, whatever the others do.

use crate::support::command::text;
use crate::support::event::{assert_counts, by, named};
use crate::support::{Event, Record, Running, Trace, programs, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory for the inner one of two recordings.
fn inner_directory() -> (tempfile::TempDir, PathBuf) {
    let keep = tempfile::tempdir().expect("a directory");
    let path = keep.path().join("inner");
    (keep, path)
}

/// A recording with these options of a command, in a recording.
fn nested(inner: &Path, options: &[&str], command: &[&str]) -> Record {
    let record = [text(programs::mote()), "record", "-q", "-o", text(inner)];
    Record::program(&[&record[..], options, &["--"], command].concat())
}

fn trace_at(path: &Path) -> Trace {
    let (out, err, took) = (String::new(), String::new(), Duration::ZERO);
    Trace { path: path.to_owned(), status: 0, out, err, took, _keep: None }
}

fn numbers(events: &[Event], name: &str, field: &str) -> Vec<u64> {
    named(events, name).iter().map(|event| event.number(field)).collect()
}

fn terminate(pid: u64) {
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).expect("it runs");
}

/// How many events each thread of `steady` has emitted.
fn emitted(trace: &Trace) -> BTreeMap<u64, u64> {
    (0..)
        .map_while(|who| Some((who, crate::support::record::value_of(&trace.out, &format!("thread-{who}"))?)))
        .collect()
}

/// Asserts that a recording which was there from the first event to the last has all those whose number is a multiple
/// of `step`.
#[track_caller]
fn assert_all(trace: &Trace, emitted: &BTreeMap<u64, u64>, step: u64) {
    let events = trace.view();
    let threads = by(&named(&events, "e2e:steady"), "who");
    for (who, count) in emitted {
        let got: Vec<u64> = threads[who].iter().map(|event| event.number("seq")).collect();
        let expected: Vec<u64> = (0..*count).step_by(step as usize).collect();
        assert!(got == expected, "thread {who}: {} of {} events", got.len(), expected.len());
    }
    assert_eq!(trace.lost_total(), 0, "lost");
}

/// Asserts that a recording which came and went has all events with `seq % step == rest` of its time, and no others.
/// Returns how many.
#[track_caller]
fn assert_window(trace: &Trace, step: u64, rest: u64) -> usize {
    let events = trace.view();
    assert_eq!(named(&events, "e2e:steady").len(), events.len(), "others");
    for (who, events) in by(&named(&events, "e2e:steady"), "who") {
        let got: Vec<u64> = events.iter().map(|event| event.number("seq")).collect();
        assert!(got.iter().all(|seq| seq % step == rest), "thread {who} has others");
        let gap = got.windows(2).find(|pair| pair[1] != pair[0] + step);
        assert_eq!(gap, None, "thread {who} has a gap");
        let named = events.iter().all(|event| event.thread == Some(format!("steady-{who}")));
        assert!(named, "thread {who} has no name");
    }
    assert_eq!(trace.lost_total(), 0, "lost");
    events.len()
}

fn steady(threads: &str, pause: &str, options: &[&str]) -> (Running, u64) {
    let running = Record::scene(&["steady", threads, pause]).with(options).start();
    running.wait_for("started");
    let pid = running.wait_for("pid");
    (running, pid)
}

#[test]
fn each_has_its_own_filter() {
    let (_keep, path) = inner_directory();
    let inner = ["-e", "e2e:count", "--filter", "seq < 10"];
    let outer = ["-e", "e2e:count", "--filter", "seq % 3 == 0"];
    let outer = nested(&path, &inner, &[programs::scenes(), "count", "100"]).with(&outer).run().ends_with(0);
    let expected: Vec<u64> = (0..100).step_by(3).collect();
    assert_eq!(numbers(&outer.events(), "e2e:count", "seq"), expected);
    let inner = trace_at(&path);
    assert_eq!(numbers(&inner.events(), "e2e:count", "seq"), (0..10).collect::<Vec<_>>());
    assert_eq!((outer.lost_total(), inner.lost_total()), (0, 0));
}

#[test]
fn each_has_its_own_counts_and_speculations() {
    let (_keep, path) = inner_directory();
    let rules = [
        "-e",
        "http:*",
        "--on",
        "http:begin do speculate",
        "--on",
        "http:end if status >= 500 do commit",
        "--on",
        "http:end do discard",
    ];
    let command = [programs::scenes(), "http", "2", "100"];
    let alone = Record::program(&command).with(&rules).run().ends_with(0);
    let counting = ["-e", "http:end", "--count", "by status"];
    let outer = nested(&path, &counting, &command).with(&rules).run().ends_with(0);
    let kinds = |trace: &Trace| {
        let mut kinds = BTreeMap::<String, u64>::new();
        trace.view().into_iter().for_each(|event| *kinds.entry(event.name).or_default() += 1);
        kinds
    };
    assert!(kinds(&alone)["http:end"] > 0);
    assert_eq!(kinds(&outer), kinds(&alone));
    let inner = trace_at(&path);
    assert_eq!(inner.view().len(), 0, "it only counts");
    let table = std::fs::read_dir(path.join("mote")).expect("a directory").flatten();
    let text: String = table.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect();
    assert!(text.contains("500"), "{text}");
}

#[test]
fn children_and_new_programs_are_in_both() {
    for scene in [["fork", "3", "50"], ["exec", "100", ""], ["close-all", "100", ""]] {
        let (_keep, path) = inner_directory();
        let command = [&[programs::scenes()], &scene[..]].concat();
        let command: Vec<&str> = command.into_iter().filter(|word| !word.is_empty()).collect();
        let outer = nested(&path, &[], &command).run().ends_with(0);
        let inner = trace_at(&path);
        let seen = |trace: &Trace| {
            let mut seen: Vec<String> = trace
                .events()
                .iter()
                .map(|event| format!("{} {} {:?}", event.name, event.tid, event.fields))
                .collect();
            seen.sort();
            seen
        };
        assert!(seen(&inner).len() > 50, "{scene:?}");
        assert_eq!(seen(&outer), seen(&inner), "{scene:?}");
    }
}

#[test]
fn a_library_that_is_loaded_later_is_in_both() {
    let plugin = programs::plugin();
    let (_keep, path) = inner_directory();
    let command = [programs::scenes(), "dlopen", text(&plugin), "1000", "2"];
    let inner = ["-e", "plugin:*", "--filter", "seq < 500"];
    let outer =
        nested(&path, &inner, &command).with(&["-e", "plugin:*"]).env("MOTE_HOP", "1").run().ends_with(0);
    assert_counts(&named(&outer.events(), "plugin:work"), "seq", 1000);
    assert_counts(&named(&trace_at(&path).events(), "plugin:work"), "seq", 500);
}

#[test]
fn one_ends_and_the_other_goes_on() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let (outer, pid) = steady("2", "2000", &["-e", "e2e:steady", "--filter", "seq % 16 == 0"]);
        let joined = Record::process(pid).with(&["-e", "e2e:steady", "--filter", "seq % 8 == 3"]).start();
        joined.wait_until_recorded();
        joined.signal(signal);
        let joined = joined.wait();
        std::thread::sleep(Duration::from_millis(300));
        terminate(pid);
        let outer = outer.wait().ends_with(0);
        assert_all(&outer, &emitted(&outer), 16);
        if signal == Signal::SIGINT {
            assert!(assert_window(&joined, 8, 3) > 0);
        }
    }
}

#[test]
fn the_first_ends_and_the_second_goes_on() {
    for signal in [Signal::SIGUSR1, Signal::SIGKILL] {
        // The program outlives the first recorder: by its --duration, or because that is killed.
        let duration = if signal == Signal::SIGKILL { "1h" } else { "2s" };
        let options = ["-e", "e2e:steady", "--filter", "seq % 16 == 0", "--duration", duration];
        let (first, pid) = steady("2", "2000", &options);
        let second = Record::process(pid).with(&["-e", "e2e:steady", "--filter", "seq % 8 == 3"]).start();
        second.wait_until_recorded();
        if signal == Signal::SIGKILL {
            first.signal(signal);
        } else {
            first.wait_until_said("recording has ended");
        }
        // Long enough for events to go to the second one directly again.
        std::thread::sleep(Duration::from_millis(5500));
        terminate(pid);
        let second = second.wait().ends_with(0);
        let first = first.wait();
        assert!(assert_window(&second, 8, 3) > 0);
        let events = second.view();
        let last = events.last().expect("events").time;
        let ended = first.view().last().expect("events").time;
        assert!(last > ended + 1_000_000_000, "the second goes on");
        for (who, count) in if signal == Signal::SIGKILL { BTreeMap::new() } else { emitted(&first) } {
            let seqs = by(&named(&events, "e2e:steady"), "who");
            let newest = seqs[&who].last().expect("events").number("seq");
            assert!(newest + 8 >= count, "thread {who}: the newest is {newest} of {count}");
        }
    }
}

#[test]
fn twenty_join_and_leave_while_threads_emit() {
    let (stays, pid) = steady("2", "0", &["-e", "e2e:steady", "--filter", "seq % 4096 == 0"]);
    let mut here = std::collections::VecDeque::new();
    let leave = |(running, round): (Running, u64)| {
        running.wait_until_recorded();
        running.signal(Signal::SIGINT);
        assert!(assert_window(&running.wait().ends_with(0), 1024, round) > 0);
    };
    for round in 1..=20u64 {
        let filter = format!("seq % 1024 == {round}");
        here.push_back((
            Record::process(pid).with(&["-e", "e2e:steady", "--filter", &filter]).start(),
            round,
        ));
        // Up to three at a time, beside what stays.
        if here.len() > 2 {
            here.pop_front().into_iter().for_each(leave);
        }
    }
    here.into_iter().for_each(leave);
    terminate(pid);
    let stays = stays.wait().ends_with(0);
    assert_all(&stays, &emitted(&stays), 4096);
}

#[test]
fn what_stays_unfiltered_has_or_has_lost_every_event() {
    let (stays, pid) = steady("2", "1000", &["-e", "e2e:steady", "--buffers", "1Mx4"]);
    for _ in 0..5 {
        let options = ["-e", "e2e:steady", "--duration", "100ms", "--buffers", "128M"];
        let window = Record::process(pid).with(&options).run();
        assert_eq!(window.lost_total(), 0);
    }
    terminate(pid);
    let stays = stays.wait();
    let recorded = stays.summary()["events"]["e2e:steady"].as_u64().expect("a count");
    assert_eq!(recorded + stays.lost_total(), stays.printed("emitted"));
}

#[test]
fn children_of_a_joined_process_are_followed() {
    let outer = Record::scene(&["family", programs::scenes()]).with(&["-x", "*"]).start();
    outer.wait_for("started");
    let pid = outer.wait_for("pid");
    let joined = Record::process(pid).start();
    joined.wait_until_recorded();
    let rounds = || outer.said().0.lines().filter(|line| line.starts_with("round ")).count();
    let seen = rounds();
    wait_for("more children", || (rounds() >= seen + 12).then_some(()));
    terminate(pid);
    let (joined, outer) = (joined.wait().ends_with(0), outer.wait().ends_with(0));
    assert_eq!(outer.view().len(), 0, "it wants nothing");
    let events = joined.view();
    let rounds = numbers(&events, "e2e:round", "round");
    let (first, last) = (rounds[0], rounds[rounds.len() - 1]);
    assert_eq!(rounds, (first..=last).collect::<Vec<_>>());
    let forked = by(&named(&events, "e2e:forked"), "who");
    // The child that was made as the recording came may have been missed.
    for round in first + 1..=last {
        assert_counts(&forked[&round], "seq", 10);
    }
    assert!(last > first + 5, "{first} to {last}");
    // Programs that children become are asked as soon as they are there: their first events may be missed.
    assert_eq!(joined.lost_total(), 0);
}

#[test]
fn too_many_are_refused() {
    let keep = tempfile::tempdir().expect("a directory");
    let paths: Vec<PathBuf> = (0..8).map(|number| keep.path().join(format!("inner-{number}"))).collect();
    let mut command = Vec::new();
    for path in &paths {
        command.extend([text(programs::mote()), "record", "-q", "-o", text(path), "--"]);
    }
    command.extend([programs::scenes(), "count", "10"]);
    let outer = Record::program(&command).with(&["-e", "e2e:count"]).run().ends_with(3);
    for path in &paths {
        assert_counts(&named(&trace_at(path).view(), "e2e:count"), "seq", 10);
    }
    assert_eq!(outer.view().len(), 0, "the ninth");
    assert!(
        outer.problems().iter().any(|text| text.contains("8 other recordings")),
        "{:?}",
        outer.problems()
    );
}

/// A program that ends with the claim, however that ends.
struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It has ended already, most often.
        let _ = self.0.kill();
    }
}

/// Runs `steady` by itself, without a recording, while `work` has its process id.
fn untraced(threads: &str, pause: &str, work: impl FnOnce(u64)) {
    let keep = tempfile::tempdir().expect("a directory");
    let out = keep.path().join("out");
    let mut command = std::process::Command::new(programs::scenes());
    command.args(["steady", threads, pause]).env_remove("MOTE_SESSION");
    command.stdout(std::fs::File::create(&out).expect("a file"));
    let mut child = Ending(command.spawn().expect("scenes"));
    let said = || std::fs::read_to_string(&out).unwrap_or_default();
    wait_for("its start", || crate::support::record::value_of(&said(), "started"));
    work(child.0.id().into());
    terminate(child.0.id().into());
    assert!(child.0.wait().expect("our child").success(), "the program was disturbed");
    assert!(crate::support::record::value_of(&said(), "emitted").expect("a count") > 0);
}

#[test]
fn a_process_that_is_not_recorded_yet_joins() {
    // A recording finds others where its own sockets are.
    let place = tempfile::tempdir().expect("a directory");
    let sockets = place.path().to_str().expect("a path");
    untraced("2", "2000", |pid| {
        let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").count();
        let before = threads();
        for round in 0..3 {
            let options = ["-e", "e2e:steady", "--filter", "seq % 8 == 3"];
            let first = Record::process(pid).with(&options).env("XDG_RUNTIME_DIR", sockets).start();
            first.wait_until_recorded();
            // A second one finds it being recorded.
            let second = Record::process(pid).with(&options).env("XDG_RUNTIME_DIR", sockets).start();
            second.wait_until_recorded();
            for running in [first, second] {
                running.signal(Signal::SIGINT);
                let trace = running.wait().ends_with(0);
                assert!(assert_window(&trace, 8, 3) > 0, "round {round}");
                assert_eq!(trace.facts("process")[0]["how"], "attach");
            }
            wait_for("the agent's thread to end", || (threads() == before).then_some(()));
        }
    });
}

#[test]
fn a_process_without_events_cannot_be_joined() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
    let trace = Record::process(child.id().into()).run().ends_with(2);
    assert!(trace.err.contains("cannot record the events of process"), "{}", trace.err);
    let _ = child.kill();
    let _ = child.wait();
    wait_for("its end", || kill(Pid::from_raw(child.id() as i32), None).is_err().then_some(()));
    let gone = Record::process(child.id().into()).run().ends_with(2);
    assert!(gone.err.contains("no such process") || gone.err.contains("ESRCH"), "{}", gone.err);
}
