//! Counts of a thread's events without a system call: the page that the kernel shares (linux/perf_event.h, `struct
//! perf_event_mmap_page`), and the processor's own counter (RDPMC).
//!
//! # Ordering
//! The kernel changes `lock` before and after it changes the rest, on the thread's own processor: what was read between
//! two equal values of it belongs together (the loop that linux/perf_event.h shows). Compiler fences are enough.

use crate::arch;
use core::mem::offset_of;
use core::sync::atomic::{Ordering, compiler_fence};

/// `struct perf_event_mmap_page` up to `time_mask`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterPage {
    version: u32,
    compat_version: u32,
    lock: u32,
    index: u32,
    offset: i64,
    time_enabled: u64,
    time_running: u64,
    capabilities: u64,
    pmc_width: u16,
    time_shift: u16,
    time_mult: u32,
    time_offset: u64,
    time_zero: u64,
    size: u32,
    reserved: u32,
    time_cycles: u64,
    time_mask: u64,
}

/// `cap_user_rdpmc`, `cap_user_time`, `cap_user_time_short`.
const CAN_READ: u64 = 1 << 2;
const HAS_TIME: u64 = 1 << 3;
const HAS_SHORT_TIME: u64 = 1 << 5;

/// `cap_user_time_zero`
const HAS_TIME_ZERO: u64 = 1 << 4;

/// How the time stamp counter becomes nanoseconds of perf's clock: `zero + (tsc * mult >> shift)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeScale {
    /// See above.
    pub shift: u16,
    /// See above.
    pub mult: u32,
    /// See above.
    pub zero: u64,
}

/// The clock of an event, where the kernel tells it.
///
/// # Safety
/// `page` is where an event of perf_event_open(2) is mapped, or any other shared memory of this size.
pub(crate) unsafe fn time_scale(page: *const CounterPage) -> Option<TimeScale> {
    let lock: *const u32 = page.cast::<u8>().wrapping_add(offset_of!(CounterPage, lock)).cast();
    // A thread that writes has written soon; one that never does is not waited for.
    for _ in 0..1000 {
        // SAFETY: the caller's promise; the kernel may change it meanwhile.
        let before = unsafe { lock.read_volatile() };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        let seen = unsafe { page.read_volatile() };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        if unsafe { lock.read_volatile() } != before || before & 1 != 0 {
            continue;
        }
        let scale = TimeScale { shift: seen.time_shift, mult: seen.time_mult, zero: seen.time_zero };
        return Some(scale).filter(|_| seen.capabilities & HAS_TIME_ZERO != 0 && seen.time_mult != 0);
    }
    None
}

/// What an event has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often.
    pub count: u64,
    /// For how many nanoseconds it was to be counted.
    pub enabled: u64,
    /// For how many it was.
    pub running: u64,
}

/// Whether [`read`] can tell what the event of this page has counted.
///
/// # Safety
/// `page` is where an event of perf_event_open(2) is mapped.
pub unsafe fn can_read(page: *const CounterPage) -> bool {
    // SAFETY: the caller's promise; the kernel may change it meanwhile.
    let page = unsafe { page.read_volatile() };
    page.capabilities & CAN_READ != 0
}

/// What an event of the calling thread has counted; `None` where the processor's counter may not be read any more.
///
/// # Cost
/// Some 20 ns.
///
/// # Safety
/// `page` is where an event of perf_event_open(2) for the calling thread is mapped.
///
/// # Signal safety
/// Callable from a handler.
#[inline]
pub unsafe fn read(page: *const CounterPage) -> Option<Count> {
    // SAFETY: the caller's promise.
    unsafe { read_with(page, arch::count, arch::count_event) }
}

/// As [`read`], with the clock and the counters that are given.
///
/// # Safety
/// As `read`.
#[inline(always)]
unsafe fn read_with(
    page: *const CounterPage,
    clock: impl Fn() -> u64,
    counter: impl Fn(u32) -> Option<u64>,
) -> Option<Count> {
    let lock: *const u32 = page.cast::<u8>().wrapping_add(offset_of!(CounterPage, lock)).cast();
    loop {
        // SAFETY: the caller's promise; the kernel may change it meanwhile.
        let before = unsafe { lock.read_volatile() };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        let seen = unsafe { page.read_volatile() };
        let mut count = seen.offset;
        let is_counting = seen.capabilities & CAN_READ != 0 && seen.index != 0;
        let counted = if is_counting { Some(counter(seen.index - 1)) } else { None };
        let now = (seen.capabilities & HAS_TIME != 0 && seen.time_enabled != seen.time_running)
            .then(|| seen.nanoseconds(clock()));
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        if unsafe { lock.read_volatile() } != before {
            continue;
        }
        if let Some(counted) = counted {
            // The counter has so many bits, the highest of which is its sign.
            let above = 64_u32.saturating_sub(seen.pmc_width.into()) & 63;
            count = count.wrapping_add(((counted? << above) as i64) >> above);
        }
        let since = now.unwrap_or(0);
        return Some(Count {
            count: count as u64,
            enabled: seen.time_enabled.wrapping_add(since),
            running: seen.time_running.wrapping_add(if is_counting { since } else { 0 }),
        });
    }
}

