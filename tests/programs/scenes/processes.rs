//! Fork, exec, and what programs do around them.

use crate::words::Words;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, close, execve, fork, pause, setsid};
use std::ffi::{CString, OsString};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn emit(who: u64, count: u64) {
    for seq in 0..count {
        mote::event!(e2e::forked, who: u64 = who, seq: u64 = seq);
    }
}

/// Runs `run` in a child, which then ends at once; returns its process id.
pub(crate) fn in_child(run: impl FnOnce()) -> Pid {
    // SAFETY: the scenes fork while they have one thread, or use nothing that another thread could hold.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            run();
            // SAFETY: ends the child without running the parent's exit handlers twice.
            unsafe { libc::_exit(0) }
        }
    }
}

/// `fork CHILDREN EVENTS`: each child, and the parent before and after, emits that many events.
pub(crate) fn fork_many(words: &Words) {
    let (children, events) = (words.number(0), words.number(1));
    println!("pid {}", std::process::id());
    emit(0, events);
    let pids: Vec<Pid> = (1..=children).map(|who| in_child(|| emit(who, events))).collect();
    for pid in pids {
        waitpid(pid, None).expect("a child");
        println!("child {pid}");
    }
    emit(children + 1, events);
}

/// `fork-threaded CHILDREN EVENTS`: forks while other threads are in the middle of events.
pub(crate) fn fork_threaded(words: &Words) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    mote::event!(e2e::beside, text: &str = "a thread that the child has not");
                    std::thread::sleep(Duration::from_micros(20));
                }
            });
        }
        for who in 0..words.number(0) {
            let child = in_child(|| emit(who, words.number(1)));
            waitpid(child, None).expect("a child");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// `grandchildren DEPTH EVENTS`: a chain of forks, each of which emits.
pub(crate) fn grandchildren(words: &Words) {
    fn descend(depth: u64, events: u64) {
        emit(depth, events);
        if depth > 0 {
            let child = in_child(|| descend(depth - 1, events));
            waitpid(child, None).expect("a child");
        }
    }
    descend(words.number(0), words.number(1));
}

/// `exec EVENTS`: forks, and the child becomes `scenes count EVENTS`; with the word `bare` behind it, with an
/// empty environment.
pub(crate) fn exec(words: &Words) {
    mote::event!(e2e::before_exec);
    let child = in_child(|| {
        let own = std::env::current_exe().expect("known");
        let mut command = Command::new(own);
        command.args(["count", words.text(0)]);
        if words.text(1) == "bare" {
            command.env_clear();
        }
        panic!("{}", command.exec());
    });
    println!("child {child}\nstatus {:?}", waitpid(child, None).expect("a child"));
    mote::event!(e2e::after_exec);
}

/// `spawn EVENTS`: starts `scenes count EVENTS` as programs do (posix_spawn).
pub(crate) fn spawn(words: &Words) {
    let own = std::env::current_exe().expect("known");
    let mut child = Command::new(own).args(["count", words.text(0)]).spawn().expect("it starts");
    println!("child {}", child.id());
    let status = child.wait().expect("it ends");
    mote::event!(e2e::spawned, status: i32 = status.code().unwrap_or(-1));
}

/// A child that shares memory and stack with its parent emits, then becomes another program.
pub(crate) fn vfork() {
    let own = std::env::current_exe().expect("known");
    let own = CString::new(own.as_os_str().as_bytes()).expect("no NUL");
    let words = [own.clone(), c"count".into(), c"5".into()];
    let environment: Vec<CString> = std::env::vars_os()
        .map(|(name, value)| [name, OsString::from("="), value].concat())
        .map(|pair: OsString| CString::new(pair.as_bytes()).expect("no NUL"))
        .collect();
    mote::event!(e2e::before_vfork);
    // SAFETY: the child only emits, and ends or becomes another program.
    #[allow(deprecated)]
    let child = unsafe { libc::vfork() };
    if child == 0 {
        mote::event!(e2e::in_vfork);
        let _ = execve(&own, &words, &environment);
        // SAFETY: as vfork(2) asks.
        unsafe { libc::_exit(1) };
    }
    waitpid(Pid::from_raw(child), None).expect("a child");
    mote::event!(e2e::after_vfork);
    println!("child {child}");
}

trait Concat {
    fn concat(self) -> OsString;
}

impl Concat for [OsString; 3] {
    fn concat(self) -> OsString {
        self.iter().map(OsString::as_os_str).collect()
    }
}

/// `close-all EVENTS`: closes every descriptor from 3 on, emits, forks a child that emits, and starts another
/// program that does.
pub(crate) fn close_all(words: &Words) {
    for descriptor in 3..2048 {
        let _ = close(descriptor);
    }
    emit(0, words.number(0));
    let child = in_child(|| emit(1, words.number(0)));
    waitpid(child, None).expect("a child");
    spawn(words);
    emit(2, words.number(0));
    println!("pid {}", std::process::id());
}

/// Closes all descriptors and opens a socket of its own under the number of each: what was the session's mailbox is
/// now the program's, and must not be written to.
pub(crate) fn steal_number() {
    let (ours, theirs) = nix::sys::socket::socketpair(
        nix::sys::socket::AddressFamily::Unix,
        nix::sys::socket::SockType::SeqPacket,
        None,
        nix::sys::socket::SockFlag::empty(),
    )
    .expect("a pair");
    let (ours, theirs) = (ours.into_raw_fd(), theirs.into_raw_fd());
    for number in (3..1024).filter(|number| *number != ours && *number != theirs) {
        // SAFETY: dup2 touches no memory; that the number may be somebody's is what this scene is about.
        unsafe { libc::dup2(theirs, number) };
    }
    let child = in_child(|| emit(1, 10));
    waitpid(child, None).expect("a child");
    let mut buffer = [0; 64];
    let got = nix::sys::socket::recv(ours, &mut buffer, nix::sys::socket::MsgFlags::MSG_DONTWAIT);
    println!("stolen {}", got.map_or(0, |len| len));
    emit(0, 10);
}

/// `daemonise EVENTS FILE`: becomes a daemon, whose events come after the command has ended, when the file is taken
/// away.
pub(crate) fn daemonise(words: &Words) {
    emit(0, words.number(0));
    let between = in_child(|| {
        setsid().expect("a session");
        in_child(|| {
            for descriptor in 0..2048 {
                let _ = close(descriptor);
            }
            let until = Instant::now() + crate::words::PATIENCE;
            while Path::new(words.text(1)).exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            emit(1, words.number(0));
        });
    });
    waitpid(between, None).expect("a child");
}

/// `killed ROUNDS`: children that emit at full speed are killed at some moment. Each counts in shared memory what it
/// has emitted, and the counts are printed as `PID COUNT`.
pub(crate) fn killed(words: &Words) {
    let page = map_shared();
    for round in 0..words.number(0) {
        page.store(0, Ordering::SeqCst);
        let child = in_child(|| {
            for seq in 0u64.. {
                mote::event!(e2e::doomed, seq: u64 = seq, round: u64 = round, text: &str = "some text to write");
                page.store(seq + 1, Ordering::SeqCst);
                // Fewer than fill its buffers: how fast they are emptied is no matter here.
                if seq > 20_000 {
                    pause();
                }
            }
        });
        while page.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(100 + 173 * round));
        kill(child, Signal::SIGKILL).expect("it runs");
        waitpid(child, None).expect("a child");
        println!("{child} {}", page.load(Ordering::SeqCst));
    }
}

/// A word that children share with their parent.
fn map_shared() -> &'static AtomicU64 {
    let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, read_write, shared, -1, 0) };
    assert!(page != libc::MAP_FAILED, "no memory");
    // SAFETY: the page is mapped for ever, zeroed, and aligned.
    unsafe { &*page.cast::<AtomicU64>() }
}
