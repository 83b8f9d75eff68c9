//! Scenarios that need a process of their own: its threads, its signal actions, its death.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Before the standard library sets up its own: with handlers of its own, it has each thread that begins take a lock,
/// which another thread of the tests may hold in the moment of a fork. The threads of that child would wait for ever.
#[cfg(test)]
#[used]
#[unsafe(link_section = ".init_array")]
static NO_HANDLERS: extern "C" fn() = {
    extern "C" fn end(signal: i32) {
        set_handler(signal, libc::SIG_DFL, 0);
    }
    extern "C" fn install() {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            set_handler(signal, end as *const () as usize, 0);
        }
    }
    install
};

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// Seconds after which a child that hangs is killed by SIGALRM.
const PATIENCE_S: u32 = 240;

/// Runs `scenario` in a forked child, which starts with one thread, and waits for its end.
///
/// A panic is `Exit(101)`.
pub fn run(scenario: impl FnOnce()) -> End {
    // Held across the fork: the child must not wait for a lock that another thread of the parent had.
    let streams = (std::io::stdout().lock(), std::io::stderr().lock());
    // SAFETY: the child has this one thread and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    drop(streams);
    assert!(pid >= 0, "fork");
    if pid == 0 {
        // SAFETY: alarm(2) only arms a timer; no core dumps of deaths that are wanted.
        unsafe { libc::alarm(PATIENCE_S) };
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `none` outlives the call.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
        let panicked = catch_unwind(AssertUnwindSafe(scenario)).is_err();
        let _ = std::io::stdout().flush();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if panicked { 101 } else { 0 }) };
    }
    wait(pid)
}

/// Waits for the child `pid`.
pub fn wait(pid: i32) -> End {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        let done = unsafe { libc::waitpid(pid, &mut status, 0) };
        if done == pid {
            break;
        }
        assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::Interrupted);
    }
    if libc::WIFEXITED(status) {
        End::Exit(libc::WEXITSTATUS(status))
    } else {
        End::Signal(libc::WTERMSIG(status))
    }
}

/// Runs a scenario that must come to its end.
#[track_caller]
pub fn passes(scenario: impl FnOnce()) {
    assert_eq!(run(scenario), End::Exit(0));
}

/// Makes system call `number` answer `errno` from now on; with `bits`, only when argument 2 has one of them.
pub fn refuse(number: libc::c_long, bits: Option<u32>, errno: i32) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0), // number
        step(EQUAL, 0, 3, number as u32),
        step(LOAD, 0, 0, 32), // low half of argument 2
        step(ANY_BIT, 0, 1, bits.unwrap_or(0)),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    if bits.is_none() {
        steps[3] = step(ANY_BIT, 0, 0, 0); // to the answer in both cases
    }
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: no memory involved.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: `program` and its steps outlive the call.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(done, 0, "seccomp filter");
}

/// Sets the action of `signal` to `handler` (an address, `SIG_DFL` or `SIG_IGN`).
pub fn set_handler(signal: i32, handler: usize, flags: i32) {
    // SAFETY: all zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the handlers of the tests are async-signal-safe.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
}

/// Blocks `signal` in this thread.
pub fn block(signal: i32) {
    mote_sys::signal::block(mote_sys::signal::bit(signal));
}

/// Locks a page: from now on sites are changed through gates, and none of the process's pages are exchanged.
pub fn lock_memory() {
    static LOCKED: u64 = 0;
    // SAFETY: memory of ours.
    assert_eq!(unsafe { libc::mlock((&raw const LOCKED).cast(), size_of::<u64>()) }, 0, "mlock");
}

/// A breakpoint that is not ours.
#[inline(always)]
pub fn int3() {
    // SAFETY: a trap; what comes of it is the test.
    unsafe { std::arch::asm!("int3") };
}
