//! Any program can be probed, and the stacks of its events have names: while it is as it was recorded, and never wrong
//! ones.

use crate::support::command::json_lines;
use crate::support::event::named;
use crate::support::{
    Record, Trace, babeltrace, copy_program, has_tool, kernel, skip, wait_for, wait_for_sleeps,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const CALLS: usize = 300;

/// A program that knows nothing of mote: `kernel/tests/programs/probed.c`.
fn program(options: &[&str]) -> Option<(TempDir, PathBuf)> {
    if !kernel::is_there() {
        return None;
    }
    if !has_tool("gcc") {
        skip("there is no gcc");
        return None;
    }
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("app");
    compile(&path, options);
    Some((dir, path))
}

fn compile(path: &Path, options: &[&str]) {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/probes/tests/programs/probed.c");
    let status =
        Command::new("gcc").arg(source).arg("-o").arg(path).args(options).status().expect("there is gcc");
    assert!(status.success());
}

fn recorded(path: &Path, patterns: &[&str], more: &[&str]) -> Trace {
    let (calls, path_text) = (CALLS.to_string(), path.display().to_string());
    let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.replace("APP", &path_text)).collect();
    let mut options: Vec<&str> = patterns.iter().flat_map(|pattern| ["-k", pattern]).collect();
    options.extend(more);
    Record::program(&[path_text.as_str(), &calls]).with(&options).run().ends_with(0)
}

/// The stacks of an event in the JSON of `mote view --stack`.
fn stacks(trace: &Trace, event: &str, side: &str) -> Vec<Vec<String>> {
    let shown = trace.mote(&["view", "--stack", "--format", "json", "--event", event]);
    let text = String::from_utf8(shown.stdout).expect("JSON is text");
    let frames = |event: Value| {
        let frames = event["stack"][side].as_array().expect("a stack").clone();
        frames.iter().map(|frame| frame.as_str().expect("text").to_owned()).collect()
    };
    json_lines(&text).map(frames).collect()
}

#[test]
fn functions_and_static_probes_of_a_program_are_recorded_with_their_arguments() {
    let Some((_dir, path)) = program(&["-g", "-O1"]) else { return };
    let trace = recorded(&path, &["uprobe:APP:work", "uretprobe:APP:work", "usdt:APP:app:tick"], &[]);
    let events = trace.view();
    let work = named(&events, "uprobe_app_work");
    assert_eq!(work.len(), CALLS);
    for (number, event) in work.iter().enumerate() {
        assert_eq!(event.number("number"), number as u64);
        assert_eq!(event.fields["color"], ["RED", "GREEN"][number & 1]);
    }
    let returned = named(&events, "uretprobe_app_work");
    assert!(returned.iter().enumerate().all(|(n, event)| event.fields["ret"].as_i64() == Some(-(n as i64))));
    let ticks = named(&events, "usdt_app_tick");
    assert_eq!(ticks.len(), CALLS);
    assert!(ticks.iter().enumerate().all(|(n, event)| event.number("arg2") == (n * n) as u64));
    babeltrace::assert_valid(&trace.path);
}

#[test]
fn arguments_of_static_probes_have_the_names_and_types_that_were_given() {
    let Some((_dir, path)) = program(&["-O1"]) else { return };
    let trace = recorded(&path, &["usdt:APP:app:tick(number: i32, square: i16)"], &[]);
    let events = trace.view();
    let ticks = named(&events, "usdt_app_tick");
    assert_eq!(ticks.len(), CALLS);
    for (number, tick) in ticks.iter().enumerate() {
        assert_eq!(tick.number("number"), number as u64);
        assert_eq!(tick.fields["square"].as_i64(), Some(i64::from((number * number) as i16)));
        assert_eq!(tick.number("arg3"), 5, "without a name it keeps its number");
    }
}

