//! `mote record -p` of a process that was not started by a recorder: the thread that is sent into joining comes back
//! with everything as it was, its call goes on, and no moment at which the recorder is killed harms the process.

use crate::support::{
    Record, Running, Trace, copy_program, has_tool, is_root, killer, programs, record, wait_for,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// restart_syscall(2), by which the kernel goes on with a call that has a time limit.
const RESTART: &str = "219";

/// A scene that runs by itself, until SIGTERM or the end of the claim.
struct Scene {
    child: Child,
    keep: TempDir,
}

impl Scene {
    fn start(words: &[&str]) -> Scene {
        let keep = tempfile::tempdir().expect("a directory");
        let out = File::create(keep.path().join("out")).expect("a file");
        let mut command = Command::new(programs::scenes());
        // Where threads block signals sites are patched on any processor.
        command.args(words).env_remove("MOTE_SESSION").env("MOTE_HOP", "1").stdout(out);
        let scene = Scene { child: command.spawn().expect("scenes"), keep };
        scene.wait_for("started");
        scene
    }

    fn pid(&self) -> u64 {
        self.child.id().into()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    fn said(&self, name: &str) -> Option<u64> {
        record::value_of(&fs::read_to_string(self.keep.path().join("out")).unwrap_or_default(), name)
    }

    fn wait_for(&self, name: &str) -> u64 {
        wait_for(name, || self.said(name))
    }

    /// Number of the system call that its first thread is in.
    fn call(&self) -> String {
        let line = fs::read_to_string(format!("/proc/{}/syscall", self.pid())).expect("it runs");
        line.split(' ').next().unwrap_or_default().trim().to_owned()
    }

    fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs").count()
    }

    /// Waits until it sleeps in a call.
    fn wait_until_it_waits(&self) -> String {
        wait_for("a call", || Some(self.call()).filter(|call| call.parse::<u64>().is_ok()))
    }

    /// Waits until no thread of ours is in it.
    fn wait_until_alone(&self) {
        wait_for("our thread to end", || (self.threads() == 1).then_some(()));
    }

    fn end(mut self) -> Scene {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().expect("our child");
        assert!(status.success(), "{status}: {:?}", fs::read_to_string(self.keep.path().join("out")));
        self
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the process's sites are on: `mote list` says so.
fn wait_until_on(pid: u64) {
    wait_for("events that are on", || {
        let listed =
            Command::new(programs::mote()).args(["list", &pid.to_string()]).output().expect("mote list");
        String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.contains(" on ")).then_some(())
    });
}

/// Joins a process, and waits until it is in the recording.
fn joined(pid: u64, sockets: &TempDir) -> Running {
    let record = Record::process(pid).with(&["-e", "e2e:*"]);
    let running = record.env("XDG_RUNTIME_DIR", sockets.path().to_str().expect("a path")).start();
    wait_until_on(pid);
    running
}

fn sockets() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Calls with a signal mask of their own: whether the thread blocks SIGTRAP behind it is not to be seen, so that some
/// sites are not patched while it is there.
const MASKING: [&str; 4] = ["ppoll", "sigsuspend", "sigwait", "signals"];

#[track_caller]
fn assert_recorded(trace: Trace, kind: &str) -> Trace {
    let unpatched = MASKING.contains(&kind) && trace.err.contains("could not be patched safely");
    trace.ends_with(if unpatched { 3 } else { 0 })
}

#[track_caller]
fn assert_goes_on(kind: &str, then: Option<&str>) {
    assert_eq!(returns_after_three_joins(kind, then), Some(1), "{kind}: returns");
}

/// How often the call of a process has returned that is joined three times, and goes on as it was.
#[track_caller]
fn returns_after_three_joins(kind: &str, then: Option<&str>) -> Option<u64> {
    let sockets = sockets();
    let scene = Scene::start(&["waits", kind]);
    let before = scene.wait_until_it_waits();
    for round in 0..2 {
        let running = joined(scene.pid(), &sockets);
        let now = scene.wait_until_it_waits();
        assert_eq!(now, then.unwrap_or(&before), "{kind}, round {round}");
        running.signal(Signal::SIGINT);
        assert_recorded(running.wait(), kind);
        scene.wait_until_alone();
    }
    let running = joined(scene.pid(), &sockets);
    let scene = scene.end();
    let trace = assert_recorded(running.wait(), kind);
    assert_eq!(scene.said("others"), Some(0), "{kind}: registers, flags and red zone");
    assert_eq!(scene.said("mask-changed"), Some(0), "{kind}: the signal mask");
    if !MASKING.contains(&kind) {
        assert_eq!(
            trace.summary()["events"]["e2e:returned"],
            1,
            "{kind}: what it does after that is recorded"
        );
    }
    scene.said("returned")
}

#[test]
fn calls_without_a_limit_are_begun_again() {
    let kinds = [
        "read",
        "recv",
        "ppoll",
        "select",
        "pause",
        "sigsuspend",
        "sigwait",
        "futex",
        "epoll",
        "wait4",
        "semop",
        "flock",
    ];
    kinds.iter().for_each(|kind| assert_goes_on(kind, None));
}

#[test]
fn calls_with_a_limit_go_on_with_the_time_that_is_left() {
    let kinds = ["nanosleep", "clock-nanosleep", "poll", "poll-limited", "futex-limited"];
    kinds.iter().for_each(|kind| assert_goes_on(kind, Some(RESTART)));
}

#[test]
fn calls_that_any_stop_ends_are_ended_once_a_join() {
    // epoll_wait(2) with a limit: the kernel does not begin it again after a stop, and does not tell how much of it was
    // left. On a machine that stands still for a second a thread is stopped again, which is not asked here.
    assert!(
        (0..3).any(|_| returns_after_three_joins("epoll-limited", None) == Some(4)),
        "one for each join, and the last"
    );
}

#[test]
fn no_signal_is_lost_while_recorders_come_and_go() {
    let sockets = sockets();
    let scene = Scene::start(&["waits", "signals"]);
    let mut count = 0;
    let mut acknowledge = || {
        count += 1;
        scene.signal(Signal::SIGUSR1);
        scene.wait_for(&format!("acknowledged-{count}"));
    };
    for _ in 0..10 {
        let record =
            Record::process(scene.pid()).env("XDG_RUNTIME_DIR", sockets.path().to_str().expect("a path"));
        let running = record.start();
        while scene.threads() == 1 {
            acknowledge();
        }
        (0..10).for_each(|_| acknowledge());
        running.signal(Signal::SIGINT);
        // What came before its sites were on is not recorded; nothing else is asked here.
        running.wait();
        while scene.threads() > 1 {
            acknowledge();
        }
    }
    let scene = scene.end();
    assert_eq!(scene.said("others"), Some(0));
    assert_eq!(scene.said("mask-changed"), Some(0));
    assert_eq!(scene.said("returned"), Some(count + 1));
}

/// A recording of a scene that cannot be joined; what the recorder says.
#[track_caller]
fn refused(scene: &Scene) -> String {
    let trace = Record::process(scene.pid()).with(&["-e", "e2e:*"]).run();
    assert!([2, 3].contains(&trace.status), "status {}: {}", trace.status, trace.err);
    trace.err.clone()
}

#[test]
fn code_that_never_ends_is_given_up_and_left() {
    let scene = Scene::start(&["hostile-join", "jump"]);
    scene.wait_until_it_waits();
    let said = refused(&scene);
    assert!(said.contains("did not answer within 10 s"), "{said}");
    scene.wait_until_it_waits();
    assert_unharmed(&scene.end());
}

#[test]
fn ctrl_c_ends_a_recorder_that_waits_for_a_hostile_process() {
    let scene = Scene::start(&["hostile-join", "jump"]);
    scene.wait_until_it_waits();
    let running = Record::process(scene.pid()).with(&["-e", "e2e:*"]).start();
    // Sent to where it never comes back from.
    wait_for("the loop", || (scene.call() == "running").then_some(()));
    running.signal(Signal::SIGINT);
    let trace = running.wait();
    assert!(trace.status < 1000, "{}: {}", trace.status, trace.err);
    scene.wait_until_it_waits();
    assert_unharmed(&scene.end());
}

#[track_caller]
fn assert_unharmed(scene: &Scene) {
    assert_eq!(scene.said("others"), Some(0));
    assert_eq!(scene.said("mask-changed"), Some(0));
    assert_eq!(scene.said("returned"), Some(1));
}

#[test]
fn a_process_that_never_waits_is_told() {
    let scene = Scene::start(&["hostile-join", "spin"]);
    let said = refused(&scene);
    assert!(said.contains("none of its threads waits in a system call"), "{said}");
}

#[test]
fn a_thread_in_a_signal_handler_is_not_sent() {
    let scene = Scene::start(&["hostile-join", "handler"]);
    scene.wait_until_it_waits();
    let said = refused(&scene);
    assert!(said.contains("one waits in a signal handler"), "{said}");
    assert_eq!(scene.end().said("returned"), Some(0));
}

#[test]
fn a_process_that_is_stopped_is_told() {
    let scene = Scene::start(&["waits", "pause"]);
    scene.signal(Signal::SIGSTOP);
    wait_for("its stop", || {
        let status = fs::read_to_string(format!("/proc/{}/status", scene.pid())).expect("it runs");
        status.contains("State:\tT").then_some(())
    });
    let said = refused(&scene);
    assert!(said.contains("it is stopped: let it go on with `kill -CONT"), "{said}");
    scene.signal(Signal::SIGCONT);
    assert_unharmed(&scene.end());
}

#[test]
fn a_process_that_ends_meanwhile_is_told() {
    let scene = Scene::start(&["hostile-join", "jump"]);
    scene.wait_until_it_waits();
    let running = Record::process(scene.pid()).with(&["-e", "e2e:*"]).start();
    wait_for("the loop", || (scene.call() == "running").then_some(()));
    // Reaped only at the end of the claim.
    scene.signal(Signal::SIGKILL);
    let trace = running.wait();
    assert!(trace.err.contains("it has ended"), "{}: {}", trace.status, trace.err);
}

#[test]
fn a_process_in_a_sandbox_is_not_touched() {
    let scene = Scene::start(&["hostile-join", "sandbox"]);
    let said = refused(&scene);
    assert!(said.contains("it is in a sandbox (seccomp)"), "{said}");
    assert_unharmed(&scene.end());
}

#[test]
fn a_process_under_a_debugger_is_not_touched() {
    let scene = Scene::start(&["waits", "pause"]);
    let pid = scene.pid() as i32;
    let ptrace = |request: u32| {
        // SAFETY: these requests touch no memory of ours.
        unsafe { libc::ptrace(request, pid, 0usize, 0usize) }
    };
    assert_eq!(ptrace(libc::PTRACE_SEIZE), 0, "we are its debugger");
    let said = refused(&scene);
    assert!(said.contains("a debugger is attached to it"), "{said}");
    assert_eq!(ptrace(libc::PTRACE_INTERRUPT), 0);
    // SAFETY: no status is asked for.
    assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) }, pid);
    assert_eq!(ptrace(libc::PTRACE_DETACH), 0);
    assert_unharmed(&scene.end());
}

