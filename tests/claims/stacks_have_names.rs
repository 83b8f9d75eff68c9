//! Any program can be probed, and the stacks of its events have names: while it is as it was recorded, and never wrong ones.

use crate::support::event::named;
use crate::support::{Record, Trace, babeltrace, has_tool, kernel, skip};
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kernel/tests/programs/probed.c");
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
    let frames = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let frames = value["stack"][side].as_array().expect("a stack").clone();
        frames.iter().map(|frame| frame.as_str().expect("text").to_owned()).collect()
    };
    text.lines().map(frames).collect()
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
fn a_probe_that_cannot_be_says_why() {
    let Some((_dir, path)) = program(&[]) else { return };
    for (pattern, says) in [
        ("uprobe:APP:wrok", "near names: work"),
        ("usdt:APP:app:tok", "app:tick"),
        ("uprobe:/no/such/file:f", "/no/such/file"),
        ("fentry:vfs_read", "kprobe"),
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
    assert!(report.contains(&format!("usdt_app_tick: {CALLS} events, one stack")), "{report}");
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
    assert!(said.contains("is not there any more"), "{said}");
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

fn kernel_has_names() -> bool {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let named = kallsyms.lines().any(|line| !line.starts_with("0000000000000000"));
    if !named {
        skip("the kernel hides its addresses");
    }
    named
}
