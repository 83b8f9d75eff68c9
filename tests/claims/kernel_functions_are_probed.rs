//! Functions of the kernel are recorded with the arguments and results that its types tell, where the kernel attaches
//! programs to them; where not, that is said before anything runs.

use crate::support::event::named;
use crate::support::kernel::{self, trace_of};
use crate::support::{Record, Trace, has_tool, programs, skip};
use std::process::Command;

/// What `mote list -k` says of a pattern: events, or why there are none.
fn list(pattern: &str) -> Result<String, String> {
    let output = Command::new(programs::mote()).args(["list", "-k", pattern]).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Whether the kernel attaches programs to its functions; says so when not.
fn are_there() -> bool {
    if !kernel::is_there() {
        return false;
    }
    let why = list("fentry:do_sys_openat2").err();
    if let Some(why) = &why {
        skip(why.trim());
    }
    why.is_none()
}

fn cat(options: &[&str]) -> Trace {
    Record::program(&["cat", "/etc/hostname", "/none/of/these", "/etc/passwd"]).with(options).run()
}

#[test]
fn a_kernel_without_them_says_so() {
    if !kernel::is_there() {
        return;
    }
    let Err(why) = list("fentry:do_sys_openat2") else {
        // Then the other claims are proven.
        return;
    };
    assert!(why.contains("no fentry and fexit") && why.contains("`kprobe:`"), "{why}");
    assert!(why.contains("mote list -k"), "{why}");
    assert!(list("fexit:vfs_*").is_err_and(|why| why.contains("no fentry and fexit")));
    let trace = cat(&["-k", "fexit:do_sys_openat2,sched"]).ends_with(2);
    assert!(trace.err.contains("`fexit:do_sys_openat2`: this kernel has no fentry"), "{}", trace.err);
    assert_eq!(trace.out, "", "the command must not run");
    assert!(!trace.path.exists());
}

/// What the function behind openat(2) returns is what the system call returns, and its text is the system call's.
#[test]
fn functions_say_what_their_system_call_says() {
    if !are_there() || !has_tool("cat") {
        return;
    }
    let patterns = "fentry:do_sys_openat2,fexit:do_sys_openat2,syscalls:*_openat";
    let trace = cat(&["-k", patterns]).ends_with(1);
    let events = trace_of(&trace).view();
    let entries = named(&events, "fentry_do_sys_openat2");
    let exits = named(&events, "fexit_do_sys_openat2");
    let calls = named(&events, "syscall_exit_openat");
    let asked = named(&events, "syscall_entry_openat");
    assert!(calls.len() >= 3, "the dynamic linker opens files, too");
    assert_eq!((entries.len(), exits.len()), (calls.len(), calls.len()));
    for (((entry, exit), call), asked) in entries.iter().zip(&exits).zip(&calls).zip(&asked) {
        assert_eq!(exit.fields["ret"], call.fields["ret"], "{exit:?}");
        assert_eq!(entry.fields["dfd"], exit.fields["dfd"]);
        assert_eq!(entry.fields["filename"], exit.fields["filename"]);
        assert!(entry.tid == call.tid && exit.tid == call.tid);
        // Where the page of the text was not there at the entry of the call, it is at the function's return.
        assert!(asked.fields["filename"] == "" || asked.fields["filename"] == exit.fields["filename"]);
    }
    let missing = exits.iter().find(|exit| exit.fields["filename"] == "/none/of/these");
    assert_eq!(missing.expect("it was asked for").fields["ret"].as_i64(), Some(-2));
    kernel::assert_babeltrace_counts(&trace_of(&trace).path, &kernel::counts(&events));
}

#[test]
fn probes_by_traps_say_the_same() {
    if !kernel::is_there() || !has_tool("cat") {
        return;
    }
    if let Err(why) = list("kprobe:do_sys_openat2") {
        assert!(why.contains("no kprobes") && why.contains("tracepoints"), "{why}");
        return skip(why.trim());
    }
    let patterns = "kprobe:do_sys_openat*,kretprobe:do_sys_openat2,syscalls:syscall_exit_openat";
    let trace = cat(&["-k", patterns]).ends_with(1);
    let events = trace_of(&trace).view();
    let entries = named(&events, "kprobe_do_sys_openat2");
    let returns = named(&events, "kretprobe_do_sys_openat2");
    let calls = named(&events, "syscall_exit_openat");
    assert_eq!((entries.len(), returns.len()), (calls.len(), calls.len()));
    assert!(returns.iter().zip(&calls).all(|(one, call)| one.fields["ret"] == call.fields["ret"]));
    assert!(entries.iter().any(|entry| entry.fields["filename"] == "/none/of/these"), "{entries:?}");
}

#[test]
fn filters_look_at_arguments_and_results() {
    if !are_there() || !has_tool("cat") {
        return;
    }
    let filter = "ret < 0 && filename == \"/none/*\"";
    let trace = cat(&["-k", "fexit:do_sys_openat2", "--filter", filter]).ends_with(1);
    let events = trace_of(&trace).view();
    let exits = named(&events, "fexit_do_sys_openat2");
    assert_eq!(exits.len(), 1, "{exits:?}");
    assert_eq!(exits[0].fields["filename"], "/none/of/these");
    // A pointer is a number for a filter.
    let trace =
        cat(&["-k", "fentry:do_sys_openat2(filename: ptr)", "--filter", "filename < 4096 || how == 0"]);
    assert!(named(&trace_of(&trace.ends_with(1)).view(), "fentry_do_sys_openat2").is_empty());
}

#[test]
fn what_cannot_be_probed_is_said() {
    if !are_there() {
        return;
    }
    for (pattern, says) in [
        ("fentry:do_sys_openta2", "no function `do_sys_openta2` that can be probed; similar names: "),
        ("fentry:no_such_function_*", "no function"),
        ("fentry:*", "narrow the pattern"),
        ("fentry:do_sys_openat2(path: str)", "no argument `path`; it has dfd, filename, how"),
        ("fentry:_printk", "varying number of arguments"),
        ("fentry:__rcu_read_lock", "without end"),
        ("fexit:do_sys_openat2+4", "as a whole"),
    ] {
        let why = list(pattern).expect_err(pattern);
        assert!(why.contains(says), "{pattern}: {why}");
    }
    let listed = list("fexit:vfs_read*").expect("there are such");
    for field in ["fexit_vfs_read\n", "      count: u64\n", "      ret: i64\n"] {
        assert!(listed.contains(field), "{listed}");
    }
}