#[test]
fn a_huge_file_is_not_read() {
    let keep = tempfile::tempdir().expect("a directory");
    let scene = Scene::start(&["hostile-join", "sparse", keep.path().to_str().expect("text")]);
    scene.wait_until_it_waits();
    let running = Record::process(scene.pid()).with(&["-e", "e2e:*"]).start();
    wait_until_on(scene.pid());
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).expect("it runs");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    let kib: u64 = most.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 512 << 10, "the recorder has had {kib} KiB of memory");
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    let maps = trace.facts("process")[0]["maps"].clone();
    let sparse = |map: &&serde_json::Value| map["path"].as_str().is_some_and(|path| path.ends_with("sparse"));
    let maps = maps.as_array().expect("mappings");
    assert_eq!(maps.iter().find(sparse).expect("it is mapped")["build_id"], "");
    assert_unharmed(&scene.end());
}

fn build_id(path: &std::path::Path) -> String {
    use object::Object;
    let bytes = fs::read(path).expect("readable");
    let file = object::File::parse(&*bytes).expect("a program");
    let id = file.build_id().expect("notes").expect("a build id");
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Records a process that has something else at the path of what it has mapped; returns the build ids that the journal
/// has for that path.
fn ids_of_replaced(how: &str) -> (Vec<String>, String, String) {
    let keep = tempfile::tempdir().expect("a directory");
    let (mapped, other) = (keep.path().join("mapped"), keep.path().join("other"));
    copy_program("/bin/ls", &mapped);
    copy_program("/bin/cat", &other);
    let (first, second) = (build_id(&mapped), build_id(&other));
    let scene = Scene::start(&["hostile-join", how, keep.path().to_str().expect("text")]);
    scene.wait_until_it_waits();
    let running = Record::process(scene.pid()).with(&["-e", "e2e:*"]).start();
    wait_until_on(scene.pid());
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    assert_unharmed(&scene.end());
    let maps = trace.facts("process")[0]["maps"].clone();
    let maps = maps.as_array().expect("mappings").clone();
    let is_it = |map: &&serde_json::Value| {
        map["path"]
            .as_str()
            .is_some_and(|path| path.trim_end_matches(" (deleted)") == mapped.to_str().expect("text"))
    };
    let ids =
        maps.iter().filter(is_it).map(|map| map["build_id"].as_str().expect("text").to_owned()).collect();
    (ids, first, second)
}

#[test]
fn what_is_mapped_is_read_whatever_is_at_its_path() {
    if !is_root() {
        return;
    }
    for how in ["pipe", "link"] {
        let (ids, mapped, _) = ids_of_replaced(how);
        assert_eq!(ids, [mapped], "{how}");
    }
    // In its own namespace the process has mapped both: the one before the other was mounted over it.
    let (mut ids, mapped, other) = ids_of_replaced("namespace");
    let mut expected = vec![mapped, other];
    expected.sort();
    ids.sort();
    assert_eq!(ids, expected);
}

#[test]
fn a_process_whose_dynamic_linker_is_held_goes_on_and_joins_later() {
    if !has_tool("cc") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let (source, library) = (keep.path().join("holds.c"), keep.path().join("holds.so"));
    let code = "#include <stdlib.h>\n#include <unistd.h>\n\
        __attribute__((constructor)) static void hold(void) \
        { char c; (void)!read(atoi(getenv(\"HELD_BY\")), &c, 1); }\n";
    fs::write(&source, code).expect("a file");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.expect("cc").success());
    let scene = Scene::start(&["hostile-join", "linker", library.to_str().expect("text"), "signals"]);
    let running = Record::process(scene.pid()).with(&["-e", "e2e:*"]).start();
    let agents = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", scene.pid())).expect("it runs").flatten();
        tasks
            .filter(|task| {
                fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm == "mote-agent\n")
            })
            .count()
    };
    // A thread of ours is in it, and waits for the linker; the program's own do not.
    wait_for("our thread", || (agents() > 0).then_some(()));
    for count in 1..=20 {
        scene.signal(Signal::SIGUSR1);
        scene.wait_for(&format!("acknowledged-{count}"));
    }
    fs::write(format!("/proc/{}/fd/{}", scene.pid(), scene.wait_for("held")), "x").expect("its pipe");
    wait_until_on(scene.pid());
    running.signal(Signal::SIGINT);
    assert_recorded(running.wait(), "signals");
    let scene = scene.end();
    assert_eq!(scene.said("others"), Some(0));
    assert_eq!(scene.said("returned"), Some(21));
}

