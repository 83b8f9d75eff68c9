//! The SIGTRAP handler: serves our breakpoints, hands all other traps on to the handler that was there before.
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
//! SIGTRAP stays open, also in the program's handler when ours calls it: that may meet an int3 of ours.
//!
//! # Signal safety, progress
//! Own code, raw system calls; no lock, no allocation, `errno` untouched. Progress: that of [`Table::look_up`].

use crate::arch::read_head;
use crate::table::{Table, Trap};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::siginfo_t;
use mote_sys::signal::chain::{Chain, Handler, Installed, LEVELS};
use mote_sys::signal::{self, Registers};

/// The batch that is being patched.
pub(crate) static TABLE: Table = Table::new();

/// `si_code` of a trap raised by the processor, of which int3 is one (asm-generic/siginfo.h, `SI_KERNEL`).
const SI_KERNEL: c_int = 0x80;

static TRAPS: Chain = Chain::new(libc::SIGTRAP);

/// What knows breakpoints that stay, guards ([`crate::Place`]). A list that only grows.
static LASTING: AtomicPtr<Lasting> = AtomicPtr::new(core::ptr::null_mut());

/// See [`Lasting::resume`].
pub type Resume = fn(&'static Lasting, usize, bool) -> Option<usize>;

/// Knows breakpoints that stay.
#[derive(Debug)]
pub struct Lasting {
    /// Where a thread goes on that has met a breakpoint at this address, if it was one of these; the last argument says
    /// that there is none any more. Called by handlers: it neither waits nor changes anything.
    pub resume: Resume,
    next: AtomicPtr<Lasting>,
}

impl Lasting {
    /// One that answers by `resume`.
    pub const fn new(resume: Resume) -> Lasting {
        Lasting { resume, next: AtomicPtr::new(core::ptr::null_mut()) }
    }
}

/// Has `lasting` asked about traps that no batch knows, for good. Once for each, before any of its breakpoints is
/// there.
pub fn add_lasting(lasting: &'static Lasting) {
    let mut head = LASTING.load(Ordering::Acquire);
    loop {
        lasting.next.store(head, Ordering::Relaxed);
        let new = (&raw const *lasting).cast_mut();
        match LASTING.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Where a thread goes on that has met a breakpoint that stays.
fn lasting(addr: usize, is_gone: bool) -> Option<usize> {
    let mut next = LASTING.load(Ordering::Acquire).cast_const();
    // SAFETY: the list holds only `&'static` references, never removed.
    while let Some(one) = unsafe { next.as_ref() } {
        if let Some(resume) = (one.resume)(one, addr, is_gone) {
            return Some(resume);
        }
        next = one.next.load(Ordering::Acquire);
    }
    None
}

/// Our handler of each level.
const HANDLERS: [Handler; LEVELS] = [
    on_trap::<0>,
    on_trap::<1>,
    on_trap::<2>,
    on_trap::<3>,
    on_trap::<4>,
    on_trap::<5>,
    on_trap::<6>,
    on_trap::<7>,
];

/// Makes sure that SIGTRAP comes to us. Holder of the lock only.
///
/// # Cost
/// One system call when nothing changed.
pub(crate) fn install() -> Installed {
    // SAFETY: `on_trap` may run at any moment on any thread.
    unsafe { TRAPS.install(&HANDLERS) }
}

/// The handler of level `LEVEL`.
extern "C" fn on_trap<const LEVEL: usize>(_number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: SA_SIGINFO: the kernel, or a handler that calls us as the one before it, passes a whole siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: and the frame of the interrupted code, which is ours to change until we return.
    let registers = unsafe { Registers::of(context) };
    if code == SI_KERNEL && serve(registers) {
        return;
    }
    // SAFETY: the arguments are those that the kernel gave.
    unsafe { TRAPS.hand_on(LEVEL, info, context, signal::bit(libc::SIGTRAP)) };
}

/// Sends the thread on if it met a breakpoint of ours; false when the trap is not ours.
fn serve(registers: &mut Registers) -> bool {
    let Some(addr) = registers.breakpoint() else { return false };
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
