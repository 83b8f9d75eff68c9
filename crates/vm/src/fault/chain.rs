//! Actions that were there before ours: levels, as `text` has them for SIGTRAP.
//!
//! # Parties
//! Installers, one at a time: the lock. Handlers: any thread, any moment. The program: may set its own action at any moment, before
//! or after ours, and may call ours from its own.
//!
//! # State
//! For each signal and level the action that was there when our handler of that level was put over it. Each level has a handler of
//! its own, so a program's handler that was put over ours, and calls ours as the one before it, comes down to the lower level and
//! not back to itself. A level is written before its handler is installed for the first time.
//!
//! # Flags and mask
//! `SA_ONSTACK`: threads may have small stacks, or have come to the end of theirs; but if the program has a handler, then as it had
//! it, because its handler will run on the same stack. All signals but the synchronous ones are blocked while we decide.
//! The program's handler runs with the mask that it asked for.

use super::handler::{Handler, on_fault};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use libc::{siginfo_t, ucontext_t};
use mote_sync::Lock;
use mote_sys::signal::{self, Action};

/// Handlers that can lie one upon the other.
const LEVEL_COUNT: usize = 8;
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Signals that the running code raises itself.
const SYNCHRONOUS: u64 = signal::bit(libc::SIGSEGV)
    | signal::bit(libc::SIGBUS)
    | signal::bit(libc::SIGILL)
    | signal::bit(libc::SIGFPE)
    | signal::bit(libc::SIGTRAP)
    | signal::bit(libc::SIGSYS);

static INSTALLING: Lock = Lock::new();
static CHAINS: [Chain; SIGNALS.len()] = [const { Chain::new() }; SIGNALS.len()];

/// The actions that were there before ours, of one signal.
struct Chain {
    levels: [Before; LEVEL_COUNT],
    used: AtomicUsize,
}

/// The action that was there before ours.
struct Before {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
    /// It asked to be called once (`SA_RESETHAND`), and was.
    spent: AtomicBool,
}

impl Chain {
    const fn new() -> Chain {
        Chain { levels: [const { Before::new() }; LEVEL_COUNT], used: AtomicUsize::new(0) }
    }
}

impl Before {
    const fn new() -> Before {
        Before {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicU64::new(0),
            mask: AtomicU64::new(0),
            spent: AtomicBool::new(false),
        }
    }

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

/// Our handler's address at each level.
fn handlers() -> [usize; LEVEL_COUNT] {
    let all: [Handler; LEVEL_COUNT] = [
        on_fault::<0>,
        on_fault::<1>,
        on_fault::<2>,
        on_fault::<3>,
        on_fault::<4>,
        on_fault::<5>,
        on_fault::<6>,
        on_fault::<7>,
    ];
    all.map(|handler| handler as usize)
}

/// Makes sure that the signals come to us; true when they do.
///
/// They do not when the program put more than [`LEVEL_COUNT`] different actions over ours.
pub(super) fn install() -> bool {
    let _one_at_a_time = INSTALLING.hold();
    SIGNALS.into_iter().zip(&CHAINS).all(|(number, chain)| install_one(number, chain))
}

fn install_one(number: c_int, chain: &Chain) -> bool {
    let Ok(now) = signal::action(number) else { return false };
    let handlers = handlers();
    if handlers.contains(&now.handler) {
        return true;
    }
    let used = chain.used.load(Ordering::Relaxed);
    // The same action again, for example of a program that sets and unsets it, takes no new level.
    let known = chain.levels.iter().take(used).position(|before| before.is(&now));
    let level = known.unwrap_or(used);
    let (Some(before), Some(handler)) = (chain.levels.get(level), handlers.get(level)) else {
        return false;
    };
    before.set(&now);
    let ours = Action::new(*handler, flags_over(&now), !SYNCHRONOUS);
    // SAFETY: `on_fault` takes the arguments of SA_SIGINFO and may run at any moment on any thread.
    let Ok(replaced) = (unsafe { signal::set_action(number, &ours) }) else { return false };
    if replaced != now {
        before.set(&replaced);
    }
    chain.used.store(used.max(level + 1), Ordering::Relaxed);
    true
}

/// The flags of our handler when it goes over `before`.
fn flags_over(before: &Action) -> c_int {
    const AS_THE_PROGRAM: c_int = libc::SA_RESTART | libc::SA_ONSTACK;
    let shared =
        if before.handler > libc::SIG_IGN { before.flags as c_int & AS_THE_PROGRAM } else { AS_THE_PROGRAM };
    libc::SA_SIGINFO | libc::SA_NODEFER | shared
}

/// Does what the action below `level` would have done without us.
///
/// # Safety
/// The arguments are those of a handler of `number` with SA_SIGINFO.
pub(super) unsafe fn hand_on(level: usize, number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let chain = &CHAINS[usize::from(number == SIGNALS[1])];
    let Some(before) = chain.levels.get(level) else { return };
    let handler = before.handler.load(Ordering::Relaxed);
    let flags = before.flags.load(Ordering::Relaxed) as c_int;
    // SAFETY: the caller's promise.
    let is_raised_by_code = unsafe { (*info).si_code } > 0;
    if handler == libc::SIG_IGN && !is_raised_by_code {
        return;
    }
    let is_spent = flags & libc::SA_RESETHAND != 0 && before.spent.swap(true, Ordering::Relaxed);
    if handler <= libc::SIG_IGN || is_spent {
        // The kernel does not let a fault of the running code be ignored: it kills (`force_sig`).
        // SAFETY: the caller's promise.
        return unsafe { die(number, info, is_raised_by_code) };
    }
    // SAFETY: the caller's promise.
    let interrupted = unsafe { mask_of(context) };
    let own = if flags & libc::SA_NODEFER != 0 { 0 } else { signal::bit(number) };
    // The return from the signal brings back `interrupted`.
    signal::set_mask(interrupted | before.mask.load(Ordering::Relaxed) | own);
    if flags & libc::SA_SIGINFO != 0 {
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

/// Ends the process by this very signal, as it would have ended without us.
///
/// With the default action in place, an instruction that failed fails again when we return. A signal that was sent is sent
/// again, blocked: it strikes when the mask of the interrupted code comes back. Either way a core dump shows that code, not us.
///
/// # Safety
/// `info` points to a whole `siginfo_t` of the signal `number`.
unsafe fn die(number: c_int, info: *const siginfo_t, is_raised_by_code: bool) {
    // SAFETY: the default action runs no code of the process.
    let _ = unsafe { signal::set_action(number, &Action::new(libc::SIG_DFL, 0, 0)) };
    if !is_raised_by_code {
        signal::block(signal::bit(number));
        // SAFETY: the caller's promise.
        let _ = unsafe { signal::queue_to_self(number, info) };
    }
}
