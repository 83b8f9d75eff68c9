//! Programs in pid namespaces, and mote in one: names, filters, thresholds, windows work as elsewhere, and it is clear
//! which thread is which on both sides.

use crate::support::command::{json_lines, printed};
use crate::support::kernel::{self, trace_of};
use crate::support::{Record, Trace, has_tool, programs, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;

/// A program under this has a pid namespace of its own, with its `/proc`.
const NAMESPACE: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];
/// Ids of another side are ruled out by so many calls.
const COUNT: u64 = 5;

/// Whether pid namespaces and kernel events can be had; says so when not.
fn are_there() -> bool {
    kernel::is_there() && has_tool("unshare")
}

/// Events as `mote view` shows them, with all that it says of their threads.
fn view(trace: &Trace) -> Vec<Value> {
    let text = printed(trace.mote(&["view", "--format", "json", "--state"]));
    json_lines(&text).filter(|event| event["event"].is_string()).collect()
}

fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// Which thread an event is of, as the thread itself says.
fn own(event: &Value) -> u64 {
    let id = if event["vtid"].is_null() { &event["tid"] } else { &event["vtid"] };
    id.as_u64().unwrap_or_else(|| panic!("of no thread: {event}"))
}

/// Has a program set thresholds, open windows, and read what the kernel publishes of it.
fn cooperating(wrapper: &[&str], inside: &[&str]) -> Trace {
    let count = COUNT.to_string();
    let command = [inside, &[programs::scenes(), "ask", &count, "code", "long"]].concat();
    let options = [
        "-k",
        "sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit",
        "--on",
        "syscalls:*clock_nanosleep if $window",
        "--on",
        "e2e:enter do open kernel for 200s of thread, record",
        "--on",
        // Of the sleep before it, at least.
        "e2e:leave if $kernel.syscalls > 0",
    ];
    Record::program(&command).under(wrapper).with(&options).run().ends_with(0)
}

/// Asserts that both sides have worked together, and are told to be the same thread's: `tid` of the kernel's side,
/// `vtid` of the program's.
#[track_caller]
fn assert_cooperation(trace: &Trace) -> (u64, u64) {
    assert_eq!(trace.printed("published"), 1, "{}", trace.err);
    let events = view(trace);
    let (enter, leave) = (named(&events, "e2e:enter"), named(&events, "e2e:leave"));
    assert_eq!((enter.len() as u64, leave.len() as u64), (COUNT, COUNT), "{}", trace.err);
    let vtid = own(enter[0]);
    let calls = named(&events, "syscall_entry_clock_nanosleep");
    let slow = named(&events, "syscall_slow");
    // Of each round a sleep inside of the function and one behind it; those before the window are not there.
    assert_eq!((calls.len() as u64, slow.len() as u64), (2 * COUNT, COUNT), "{}", trace.err);
    let tid = calls[0]["tid"].as_u64().expect("a thread");
    for event in calls.iter().chain(&slow) {
        assert_eq!((event["tid"].as_u64(), own(event)), (Some(tid), vtid), "{event}");
        assert_eq!(event["thread"], "scenes", "{event}");
    }
    for ((enter, leave), slow) in enter.iter().zip(&leave).zip(&slow) {
        let time = |event: &Value| event["time"].as_u64().expect("a time");
        assert!((time(enter)..=time(leave)).contains(&time(slow)), "{slow}");
        assert_eq!(slow["fields"]["pid"].as_u64(), Some(tid), "{slow}");
    }
    let born = named(&events, "sched_process_fork");
    assert!(born.iter().any(|fork| fork["fields"]["child_tid"] == tid), "nobody forked {tid}: {born:?}");
    let became = named(&events, "sched_process_exec");
    let became = became.iter().rfind(|exec| exec["fields"]["tid"] == tid).expect("its exec");
    assert_eq!((&became["fields"]["old_tid"], own(became)), (&became["fields"]["tid"], vtid));
    (tid, vtid)
}

/// Asserts that the kernel's trace says, also to other readers, what a thread calls itself.
#[track_caller]
fn assert_told(trace: &Trace, tid: u64, vtid: u64) {
    let events = view(&trace_of(trace));
    let told = named(&events, "lttng_statedump_process_pid_ns");
    let is_it = |event: &&&Value| event["fields"]["tid"] == tid && event["fields"]["vtid"] == vtid;
    assert!(told.iter().any(|event| is_it(&event)), "{tid} is {vtid}: {told:?}");
    let counts = named_counts(&events);
    kernel::assert_babeltrace_counts(&trace.path.join("kernel"), &counts);
}

