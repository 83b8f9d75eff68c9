//! Where sites are changed through gates, and a breakpoint would kill, none is written.

mod support;

use mote_patch::{Applied, Hops, Refusal};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use support::child;
use support::sites::{self, Site};

/// Sites that cannot be changed without a breakpoint.
const CANNOT_HOP: usize = 9;

/// Runs `patch` beside a thread that sleeps in `wait`.
fn beside(wait: fn(), patch: fn()) {
    static BEGUN: AtomicI32 = AtomicI32::new(0);
    child::passes(|| {
        child::lock_memory();
        extern "C" fn nothing(_: i32) {}
        child::set_handler(libc::SIGUSR2, nothing as *const () as usize, 0);
        let thread = std::thread::spawn(move || {
            BEGUN.store(mote_sys::process::tid(), SeqCst);
            wait();
        });
        while !sleeps(BEGUN.load(SeqCst)) {
            std::thread::yield_now();
        }
        patch();
        drop(thread);
    });
}

/// Whether a thread of ours is there and sleeps.
fn sleeps(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    tid != 0 && stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" S"))
}

fn some_are_refused() {
    mote_patch::set_hops(Hops::Always);
    let (applied, refused) = sites::apply(sites::all().iter().map(Site::arm));
    let changed = sites::all().len() - CANNOT_HOP;
    assert_eq!(applied, Ok(Applied { changed, already: 0, refused: CANNOT_HOP }));
    assert!(refused.iter().all(|(edit, why)| edit.addr % 8 == 7 && *why == Refusal::Blocked));
    for site in sites::all() {
        assert_eq!(site.pass(), u32::from(site.addr % 8 != 7));
    }
}

fn all_are_refused() {
    mote_patch::set_hops(Hops::Never);
    let (applied, refused) = sites::apply(sites::all().iter().map(Site::arm));
    assert_eq!(applied, Ok(Applied { changed: 0, already: 0, refused: sites::all().len() }));
    assert!(refused.iter().all(|(_, why)| *why == Refusal::Blocked));
    assert!(sites::all().iter().all(|site| site.pass() == 0), "a site was changed");
}

fn none_is_refused() {
    sites::apply_all(sites::all().iter().map(Site::arm));
    assert!(sites::all().iter().all(|site| site.pass() == 1));
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: all zero is an empty set on Linux.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in signals {
        // SAFETY: `set` is a set.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

fn sleep() {
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn nobody_blocks() {
    beside(sleep, none_is_refused);
}

#[test]
fn a_thread_that_blocks() {
    beside(
        || {
            child::block(libc::SIGTRAP);
            sleep();
        },
        some_are_refused,
    );
}

#[test]
fn a_thread_that_blocks_where_no_hop_is_allowed() {
    beside(
        || {
            child::block(libc::SIGTRAP);
            sleep();
        },
        all_are_refused,
    );
}

#[test]
fn the_patching_thread_itself_may_block() {
    beside(sleep, || {
        child::block(libc::SIGTRAP);
        none_is_refused();
    });
}

#[test]
fn a_thread_in_sigwait_that_will_block() {
    beside(
        || {
            child::block(libc::SIGTRAP);
            let mut signal = 0;
            // SAFETY: both outlive the call.
            unsafe { libc::sigwait(&set_of(&[libc::SIGTRAP, libc::SIGTERM]), &mut signal) };
        },
        some_are_refused,
    );
}

#[test]
fn a_thread_in_sigwait_for_other_signals() {
    beside(
        || {
            let mut signal = 0;
            // SAFETY: both outlive the call.
            unsafe { libc::sigwait(&set_of(&[libc::SIGTERM]), &mut signal) };
        },
        none_is_refused,
    );
}

#[test]
fn a_thread_in_sigsuspend_that_will_block() {
    beside(
        || {
            child::block(libc::SIGTRAP);
            // SAFETY: the set outlives the call.
            unsafe { libc::sigsuspend(&set_of(&[])) };
        },
        some_are_refused,
    );
}

#[test]
fn a_thread_in_ppoll_that_will_block() {
    beside(
        || {
            child::block(libc::SIGTRAP);
            // SAFETY: no descriptors; the set outlives the call.
            unsafe { libc::ppoll(std::ptr::null_mut(), 0, std::ptr::null(), &set_of(&[])) };
        },
        some_are_refused,
    );
}

#[test]
fn a_handler_that_blocks() {
    beside(sleep, || {
        extern "C" fn nothing(_: i32) {}
        let action = mote_sys::signal::Action::new(nothing as *const () as usize, 0, u64::MAX);
        // SAFETY: the handler does nothing.
        unsafe { mote_sys::signal::set_action(libc::SIGUSR1, &action) }.expect("handler");
        some_are_refused();
    });
}

#[test]
fn a_process_under_a_tracer() {
    beside(sleep, || {
        // strace, gdb: somebody else sees the trap first.
        let (until, tell) = std::io::pipe().expect("a pipe");
        // SAFETY: forks a child that only attaches to us, waits and leaves.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(tell);
            trace_parent(until);
        }
        while statuses().iter().any(|status| status.contains("TracerPid:\t0\n")) {
            std::thread::yield_now();
        }
        some_are_refused();
        drop(tell);
        assert_eq!(child::wait(pid), child::End::Exit(0));
    });
}

fn statuses() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("task");
    tasks
        .map(|task| std::fs::read_to_string(task.expect("task").path().join("status")).expect("status"))
        .collect()
}

/// Attaches to the parent's threads without stopping them, until the other end of the pipe is closed.
fn trace_parent(mut until: std::io::PipeReader) -> ! {
    let parent = mote_sys::process::parent();
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).expect("task");
    for task in tasks {
        let tid: i32 = task.expect("task").file_name().to_str().expect("tid").parse().expect("tid");
        // SAFETY: PTRACE_SEIZE touches no memory of ours.
        let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) };
        assert_eq!(seized, 0);
    }
    let _ = std::io::Read::read(&mut until, &mut [0]);
    // SAFETY: ends the child, and with it the tracing.
    unsafe { libc::_exit(0) }
}

#[test]
fn pages_that_cannot_be_made_writable_refuse_all() {
    beside(
        || {
            child::block(libc::SIGTRAP);
            sleep();
        },
        || {
            child::refuse(libc::SYS_mprotect, Some(libc::PROT_EXEC as u32), libc::EACCES);
            let (applied, refused) = sites::apply(sites::all().iter().map(Site::arm));
            let count = sites::all().len();
            assert_eq!(applied, Ok(Applied { changed: 0, already: 0, refused: count }));
            assert!(refused.iter().all(|(_, why)| *why == Refusal::Blocked));
            assert!(sites::all().iter().all(|site| site.pass() == 0));
        },
    );
}
