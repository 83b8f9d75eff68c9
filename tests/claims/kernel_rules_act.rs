//! Rules on events of the kernel run in the kernel, and those of both sides act on one another.

use crate::support::event::named;
use crate::support::kernel::{self, Beside, of_thread};
use crate::support::{Record, Running, Trace, has_tool, output_of, programs, wait_for, wait_for_sleeps};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ENTRY: &str = "syscall_entry_getsid";
const EXIT: &str = "syscall_exit_getsid";

#[test]
fn events_are_counted_on_both_sides_in_one_table() {
    if !kernel::is_there() {
        return;
    }
    let options = [
        "-e",
        "e2e:*",
        "--count",
        "by $event",
        "-k",
        "syscalls:*getsid",
        "--count",
        "by $event",
        "--hist",
        "duration_ns",
        "-k",
        "syscalls",
        "--count",
        "by $comm, $event if $pid == $target",
    ];
    let trace = Record::scene(&["calls", "1000"]).with(&options).run().ends_with(0);
    for line in ["e2e:before", "e2e:after", "syscalls:syscall_entry_getsid", "syscalls:syscall_exit_getsid"] {
        let rows = trace.err.lines().filter(|row| row.split_whitespace().next() == Some(line));
        assert!(rows.clone().any(|row| row.contains(" 1000")), "{line}: {}", trace.err);
    }
    assert!(trace.err.contains("duration_ns: 1000 values"), "{}", trace.out);
    let calls = trace
        .aggregates()
        .into_iter()
        .find(|one| one["name"].as_str().is_some_and(|name| name.contains("$comm")));
    let calls = calls.expect("the third").to_string();
    assert!(
        calls.contains("scenes")
            && calls.contains("syscall_entry_getsid")
            && calls.contains("syscall_exit_getsid"),
        "{calls}"
    );
    let recorded = kernel::counts(&trace.view());
    assert!(
        !recorded.keys().any(|name| name.starts_with("e2e:") || name.starts_with("syscall_")),
        "{recorded:?}"
    );
    assert!(trace.aggregates().len() >= 4);
}

#[test]
fn texts_of_system_calls_are_filtered() {
    if !kernel::is_there() {
        return;
    }
    for (filter, there) in [
        ("filename == \"/etc/hostname\"", 1),
        ("filename == \"/etc/host*\" && $comm == \"scenes\"", 1),
        ("contains(filename, \"such\")", 1),
        ("filename == \"*/no*such*le\"", 1),
        ("filename > \"/no/such/fild\" && filename < \"/no/such/filf\"", 1),
        ("filename == \"/etc/hostname2\"", 0),
        ("len(filename) == 13 && filename[5] == 0x68", 1),
        ("flags & O_WRONLY && filename == \"/etc/hostname\"", 0),
    ] {
        let trace = Record::scene(&["opens", "/etc/hostname"]).with(&[
            "-k",
            "syscalls:syscall_entry_openat",
            "--filter",
            filter,
        ]);
        let trace = trace.run().ends_with(0);
        let opens = of_thread(&trace.view(), "syscall_entry_openat", trace.printed("pid")).len();
        assert_eq!(opens, there, "{filter}");
    }
}

#[test]
fn each_event_has_counters_and_last_values_of_its_own() {
    if !kernel::is_there() {
        return;
    }
    let filter = "$pid == $target && first(3) || $delta < 0";
    let trace =
        Record::scene(&["calls", "100"]).with(&["-k", "syscalls", "--filter", filter]).run().ends_with(0);
    let (events, pid) = (trace.view(), trace.printed("pid"));
    for name in [ENTRY, EXIT] {
        assert_eq!(of_thread(&events, name, pid).len(), 3, "{name}: {}", trace.err);
    }
    let mut counts = kernel::counts(&events).into_iter().filter(|(name, _)| name.starts_with("syscall_"));
    assert!(counts.all(|(_, count)| count <= 3), "{}", trace.err);
}