#[test]
fn texts_that_static_probes_point_to_are_recorded() {
    for options in [&["-O0"][..], &["-O2", "-no-pie"]] {
        let Some((_dir, path)) = program(options) else { return };
        let events = recorded(&path, &["usdt:APP:said(text: str, number: i32)"], &[]).view();
        let said = named(&events, "usdt_app_said");
        assert_eq!(said.len(), CALLS);
        for (number, event) in said.iter().enumerate() {
            assert_eq!(event.number("number"), number as u64);
            assert_eq!(event.fields["text"], ["", "an odd number"][number & 1]);
        }
        let filtered = recorded(&path, &["usdt:APP:said(text: str)"], &["--filter", "text == \"*odd*\""]);
        let odd = filtered.view();
        assert_eq!(named(&odd, "usdt_app_said").len(), CALLS / 2);
    }
}

#[test]
fn a_probe_that_cannot_be_says_why() {
    let Some((_dir, path)) = program(&[]) else { return };
    for (pattern, says) in [
        ("uprobe:APP:wrok", "similar names: work"),
        ("usdt:APP:app:tok", "app:tick"),
        ("uprobe:/no/such/file:f", "/no/such/file"),
        ("usdt:APP:app:tick(number: i64)", "`number` of static probe `tick` has 4 bytes"),
        ("usdt:APP:tock(a: i32, b: i32)", "has 1 argument, but 2 are named"),
    ] {
        let pattern = pattern.replace("APP", &path.display().to_string());
        let failed = Record::program(&["true"]).with(&["-k", &pattern]).run();
        assert_ne!(failed.status, 0, "{pattern}");
        assert!(failed.err.contains(says), "{pattern}: {}", failed.err);
    }
}

