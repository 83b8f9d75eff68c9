//! The SIGTRAP handler: serves our breakpoints, hands all other traps on to whoever was there before.
//!
//! # Parties
//! Installer: the patcher, before each batch. Handlers: any thread, any moment, nested.
//! The program: may set its own action at any moment, before or after ours, and may call ours from its own.
//!
//! # State
//! `LEVELS`: for each level the action that was there when we installed our handler of that level over it.
//! `USED`: levels that have one. Each level has a handler of its own, so a program's handler that was put
//! over ours, and calls ours as the one before it, comes down to the lower level and not back to itself.
//!
//! # Who may touch what
//! 1. A level is written by the installer before its handler is installed for the first time; nobody reads it before.
//!    (If the action changed at that very moment, it is corrected right after; a foreign trap in between
//!    reaches the one before last.)
//! 2. After that only `spent` changes.
//!
//! # Flags and mask
//! `SA_ONSTACK`: threads may have small stacks; but if the program has a handler, then as it had it, because its handler
//! will run on the same stack as ours.
//! All signals but the synchronous ones are blocked while we decide. Else a storm of signals whose handlers meet our
//! int3 would nest on an alternative stack of a few KiB until it overflows (each frame takes 1 to 4 KiB).
//! `SA_NODEFER`: SIGTRAP stays open, because the program's handler, called by ours, may meet an int3 of ours.
//! `SA_RESTART` as the program had it.
//!
//! # Signal safety, progress
//! Own code, raw system calls; no lock, no allocation, `errno` untouched. Progress: that of [`Table::look_up`].

use crate::lock::SYNCHRONOUS;
use crate::table::{Table, Trap};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use libc::{siginfo_t, ucontext_t};
use mote_sys::signal::{self, Action};

/// The batch that is being patched.
pub(crate) static TABLE: Table = Table::new();

/// `si_code` of a trap raised by the processor, of which int3 is one (asm-generic/siginfo.h, `SI_KERNEL`).
const SI_KERNEL: c_int = 0x80;
/// Trap number of int3 (SDM vol. 3, "Exception and Interrupt Reference", #BP).
const TRAP_BREAKPOINT: i64 = 3;

/// Handlers that can lie one upon the other.
const LEVEL_COUNT: usize = 8;

/// Our handler's address at each level.
fn handlers() -> [usize; LEVEL_COUNT] {
    type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
    let all: [Handler; LEVEL_COUNT] = [
        on_trap::<0>,
        on_trap::<1>,
        on_trap::<2>,
        on_trap::<3>,
        on_trap::<4>,
        on_trap::<5>,
        on_trap::<6>,
        on_trap::<7>,
    ];
    all.map(|handler| handler as usize)
}

/// The action that was there before ours.
struct Before {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
    /// It asked to be called once (`SA_RESETHAND`), and was.
    spent: AtomicBool,
}

static LEVELS: [Before; LEVEL_COUNT] = [const {
    Before {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicU64::new(0),
        mask: AtomicU64::new(0),
        spent: AtomicBool::new(false),
    }
}; LEVEL_COUNT];
static USED: AtomicUsize = AtomicUsize::new(0);

