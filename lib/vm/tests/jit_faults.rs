//! Faults of programs among the signals of another program: its handlers, masks and small stacks.

mod common;

use common::{ENGINES, load};
use mote_assembler::text::assemble;
use mote_vm::{Choice, Fault, Program, Setup};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Actions are the process's: one test at a time.
static ACTIONS: Mutex<()> = Mutex::new(());

/// Reads the word that its first context word points to.
fn reader(engine: Choice) -> Program {
    let text = "r2 = *(u64 *)(r1 + 0)\nr6 = 5\nr0 = *(u64 *)(r2 + 0)\nr0 += r6\nexit";
    load(&assemble(text, None).unwrap(), Setup { engine, ..Setup::default() })
}

fn read(program: &Program, at: u64) -> Result<u64, Fault> {
    let context = [at];
    // SAFETY: the program reads one word of its context and what that points to.
    unsafe { program.run(context.as_ptr() as u64, 0) }
}

/// Runs on both engines into a null pointer, and past it.
fn programs_fault() {
    for engine in ENGINES {
        let program = reader(engine);
        assert_eq!(read(&program, 8), Err(Fault::Memory));
        let word = 37u64;
        assert_eq!(read(&program, &raw const word as u64), Ok(42));
    }
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn install(handler: Handler, flags: i32) -> libc::sigaction {
    // SAFETY: all zeros are an action.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler as usize;
    new.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the handlers of these tests may run at any moment.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &new, &mut before) }, 0);
    before
}

static CALLS: AtomicU32 = AtomicU32::new(0);
static PAGE: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

/// A program's own handler, as a garbage collector has it: makes the page accessible.
extern "C" fn open_page(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CALLS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel's siginfo.
    if unsafe { (*info).si_code } > 0 {
        // SAFETY: a page of this test.
        unsafe { libc::mprotect(PAGE.load(Ordering::SeqCst), 4096, libc::PROT_READ | libc::PROT_WRITE) };
    }
}

/// Touches a page that is closed; the program's handler opens it.
fn own_fault() {
    // SAFETY: fresh memory.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    PAGE.store(page, Ordering::SeqCst);
    let before = CALLS.load(Ordering::SeqCst);
    // SAFETY: the handler makes it writable.
    unsafe { page.cast::<u64>().write_volatile(1) };
    assert_eq!(CALLS.load(Ordering::SeqCst), before + 1);
}

static BELOW: AtomicUsize = AtomicUsize::new(0);

/// A handler that a program put over ours: hands everything on to it.
extern "C" fn hand_down(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what sigaction returned, which was a handler with SA_SIGINFO.
    let below = unsafe { std::mem::transmute::<usize, Handler>(BELOW.load(Ordering::SeqCst)) };
    below(number, info, context);
}

#[test]
fn handlers_of_the_program_get_what_is_theirs() {
    let _alone = ACTIONS.lock().unwrap_or_else(|error| error.into_inner());
    let first = install(open_page, 0);
    programs_fault();
    own_fault();
    // A signal that a process sent.
    let before = CALLS.load(Ordering::SeqCst);
    // SAFETY: a handled signal.
    assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0);
    assert_eq!(CALLS.load(Ordering::SeqCst), before + 1);
    // A handler over ours, which calls ours.
    let ours = install(hand_down, 0);
    BELOW.store(ours.sa_sigaction, Ordering::SeqCst);
    own_fault();
    for round in 0..20 {
        programs_fault();
        own_fault();
        // The program sets and unsets its own: known actions take no new level.
        install(if round % 2 == 0 { open_page } else { hand_down }, 0);
    }
    // SAFETY: the action of before.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &first, std::ptr::null_mut()) }, 0);
}

#[test]
fn a_small_alternate_stack_is_enough() {
    let _alone = ACTIONS.lock().unwrap_or_else(|error| error.into_inner());
    programs_fault();
    std::thread::spawn(|| {
        // SAFETY: asks for a number.
        let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let mut memory = vec![0u8; least.max(2048) + 2048];
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: the memory lasts until the stack is given back, below.
        assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
        programs_fault();
        let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..stack };
        // SAFETY: no handler is running on it.
        assert_eq!(unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) }, 0);
    })
    .join()
    .unwrap();
}

#[test]
fn a_file_that_was_cut_is_a_fault() {
    let _alone = ACTIONS.lock().unwrap_or_else(|error| error.into_inner());
    // SAFETY: makes a descriptor.
    let file = unsafe { libc::memfd_create(c"cut".as_ptr(), 0) };
    // SAFETY: of the memfd.
    assert_eq!(unsafe { libc::ftruncate(file, 4096) }, 0);
    // SAFETY: fresh memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    for engine in ENGINES {
        let program = reader(engine);
        // SAFETY: of the memfd.
        assert_eq!(unsafe { libc::ftruncate(file, 4096) }, 0);
        assert_eq!(read(&program, page as u64), Ok(5));
        // SAFETY: of the memfd.
        assert_eq!(unsafe { libc::ftruncate(file, 0) }, 0);
        assert_eq!(read(&program, page as u64), Err(Fault::Memory));
    }
}

const ROLE: &str = "MOTE_VM_TEST_ROLE";

/// How this very test ends in a child process that plays `role`.
fn end_of(role: &str, test: &str) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    child.output().unwrap().status
}

/// What the child does: faults of programs first, then one of its own.
fn play(role: &str) {
    if role == "default" {
        // SAFETY: the default action.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    }
    if role == "ignored" {
        // SAFETY: a fault cannot be ignored, a sent signal can.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
    }
    if role == "once" {
        install(open_page, libc::SA_RESETHAND);
    }
    programs_fault();
    if role == "ignored" || role == "once" {
        // SAFETY: ignored, or handled by the handler that wants to be called once.
        assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0);
    }
    if role == "sent" {
        // SAFETY: ends this process.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
    // SAFETY: not at all: the process is to end here.
    unsafe { std::ptr::with_exposed_provenance::<u64>(16).read_volatile() };
    std::process::exit(0);
}

#[test]
fn a_fault_of_the_process_itself_ends_it() {
    if let Ok(role) = std::env::var(ROLE) {
        play(&role);
    }
    for role in ["rust", "default", "ignored", "once", "sent"] {
        let status = end_of(role, "a_fault_of_the_process_itself_ends_it");
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{role}: {status:?}");
    }
}
