//! The registers of interrupted code, in the frame of its signal.

use core::ffi::c_void;
use libc::{greg_t, ucontext_t};

// Places in the frame.
const RIP: usize = libc::REG_RIP as usize;
const TRAPNO: usize = libc::REG_TRAPNO as usize;

/// Trap number of int3 (SDM vol. 3, "Exception and Interrupt Reference", #BP).
const TRAP_BREAKPOINT: greg_t = 3;
/// Trap number of an instruction that is none (as above, #UD).
const TRAP_INVALID: greg_t = 6;
/// Trap number of a general protection fault, which RDTSC raises where it is forbidden (SDM vol. 2, RDTSC).
const TRAP_PROTECTION: greg_t = 13;

/// The registers of interrupted code, as its thread gets them back when the handler returns.
#[repr(transparent)]
pub struct Registers(ucontext_t);

impl Registers {
    /// The registers in the third argument of a signal's handler.
    ///
    /// # Safety
    /// The handler runs with SA_SIGINFO, this is what the kernel gave it, and no other reference to it lives.
    #[inline(always)]
    pub unsafe fn of<'a>(context: *mut c_void) -> &'a mut Registers {
        // SAFETY: the kernel's frame is a `ucontext_t`, which is what this type is; the rest is the caller's promise.
        unsafe { &mut *context.cast() }
    }

    /// The whole of the frame, for code that knows this processor.
    #[inline(always)]
    pub fn context(&mut self) -> &mut ucontext_t {
        &mut self.0
    }

    /// Address of the instruction that the thread executes next.
    #[inline(always)]
    pub fn ip(&self) -> u64 {
        self.0.uc_mcontext.gregs[RIP] as u64
    }

    /// Lets the thread go on at `ip`.
    #[inline(always)]
    pub fn set_ip(&mut self, ip: u64) {
        self.0.uc_mcontext.gregs[RIP] = ip as greg_t;
    }

    /// Address of the breakpoint that has raised a SIGTRAP of the processor's; `None` when something else has.
    ///
    /// The trap leaves `ip` behind the instruction, so what lies at the address has just been executed. An `int 3` of
    /// two bytes cannot be told from this by the registers.
    #[inline(always)]
    pub fn breakpoint(&self) -> Option<usize> {
        let is_breakpoint = self.trap() == TRAP_BREAKPOINT;
        is_breakpoint.then(|| (self.ip() as usize).wrapping_sub(1))
    }

    /// Address of the instruction that is none and has raised a SIGILL of the processor's; `None` when something else
    /// has.
    #[inline(always)]
    pub fn invalid(&self) -> Option<usize> {
        (self.trap() == TRAP_INVALID).then(|| self.ip() as usize)
    }

    /// Whether a SIGSEGV of the processor's may come from reading the time-stamp counter, which the thread may not.
    #[inline(always)]
    pub fn is_denied_counter(&self) -> bool {
        self.trap() == TRAP_PROTECTION
    }

    #[inline(always)]
    fn trap(&self) -> greg_t {
        self.0.uc_mcontext.gregs[TRAPNO]
    }
}

impl core::fmt::Debug for Registers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Registers").field("ip", &self.ip()).field("trap", &self.trap()).finish()
    }
}