impl Before {
    fn set(&self, action: &Action) {
        self.handler.store(action.handler, Ordering::Relaxed);
        self.flags.store(action.flags, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.spent.store(false, Ordering::Release);
    }

    fn is(&self, action: &Action) -> bool {
        self.handler.load(Ordering::Relaxed) == action.handler
            && self.flags.load(Ordering::Relaxed) == action.flags
            && self.mask.load(Ordering::Relaxed) == action.mask
    }
}

/// Makes sure that SIGTRAP comes to us; true when it does. Holder of the lock only.
///
/// It does not when the program put more than [`LEVEL_COUNT`] different actions over ours.
///
/// # Cost
/// One system call when nothing changed.
pub(crate) fn install() -> bool {
    let Ok(now) = signal::action(libc::SIGTRAP) else { return false };
    let handlers = handlers();
    if handlers.contains(&now.handler) {
        return true;
    }
    let used = USED.load(Ordering::Relaxed);
    // The same action again, for example of a program that sets and unsets it, takes no new level.
    let known = LEVELS.iter().take(used).position(|before| before.is(&now));
    let level = known.unwrap_or(used);
    let (Some(before), Some(handler)) = (LEVELS.get(level), handlers.get(level)) else {
        return false;
    };
    before.set(&now);
    let ours = Action::new(*handler, flags_over(&now), !SYNCHRONOUS);
    // SAFETY: `on_trap` takes the arguments of SA_SIGINFO and may run at any moment on any thread.
    let Ok(replaced) = (unsafe { signal::set_action(libc::SIGTRAP, &ours) }) else { return false };
    if replaced != now {
        before.set(&replaced);
    }
    USED.store(used.max(level + 1), Ordering::Relaxed);
    true
}

/// The flags of our handler when it goes over `before`.
fn flags_over(before: &Action) -> c_int {
    const AS_THE_PROGRAM: c_int = libc::SA_RESTART | libc::SA_ONSTACK;
    let shared =
        if before.handler > libc::SIG_IGN { before.flags as c_int & AS_THE_PROGRAM } else { AS_THE_PROGRAM };
    libc::SA_SIGINFO | libc::SA_NODEFER | shared
}

/// The handler of level `LEVEL`.
extern "C" fn on_trap<const LEVEL: usize>(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: SA_SIGINFO: the kernel, or who calls us as the handler before its own, passes a whole siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: and the ucontext of the interrupted code, which is ours to change until we return.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    if code == SI_KERNEL && serve(registers) {
        return;
    }
    if let Some(before) = LEVELS.get(LEVEL) {
        // SAFETY: the three arguments are those that the kernel gave.
        unsafe { hand_on(before, number, info, context) };
    }
}

/// Sends the thread on if it met a breakpoint of ours; false when the trap is not ours.
fn serve(registers: &mut [libc::greg_t; 23]) -> bool {
    if registers[libc::REG_TRAPNO as usize] != TRAP_BREAKPOINT {
        return false;
    }
    let ip = &mut registers[libc::REG_RIP as usize];
    let addr = (*ip as usize).wrapping_sub(1);
    let first_byte = || {
        // SAFETY: a breakpoint trap leaves the ip behind the instruction, so `addr` has just been executed.
        let byte = unsafe { AtomicU8::from_ptr(addr as *mut u8) };
        byte.load(Ordering::Relaxed)
    };
    let go_on = match TABLE.look_up(addr, first_byte) {
        Trap::Resume(leads_to) => leads_to,
        Trap::Retry => addr,
        Trap::Foreign => return false,
    };
    *ip = go_on as libc::greg_t;
    true
}

/// Does what the action `before` would have done without us.
///
/// # Safety
/// The arguments are those of a SIGTRAP handler with SA_SIGINFO.
unsafe fn hand_on(before: &Before, number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = before.handler.load(Ordering::Relaxed);
    let flags = before.flags.load(Ordering::Relaxed) as c_int;
    // SAFETY: the caller's promise.
    let is_raised_by_code = unsafe { (*info).si_code } > 0;
    if handler == libc::SIG_IGN && !is_raised_by_code {
        return;
    }
    let is_spent = flags & libc::SA_RESETHAND != 0 && before.spent.swap(true, Ordering::Relaxed);
    if handler <= libc::SIG_IGN || is_spent {
        // The kernel does not let a trap of the running code be ignored: it kills (`force_sig`).
        // SAFETY: the caller's promise.
        return unsafe { die(info) };
    }
    // SAFETY: the caller's promise.
    let interrupted = unsafe { mask_of(context) };
    // Its mask, without SIGTRAP: it may run through a site. The return from the signal brings back `interrupted`.
    signal::set_mask(interrupted | before.mask.load(Ordering::Relaxed) & !signal::bit(libc::SIGTRAP));
    if flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: the program installed this address as a handler with SA_SIGINFO.
        let handler = unsafe { core::mem::transmute::<usize, Handler>(handler) };
        handler(number, info, context);
    } else {
        // SAFETY: the program installed this address as a handler without SA_SIGINFO.
        let handler = unsafe { core::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
        handler(number);
    }
}

/// The signal mask of the code that `context` was taken of.
///
/// # Safety
/// `context` points to a `ucontext_t` of the kernel.
unsafe fn mask_of(context: *const c_void) -> u64 {
    let context = context.cast::<ucontext_t>();
    // SAFETY: the caller's promise.
    let mask = unsafe { &raw const (*context).uc_sigmask };
    // SAFETY: the kernel's mask is the first 8 bytes of libc's.
    unsafe { mask.cast::<u64>().read() }
}

/// Ends the process by this very SIGTRAP, as it would have ended without us.
///
/// The signal is sent again, blocked, with the default action: it strikes when our handler returns and the
/// mask of the interrupted code comes back, so that a core dump shows that code and not us.
///
/// # Safety
/// `info` points to a whole `siginfo_t`.
unsafe fn die(info: *const siginfo_t) {
    // SAFETY: the default action runs no code of the process.
    let _ = unsafe { signal::set_action(libc::SIGTRAP, &Action::new(libc::SIG_DFL, 0, 0)) };
    signal::block(signal::bit(libc::SIGTRAP));
    // SAFETY: the caller's promise.
    let sent = unsafe { signal::queue_to_self(libc::SIGTRAP, info) };
    if sent.is_err() {
        // A sandbox without this call. The kernel kills a thread that meets an int3 while it blocks SIGTRAP.
        // SAFETY: ends the process, which is what is wanted.
        unsafe { core::arch::asm!("int3") };
    }
}
