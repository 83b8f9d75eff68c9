//! Programs with children in other pid namespaces.

use crate::words::Words;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe, read};
use std::fs::File;
use std::os::fd::OwnedFd;

/// A child; it tells its own id, and makes N calls, each between two events. It stays until `stay` has been closed.
fn child(who: &str, calls: u64, stay: Option<&(OwnedFd, OwnedFd)>) -> Pid {
    // SAFETY: the scene has one thread beside the agent's, which forks around itself.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            println!("own_{who} {}", std::process::id());
            for seq in 0..calls {
                mote::event!(e2e::before, seq: u64 = seq);
                let _ = nix::unistd::getsid(None);
                mote::event!(e2e::after, seq: u64 = seq);
            }
            if let Some((from, to)) = stay {
                // SAFETY: the child's own number, which nobody uses after this.
                unsafe { libc::close(std::os::fd::AsRawFd::as_raw_fd(to)) };
                let _ = read(from, &mut [0]);
            }
            // SAFETY: ends the child without running the parent's exit handlers twice.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => child,
    }
}

/// `new-namespaces N`: children that make N calls each: `first` in a new pid namespace, `plain` in that of the scene,
/// `joined` in the one of `first`.
pub(crate) fn new_namespaces(words: &Words) {
    let calls = words.number(0);
    println!("pid {}", std::process::id());
    let ours = File::open("/proc/self/ns/pid").expect("our namespace");
    unshare(CloneFlags::CLONE_NEWPID).expect("a new namespace");
    let stay = pipe().expect("a pipe");
    let first = child("first", calls, Some(&stay));
    let theirs = File::open(format!("/proc/{first}/ns/pid")).expect("the first child's namespace");
    setns(&ours, CloneFlags::CLONE_NEWPID).expect("our namespace again");
    let plain = child("plain", calls, None);
    setns(&theirs, CloneFlags::CLONE_NEWPID).expect("the first child's namespace");
    let joined = child("joined", calls, None);
    for (who, pid) in [("plain", plain), ("joined", joined)] {
        waitpid(pid, None).expect("a child");
        println!("{who} {pid}");
    }
    drop(stay);
    waitpid(first, None).expect("a child");
    println!("first {first}");
}
