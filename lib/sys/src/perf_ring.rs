//! Memory in which an event of perf_event_open(2) leaves its records (linux/perf_event.h, `struct
//! perf_event_mmap_page`).
//!
//! # Ordering
//! A. The kernel stores `data_head` after the records (`smp_wmb`); it is loaded with acquire.
//! B. Records are copied before `data_tail` is stored with release: the kernel writes over them from then on.

use crate::fd::Fd;
use crate::mem::{Mapping, PAGE_BYTES, copy_shared};
use crate::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering};

/// `data_head`, `data_tail` in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Longest record: its size is 16 bits.
pub const RECORD_MAX: usize = 1 << 16;
/// Bytes of a record's header.
const HEADER: usize = 8;

/// The records of one event, and of others that are sent there.
#[derive(Debug)]
pub struct PerfRing {
    event: Fd,
    memory: Mapping,
}

impl PerfRing {
    /// Maps memory for the records of an event: `pages` of 4 KiB, a power of two.
    ///
    /// # Errors
    /// `EPERM` where a user may not lock as much memory (`kernel.perf_event_mlock_kb`, RLIMIT_MEMLOCK), `ENOMEM`.
    pub fn new(event: Fd, pages: usize) -> Result<PerfRing> {
        if !pages.is_power_of_two() || pages > 1 << 16 {
            return Err(Errno(libc::EINVAL));
        }
        let memory = Mapping::shared(&event, (pages + 1) * PAGE_BYTES)?;
        Ok(PerfRing { event, memory })
    }

    /// The event whose records are read here first; others may be sent here, too.
    pub fn event(&self) -> &Fd {
        &self.event
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
        let mut header = [0; HEADER];
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
        // A power of two.
        let bytes = self.memory.len() - PAGE_BYTES;
        let at = from as usize & (bytes - 1);
        let first = to.len().min(bytes - at);
        let base = self.memory.base().wrapping_add(PAGE_BYTES);
        let rest = (to.len() - first).min(bytes);
        // SAFETY: `at + first` is not beyond the mapping's end, and `to` has as many bytes. The kernel does not write
        // there until `TAIL` is moved; were it otherwise, the bytes would be wrong and nothing else.
        unsafe { copy_shared(to.as_mut_ptr(), base.wrapping_add(at), first) };
        // SAFETY: as above, from the ring's begin on.
        unsafe { copy_shared(to.as_mut_ptr().wrapping_add(first), base, rest) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn what_this_process_maps_is_told() {
        let mut bands =
            [0, 1, 2, 3].map(|cpu| crate::perf::side_band(cpu).and_then(|event| PerfRing::new(event, 64)));
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
