//! x86-64. See [`crate::arch`] for what each item is.

mod call;
mod copy;
mod counter;
mod keep;
mod registers;
mod symbol;

pub(crate) use call::{breakpoint, poll, restorer, system_call};
pub(crate) use copy::copy_shared;
pub(crate) use counter::{
    CLOCKSOURCE, can_count_after_loads, count, count_event, count_guarded, count_guarded_after_loads,
    finish_loads, is_invariant,
};
pub use registers::Registers;

/// Bytes of a page: what is mapped and protected as one. All x86-64 kernels have pages of 4 KiB.
pub const PAGE_BYTES: usize = 4096;
/// `rbp`, `rsp` and `rip`, as perf_event_open(2) numbers them (asm/perf_regs.h): they are in records in this order.
pub(crate) const SAMPLED_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