impl CounterPage {
    /// Nanoseconds since the page was written.
    fn nanoseconds(&self, cycles: u64) -> u64 {
        let cycles = if self.capabilities & HAS_SHORT_TIME != 0 {
            self.time_cycles.wrapping_add(cycles.wrapping_sub(self.time_cycles) & self.time_mask)
        } else {
            cycles
        };
        let shift = u32::from(self.time_shift) & 63;
        let (whole, rest) = (cycles >> shift, cycles & ((1 << shift) - 1));
        let mult = u64::from(self.time_mult);
        self.time_offset.wrapping_add(whole.wrapping_mul(mult)).wrapping_add((rest * mult) >> shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> CounterPage {
        CounterPage {
            capabilities: CAN_READ | HAS_TIME,
            pmc_width: 48,
            time_mult: 1,
            ..CounterPage::default()
        }
    }

    fn read_page(page: &CounterPage, clock: u64, counter: Option<u64>) -> Option<Count> {
        // SAFETY: what is there is such a page.
        unsafe { read_with(page, || clock, |_| counter) }
    }

    #[test]
    fn the_processors_counter_is_added_with_its_sign() {
        let page = CounterPage { index: 1, offset: 1000, ..page() };
        assert_eq!(read_page(&page, 0, Some(5)).unwrap().count, 1005);
        // 48 bits: the kernel lets counters begin below zero, so that they overflow in time.
        assert_eq!(read_page(&page, 0, Some((1 << 48) - 10)).unwrap().count, 990);
        assert_eq!(read_page(&page, 0, None), None, "it may not be read any more");
    }

    #[test]
    fn one_that_is_not_counting_now_has_what_it_had() {
        let page = CounterPage { index: 0, offset: 77, time_enabled: 50, time_running: 20, ..page() };
        let count = read_page(&page, 10, Some(99)).unwrap();
        assert_eq!(count, Count { count: 77, enabled: 60, running: 20 });
        let page = CounterPage { index: 2, ..page };
        let count = read_page(&page, 10, Some(3)).unwrap();
        assert_eq!(count, Count { count: 80, enabled: 60, running: 30 });
    }

    #[test]
    fn times_are_scaled_as_the_kernel_says() {
        let page = CounterPage { time_mult: 3, time_shift: 2, time_offset: 7, ..page() };
        // 101 * 3 / 4 and 7.
        assert_eq!(page.nanoseconds(101), 82);
        let short = CounterPage {
            capabilities: HAS_TIME | HAS_SHORT_TIME,
            time_cycles: 0x1_0000,
            time_mask: 0xff,
            time_mult: 1,
            ..CounterPage::default()
        };
        assert_eq!(short.nanoseconds(0x12), 0x1_0012);
    }

    #[test]
    fn what_the_kernel_counts_by_itself_is_not_read_here() {
        use crate::mem::{Mapping, PAGE_BYTES};
        use crate::perf::{Scope, count, id, read_counts};
        // Page faults, of the kernel's own counting.
        let Ok(event) = count(1, 2, Scope::User, None) else {
            return mote_skip::skip("perf_event_open(2) is not allowed");
        };
        let memory = Mapping::shared(&event, PAGE_BYTES).expect("memory");
        // SAFETY: the event is mapped there.
        assert!(!unsafe { can_read(memory.base().cast()) });
        let mut counts = [0; 4];
        let mut read = || {
            read_counts(event.raw(), &mut counts).expect("counts");
            counts
        };
        let [events, enabled, running, before] = read();
        assert_eq!((events, enabled), (1, running));
        let touched = Mapping::private(8 * PAGE_BYTES).expect("memory");
        // SAFETY: memory of this size.
        (0..8).for_each(|page| unsafe { touched.base().wrapping_add(page * PAGE_BYTES).write_volatile(1) });
        let [.., after] = read();
        assert!(after >= before + 8, "{before} {after}");
        assert!(id(event.raw()).is_ok_and(|id| id > 0));
        assert_eq!(id(0).map(drop), Err(crate::Errno(libc::ENOTTY)), "it is no such event");
    }
}
