//! Loads and stores of memory that may not be there: one instruction each.
//!
//! `rdx` is 0 before the access and after one that has succeeded; the handler puts [`FAILED`] there.

use crate::Fault;
use core::arch::asm;
use mote_sys::exception;

/// What the handler leaves in `rdx`.
pub(super) const FAILED: i64 = 1;

/// The instruction, its entry, and the two words that they give.
macro_rules! guarded {
    ($instruction:literal, $($operands:tt)*) => {
        asm!(
            "2:",
            $instruction,
            "3:",
            exception!(mote_faults, "2b" => "3b"),
            $($operands)*
        )
    };
}

macro_rules! load {
    ($name:ident, $type:ty, $instruction:literal) => {
        /// Loads from an address, of any alignment, that may not be there.
        ///
        /// # Safety
        /// No race with a plain store; what is read may be anything.
        #[inline(always)]
        pub(crate) unsafe fn $name(at: u64) -> Result<$type, Fault> {
            let value: u64;
            let fault: u64;
            // SAFETY: one load, whose failure the handler turns into a fault; `watch` has installed it.
            unsafe {
                guarded!(
                    $instruction,
                    at = in(reg) at,
                    value = lateout(reg) value,
                    inout("rdx") 0u64 => fault,
                    options(nostack, readonly, preserves_flags),
                );
            }
            if fault == 0 { Ok(value as $type) } else { Err(Fault::Memory) }
        }
    };
}

load!(load_u8, u8, "movzx {value:e}, byte ptr [{at}]");
load!(load_u16, u16, "movzx {value:e}, word ptr [{at}]");
load!(load_u32, u32, "mov {value:e}, dword ptr [{at}]");
load!(load_u64, u64, "mov {value}, qword ptr [{at}]");

macro_rules! store {
    ($name:ident, $type:ty, $class:ident, $instruction:literal) => {
        /// Stores to an address, of any alignment, that may not be there.
        ///
        /// # Safety
        /// Whatever lies there may be overwritten.
        #[inline(always)]
        pub(crate) unsafe fn $name(at: u64, value: $type) -> Result<(), Fault> {
            let fault: u64;
            // SAFETY: one store to memory that the caller gives, whose failure the handler turns into a fault.
            unsafe {
                guarded!(
                    $instruction,
                    at = in(reg) at,
                    value = in($class) value,
                    inout("rdx") 0u64 => fault,
                    options(nostack, preserves_flags),
                );
            }
            if fault == 0 { Ok(()) } else { Err(Fault::Memory) }
        }
    };
}

store!(store_u8, u8, reg_byte, "mov byte ptr [{at}], {value}");
store!(store_u16, u16, reg, "mov word ptr [{at}], {value:x}");
store!(store_u32, u32, reg, "mov dword ptr [{at}], {value:e}");
store!(store_u64, u64, reg, "mov qword ptr [{at}], {value}");
