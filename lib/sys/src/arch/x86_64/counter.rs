//! The time-stamp counter (TSC).

use crate::exception;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

/// The kernel's name for it.
pub(crate) const CLOCKSOURCE: &str = "tsc";

/// The counter, in cycles.
#[inline(always)]
pub(crate) fn count() -> u64 {
    // SAFETY: RDTSC is unprivileged unless CR4.TSD is set, which Linux does only on request (prctl).
    unsafe { _rdtsc() }
}

/// An instruction that reads a counter into `edx` and `eax`, of the number in `ecx` where one is given; 1 in the third
/// word, or 0 when it has failed.
macro_rules! guarded {
    ($instruction:literal $(, $clobber:tt)* $(; $number:expr)?) => {{
        let (low, high, done): (u64, u64, u64);
        // SAFETY: reads a register of the processor; where that fails, the handler goes on behind it, with `done` as it
        // was.
        unsafe {
            asm!(
                "2:",
                $instruction,
                "mov {done:e}, 1",
                "3:",
                exception!(mote_clocks, "2b" => "3b"),
                done = inout(reg) 0u64 => done,
                out("rax") low,
                out("rdx") high,
                $(out($clobber) _,)*
                $(in("ecx") $number,)?
                options(nostack, preserves_flags),
            );
        }
        (done != 0).then_some(high << 32 | low)
    }};
}

/// The counter, if the calling thread may read it.
#[inline(always)]
pub(crate) fn count_guarded() -> Option<u64> {
    guarded!("rdtsc")
}

/// Whether the processor has RDTSCP (CPUID 8000_0001H:EDX\[27\]).
pub(crate) fn can_count_after_loads() -> bool {
    const EXTENDED: u32 = 0x8000_0001;
    __cpuid(0x8000_0000).eax >= EXTENDED && __cpuid(EXTENDED).edx & (1 << 27) != 0
}

/// The counter, when the loads before it are done (SDM vol. 2 and APM vol. 3, RDTSCP). An LFENCE before RDTSC does that
/// on Intel's processors; on AMD's it must have been switched on (APM vol. 3, LFENCE), which a guest can neither do nor
/// always see.
///
/// # Safety
/// [`can_count_after_loads`].
#[inline(always)]
pub(crate) unsafe fn count_guarded_after_loads() -> Option<u64> {
    guarded!("rdtscp", "rcx")
}

/// A counter of the processor's events (SDM vol. 2, RDPMC), if the calling thread may read it.
#[inline(always)]
pub(crate) fn count_event(number: u32) -> Option<u64> {
    guarded!("rdpmc"; number)
}

/// Waits for loads.
#[inline(always)]
pub(crate) fn finish_loads() {
    // SAFETY: every x86-64 CPU has SSE2.
    unsafe { _mm_lfence() };
}

/// CPUID 8000_0007H:EDX\[8\], which both Intel and AMD define.
pub(crate) fn is_invariant() -> bool {
    const ADVANCED_POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= ADVANCED_POWER && __cpuid(ADVANCED_POWER).edx & (1 << 8) != 0
}