/// Programs for either side.
const OBJECT: &str = r#"
typedef unsigned long u64;
typedef unsigned int u32;
#define SEC(name) __attribute__((section(name), used))
struct { int (*type)[2]; u32 *key; u64 *value; int (*max_entries)[1]; } seen SEC(".maps");
static void *(*lookup)(void *map, const void *key) = (void *)1;
static const char wanted[] = "/etc/hostname";
SEC("filter/syscalls:syscall_entry_getsid") int every_third(u64 *ctx) {
    u32 key = 0;
    u64 *n = lookup(&seen, &key);
    return n && __sync_fetch_and_add(n, 1) % 3 == 0;
}
SEC("filter/syscalls:syscall_entry_openat") int one_name(u64 *ctx) {
    const char *name = (const char *)ctx[1];
    return ctx[2] == sizeof wanted - 1 && *(const u64 *)name == *(const u64 *)wanted;
}
"#;

#[test]
fn programs_of_objects_run_in_the_kernel_too() {
    if !kernel::is_there() || !has_tool("clang") {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let (source, object) = (folder.path().join("two.c"), folder.path().join("two.o"));
    std::fs::write(&source, OBJECT).expect("written");
    let mut clang = std::process::Command::new("clang");
    output_of(clang.args(["-g", "-O2", "-target", "bpf", "-c", "-o"]).args([&object, &source]));
    let object = object.to_str().expect("UTF-8");
    let options =
        ["-k", "syscalls:syscall_entry_getsid,syscalls:syscall_entry_openat", "--filter-file", object];
    let trace = Record::scene(&["calls", "300"]).with(&options).run().ends_with(0);
    assert_eq!(of_thread(&trace.view(), ENTRY, trace.printed("pid")).len(), 100);
    let trace = Record::scene(&["opens", "/etc/hostname"]).with(&options).run().ends_with(0);
    assert_eq!(of_thread(&trace.view(), "syscall_entry_openat", trace.printed("pid")).len(), 1);
}

#[test]
fn a_flag_of_a_program_opens_the_kernel() {
    if !kernel::is_there() {
        return;
    }
    let options = [
        "-e",
        "e2e:before",
        "--on",
        "e2e:before if seq == 600 do set late",
        "-k",
        "syscalls:*getsid",
        "--filter",
        "$flag.late",
    ];
    let trace = Record::scene(&["calls", "1000"]).with(&options).run().ends_with(0);
    let (events, pid) = (trace.view(), trace.printed("pid"));
    assert_eq!(of_thread(&events, ENTRY, pid).len(), 400);
    assert_eq!(of_thread(&events, EXIT, pid).len(), 400);
    let opened = named(&events, "e2e:before")[600].time;
    assert!(of_thread(&events, ENTRY, pid).iter().all(|event| event.time >= opened));
    assert!(trace.err.contains("late"), "{}", trace.err);
}

#[test]
fn a_flag_of_the_kernel_opens_the_program() {
    if !kernel::is_there() {
        return;
    }
    let options = [
        "-e",
        "e2e:*",
        "--filter",
        "$flag.inside",
        "--on",
        "syscalls:syscall_entry_getsid if every(10) do set inside",
        "--on",
        "syscalls:syscall_entry_getsid if !every(10) do clear inside",
    ];
    let trace = Record::scene(&["calls", "100"]).with(&options).run().ends_with(0);
    let events = trace.view();
    // From the call to the next one, which clears it: what follows this call, and what is before the next.
    assert_eq!(named(&events, "e2e:after").len(), 10, "{events:?}");
    assert_eq!(named(&events, "e2e:before").len(), 10, "{events:?}");
}

#[test]
fn a_program_opens_a_window_for_its_thread() {
    if !kernel::is_there() {
        return;
    }
    for (scope, window) in [("", "thread"), (" of process", "process"), (" of all", "all")] {
        let open = format!("e2e:before if seq == 600 do open kernel for 1h{scope}");
        let options = ["-e", "e2e:before", "--on", &open, "-k", "syscalls:*getsid", "--filter", "$window"];
        let trace = Record::scene(&["calls", "1000"]).with(&options).run().ends_with(0);
        let (events, pid) = (trace.view(), trace.printed("pid"));
        assert_eq!(of_thread(&events, ENTRY, pid).len(), 400, "{window}: {}", trace.err);
        // It closes by itself: 50 ms after it was opened last, and then there are 100 ms of naps and more.
        let open = format!("e2e:before if seq >= 6 && seq < 26 do open kernel for 50ms{scope}");
        let options = ["-e", "e2e:*", "--on", &open, "-k", "syscalls:*nanosleep", "--filter", "$window"];
        let trace = Record::scene(&["naps", "126", "0"]).with(&options).run().ends_with(0);
        let (events, pid) = (trace.view(), trace.printed("pid"));
        let (before, after) = (named(&events, "e2e:before"), named(&events, "e2e:after"));
        let calls: Vec<u64> =
            events.iter().filter(|event| event.name.contains("nanosleep")).map(|event| event.time).collect();
        assert!(!calls.is_empty(), "{window}: none of {pid}");
        // The last opening is somewhere between two events of the program.
        let (first, last) = (before[6].time, after[25].time);
        let (closed, whole) = (last + 51_000_000, before[125].time);
        assert!(closed < whole, "{window}: {closed} {whole}");
        assert!(
            calls.iter().all(|time| (first..closed).contains(time)),
            "{window}: {calls:?} {first} {last}"
        );
    }
}

#[test]
fn wakeups_of_the_system_while_the_target_is_blocked() {
    if !kernel::is_there() {
        return;
    }
    let options = [
        "-a",
        "-e",
        "e2e:*",
        "-k",
        "sched:sched_switch",
        "--filter",
        "prev_tid == $target || next_tid == $target",
        "--on",
        "sched:sched_switch if prev_tid == $target && prev_state != 0 do set blocked",
        "--on",
        "sched:sched_switch if next_tid == $target do clear blocked",
        "-k",
        "sched:sched_waking",
        "--filter",
        "$flag.blocked",
    ];
    let trace = Record::scene(&["naps", "50", "0"]).with(&options).run().ends_with(0);
    let (events, pid) = (trace.view(), trace.printed("pid"));
    let mut blocked = false;
    let (mut wakings, mut astray) = (0, 0);
    for event in &events {
        match event.name.as_str() {
            "sched_switch" if event.number("next_tid") == pid => blocked = false,
            "sched_switch" if event.number("prev_tid") == pid => blocked = true,
            "sched_waking" => {
                wakings += 1;
                astray += u32::from(!blocked);
            }
            _ => {}
        }
    }
    // Each nap ends with the waking of the target itself, unless it was over before the target had left its CPU. A
    // waking on one CPU and a switch on the other one are each at some moment between their times and what they do:
    // rarely they are the other way round.
    assert!(wakings >= 40 && astray * 10 <= wakings, "{wakings}, {astray} while it was not blocked");
}

/// The directory of a snapshot that is whole.
fn snapshot(path: &Path, number: u32, said: impl Fn() -> String) -> Trace {
    let mut name = path.file_name().expect("a name").to_owned();
    name.push(format!(".snapshot-{number}"));
    let path = path.with_file_name(name);
    wait_for("the snapshot", || {
        said().contains(&format!("snapshot written: {}", path.display())).then_some(())
    });
    Trace { path, status: 0, out: String::new(), err: String::new(), took: Duration::ZERO, _keep: None }
}

#[test]
fn a_slow_system_call_keeps_what_was_before_it() {
    if !kernel::is_there() {
        return;
    }
    let running = Record::scene(&["naps", "3000", "200"])
        .with(&[
            "--mode",
            "overwrite",
            "-e",
            "e2e:*",
            "-k",
            "syscalls:*nanosleep",
            "--on",
            "syscalls:syscall_exit_clock_nanosleep if duration_ns > 30ms do snapshot",
        ])
        .start();
    let pid = running.wait_for("pid");
    let trace = snapshot(running.output(), 1, || running.said().1);
    running.signal(nix::sys::signal::Signal::SIGTERM);
    let _kept = running.wait();
    let events = trace.view();
    assert!(events.is_sorted_by_key(|event| event.time));
    let exits = of_thread(&events, "syscall_exit_clock_nanosleep", pid);
    let slow =
        exits.iter().find(|exit| exit.number("duration_ns") > 30_000_000).expect("the call that was slow");
    // What the program did before, and not only what it did when it was noticed.
    let before = named(&events, "e2e:before");
    let seqs: Vec<u64> =
        before.iter().filter(|event| event.time < slow.time).map(|event| event.number("seq")).collect();
    // One is slow for certain, and on a busy machine any.
    let calls = exits.iter().filter(|exit| exit.time < slow.time).count() as u64;
    assert!(calls <= 200 && seqs == (0..=calls).collect::<Vec<_>>(), "{calls}: {seqs:?}");
    crate::support::babeltrace::assert_valid(&trace.path);
}

#[test]
fn mote_latency_keeps_what_was_before_a_slow_call() {
    if !kernel::is_there() {
        return;
    }
    let options = ["--threshold", "clock_nanosleep=30ms,*=never", "-e", "e2e:*", "--snapshot=1", "--on"];
    let rule = "e2e:before if seq == 300 do record, emit late(seq = seq)";
    let running = Record::scene(&["naps", "3000", "200"]).by("latency").with(&options).with(&[rule]).start();
    let pid = running.wait_for("pid");
    let trace = snapshot(running.output(), 1, || running.said().1);
    wait_for("the last word", || running.said().1.contains("later slow calls take none").then_some(()));
    running.signal(nix::sys::signal::Signal::SIGTERM);
    let whole = running.wait();
    let events = trace.view();
    assert!(events.is_sorted_by_key(|event| event.time));
    // The call in the snapshot, with its cause, and all that the program did before it.
    let slow = of_thread(&events, "syscall_slow", pid);
    let first = slow.first().expect("the call");
    assert!(first.number("duration") > 30_000_000 && first.number("offcpu") > 0, "{first:?}");
    let before = |name| named(&events, name).iter().filter(|event| event.time < first.time).count() as u64;
    let seqs: Vec<u64> = named(&events, "e2e:before").iter().map(|event| event.number("seq")).collect();
    assert!(
        before("e2e:before") > 0 && seqs.starts_with(&(0..before("e2e:before")).collect::<Vec<_>>()),
        "{seqs:?}"
    );
    // It is recorded when it returns: between the two events.
    assert_eq!(before("e2e:after") + 1, before("e2e:before"));
    crate::support::babeltrace::assert_valid(&trace.path);
    // The recording itself has the newest events, and the call, too.
    assert!(!of_thread(&whole.view(), "syscall_slow", pid).is_empty());
}

/// A verb that asks a running recording.
fn ask(running: &Running, words: &[&str]) -> (bool, String) {
    let (verb, rest) = words.split_first().expect("a verb");
    let mut mote = Command::new(programs::mote());
    let output = mote.arg(verb).arg(running.output()).args(rest).output().expect("mote runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).expect("text"))
}

/// Records calls until the file is taken away; whose.
fn calls_while(folder: &Path, options: &[&str]) -> (Running, PathBuf, u64) {
    let file = folder.join("go");
    std::fs::write(&file, "").expect("written");
    let running = Record::scene(&["calls-while", file.to_str().expect("UTF-8")]).with(options).start();
    let pid = running.wait_for("pid");
    (running, file, pid)
}

#[test]
fn rules_change_and_no_event_is_lost_or_recorded_twice() {
    if !kernel::is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let (running, file, pid) = calls_while(folder.path(), &["-k", ENTRY, "--kernel-buffers", "32M"]);
    for filter in ["$tid > 0", "$pid > 0", "$cpu >= 0", "$tid != 1"] {
        let (done, said) = ask(&running, &["enable", "-k", ENTRY, "--filter", filter]);
        assert!(done, "{said}");
    }
    // An event that was not recorded, counted; and one of another side of the same calls.
    assert!(ask(&running, &["enable", "-k", "sched:sched_switch", "--count", "by prev_comm"]).0);
    assert!(ask(&running, &["enable", "-k", EXIT]).0);
    let (_, status) = ask(&running, &["status"]);
    for line in [
        format!("\n  {ENTRY}: $tid != 1"),
        "\n  sched:sched_switch: by prev_comm".to_owned(),
        format!("\n  {EXIT}"),
        "3 kinds of events on".to_owned(),
        "count by prev_comm".to_owned(),
    ] {
        assert!(status.contains(&line), "{line}: {status}");
    }
    wait_for_sleeps(pid, 10);
    std::fs::remove_file(file).expect("it was there");
    let trace = running.wait().ends_with(0);
    let counts = kernel::counts(&trace.view());
    assert_eq!(counts.get(ENTRY), Some(&trace.printed("calls")), "{}", trace.err);
    assert!(counts[EXIT] > 0 && counts[EXIT] < counts[ENTRY], "{counts:?}");
    assert!(
        !counts.contains_key("sched_switch") && trace.err.contains("count by prev_comm"),
        "{}",
        trace.err
    );
    kernel::assert_babeltrace_counts(
        &trace.path.join("kernel"),
        &kernel::counts(&kernel::trace_of(&trace).view()),
    );
}

#[test]
fn what_is_disabled_is_recorded_no_more() {
    if !kernel::is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let options = ["-e", "e2e:*", "-k", "syscalls:*getsid", "--kernel-buffers", "32M"];
    let (running, file, pid) = calls_while(folder.path(), &options);
    let status = || ask(&running, &["status"]).1;
    let (done, said) = ask(&running, &["disable", "-k", ENTRY]);
    assert!(done && status().contains(&format!("\n  not {ENTRY}")), "{said} {}", status());
    assert!(status().contains("1 kind of event on"), "{}", status());
    wait_for_sleeps(pid, 10);
    // What is refused changes nothing.
    for (words, why) in [
        (&["enable", "-k", EXIT, "--filter", "rett > 3"][..], "rett"),
        (&["enable", "-k", "no:such_event"], "no:such_event"),
        (&["enable", "-k", EXIT, "--on", "syscalls:*getsid do snapshot"], "--mode overwrite"),
        (&["disable", "-k", "sched:sched_switch"], "no recorded kernel event"),
        (&["disable", "-k", ENTRY], "no recorded kernel event"),
    ] {
        let (done, said) = ask(&running, words);
        assert!(!done && said.contains(why), "{words:?}: {said}");
    }
    // Back again, then all of them gone; what is left runs on.
    let passed = || kernel_events(&status());
    assert!(ask(&running, &["enable", "-k", ENTRY, "--filter", "pid >= 0"]).0);
    let now = passed();
    wait_for("more events", || (passed() > now).then_some(()));
    assert!(ask(&running, &["disable", "-k", "syscalls:*getsid", "-k", ENTRY]).0);
    assert!(status().contains("0 kinds of events on"), "{}", status());
    wait_for_sleeps(pid, 10);
    std::fs::remove_file(file).expect("it was there");
    let trace = running.wait().ends_with(0);
    let counts = kernel::counts(&trace.view());
    let calls = trace.printed("calls");
    assert!(counts[ENTRY] < counts[EXIT] && counts[EXIT] < calls, "{counts:?} of {calls}");
    let (running, file, _) = calls_while(folder.path(), &["-e", "e2e:*"]);
    wait_for("the control socket", || ask(&running, &["status"]).0.then_some(()));
    let (done, said) = ask(&running, &["enable", "-k", "sched"]);
    assert!(!done && said.contains("begin the recording with -k"), "{said}");
    std::fs::remove_file(file).expect("it was there");
    running.wait().ends_with(0);
}

/// How many events of the kernel a recording has, by its status.
fn kernel_events(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("kernel: ")).expect("a line");
    line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn what_a_side_cannot_do_is_refused_before_the_command_starts() {
    for (options, why) in [
        (
            ["-k", "sched:sched_switch", "--filter", "$exe == \"x\""],
            "there is no `$exe` on the kernel's side",
        ),
        (
            ["-k", "sched:sched_switch", "--on", "sched:sched_switch do speculate"],
            "records are not kept aside on the kernel's side",
        ),
        (["-e", "e2e:before", "--filter", "$window"], "there is no `$window` in the traced process"),
    ] {
        if options[0] == "-k" && !kernel::is_there() {
            continue;
        }
        let trace = Record::scene(&["calls", "1"]).with(&options).run().ends_with(2);
        assert!(trace.err.contains(why), "{}", trace.err);
        assert!(!trace.path.exists() || trace.out.is_empty(), "{}", trace.out);
    }
}

/// A process is switched to in other threads, whose contexts are absent: conditions with them fail, tables leave them
/// out.
#[test]
fn contexts_are_of_recorded_threads() {
    if !kernel::is_there() {
        return;
    }
    let beside = Beside::scene(&["calls-until-killed"]);
    let (pid, text) = (beside.pid(), beside.pid().to_string());
    let on = |rule: &str| ["--on".to_owned(), format!("sched:sched_switch {rule}")];
    let rules = [
        on("do count by $comm, $pid, $tid"),
        on("if $tid > 0 || prev_tid >= 0 do count by prev_tid, prev_comm"),
        on("do count by $cpu, count by $pid"),
    ];
    let mut options = vec!["-k", "sched:sched_switch", "--stack=both", "-p", &text, "--duration", "500ms"];
    options.extend(rules.iter().flatten().map(String::as_str));
    let trace = Record::nothing().with(&options).run().ends_with(0);
    let (mut own, mut to_it) = (0, 0);
    for event in named(&trace.view(), "sched_switch") {
        let frames = |field: &str| event.fields[field].as_array().expect("addresses").len();
        if event.tid == pid {
            assert!(frames("callstack_kernel") > 0, "{event:?}");
            own += 1;
        } else {
            assert_eq!(event.number("next_tid"), pid);
            assert_eq!((frames("callstack_kernel"), frames("callstack_user")), (0, 0), "{event:?}");
            to_it += 1;
        }
    }
    assert!(own > 0 && to_it > 0, "{own} {to_it}");
    let all = trace.aggregates();
    let [threads, conditional, switches, of_process] = &all[..] else { panic!("{all:?}") };
    let rows = |of: &Value| of["rows"].as_array().expect("rows").clone();
    let counted =
        |of: &Value| rows(of).iter().map(|row| row["count"].as_u64().expect("a number")).sum::<u64>();
    for (table, key) in
        [(threads, "$pid"), (threads, "$tid"), (conditional, "prev_tid"), (of_process, "$pid")]
    {
        assert!(rows(table).iter().all(|row| row["keys"][key] == pid), "{key}: {table}");
        assert_eq!(counted(table), own, "{key}: {table}");
    }
    assert!(rows(threads).iter().all(|row| row["keys"]["$comm"] == "scenes"), "{threads}");
    assert_eq!(counted(switches), own + to_it, "{switches}");
}