#[test]
fn stacks_of_a_process_that_lived_for_a_moment() {
    let Some((_dir, path)) = program(&["-g", "-O0", "-fno-omit-frame-pointer"]) else { return };
    let trace = recorded(&path, &["usdt:APP:app:tick", "syscalls:syscall_entry_exit_group"], &["--stack"]);
    let ticks = stacks(&trace, "usdt_app_tick", "user");
    assert_eq!(ticks.len(), CALLS);
    for frames in &ticks {
        assert!(frames[0].starts_with("tick+0x") && frames[0].ends_with("[app]"), "{frames:?}");
        assert!(frames[1].starts_with("main+0x") && frames[1].contains("(probed.c:"), "{frames:?}");
    }
    let leaving = stacks(&trace, "syscall_entry_exit_group", "kernel");
    if kernel_has_names() {
        assert!(leaving[0].iter().any(|frame| frame.contains("do_syscall_64+0x")), "{leaving:?}");
    }
    let text = trace.mote(&["view", "--stack", "--event", "usdt_app_tick", "-n", "1"]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(!text.contains("callstack"), "{text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("    tick+0x")), "{text}");
    let folded = trace.mote(&["view", "--format", "folded", "--event", "usdt_app_tick"]);
    let folded = String::from_utf8(folded.stdout).expect("text");
    let (stack, count) = folded.lines().next().and_then(|line| line.rsplit_once(' ')).expect("a line");
    assert!(
        stack.starts_with("app;") && stack.ends_with(";main;tick") && count == CALLS.to_string(),
        "{folded}"
    );
    let report = trace.mote(&["report", "--stack"]);
    let report = String::from_utf8(report.stdout).expect("text");
    assert!(report.contains(&format!("usdt_app_tick: {CALLS} events, 1 stack")), "{report}");
}

#[test]
fn a_program_that_has_changed_since_gives_addresses_and_a_reason() {
    let Some((_dir, path)) = program(&["-g", "-O0", "-fno-omit-frame-pointer"]) else { return };
    let trace = recorded(&path, &["usdt:APP:app:tick"], &["--stack=user"]);
    let shown = |trace: &Trace| {
        let shown = trace.mote(&["view", "--format", "folded"]);
        (String::from_utf8(shown.stdout).expect("text"), String::from_utf8(shown.stderr).expect("text"))
    };
    assert!(shown(&trace).0.contains(";main;tick"));
    compile(&path, &["-g", "-O2"]);
    let (folded, said) = shown(&trace);
    assert!(folded.contains(";[app];[app]") && !folded.contains("tick"), "{folded}");
    assert!(said.contains("has changed since the recording"), "{said}");
    std::fs::remove_file(&path).expect("there");
    let (folded, said) = shown(&trace);
    assert!(folded.contains(";[app];[app]"), "{folded}");
    assert!(said.contains("does not exist any more"), "{said}");
}

/// Makes a function at run time that calls the one that it is given, tells its name as run-time compilers do, and ends.
const COMPILER: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void called(void) { __asm__ volatile("nop"); }
int main(void) {
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %lx js:price\n", (unsigned long)page, sizeof code);
    fclose(map);
    printf("pid %d\n", getpid());
    fflush(stdout);
    ((void (*)(void (*)(void)))page)(called);
    return 0;
}
"#;

#[test]
fn code_that_was_made_at_run_time_has_the_names_that_its_compiler_told() {
    let Some((dir, path)) = program(&[]) else { return };
    let source = dir.path().join("compiler.c");
    std::fs::write(&source, COMPILER).expect("a directory of the test");
    let options = ["-g", "-O0", "-fno-omit-frame-pointer"];
    let status = Command::new("gcc").arg(&source).arg("-o").arg(&path).args(options).status();
    assert!(status.expect("there is gcc").success());
    let trace = recorded(&path, &["uprobe:APP:called"], &["--stack=user"]);
    // The recording has its own copy.
    std::fs::remove_file(format!("/tmp/perf-{}.map", trace.printed("pid"))).expect("it was written");
    let frames = stacks(&trace, "uprobe_app_called", "user").remove(0);
    let functions: Vec<&str> =
        frames.iter().take(3).map(|frame| frame.split('+').next().expect("a name")).collect();
    assert_eq!(functions, ["called", "js:price", "main"], "{frames:?}");
}

/// Calls a function with a frame pointer that leads to what is no code.
const LOST: &str = r#"
__attribute__((noinline)) void called(void) { __asm__ volatile("nop"); }
static long frame[2] = {0, 0x12345678};
int main(void) {
    __asm__ volatile("push %%rbp\n\tmov %0, %%rbp\n\tcall called\n\tpop %%rbp" : : "r"(frame) : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
    return 0;
}
"#;

#[test]
fn a_stack_that_leads_to_no_code_is_cut_and_says_so() {
    let Some((dir, path)) = program(&[]) else { return };
    let source = dir.path().join("lost.c");
    std::fs::write(&source, LOST).expect("a directory of the test");
    let options = ["-O1", "-fomit-frame-pointer", "-mno-red-zone", "-fno-inline"];
    let status = Command::new("gcc").arg(&source).arg("-o").arg(&path).args(options).status();
    assert!(status.expect("there is gcc").success());
    let trace = recorded(&path, &["uprobe:APP:called"], &["--stack=user"]);
    let frames = stacks(&trace, "uprobe_app_called", "user").remove(0);
    assert!(frames[0].starts_with("called"), "{frames:?}");
    assert_eq!(frames.last().map(String::as_str), Some("[cut short]"), "{frames:?}");
    assert!(!frames.iter().any(|frame| frame.contains("12345678")), "{frames:?}");
    let shown = trace.mote(&["view", "--stack"]);
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(said.contains("frame pointers"), "{said}");
}

/// Calls a function each millisecond, and from a child too between two signals, until it is killed; `where` is its
/// address.
const CALLER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void work(long n) { __asm__ volatile("" : : "r"(n)); }
static volatile int forks;
static void asked(int signal) { (void)signal; forks = 1; }
int main(void) {
    signal(SIGUSR1, asked);
    printf("pid %d\nwhere %ld\n", getpid(), (long)work);
    fflush(stdout);
    pid_t child = 0;
    for (long n = 0;; n++) {
        work(n);
        usleep(1000);
        if (!forks) continue;
        forks = 0;
        if (child) {
            kill(child, SIGKILL);
            waitpid(child, 0, 0);
            child = 0;
        } else if ((child = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) { work(-1); usleep(1000); }
        }
    }
}
"#;

/// A caller that runs, and the address of its function.
struct Caller(std::process::Child, u64);

impl Caller {
    fn start(path: &Path) -> Caller {
        let out = path.with_extension("out");
        let file = std::fs::File::create(&out).expect("a file");
        let child = Command::new(path).stdout(file).spawn().expect("it was built");
        let address = wait_for("the address", || {
            crate::support::record::value_of(&std::fs::read_to_string(&out).ok()?, "where")
        });
        Caller(child, address)
    }

    fn pid(&self) -> u64 {
        u64::from(self.0.id())
    }

    /// Makes a child, or ends it.
    fn signal(&self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).expect("it runs");
    }

    fn child(&self) -> Option<u64> {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
        children.trim().parse().ok()
    }

    /// Whether there is a breakpoint.
    fn is_probed(&self) -> bool {
        use std::os::unix::fs::FileExt;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).expect("it runs");
        let mut byte = [0];
        memory.read_exact_at(&mut byte, self.1).expect("code");
        byte == [0xcc]
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn processes_that_are_not_recorded_do_not_pay_for_probes() {
    let Some((dir, path)) = program(&[]) else { return };
    let source = dir.path().join("caller.c");
    std::fs::write(&source, CALLER).expect("a directory of the test");
    let status = Command::new("gcc").args(["-O1", "-g"]).arg(&source).arg("-o").arg(&path).status();
    assert!(status.expect("there is gcc").success());
    let (chosen, other) = (Caller::start(&path), Caller::start(&path));
    let pattern = format!("uprobe:{}:work", path.display());
    // Together with others of the file, and alone when there is a filter.
    for filter in [&[][..], &["--filter", "n < 1000000"]] {
        let options = [&["-k", pattern.as_str()], filter].concat();
        let running = Record::process(u64::from(chosen.0.id())).with(&options).start();
        running.wait_until_kernel_recorded();
        assert!(chosen.is_probed() && !other.is_probed());
        // What it forks is probed, too.
        chosen.signal();
        let child = wait_for("a child", || chosen.child());
        // Long enough for the recorder to see the child: by the child's own steps, of a millisecond each.
        wait_for_sleeps(child, 2000);
        chosen.signal();
        wait_for("the child's end", || chosen.child().is_none().then_some(()));
        running.signal(nix::sys::signal::Signal::SIGINT);
        let trace = running.wait().ends_with(0);
        assert!(trace.err.contains("1 other process uses "), "{}", trace.err);
        assert!(trace.err.contains(" probed only a moment after the fork (up to "), "{}", trace.err);
        let ids: std::collections::BTreeSet<u64> =
            named(&trace.view(), "uprobe_app_work").iter().map(|event| event.tid).collect();
        assert!(ids.contains(&u64::from(chosen.0.id())) && !ids.contains(&u64::from(other.0.id())));
        assert_eq!(ids.len(), 2, "{ids:?}, {}", trace.err);
        wait_for("its end", || (!chosen.is_probed()).then_some(()));
    }
    drop(other);
    // Nobody else has it: then it is probed for everybody, and children are from their first moment on.
    let running = Record::process(u64::from(chosen.0.id())).with(&["-k", &pattern]).start();
    wait_for("the probe", || chosen.is_probed().then_some(()));
    running.signal(nix::sys::signal::Signal::SIGINT);
    assert!(!running.wait().err.contains("other process"));
}

#[test]
fn functions_of_two_programs_with_one_name_are_told_apart() {
    let Some((dir, path)) = program(&["-g", "-O1"]) else { return };
    let other = dir.path().join("other");
    std::fs::create_dir(&other).expect("a directory");
    let second = other.join("app");
    copy_program(&path, &second);
    let patterns = [&path, &second].map(|path| format!("uprobe:{}:work", path.display()));
    let script = format!("{} 3; {} 5", path.display(), second.display());
    let options = ["-k", patterns[0].as_str(), "-k", patterns[1].as_str()];
    let trace = Record::program(&["sh", "-c", &script]).with(&options).run().ends_with(0);
    assert!(
        trace.err.contains(&format!("uprobe_app_work_2 is the one at {}", second.display())),
        "{}",
        trace.err
    );
    let events = trace.view();
    let counts = ["uprobe_app_work", "uprobe_app_work_2"].map(|name| named(&events, name).len());
    assert_eq!(counts, [3, 5]);
}

fn kernel_has_names() -> bool {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let named = kallsyms.lines().any(|line| !line.starts_with("0000000000000000"));
    if !named {
        skip("the kernel hides its addresses");
    }
    named
}