#[test]
fn two_recorders_that_join_a_process_at_once_both_record() {
    for round in 0..30 {
        let sockets = sockets();
        let scene = Scene::start(&["waits", "nanosleep"]);
        let record =
            |_| Record::process(scene.pid()).env("XDG_RUNTIME_DIR", sockets.path().to_str().expect("a path"));
        let both: Vec<Running> = (0..2).map(record).map(Record::start).collect();
        // Whoever ends earlier has asked a process that was on its way to it.
        both.iter().for_each(|running| running.wait_until_said("recording process"));
        both.iter().for_each(|running| running.signal(Signal::SIGINT));
        for running in both {
            let trace = running.wait().ends_with(0);
            assert_eq!(trace.summary()["processes"], 1, "round {round}");
        }
        assert_eq!(scene.end().said("others"), Some(0));
    }
}

/// How many recorders are killed at the same time. They and their processes wait, most of the time.
const AT_A_TIME: u64 = 4;

#[test]
fn a_recorder_that_is_killed_at_any_of_its_calls_leaves_the_process_running() {
    let kills: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|first| scope.spawn(move || killed_from(first))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|why| resume_unwind(why))).sum()
    });
    // The calls of the thread that looks at the process and sends its thread: many more than the dozen by which that is
    // done.
    assert!(kills > 50, "{kills} calls");
    println!("killed at each of {kills} calls");
}

