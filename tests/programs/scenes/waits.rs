//! A thread that waits in a system call, and notices when anything in it has changed meanwhile.
//!
//! The call is made with known values in all registers that a call keeps, in the flags, in the vector registers and
//! their control word, and in the red zone, and looked at when it returns.

use crate::words::Words;
use core::arch::naked_asm;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::ffi::c_void;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

static OVER: AtomicBool = AtomicBool::new(false);

static CLOSED_AT_END: AtomicI32 = AtomicI32::new(-1);

extern "C" fn end(_: i32) {
    OVER.store(true, Ordering::Relaxed);
    // SAFETY: nobody else uses the descriptor.
    unsafe { libc::close(CLOSED_AT_END.load(Ordering::Relaxed)) };
}

extern "C" fn nothing(_: i32) {}

/// A system call, and what came of it.
#[repr(C)]
struct Call {
    number: i64,
    arguments: [usize; 6],
    answer: i64,
    control: u32,
    control_after: u32,
    others: u32,
}

/// Rounding towards zero, all exceptions masked: not what programs begin with.
const CONTROL: u32 = 0x7f80;

/// Makes the call. Returns how many of the values that it should have kept are others.
#[unsafe(naked)]
unsafe extern "sysv64" fn with_known_values(call: *mut Call) -> u64 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdi",
        "stmxcsr [rdi + 72]",
        "ldmxcsr [rdi + 64]",
        // Carry, parity, adjust, zero, sign, direction, overflow.
        "push 0xcd7",
        "popfq",
        // Nothing below changes flags up to the call.
        "movabs rax, 0x5a5a12348765a5a5",
        "mov [rsp - 8], rax",
        "mov [rsp - 16], rax",
        "mov [rsp - 24], rax",
        "mov [rsp - 32], rax",
        "mov [rsp - 40], rax",
        "mov [rsp - 48], rax",
        "mov [rsp - 56], rax",
        "mov [rsp - 64], rax",
        "mov [rsp - 72], rax",
        "mov [rsp - 80], rax",
        "mov [rsp - 88], rax",
        "mov [rsp - 96], rax",
        "mov [rsp - 104], rax",
        "mov [rsp - 112], rax",
        "mov [rsp - 120], rax",
        "mov [rsp - 128], rax",
        "movq xmm0, rax",
        "movq xmm5, rax",
        "movq xmm8, rax",
        "movq xmm15, rax",
        "lea rbx, [rax + 1]",
        "lea rbp, [rax + 2]",
        "lea r12, [rax + 3]",
        "lea r13, [rax + 4]",
        "lea r14, [rax + 5]",
        "lea r15, [rax + 6]",
        "mov rax, [rdi]",
        "mov rsi, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "mov r10, [rdi + 32]",
        "mov r8, [rdi + 40]",
        "mov r9, [rdi + 48]",
        "mov rdi, [rdi + 8]",
        "syscall",
        "mov rcx, rax",
        "lahf",
        "seto al",
        "movzx r11d, ax",
        // r11: how many are others. Without sign, zero, adjust, parity, carry it is not 0xd7.
        "mov rax, [rsp]",
        "mov [rax + 56], rcx",
        "cmp r11d, 0xd701",
        "mov r11d, 0",
        "setne r11b",
        "stmxcsr [rax + 68]",
        "ldmxcsr [rax + 72]",
        "cmp word ptr [rax + 68], 0x7f80",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cmp rdi, [rax + 8]",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cmp rsi, [rax + 16]",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cmp rdx, [rax + 24]",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cmp r10, [rax + 32]",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cmp r8, [rax + 40]",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cmp r9, [rax + 48]",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "movabs rax, 0x5a5a12348765a5a5",
        // The direction flag is still set: upwards from the lowest word needs it clear.
        "mov rdx, 16",
        "2:",
        "mov rcx, rdx",
        "neg rcx",
        "cmp [rsp + 8 * rcx], rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "dec rdx",
        "jnz 2b",
        "movq rdx, xmm0",
        "cmp rdx, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "movq rdx, xmm5",
        "cmp rdx, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "movq rdx, xmm8",
        "cmp rdx, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "movq rdx, xmm15",
        "cmp rdx, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "inc rax",
        "cmp rbx, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "inc rax",
        "cmp rbp, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "inc rax",
        "cmp r12, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "inc rax",
        "cmp r13, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "inc rax",
        "cmp r14, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "inc rax",
        "cmp r15, rax",
        "setne cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "pushfq",
        "pop rcx",
        "bt ecx, 10",
        "setnc cl",
        "movzx ecx, cl",
        "add r11, rcx",
        "cld",
        "mov rax, r11",
        "pop rdi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// What a call needs beside numbers, for as long as the program runs.
fn leaked<T>(value: T) -> usize {
    std::ptr::from_mut(Box::leak(Box::new(value))) as usize
}

fn an_hour() -> usize {
    leaked(libc::timespec { tv_sec: 3600, tv_nsec: 0 })
}

/// The end of a socket that nobody writes to, and of a pipe.
fn silent() -> (usize, usize) {
    let ends = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::empty()).expect("sockets");
    let pipe = nix::unistd::pipe().expect("a pipe");
    let raw = (ends.0.as_raw_fd() as usize, pipe.0.as_raw_fd() as usize);
    std::mem::forget((ends, pipe));
    raw
}

fn system(number: i64, arguments: [usize; 3]) -> usize {
    let [a, b, c] = arguments;
    // SAFETY: the calls below make descriptors and the like from numbers.
    let made = unsafe { libc::syscall(number, a, b, c) };
    assert!(made >= 0, "call {number}: {}", std::io::Error::last_os_error());
    made as usize
}

