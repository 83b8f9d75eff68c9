//! A recording says when it has begun, what it does not do, and writes nothing into the output of the program that it
//! records.

use crate::support::command::json_lines;
use crate::support::kernel::{self, Beside};
use crate::support::{Event, Record, programs};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// Runs `mote record` as a script does: a shell gives it descriptor 9, which is a pipe to `cat`.
fn with_descriptor(words: &str) -> (String, String) {
    let keep = tempfile::tempdir().expect("a directory");
    let script = format!(
        "{{ {} record -o {}/trace --ready-fd 9 {words} 9>&1 >/dev/null; }} | cat",
        programs::mote().display(),
        keep.path().display()
    );
    let done = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let text =
        |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(&keep.path().display().to_string(), "DIR");
    (text(done.stdout), text(done.stderr))
}

#[test]
fn a_script_is_told_when_it_has_begun() {
    let (told, said) = with_descriptor(&format!("-- {} net 10", programs::scenes()));
    assert_eq!(told, "DIR/trace\n", "{said}");
    assert!(said.contains("recording ") && said.contains(" into DIR/trace"), "{said}");
}

#[test]
fn of_a_running_process_when_its_events_are_on() {
    let beside = Beside::scene(&["net-until"]);
    let (told, said) = with_descriptor(&format!("-p {} --duration 300ms", beside.pid()));
    if said.contains("cannot record the events of process") {
        return crate::support::skip("running processes cannot be joined here");
    }
    assert_eq!(told, "DIR/trace\n", "{said}");
    assert!(said.contains(&format!("recording process {} into DIR/trace", beside.pid())), "{said}");
}

#[test]
fn a_descriptor_that_is_not_open_is_refused_at_once() {
    let run = Record::scene(&["net", "10"]).with(&["--ready-fd", "77"]).run();
    assert!(run.status == 2 && run.err.contains("descriptor 77"), "{}", run.err);
    assert!(run.out.is_empty() && !run.path.exists());
}

#[test]
fn rules_that_record_nothing_are_refused_at_once() {
    for rule in ["net:packet do set seen", "net:packet if len > 5 do clear seen"] {
        let run = Record::scene(&["net", "10"]).with(&["--on", rule]).run();
        assert!(run.status == 2 && run.err.contains("no event is chosen"), "{rule}: {}", run.err);
        assert!(run.err.contains("-e '*'") && run.out.is_empty(), "{rule}: {}", run.err);
    }
}

#[test]
fn counts_stay_out_of_the_output_of_the_program() {
    let counts = ["-e", "net:packet", "--count", "by proto", "--interval", "5ms"];
    let trace = Record::scene(&["net", "4000"]).with(&counts).run().ends_with(0);
    let alone = Command::new(programs::scenes()).args(["net", "4000"]).output().expect("it runs");
    assert_eq!(trace.out, String::from_utf8_lossy(&alone.stdout));
    assert!(trace.err.contains("tcp4"), "{}", trace.err);
    assert!(trace.err.contains("counted into") && !trace.err.contains("mote view"), "{}", trace.err);
    assert!(!trace.err.contains("events "), "{}", trace.err);
}

#[test]
fn without_a_program_they_are_the_output() {
    if !kernel::is_there() {
        return;
    }
    let count = ["-k", "syscalls", "-a", "--duration", "200ms", "--count", "by $pid"];
    let trace = Record::nothing().with(&count).run().ends_with(0);
    assert!(trace.out.contains("count by $pid of syscalls"), "{} {}", trace.out, trace.err);
    assert!(trace.err.contains("counted into"), "{}", trace.err);
}

#[test]
fn the_state_at_the_start_is_shown_when_it_is_asked_for() {
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["calls", "5"]).with(&["-k", "syscalls:*getsid"]).run().ends_with(0);
    let shown = |words: &[&str]| String::from_utf8_lossy(&trace.mote(words).stdout).into_owned();
    for words in [&["view"][..], &["view", "--event", "*"], &["report"]] {
        assert!(!shown(words).contains("statedump"), "{words:?}");
    }
    for words in [&["view", "--state"][..], &["view", "--provider", "statedump"]] {
        assert!(shown(words).contains("lttng_statedump_start"), "{words:?}");
    }
    assert!(trace.err.contains("of the system's state at the start"), "{}", trace.err);
}

#[test]
fn of_the_whole_system_is_without_the_recorder() {
    if !kernel::is_there() {
        return;
    }
    let beside = Beside::scene(&["calls-until-killed"]);
    let options = ["-k", "syscalls,sched:sched_switch", "-a", "--duration", "300ms"];
    let mut running = Record::nothing().with(&options).start();
    let recorder = u64::from(running.pid().as_raw().unsigned_abs());
    let mut threads = BTreeSet::new();
    while !running.has_ended() {
        threads.extend(threads_now(recorder));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(threads.len() > 1 && threads.contains(&recorder), "{threads:?}");
    let trace = running.wait().ends_with(0);
    let events = trace.view();
    let calls = |thread: u64| {
        let is_call = |name: &str| name.starts_with("syscall_");
        events.iter().filter(|event| event.tid == thread && is_call(&event.name)).count()
    };
    assert!(calls(beside.pid()) > 20, "{}", trace.err);
    for thread in threads {
        assert_eq!(calls(thread), 0, "calls of the recorder's thread {thread}");
    }
    let switched = |event: &&Event| event.name == "sched_switch" && event.number("next_tid") == recorder;
    assert!(events.iter().any(|event| switched(&event)), "the CPUs' time is whole");
}

/// The threads that a process has at the moment.
fn threads_now(process: u64) -> Vec<u64> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn stacks_are_those_of_the_threads_that_were_chosen() {
    if !kernel::is_there() {
        return;
    }
    let beside = Beside::scene(&["calls-until-killed"]);
    let pid = beside.pid().to_string();
    let options = ["-p", &pid, "-k", "sched:sched_switch", "--stack=kernel", "--duration", "300ms"];
    let trace = Record::nothing().with(&options).run().ends_with(0);
    let shown = trace.mote(&["view", "--stack", "--format", "json"]);
    let (mut own, mut others) = (0, 0);
    for event in json_lines(&String::from_utf8(shown.stdout).expect("text")) {
        let depth = event["stack"]["kernel"].as_array().map_or(0, Vec::len);
        match event["tid"] == beside.pid() {
            true => own += usize::from(depth > 2),
            false => {
                assert_eq!(depth, 0, "{event}");
                assert_eq!(event["fields"]["next_tid"], beside.pid(), "{event}");
                others += 1;
            }
        }
    }
    assert!(own > 0 && others > 0, "{own} of its own, {others} of others");
}