/// Kills recorders of one process, each at a later call: at number `first`, and at every [`AT_A_TIME`]th behind it, as
/// long as there are so many. Returns how many were killed.
fn killed_from(first: u64) -> u64 {
    let scene = Scene::start(&["waits", "signals"]);
    let mut runs = 0;
    loop {
        let keep = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(programs::mote());
        let output: PathBuf = keep.path().join("trace");
        command
            .args(["record", "-q", "-e", "e2e:*", "-o"])
            .arg(&output)
            .args(["-p", &scene.pid().to_string()]);
        command.env("XDG_RUNTIME_DIR", keep.path()).env_remove("MOTE_SESSION");
        let died = killer::killed_at_call(&mut command, "mote-bring", first + AT_A_TIME * runs);
        runs += 1;
        scene.signal(Signal::SIGUSR1);
        scene.wait_for(&format!("acknowledged-{runs}"));
        scene.wait_until_alone();
        if !died {
            break;
        }
    }
    let scene = scene.end();
    assert_eq!(scene.said("others"), Some(0), "after {runs} runs");
    assert_eq!(scene.said("mask-changed"), Some(0));
    assert_eq!(scene.said("returned"), Some(runs + 1), "once for each signal, and at the end");
    runs - 1
}

/// A library of several objects is linked with those that something refers to: nothing calls the way in.
#[test]
fn a_program_of_another_workspace_has_the_way_in() {
    use object::{Object, ObjectSection};
    for program in [programs::release(), programs::without_filters()].map(|folder| folder.join("scenes")) {
        let bytes = fs::read(&program).expect("readable");
        let file = object::File::parse(&*bytes).expect("a program");
        let section = file.section_by_name("mote_join");
        assert!(section.is_some_and(|section| section.size() > 0), "{}", program.display());
    }
    let scene = programs::without_filters().join("scenes");
    let mut command = Command::new(&scene);
    let mut child = command
        .args(["waits", "nanosleep"])
        .env_remove("MOTE_SESSION")
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let running = Record::process(child.id().into()).with(&["-e", "e2e:*"]).start();
    wait_until_on(child.id().into());
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(trace.summary()["processes"], 1);
}
