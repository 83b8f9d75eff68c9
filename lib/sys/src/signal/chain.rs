//! Handlers of ours that lie over those of the program, and hand on to them what is not for us.
//!
//! # Parties
//! Installers, one at a time. Handlers: any thread, any moment, nested. The program: may set its own action at any
//! moment, before or after ours, and may call ours from its own.
//!
//! # State
//! For each level the action that was there when our handler of that level was put over it. Each level has a handler of
//! its own, so a program's handler that was put over ours, and calls ours as the one before it, comes down to the lower
//! level and not back to itself.
//!
//! # Who may touch what
//! 1. A level is written before its handler is installed for the first time; no thread reads it before. (If the action
//!    changed at that very moment, it is corrected right after; a foreign signal in between reaches the one before
//!    last.)
//! 2. After that only `spent` changes.
//!
//! # Flags and mask
//! `SA_ONSTACK`: threads may have small stacks, or have come to the end of theirs; but if the program has a handler,
//! then as it had it, because its handler will run on the same stack. `SA_NODEFER`: what the program's handler runs
//! into may be for us.
//!
//! # Signal safety
//! Raw system calls; no lock, no allocation, `errno` untouched.

use super::{Action, action, bit, block, queue_to_self, set_action, set_mask};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use libc::{siginfo_t, ucontext_t};

/// Handlers that can lie one upon the other.
pub const LEVELS: usize = 8;
/// Signals that the running code raises itself: our handlers leave them open, and block all others.
pub const SYNCHRONOUS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Which handler gets the signal after [`Chain::install`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// We, as before.
    Already,
    /// We, instead of a handler of the program, or instead of none (`SIG_DFL`, `SIG_IGN`).
    Over {
        /// There was a handler: threads may have it before them yet, or be in it.
        handler: bool,
    },
    /// Not we: the program put more than [`LEVELS`] different actions over ours, or the kernel refused.
    Refused,
}

/// A handler with SA_SIGINFO.
pub type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The actions that were there before ours, of one signal.
#[derive(Debug)]
pub struct Chain {
    number: c_int,
    levels: [Before; LEVELS],
    used: AtomicUsize,
}

/// The action that was there before ours.
#[derive(Debug)]
struct Before {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
    /// It asked to be called once (`SA_RESETHAND`), and was.
    spent: AtomicBool,
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

impl Chain {
    /// The chain of the signal `number`, with nothing of ours in it.
    pub const fn new(number: c_int) -> Chain {
        Chain { number, levels: [const { Before::new() }; LEVELS], used: AtomicUsize::new(0) }
    }

    /// Makes sure that the signal comes to one of `handlers`, of which each is for its level. One caller at a time.
    ///
    /// # Cost
    /// One system call when nothing changed.
    ///
    /// # Safety
    /// The handlers may run at any moment on any thread.
    pub unsafe fn install(&self, handlers: &[Handler; LEVELS]) -> Installed {
        let Ok(now) = action(self.number) else { return Installed::Refused };
        if handlers.iter().any(|handler| *handler as usize == now.handler) {
            return Installed::Already;
        }
        let used = self.used.load(Ordering::Relaxed);
        // The same action again, for example of a program that sets and unsets it, takes no new level.
        let known = self.levels.iter().take(used).position(|before| before.is(&now));
        let level = known.unwrap_or(used);
        let (Some(before), Some(handler)) = (self.levels.get(level), handlers.get(level)) else {
            return Installed::Refused;
        };
        before.set(&now);
        let ours = Action::new(*handler as usize, flags_over(&now), !SYNCHRONOUS);
        // SAFETY: the handler takes the arguments of SA_SIGINFO; the caller's promise.
        let Ok(replaced) = (unsafe { set_action(self.number, &ours) }) else { return Installed::Refused };
        if replaced != now {
            before.set(&replaced);
        }
        self.used.store(used.max(level + 1), Ordering::Relaxed);
        Installed::Over { handler: replaced.handler > libc::SIG_IGN }
    }

    /// Does what the action below `level` would have done without us. The program's handler runs with the mask that it
    /// asked for, but for the signals of `open`.
    ///
    /// # Safety
    /// The arguments are those of a handler of this signal with SA_SIGINFO.
    pub unsafe fn hand_on(&self, level: usize, info: *mut siginfo_t, context: *mut c_void, open: u64) {
        let Some(before) = self.levels.get(level) else { return };
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
            return unsafe { die(self.number, info, is_raised_by_code) };
        }
        // SAFETY: the caller's promise.
        let interrupted = unsafe { mask_of(context) };
        let own = if flags & libc::SA_NODEFER != 0 { 0 } else { bit(self.number) };
        // The return from the signal brings back `interrupted`.
        set_mask(interrupted | (before.mask.load(Ordering::Relaxed) | own) & !open);
        if flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the program installed this address as a handler with SA_SIGINFO.
            let handler = unsafe { core::mem::transmute::<usize, Handler>(handler) };
            handler(self.number, info, context);
        } else {
            // SAFETY: the program installed this address as a handler without SA_SIGINFO.
            let handler = unsafe { core::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(self.number);
        }
    }
}

/// The flags of our handler when it goes over `before`.
fn flags_over(before: &Action) -> c_int {
    const AS_THE_PROGRAM: c_int = libc::SA_RESTART | libc::SA_ONSTACK;
    let shared =
        if before.handler > libc::SIG_IGN { before.flags as c_int & AS_THE_PROGRAM } else { AS_THE_PROGRAM };
    libc::SA_SIGINFO | libc::SA_NODEFER | shared
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
/// With the default action in place, an instruction that failed fails again when we return. A breakpoint lies behind
/// us, and a signal that was sent comes once: these are sent again, blocked, and strike when the mask of the
/// interrupted code comes back. Either way a core dump shows that code, not us.
///
/// # Safety
/// `info` points to a whole `siginfo_t` of the signal `number`.
unsafe fn die(number: c_int, info: *const siginfo_t, is_raised_by_code: bool) {
    // SAFETY: the default action runs no code of the process.
    let _ = unsafe { set_action(number, &Action::new(libc::SIG_DFL, 0, 0)) };
    if is_raised_by_code && number != libc::SIGTRAP {
        return;
    }
    block(bit(number));
    // SAFETY: the caller's promise.
    let sent = unsafe { queue_to_self(number, info) };
    if sent.is_err() && number == libc::SIGTRAP {
        // A sandbox without this call. The kernel kills a thread that meets an int3 while it blocks SIGTRAP.
        // SAFETY: ends the process, which is what is wanted.
        unsafe { crate::arch::breakpoint() };
    }
}
