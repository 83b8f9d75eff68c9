//! Processes that come and go fast, and what they pass to the kernel.

use crate::support::*;
use mote_catalog::event::Origin;
use mote_generate::threads;
use mote_kernel::session::{Request, Targets};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn each_of_thousands_of_processes_is_followed() {
    if !can() {
        return;
    }
    let events = vec![chosen(1, entry(libc::SYS_exit_group, vec![number("code", 32, Origin::Argument(0))]))];
    // The kernel frees tasks late when it is busy: there is room for all.
    let request = Request { threads: 4096, ..request(events, Targets::Launch) };
    let kernel = start(request);
    kernel.enable();
    let script = "loop() { i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; }; loop & loop & loop & loop & wait";
    run(&kernel, "/bin/sh", &["-c", script]);
    kernel.disable();
    let records = read(&kernel, |_, _| 4);
    let ids: BTreeSet<u32> = records.iter().map(|record| record.tid).collect();
    let (all, losses) = (1 + 4 + 4 * 400, kernel.losses());
    assert_eq!((records.len(), ids.len()), (all, all), "{losses:?}");
    assert!(records.iter().all(|record| record.fields == [0; 4]));
    // Of some tasks the kernel does not say that it has freed them: their entries wait until another thread needs the
    // place.
    for _ in 0..6000 {
        if kernel.state().threads().all(|thread| thread.exiting) && kernel.state().threads().count() < 400 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(kernel.state().threads().all(|thread| thread.exiting));
    assert!(kernel.state().threads().count() < 400, "{}", kernel.state().threads().count());
    assert_eq!(kernel.live(), 0);
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn threads_that_are_gone_make_room() {
    if !can() {
        return;
    }
    let mut request = request(vec![chosen(1, entry(libc::SYS_exit_group, vec![]))], Targets::Launch);
    request.threads = 64;
    let kernel = start(request);
    let (memory, first) = (kernel.state().memory(), kernel.state().layout().threads() as usize);
    let entry = |place: usize| first + place * threads::ENTRY_BYTES as usize;
    let fill = |exited: u64| {
        let taken = |place: &usize| memory.load32(entry(*place) + threads::FLAGS as usize) != 0;
        for place in (0..64).filter(|place| !taken(place)) {
            memory.store64(entry(place) + threads::SYSCALL_TIME as usize, exited);
            memory.store64(entry(place) + threads::TASK as usize, 1);
            memory.store32(entry(place) + threads::TID as usize, 5_000_000 + place as u32);
        }
    };
    kernel.enable();
    for (exited, followed) in [(kernel.now().unwrap() + 60_000_000_000, 0), (1, 3)] {
        let launching = kernel.launching().unwrap();
        fill(exited);
        let script = "/bin/true; /bin/true";
        let mut child = std::process::Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        drop(launching);
        assert!(child.wait().unwrap().success());
        assert_eq!(read(&kernel, |_, _| 0).len(), followed);
        assert_eq!(kernel.losses().threads, 1);
    }
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