/// A child that stays until the program ends.
fn child() {
    // SAFETY: the child makes system calls only.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        loop {
            // SAFETY: no memory.
            unsafe { libc::pause() };
        }
    }
}

/// The call of a kind, and the signal set that some of them need.
fn call_of(kind: &str) -> (i64, [usize; 6]) {
    let (socket, pipe) = silent();
    let buffer = leaked([0u8; 64]);
    let polled =
        |limit: usize| [leaked(libc::pollfd { fd: pipe as i32, events: 1, revents: 0 }), 1, limit, 0, 0, 0];
    let epoll = || system(libc::SYS_epoll_create1, [0; 3]);
    let word = || leaked(AtomicU32::new(7));
    let none = leaked(0u64);
    let private = libc::FUTEX_PRIVATE_FLAG as usize;
    match kind {
        "read" => (libc::SYS_read, [pipe, buffer, 64, 0, 0, 0]),
        "recv" => (libc::SYS_recvfrom, [socket, buffer, 64, 0, 0, 0]),
        "poll" => (libc::SYS_poll, polled(usize::MAX)),
        "poll-limited" => (libc::SYS_poll, polled(3_600_000)),
        "ppoll" => (libc::SYS_ppoll, [0, 0, 0, none, 8, 0]),
        "select" => (libc::SYS_select, [0; 6]),
        "pause" => (libc::SYS_pause, [0; 6]),
        "sigsuspend" => (libc::SYS_rt_sigsuspend, [none, 8, 0, 0, 0, 0]),
        "sigwait" => (libc::SYS_rt_sigtimedwait, [leaked(1u64 << (libc::SIGUSR2 - 1)), 0, 0, 8, 0, 0]),
        "nanosleep" => (libc::SYS_nanosleep, [an_hour(), 0, 0, 0, 0, 0]),
        "clock-nanosleep" => (libc::SYS_clock_nanosleep, [1, 0, an_hour(), 0, 0, 0]),
        "futex" => {
            (libc::SYS_futex, [word(), libc::FUTEX_WAIT_BITSET as usize | private, 7, 0, 0, usize::MAX])
        }
        "futex-limited" => {
            (libc::SYS_futex, [word(), libc::FUTEX_WAIT as usize | private, 7, an_hour(), 0, 0])
        }
        "epoll" => (libc::SYS_epoll_wait, [epoll(), buffer, 1, usize::MAX, 0, 0]),
        "epoll-limited" => (libc::SYS_epoll_wait, [epoll(), buffer, 1, 3_600_000, 0, 0]),
        "wait4" => {
            child();
            (libc::SYS_wait4, [usize::MAX, 0, 0, 0, 0, 0])
        }
        "semop" => {
            let set = system(libc::SYS_semget, [libc::IPC_PRIVATE as usize, 1, 0o600]);
            let down = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
            (libc::SYS_semop, [set, leaked(down), 1, 0, 0, 0])
        }
        "flock" => {
            let held = system(libc::SYS_memfd_create, [c"lock".as_ptr() as usize, 0, 0]);
            let again = std::fs::File::open(format!("/proc/self/fd/{held}")).expect("again");
            system(libc::SYS_flock, [held, libc::LOCK_EX as usize, 0]);
            (libc::SYS_flock, [again.into_raw_fd() as usize, libc::LOCK_EX as usize, 0, 0, 0, 0])
        }
        other => panic!("no such call '{other}'"),
    }
}

extern "C" fn stay(_: i32) {
    println!("started 1");
    while !OVER.load(Ordering::Relaxed) {
        // SAFETY: no memory.
        unsafe { libc::pause() };
    }
}

/// Stays in a signal handler until SIGTERM.
pub(crate) fn stay_in_handler() {
    handle(libc::SIGUSR2, stay);
    // SAFETY: it is handled.
    unsafe { libc::raise(libc::SIGUSR2) };
}

fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: all zeros are an action without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const c_void as usize;
    // SAFETY: the handlers store to an atomic, or do nothing. Without SA_RESTART.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// `waits KIND`: waits in a system call until SIGTERM, and says how often it has returned, and how many values were
/// others then.
///
/// Of kind `signals` it waits for SIGUSR1, which is blocked but while it waits, and says each time that it has come.
pub(crate) fn waits(words: &Words) {
    with(words.text(0), || {});
}

/// Has SIGTERM close a descriptor.
pub(crate) fn close_at_end(descriptor: OwnedFd) {
    CLOSED_AT_END.store(descriptor.into_raw_fd(), Ordering::Relaxed);
}

/// The same after `first` was done.
pub(crate) fn with(kind: &str, first: impl FnOnce()) {
    println!("pid {}", std::process::id());
    handle(libc::SIGTERM, end);
    handle(libc::SIGUSR1, nothing);
    let acknowledges = kind == "signals";
    let blocked = if acknowledges { 1u64 << (libc::SIGUSR1 - 1) } else { 0 };
    // SAFETY: the kernel reads 8 bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, 0, 8) };
    first();
    let (number, arguments) = call_of(if acknowledges { "ppoll" } else { kind });
    println!("started 1");
    let (mut returned, mut others) = (0u64, 0u64);
    while !OVER.load(Ordering::Relaxed) {
        let mut call = Call { number, arguments, answer: 0, control: CONTROL, control_after: 0, others: 0 };
        // SAFETY: the call's arguments live as long as the program.
        others += unsafe { with_known_values(&raw mut call) };
        returned += 1;
        mote::event!(e2e::returned, times: u64 = returned, answer: i64 = call.answer);
        if acknowledges {
            println!("acknowledged-{returned} 1");
        }
    }
    let mut mask = 0u64;
    // SAFETY: the kernel writes 8 bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, 0, &raw mut mask, 8) };
    println!("mask-changed {}", u64::from(mask != blocked));
    println!("others {others}");
    println!("returned {returned}");
}
