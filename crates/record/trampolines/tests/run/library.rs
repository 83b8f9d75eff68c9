//! What the library in a process does with a plan, for a process of one thread.

use mote_layout::functions::{JUMP_BYTES, Kind, Plan, Probe};
use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

// Counts a call and changes nothing: called by the body, or jumped to, with `rax` on the stack and where the body goes
// on in `rax`; and a call of a function with a trap after each instruction.
global_asm!(
    ".pushsection .text.mote_library, \"ax\", @progbits",
    ".globl mote_count",
    "mote_count:",
    "pushfq",
    "lock inc qword ptr [rip + mote_counted]",
    "popfq",
    "ret",
    ".globl mote_count_and_go_on",
    "mote_count_and_go_on:",
    "mov [rsp - 16], rax",
    "pushfq",
    "lock inc qword ptr [rip + mote_counted]",
    "popfq",
    "pop rax",
    "jmp [rsp - 24]",
    ".globl mote_step",
    "mote_step:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "pushfq",
    "or qword ptr [rsp], 0x100",
    "popfq",
    "call rax",
    "pushfq",
    "and qword ptr [rsp], ~0x100",
    "popfq",
    "ret",
    ".popsection",
    ".pushsection .bss.mote_library, \"aw\", @nobits",
    ".balign 8",
    ".globl mote_counted",
    "mote_counted: .skip 8",
    ".popsection",
);

unsafe extern "C" {
    safe fn mote_count();
    safe fn mote_count_and_go_on();
    safe fn mote_step(function: extern "C" fn(u64, u64) -> u64, a: u64, b: u64) -> u64;
    static mote_counted: AtomicU64;
}

/// The plan that is carried out.
static PLAN: OnceLock<Vec<u8>> = OnceLock::new();
/// Where a thread that is stepped is stopped, to put the probe on whose number is the other one.
static STOP_AT: AtomicU64 = AtomicU64::new(0);
static STOP_FOR: AtomicU64 = AtomicU64::new(0);

/// How many calls were counted.
pub(crate) fn counted() -> u64 {
    // SAFETY: the assembly above has it, of this size and zero at first.
    let counted = unsafe { &mote_counted };
    counted.load(Relaxed)
}

/// Maps the memory of a plan, which is the only one of this process, and makes the code writable that it changes.
pub(crate) fn prepare(bytes: &[u8]) -> Plan<'static> {
    let plan = Plan::parse(PLAN.get_or_init(|| bytes.to_vec())).expect("a plan");
    handle_traps();
    for memory in plan.memories() {
        let (at, len) = (memory.address as *mut c_void, memory.len as usize);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: nothing else is there, or it fails.
        let mapped = unsafe { libc::mmap(at, len, access, flags, -1, 0) };
        assert_eq!(mapped, at, "{memory:x?}: {}", std::io::Error::last_os_error());
        write(memory.address, plan.code(&memory).expect("code"));
    }
    for probe in plan.probes() {
        let is_called = probe.copy - probe.body == 6;
        let code = if is_called { mote_count as *const () } else { mote_count_and_go_on as *const () };
        write(probe.body - 8, &(code as u64).to_le_bytes());
        let page = probe.address / 4096 * 4096;
        let len = (probe.address + JUMP_BYTES as u64 - page).next_multiple_of(4096);
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: it is code of this process, which stays what it is.
        let answer = unsafe { libc::mprotect(page as *mut c_void, len as usize, access) };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    }
    plan
}

/// Puts probes on.
pub(crate) fn enable(plan: &Plan<'_>) {
    plan.probes().for_each(|probe| enable_one(&probe));
}

/// Takes them off.
pub(crate) fn disable(plan: &Plan<'_>) {
    plan.probes().for_each(|probe| write(probe.address, &probe.old));
}

fn enable_one(probe: &Probe) {
    let len = if probe.kind == Kind::Trap { 1 } else { JUMP_BYTES };
    write(probe.address, &probe.new[..len]);
}

/// Calls a function; when the thread comes to `at`, the probe of this number is put on. Returns whether it came there,
/// too.
pub(crate) fn call_and_stop(
    function: extern "C" fn(u64, u64) -> u64,
    a: u64,
    b: u64,
    at: u64,
    number: usize,
) -> (u64, bool) {
    STOP_FOR.store(number as u64, Relaxed);
    STOP_AT.store(at, Relaxed);
    let answer = mote_step(function, a, b);
    (answer, STOP_AT.swap(0, Relaxed) == 0)
}

#[inline(always)]
fn write(at: u64, bytes: &[u8]) {
    for (address, byte) in (at..).zip(bytes) {
        // SAFETY: memory of the plan, or code that was made writable; no thread runs it now.
        unsafe { ptr::write_volatile(address as *mut u8, *byte) };
    }
}

fn handle_traps() {
    let action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it is numbers and a pointer, which may be zero.
    let mut action = unsafe { action.assume_init() };
    action.sa_sigaction = trapped as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler touches its context and atomics only.
    let answer = unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) };
    assert_eq!(answer, 0);
}

extern "C" fn trapped(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both to a handler of this kind.
    let info = unsafe { &*info };
    // SAFETY: as above.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as u64;
    let Some(plan) = PLAN.get().and_then(|bytes| Plan::parse(bytes)) else { return };
    if info.si_code == libc::TRAP_TRACE {
        if STOP_AT.load(Relaxed) == at {
            STOP_AT.store(0, Relaxed);
            plan.probes().nth(STOP_FOR.load(Relaxed) as usize).iter().for_each(enable_one);
            registers[libc::REG_EFL as usize] &= !0x100;
        }
        return;
    }
    let is_it = |probe: &Probe| probe.address == at - 1 && probe.kind == Kind::Trap;
    let to = plan.probes().find(is_it).map(|probe| probe.body).or_else(|| plan.guard(at - 1));
    match to {
        Some(to) => registers[libc::REG_RIP as usize] = to as i64,
        // SAFETY: it ends the process.
        None => unsafe { libc::_exit(99) },
    }
}
