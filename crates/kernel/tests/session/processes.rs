//! Processes that come and go fast, and what they pass to the kernel.

use crate::support::*;
use mote_kernel::event::Origin;
use mote_kernel::session::Targets;
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn each_of_thousands_of_processes_is_followed_and_forgotten() {
    if !can() {
        return;
    }
    let events = vec![chosen(1, entry(libc::SYS_exit_group, vec![number("code", 32, Origin::Argument(0))]))];
    let kernel = start(request(events, Targets::Launch));
    kernel.enable();
    let script = "loop() { i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; }; loop & loop & loop & loop & wait";
    run(&kernel, "/bin/sh", &["-c", script]);
    kernel.disable();
    let records = read(&kernel, |_, _| 4);
    let ids: BTreeSet<u32> = records.iter().map(|record| record.tid).collect();
    assert_eq!((records.len(), ids.len()), (1 + 4 + 4 * 400, 1 + 4 + 4 * 400));
    assert!(records.iter().all(|record| record.fields == [0; 4]));
    for _ in 0..500 {
        if kernel.state().threads().next().is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let left: Vec<_> = kernel.state().threads().collect();
    let state = |tid: u32| std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    assert!(left.is_empty(), "{left:?} {:?} {}", kernel.losses(), state(left[0].tid));
    assert!(kernel.losses().is_empty(), "{:?}", kernel.losses());
}

#[test]
fn texts_that_fault_are_empty_and_counted() {
    if !can() {
        return;
    }
    let event = entry(
        libc::SYS_openat,
        vec![text("filename", Origin::UserText(1)), number("flags", 32, Origin::Argument(2))],
    );
    let kernel = start(request(vec![chosen(1, event)], Targets::Launch));
    kernel.enable();
    let script = "import ctypes\nfor _ in range(3): ctypes.CDLL(None).openat(-100, 16, 0o123)\n";
    run(&kernel, "python3", &["-c", script]);
    kernel.disable();
    let len = |fields: &[u8]| fields.iter().position(|byte| *byte == 0).unwrap() + 1 + 4;
    let records = read(&kernel, |_, fields| len(fields));
    // glibc may set O_LARGEFILE and the like.
    let bad = |it: &&Record| it.fields[0] == 0 && it.fields[1] & 0o123 == 0o123;
    assert_eq!(records.iter().filter(bad).count(), 3);
    assert!(kernel.losses().texts >= 3);
}
