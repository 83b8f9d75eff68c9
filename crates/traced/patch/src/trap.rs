//! The handlers of SIGTRAP and SIGILL: they serve our breakpoints and the guards that are no breakpoints, and hand all
//! other traps on to the handler that was there before.
//!
//! # Parties
//! Installer: the patcher, before each batch. Handlers: any thread, any moment, nested.
//! The program: may set its own action at any moment, before or after ours, and may call ours from its own.
//!
//! What is there before ours, and how a signal is handed on: [`mote_sys::signal::chain`].
//!
//! # Mask
//! All signals but the synchronous ones are blocked while we decide. Else a storm of signals whose handlers meet our
//! int3 would nest on an alternative stack of a few KiB until it overflows (each frame takes 1 to 4 KiB).
//! The signal stays open, also in the program's handler when ours calls it: that may meet an int3 of ours.
//!
//! # Signal safety, progress
//! Own code, raw system calls; no lock, no allocation, `errno` untouched. Progress: that of [`Table::look_up`].

use crate::arch::read_head;
use crate::company::Signals;
use crate::table::{Table, Trap};
use core::ffi::{c_int, c_void};
use libc::siginfo_t;
use mote_sync::{List, Listed, Next};
use mote_sys::signal::chain::{Chain, Handler, Installed, LEVELS};
use mote_sys::signal::{self, Registers};

/// The batch that is being patched.
pub(crate) static TABLE: Table = Table::new();

/// `si_code` of a trap raised by the processor, of which int3 is one (asm-generic/siginfo.h, `SI_KERNEL`).
const SI_KERNEL: c_int = 0x80;
/// That of an instruction which is none (as above, `ILL_ILLOPN`; arch/x86/kernel/traps.c, `exc_invalid_op`).
const ILL_ILLOPN: c_int = 2;

static TRAPS: Chain = Chain::new(libc::SIGTRAP);
static INVALID: Chain = Chain::new(libc::SIGILL);

/// What knows breakpoints that stay, guards ([`crate::Place`]).
static LASTING: List<Lasting> = List::new();

/// See [`Lasting::resume`].
pub type Resume = fn(&'static Lasting, usize, bool) -> Option<usize>;

/// Knows breakpoints that stay.
#[derive(Debug)]
pub struct Lasting {
    /// Where a thread goes on that has met a breakpoint, or a guard that is none, at this address, if it was one of
    /// these; the last argument says that there is no breakpoint any more. Called by handlers: it neither waits nor
    /// changes anything.
    pub resume: Resume,
    next: Next<Lasting>,
}

impl Listed for Lasting {
    fn next(&self) -> &Next<Lasting> {
        &self.next
    }
}

impl Lasting {
    /// One that answers by `resume`.
    pub const fn new(resume: Resume) -> Lasting {
        Lasting { resume, next: Next::new() }
    }
}

/// Has `lasting` asked about traps that no batch knows, for good. Once for each, before any of its breakpoints is
/// there.
pub fn add_lasting(lasting: &'static Lasting) {
    LASTING.add(lasting);
}

/// Where a thread goes on that has met a breakpoint that stays.
fn lasting(addr: usize, is_gone: bool) -> Option<usize> {
    LASTING.iter().find_map(|one| (one.resume)(one, addr, is_gone))
}

/// Our handlers of each level.
macro_rules! of_each_level {
    ($handler:ident) => {
        [
            $handler::<0>,
            $handler::<1>,
            $handler::<2>,
            $handler::<3>,
            $handler::<4>,
            $handler::<5>,
            $handler::<6>,
            $handler::<7>,
        ]
    };
}
const ON_TRAP: [Handler; LEVELS] = of_each_level!(on_trap);
const ON_INVALID: [Handler; LEVELS] = of_each_level!(on_invalid);

/// Makes sure that these signals come to us. Holder of the lock only.
///
/// # Cost
/// One system call for each when nothing changed.
pub(crate) fn install(signals: Signals) -> Installed {
    // SAFETY: `on_trap` may run at any moment on any thread.
    let traps = unsafe { TRAPS.install(&ON_TRAP) };
    if signals == Signals::TRAP || traps == Installed::Refused {
        return traps;
    }
    // SAFETY: so may `on_invalid`.
    match unsafe { INVALID.install(&ON_INVALID) } {
        Installed::Over { handler: false } | Installed::Already => traps,
        other => other,
    }
}

/// The handler of SIGTRAP of level `LEVEL`.
extern "C" fn on_trap<const LEVEL: usize>(_number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments are those that the kernel gave, or a handler that calls us as the one before it.
    unsafe { on_signal((&TRAPS, LEVEL), serve, info, context) };
}

/// The handler of SIGILL of level `LEVEL`.
extern "C" fn on_invalid<const LEVEL: usize>(_number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: as in `on_trap`.
    unsafe { on_signal((&INVALID, LEVEL), serve_guard, info, context) };
}

/// Has a signal served, if it is ours; else hands it on below this level of its chain. Once for all handlers, of which
/// each traced program has sixteen.
///
/// # Safety
/// The arguments are those of a handler of this signal with SA_SIGINFO.
#[inline(never)]
unsafe fn on_signal(
    (chain, level): (&Chain, usize),
    serve: fn(c_int, &mut Registers) -> bool,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the caller's promise: a whole siginfo, which stays as it is.
    let reported = unsafe { &*info };
    // SAFETY: and the frame of the interrupted code, which is ours to change until we return.
    let registers = unsafe { Registers::of(context) };
    if !serve(reported.si_code, registers) {
        // SAFETY: the caller's promise.
        unsafe { chain.hand_on(level, info, context, signal::bit(reported.si_signo)) };
    }
}

/// Sends the thread on if it met a guard that is no breakpoint; false when the signal is not ours. No batch has any as
/// a gate, and whether it stands there yet is no matter, as its copy does the same.
fn serve_guard(code: c_int, registers: &mut Registers) -> bool {
    let guard = registers.invalid().filter(|_| code == ILL_ILLOPN).and_then(|addr| lasting(addr, false));
    guard.is_some_and(|copy| {
        registers.set_ip(copy as u64);
        true
    })
}

/// Sends the thread on if it met a breakpoint of ours; false when the trap is not ours.
fn serve(code: c_int, registers: &mut Registers) -> bool {
    let Some(addr) = registers.breakpoint().filter(|_| code == SI_KERNEL) else { return false };
    // SAFETY: the instruction there has just been executed.
    let go_on = match TABLE.look_up(addr, || unsafe { read_head(addr) }) {
        Trap::Resume(leads_to) => leads_to,
        Trap::Retry => addr,
        trap @ (Trap::Foreign | Trap::Gone) => match lasting(addr, trap == Trap::Gone) {
            Some(resume) => resume,
            None => return false,
        },
    };
    registers.set_ip(go_on as u64);
    true
}
