//! Programs that lock themselves in: without the time-stamp counter, without system calls.

use crate::Words;

const PR_SET_TSC: i32 = 26;
const PR_TSC_SIGSEGV: i32 = 2;

fn forbid_tsc() {
    // SAFETY: touches no memory.
    let done = unsafe { libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn emit(events: u64) {
    for seq in 0..events {
        mote::event!(e2e::calm, seq: u64 = seq, text: &str = "calm");
    }
}

/// `no-tsc EVENTS`: forbids itself the time-stamp counter between two halves of its events.
pub(crate) fn no_tsc(words: &Words) {
    emit(words.number(0));
    forbid_tsc();
    emit(words.number(0));
    println!("emitted {}", 2 * words.number(0));
}

/// `no-tsc-exec EVENTS`: becomes a program that has no time-stamp counter from the beginning.
pub(crate) fn no_tsc_exec(words: &Words) {
    use std::os::unix::process::CommandExt;
    forbid_tsc();
    let why = std::process::Command::new("/proc/self/exe").args(["no-tsc-count", words.text(0)]).exec();
    panic!("cannot be executed: {why}");
}

/// `no-tsc-count EVENTS`: emits, also in a thread and in a child.
pub(crate) fn no_tsc_count(words: &Words) {
    let events = words.number(0);
    emit(events);
    std::thread::spawn(move || emit(events)).join().expect("a thread");
    // SAFETY: the child makes events, and ends.
    match unsafe { libc::fork() } {
        0 => {
            emit(events);
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        child => drop(nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None).expect("a child")),
    }
    println!("emitted {}", 3 * events);
}

/// `strict EVENTS`: emits, enters strict seccomp, in which only read, write, exit and sigreturn are allowed, and emits as many again.
pub(crate) fn strict(words: &Words) {
    let events = words.number(0);
    emit(events);
    println!("emitted {}", 2 * events);
    // SAFETY: from here on only what strict seccomp allows.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
    emit(events);
    // SAFETY: a text of this program.
    unsafe { libc::write(1, c"survived 1\n".as_ptr().cast(), 11) };
    // SAFETY: the thread ends, which is the only one.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}
