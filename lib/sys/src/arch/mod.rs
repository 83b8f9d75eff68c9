//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `system_call` | the instruction that enters the kernel |
//! | `poll` | poll(2), which not every processor's kernel has as a call of that name |
//! | `restorer` | address of the code that a signal's handler returns to |
//! | `breakpoint` | the breakpoint instruction |
//! | `copy_shared` | a copy of bytes by machine instructions |
//! | `CLOCKSOURCE` | the kernel's name for the time-stamp counter as its clock |
//! | `count` | the time-stamp counter |
//! | `count_guarded`, `count_guarded_after_loads` | the same where it may be forbidden: in `mote_clocks` |
//! | `count_event` | a counter of the processor's events, where it may be forbidden |
//! | `can_count_after_loads` | whether `count_guarded_after_loads` may be executed |
//! | `finish_loads` | waits until the loads before it are done |
//! | `is_invariant` | whether the counter runs at one rate for ever |
//! | `Registers` | the registers of interrupted code: `ip`, `set_ip`, `breakpoint`, `is_denied_counter` |
//! | `SAMPLED_REGISTERS` | the registers that unwinding needs, as perf_event_open(2) numbers them |
//! | `PAGE_BYTES` | the size of a page; of several that the processor has, the largest |
//! | `keep_registers!`, `put_back_registers!`, `clear_xsave_header!` | assembly for code that a thread is made to run |
//! | `weak_symbol!` | the address of a weak symbol, from the global offset table |
//!
//! A second processor is a second folder, and its line in the list below. [`sections`] holds assembly of directives
//! only, which is the same for all of them.

mod sections;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-sys does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
