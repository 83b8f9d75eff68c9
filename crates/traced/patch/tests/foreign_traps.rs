//! SIGTRAPs that are not ours end as they would have ended without us.

mod support;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use support::child::{self, End};
use support::sites::{self, Site};

const TRAPPED: End = End::Signal(libc::SIGTRAP);

/// Makes our handler be installed: edits beside another thread.
fn install_ours() {
    child::lock_memory();
    let (tell, told) = std::sync::mpsc::channel();
    let (begin, begun) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        begin.send(()).expect("begun");
        told.recv()
    });
    begun.recv().expect("begun");
    for edit in [Site::arm, Site::disarm] {
        sites::apply_all(sites::all().iter().map(edit));
    }
    tell.send(()).expect("tell");
    thread.join().expect("join").expect("told");
    let handler = mote_sys::signal::action(libc::SIGTRAP).expect("action").handler;
    assert!(handler > libc::SIG_IGN);
}

/// Runs `scenario` without us and with us; both must end the same way.
#[track_caller]
fn ends_as_without_us(prepare: fn(), scenario: fn(), end: End) {
    let without = child::run(|| {
        prepare();
        scenario();
    });
    assert_eq!(without, end, "without us");
    let with = child::run(|| {
        prepare();
        install_ours();
        scenario();
    });
    assert_eq!(with, end, "with us");
}

fn send() {
    // SAFETY: raise(3).
    unsafe { libc::raise(libc::SIGTRAP) };
}

fn long_int3() {
    // SAFETY: a trap; what comes of it is the test.
    unsafe { std::arch::asm!(".byte 0xcd, 0x03") };
}

fn ignore() {
    child::set_handler(libc::SIGTRAP, libc::SIG_IGN, 0);
}

#[test]
fn default_action() {
    ends_as_without_us(|| {}, child::int3, TRAPPED);
    ends_as_without_us(|| {}, long_int3, TRAPPED);
    ends_as_without_us(|| {}, send, TRAPPED);
}

#[test]
fn ignored() {
    ends_as_without_us(ignore, send, End::Exit(0));
    ends_as_without_us(ignore, child::int3, TRAPPED);
}

#[test]
fn default_action_on_a_thread() {
    let scenario = || {
        let _ = std::thread::spawn(child::int3).join();
    };
    ends_as_without_us(|| {}, scenario, TRAPPED);
}

/// The dump of a foreign trap shows the code that trapped: the tracer sees the same place with and without us.
#[test]
fn death_happens_at_the_place_of_the_trap() {
    // SAFETY: forks a child that traps; we look at its registers when it does.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        install_ours();
        // SAFETY: lets the parent trace us, stops until it does.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        marked_int3();
    }
    let mut places = Vec::new();
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        if !libc::WIFSTOPPED(status) {
            break;
        }
        // SAFETY: all zero is a valid `user_regs_struct`.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: `registers` is writable.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &mut registers) };
        places.push(registers.rip as usize);
        let signal = libc::WSTOPSIG(status);
        // SAFETY: lets the child go on with its signal.
        unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, signal) };
    }
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTRAP);
    let behind = marked_int3 as *const () as usize + 1;
    assert_eq!(places, [behind, behind], "the trap, and its second coming with the default action");
}

#[unsafe(naked)]
extern "C" fn marked_int3() {
    std::arch::naked_asm!("int3", "ret")
}

static CALLS: AtomicU32 = AtomicU32::new(0);
static IP: AtomicUsize = AtomicUsize::new(0);
static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(number: i32) {
    assert_eq!(number, libc::SIGTRAP);
    CALLS.fetch_add(1, SeqCst);
}

extern "C" fn note_ip(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CALLS.fetch_add(1, SeqCst);
    // SAFETY: SA_SIGINFO.
    assert_eq!(unsafe { (*info).si_signo }, libc::SIGTRAP);
    // SAFETY: SA_SIGINFO.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    IP.store(context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize, SeqCst);
}

/// A crash reporter: notes, then calls the handler that was there before.
extern "C" fn note_and_chain(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    note_ip(number, info, context);
    type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    // SAFETY: `BEFORE` is a handler with SA_SIGINFO.
    let before = unsafe { std::mem::transmute::<usize, Handler>(BEFORE.load(SeqCst)) };
    before(number, info, context);
}

fn count_traps() {
    child::set_handler(libc::SIGTRAP, count as *const () as usize, 0);
}

fn note_traps() {
    child::set_handler(libc::SIGTRAP, note_ip as *const () as usize, libc::SA_SIGINFO);
}