fn named_counts(events: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event["event"].as_str().expect("a name").to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn mote_in_a_container_with_its_command() {
    if !are_there() {
        return;
    }
    let trace = cooperating(&NAMESPACE, &[]);
    let (tid, vtid) = assert_cooperation(&trace);
    assert_eq!(tid, vtid, "both sides have the ids of the namespace");
    assert!(tid < 100, "the namespace has had few threads: {tid}");
}

#[test]
fn mote_outside_of_its_commands_container() {
    if !are_there() {
        return;
    }
    let trace = cooperating(&[], &NAMESPACE);
    let (tid, vtid) = assert_cooperation(&trace);
    assert_eq!(vtid, 1, "the first of its namespace");
    assert_ne!(tid, 1);
    assert_told(&trace, tid, vtid);
}

#[test]
fn containers_in_containers() {
    if !are_there() {
        return;
    }
    let trace = cooperating(&NAMESPACE, &NAMESPACE);
    let (tid, vtid) = assert_cooperation(&trace);
    assert_eq!(vtid, 1, "the first of its namespace");
    assert!((2..100).contains(&tid), "as mote's namespace has it: {tid}");
    assert_told(&trace, tid, vtid);
}

#[test]
fn a_process_by_its_id_in_the_container() {
    if !are_there() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let goes_on = keep.path().join("goes-on");
    std::fs::write(&goes_on, "").expect("a file");
    let script = format!(
        "{} calls-while {} & p=$!; exec \"$@\" -p $p --filter \"\\$pid == $p && sample(5%)\"",
        programs::scenes(),
        goes_on.display()
    );
    let wrapper: Vec<&str> = NAMESPACE.into_iter().chain(["sh", "-c", &script, "sh"]).collect();
    let options = ["-k", "syscalls:*getsid", "--stack=user"];
    let running = Record::nothing().under(&wrapper).with(&options).start();
    let status = || {
        let mut command = std::process::Command::new(programs::mote());
        let output = command.arg("status").arg(running.output()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success() && text.contains("kernel: ") && !text.contains("kernel: 0 events"))
            .then_some(())
    };
    wait_for("kernel events", status);
    std::fs::remove_file(&goes_on).expect("it is there");
    let trace = running.wait().ends_with(0);
    let events = view(&trace_of(&trace));
    let pid = trace.printed("pid");
    assert!(pid < 100, "as the namespace has it: {pid}");
    let calls = named(&events, "syscall_entry_getsid");
    assert!(!calls.is_empty(), "{}", trace.err);
    for call in &calls {
        assert_eq!((call["pid"].as_u64(), &call["thread"]), (Some(pid), &Value::from("scenes")), "{call}");
    }
    let threads: std::collections::BTreeSet<u64> = calls.iter().map(|call| own(call)).collect();
    assert!(threads.contains(&pid), "{threads:?}");
    // The addresses have names: whose they are is known.
    let output = trace.mote(&["view", "--stack", "--event", "syscall_entry_getsid", "-n", "1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("getsid+0x") && text.contains("[libc"), "{text}");
}

#[test]
fn slow_calls_in_a_container() {
    if !are_there() {
        return;
    }
    let options = ["-t", "clock_nanosleep=10ms"];
    let latency = Record::scene(&["naps", "3", "1"]).by("latency").under(&NAMESPACE).with(&options);
    let trace = latency.run().ends_with(0);
    let pid = trace.printed("pid");
    assert!(pid < 100, "as the namespace has it: {pid}");
    assert!(trace.err.contains(&format!("clock_nanosleep of scenes ({pid})")), "{}", trace.err);
    assert!(trace.err.contains("[scenes]"), "the stack has names: {}", trace.err);
}

/// Children that a process forks into other namespaces while it is recorded.
fn assert_children(wrapper: &[&str]) {
    let options = ["-k", "syscalls:*getsid", "-e", "e2e:*"];
    let scene = Record::scene(&["new-namespaces", &COUNT.to_string()]).under(wrapper).with(&options);
    let trace = scene.run().ends_with(0);
    let events = view(&trace);
    for who in ["first", "plain", "joined"] {
        let (tid, vtid) = (trace.printed(who), trace.printed(&format!("own_{who}")));
        assert_eq!(tid == vtid, who == "plain", "{who}: {tid} is {vtid}");
        let calls = named(&events, "syscall_entry_getsid");
        let calls: Vec<&&Value> = calls.iter().filter(|call| call["tid"] == tid).collect();
        assert_eq!(calls.len() as u64, COUNT, "{who}: {}", trace.err);
        assert!(calls.iter().all(|call| own(call) == vtid), "{who}: {calls:?}");
        let before = named(&events, "e2e:before");
        assert_eq!(before.iter().filter(|event| own(event) == vtid).count() as u64, COUNT, "{who}");
        if tid != vtid {
            assert_told(&trace, tid, vtid);
        }
    }
}

#[test]
fn children_in_other_namespaces() {
    if !are_there() {
        return;
    }
    assert_children(&[]);
}

#[test]
fn children_in_other_namespaces_of_a_container() {
    if !are_there() {
        return;
    }
    assert_children(&NAMESPACE);
}

#[test]
fn a_proc_of_another_namespace_gives_no_thread_a_name() {
    if !are_there() {
        return;
    }
    let wrapper = ["unshare", "--pid", "--fork"];
    let options = ["-k", "syscalls:*getsid,sched:sched_process_exec", "-e", "none"];
    let trace = Record::scene(&["calls", "100"]).under(&wrapper).with(&options).run().ends_with(0);
    assert!(trace.err.contains("another pid namespace"), "{}", trace.err);
    let events = view(&trace_of(&trace));
    let calls = named(&events, "syscall_entry_getsid");
    assert_eq!(calls.len(), 100);
    for call in calls {
        assert_eq!(
            (own(call), &call["thread"]),
            (trace.printed("pid"), &Value::Null),
            "nobody's name: {call}"
        );
    }
}
