//! What the kernel tells about all processes beside any samples: what they map, what they run, which children they
//! fork.
//!
//! A dummy event of perf_event_open(2) for each CPU, whose records come through memory that is shared with the kernel
//! (linux/perf_event.h, `struct perf_event_mmap_page`).
//!
//! # Ordering
//! A. The kernel stores `data_head` after the records (`smp_wmb`); it is loaded with acquire.
//! B. Records are copied before `data_tail` is stored with release: the kernel writes over them from then on.

use crate::fd::Fd;
use crate::mem::{Mapping, PAGE_BYTES};
use crate::raw::syscall;
use crate::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering};

/// `PERF_TYPE_SOFTWARE`, and the size of the attribute.
const SOFTWARE: u64 = 1 | (size_of::<[u64; 16]>() as u64) << 32;
/// `PERF_COUNT_SW_DUMMY`
const DUMMY: u64 = 9;
/// `PERF_SAMPLE_TIME`
const TIME: u64 = 1 << 2;
/// mmap, comm, task, sample_id_all, mmap2, comm_exec, use_clockid, build_id
const FLAGS: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24 | 1 << 25 | BUILD_ID;
/// The kernel reads build ids itself (Linux 5.12).
const BUILD_ID: u64 = 1 << 34;
const PERF_FLAG_FD_CLOEXEC: usize = 8;

/// `data_head`, `data_tail`, `data_offset`, `data_size` in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Longest record: its size is 16 bits.
pub const RECORD_MAX: usize = 1 << 16;

/// The side band of one CPU.
#[derive(Debug)]
pub struct SideBand {
    _event: Fd,
    memory: Mapping,
}

impl SideBand {
    /// Opens it for one CPU, with `pages` of 4 KiB for records, a power of two. Times are of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// `EACCES`, `EPERM` without `CAP_PERFMON`; `ENODEV` for a CPU that is not there; `EINVAL` on a kernel before Linux
    /// 5.12.
    pub fn open(cpu: u32, pages: usize) -> Result<SideBand> {
        if !pages.is_power_of_two() || pages > 1 << 16 {
            return Err(Errno(libc::EINVAL));
        }
        let mut attribute = [0u64; 16];
        (attribute[0], attribute[1], attribute[3], attribute[5]) = (SOFTWARE, DUMMY, TIME, FLAGS);
        // `clockid` is the upper half of this word.
        attribute[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
        let at = attribute.as_ptr() as usize;
        let arguments = [at, usize::MAX, cpu as usize, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0];
        // SAFETY: the kernel reads the attribute, as many bytes as it says, and writes nothing.
        let raw = unsafe { syscall(libc::SYS_perf_event_open, arguments) }?;
        let event = Fd::from_raw(raw as i32);
        let memory = Mapping::shared(&event, (pages + 1) * PAGE_BYTES)?;
        Ok(SideBand { _event: event, memory })
    }

    /// Copies the next record (its header first) to `to`, and returns how many bytes it has; `None` when there is none.
    /// A record that is longer than `to`, which none is than [`RECORD_MAX`], is cut.
    pub fn next(&mut self, to: &mut [u8]) -> Option<usize> {
        // Ordering: A.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        if head == tail {
            return None;
        }
        let mut header = [0; 8];
        self.copy(tail, &mut header);
        let len = u64::from(u16::from_le_bytes([header[6], header[7]]));
        // What the kernel has written it has written whole; anything else is passed over.
        let whole = len >= 8 && len <= head.wrapping_sub(tail);
        let next = if whole { tail.wrapping_add(len) } else { head };
        let kept = to.len().min(if whole { len as usize } else { 0 });
        if let Some(to) = to.get_mut(..kept) {
            self.copy(tail, to);
        }
        // Ordering: B.
        self.word(TAIL).store(next, Ordering::Release);
        Some(kept)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY:
        // 1. the first page is mapped while `self` lives, and `offset` is that of an aligned word in it (`HEAD`,
        //    `TAIL`);
        // 2. the kernel and this program access these words as atomics only.
        unsafe { AtomicU64::from_ptr(self.memory.base().wrapping_add(offset).cast()) }
    }

    /// Copies the bytes from position `from` on.
    fn copy(&self, from: u64, to: &mut [u8]) {
        let bytes = self.memory.len() - PAGE_BYTES;
        for (at, byte) in (from..).zip(to) {
            // A power of two.
            let at = PAGE_BYTES + (at as usize & (bytes - 1));
            // SAFETY: `at` is below the mapping's length, and the kernel does not write there until `TAIL` is moved;
            // were it otherwise, the bytes would be wrong and nothing else: a volatile read of a byte.
            *byte = unsafe { self.memory.base().wrapping_add(at).read_volatile() };
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn what_this_process_maps_is_told() {
        let mut bands = [0, 1, 2, 3].map(|cpu| SideBand::open(cpu, 64));
        if bands.iter().all(Result::is_err) {
            mote_skip::skip(format_args!("{:?}", bands[0].as_ref().err()));
            return;
        }
        let mut record = [0; 1024];
        let mut kinds = [0u32; 32];
        std::process::Command::new("true").status().expect("every machine has it");
        for band in bands.iter_mut().flatten() {
            while let Some(len) = band.next(&mut record) {
                assert!(len >= 8);
                kinds[record[0] as usize & 31] += 1;
            }
        }
        // Comm, exit, fork, mmap2.
        assert!([3, 4, 7, 10].iter().all(|kind| kinds[*kind] > 0), "{kinds:?}");
    }
}