#[test]
fn handlers_get_their_traps() {
    let scenario = || {
        child::int3();
        long_int3();
        send();
        assert_eq!(CALLS.load(SeqCst), 3);
    };
    ends_as_without_us(count_traps, scenario, End::Exit(0));
}

#[test]
fn handlers_with_siginfo_get_all_arguments() {
    let scenario = || {
        marked_int3();
        assert_eq!(CALLS.load(SeqCst), 1);
        assert_eq!(IP.load(SeqCst), marked_int3 as *const () as usize + 1);
    };
    ends_as_without_us(note_traps, scenario, End::Exit(0));
}

#[test]
fn a_handler_for_one_time_is_called_one_time() {
    let prepare = || child::set_handler(libc::SIGTRAP, count as *const () as usize, libc::SA_RESETHAND);
    ends_as_without_us(prepare, child::int3, End::Exit(0));
    let twice = || {
        child::int3();
        child::int3();
    };
    ends_as_without_us(prepare, twice, TRAPPED);
}

#[test]
fn a_handler_put_over_ours_is_kept() {
    child::passes(|| {
        install_ours();
        count_traps();
        install_ours();
        child::int3();
        assert_eq!(CALLS.load(SeqCst), 1);
        // Set and unset many times: no level is used up.
        for _ in 0..100 {
            count_traps();
            install_ours();
            note_traps();
            install_ours();
        }
        marked_int3();
        assert_eq!(IP.load(SeqCst), marked_int3 as *const () as usize + 1);
    });
}

#[test]
fn a_handler_that_calls_ours_as_the_one_before_ends() {
    let end = child::run(|| {
        install_ours();
        BEFORE.store(mote_sys::signal::action(libc::SIGTRAP).expect("action").handler, SeqCst);
        child::set_handler(libc::SIGTRAP, note_and_chain as *const () as usize, libc::SA_SIGINFO);
        install_ours();
        assert_ne!(BEFORE.load(SeqCst), mote_sys::signal::action(libc::SIGTRAP).expect("action").handler);
        child::int3();
    });
    // ours (upper) -> the program's -> ours (lower) -> the default action.
    assert_eq!(end, TRAPPED);
}

#[test]
fn more_handlers_than_levels_leave_us_without_traps() {
    child::passes(|| {
        mote_patch::set_hops(mote_patch::Hops::Always);
        install_ours(); // through gates, from now on
        // Each is another action, by its mask.
        for bit in 0..20 {
            let action = mote_sys::signal::Action::new(count as *const () as usize, 0, 1 << bit);
            // SAFETY: `count` is a handler.
            unsafe { mote_sys::signal::set_action(libc::SIGTRAP, &action) }.expect("set");
            let thread = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(100)));
            let edit = |site: &Site| if bit % 2 == 0 { site.arm() } else { site.disarm() };
            // Sites that can be changed without traps always work.
            let can = sites::all().iter().filter(|site| site.addr % 8 != 7);
            sites::apply_all(can.map(edit));
            thread.join().expect("join");
        }
        let calls = CALLS.load(SeqCst);
        child::int3();
        assert_eq!(CALLS.load(SeqCst), calls + 1);
    });
}

#[test]
fn the_mask_of_a_handler_holds_while_it_runs() {
    child::passes(|| {
        static MASK: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn note_mask(_: i32) {
            MASK.store(mote_sys::signal::block(0) as usize, SeqCst);
        }
        let bit = mote_sys::signal::bit;
        let wanted = bit(libc::SIGUSR1) | bit(libc::SIGTRAP);
        let action = mote_sys::signal::Action::new(note_mask as *const () as usize, 0, wanted);
        // SAFETY: `note_mask` is a handler.
        unsafe { mote_sys::signal::set_action(libc::SIGTRAP, &action) }.expect("set");
        install_ours();
        let before = mote_sys::signal::block(bit(libc::SIGUSR2)) | bit(libc::SIGUSR2);
        child::int3();
        // SIGTRAP stays open on purpose: the handler may run through a site.
        assert_eq!(MASK.load(SeqCst) as u64, before | bit(libc::SIGUSR1));
        assert_eq!(mote_sys::signal::block(0), before);
    });
}

#[test]
fn a_trap_keeps_errno() {
    child::passes(|| {
        ignore();
        install_ours();
        // SAFETY: the calling thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *errno = 77 };
        send();
        // SAFETY: as above.
        assert_eq!(unsafe { *errno }, 77);
    });
}
