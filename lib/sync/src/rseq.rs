//! The calling thread's restartable-sequence area, as the C library registered it.
//!
//! glibc 2.35 and later register every thread and export where the area lies relative to the thread
//! pointer (`__rseq_offset`) and whether it is active (`__rseq_size`). We never register one
//! ourselves: a thread has only one area. The symbols are weak, so that programs start with
//! older C libraries too.

use crate::arch::define_shared_word;
use core::sync::atomic::{AtomicIsize, Ordering};
use mote_sys::weak_symbol;

/// Signature that the kernel expects in the four bytes before an abort handler.
pub const SIGNATURE: u32 = crate::arch::RSEQ_SIGNATURE;

/// `struct rseq` of linux/rseq.h, the part that every version has.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Area {
    /// CPU on which the thread started its current sequence; possibly stale.
    pub cpu_id_start: u32,
    /// CPU on which the thread runs; negative when it is not registered.
    pub cpu_id: u32,
    /// Address of the descriptor of the sequence being run.
    pub rseq_cs: u64,
    /// Not used by the kernel any more (Linux 6.18): 0.
    pub flags: u32,
}

/// Byte offset of [`Area::cpu_id`].
pub const CPU_ID: usize = core::mem::offset_of!(Area, cpu_id);
/// Byte offset of [`Area::rseq_cs`].
pub const RSEQ_CS: usize = core::mem::offset_of!(Area, rseq_cs);

const UNAVAILABLE: isize = isize::MIN;
define_shared_word!("mote_rseq_offset", "0x8000000000000000");
unsafe extern "C" {
    /// How far behind the thread pointer the area lies. Assembly of the same object uses it by its name, in a process
    /// where [`is_found`].
    #[link_name = "mote_rseq_offset"]
    safe static OFFSET: AtomicIsize;
}

/// The area used where the C library registers none: a CPU number that no ring has.
static NOWHERE: Nowhere =
    Nowhere(core::cell::UnsafeCell::new(Area { cpu_id_start: 0, cpu_id: u32::MAX, rseq_cs: 0, flags: 0 }));
struct Nowhere(core::cell::UnsafeCell<Area>);
// SAFETY: only assembly writes to it, one word that no thread reads.
unsafe impl Sync for Nowhere {}

/// Finds the C library's registration. Returns true when sequences can be used.
///
/// To be called once before [`area`]; until then, and when it returns false, every thread looks
/// unregistered.
pub fn find() -> bool {
    let offset = weak_offset();
    let active = offset.is_some() && weak_size() != 0;
    OFFSET.store(if active { offset.unwrap_or(UNAVAILABLE) } else { UNAVAILABLE }, Ordering::Relaxed);
    active
}

/// Whether [`find`] has found the C library's registration.
pub fn is_found() -> bool {
    OFFSET.load(Ordering::Relaxed) != UNAVAILABLE
}

/// How far behind the thread pointer each thread's area lies, where [`is_found`].
pub fn offset() -> isize {
    OFFSET.load(Ordering::Relaxed)
}

/// The calling thread's area. Its `cpu_id` is at least `0x8000_0000` when the thread has none.
///
/// # Cost
/// Two loads.
#[inline(always)]
pub fn area() -> *mut Area {
    let offset = OFFSET.load(Ordering::Relaxed);
    if offset == UNAVAILABLE {
        return NOWHERE.0.get();
    }
    crate::thread::pointer().wrapping_offset(offset).cast()
}

/// The CPU that the thread ran on a moment ago, when it is registered.
#[inline]
pub fn cpu_hint() -> Option<u32> {
    // SAFETY: `area` gives the thread's own area or the static stand-in, both readable for ever;
    // the kernel writes the word, hence volatile.
    let cpu = unsafe { area().cast::<u32>().wrapping_byte_add(CPU_ID).read_volatile() };
    (cpu < 1 << 31).then_some(cpu)
}

fn weak_offset() -> Option<isize> {
    let symbol = weak_symbol!("__rseq_offset").cast::<isize>();
    // SAFETY: when defined, it is glibc's `const ptrdiff_t`.
    (!symbol.is_null()).then(|| unsafe { symbol.read() })
}

fn weak_size() -> u32 {
    let symbol = weak_symbol!("__rseq_size").cast::<u32>();
    if symbol.is_null() {
        return 0;
    }
    // SAFETY: when defined, it is glibc's `const unsigned int`.
    unsafe { symbol.read() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn registered_threads_know_their_cpu() {
        if super::find() {
            assert!(super::cpu_hint().is_some());
        } else {
            assert!(super::cpu_hint().is_none());
        }
    }
}
