//! Memory in which an event of perf_event_open(2) leaves its records (linux/perf_event.h, `struct
//! perf_event_mmap_page`), and that of a hardware trace beside it (its AUX area).
//!
//! # Ordering
//! A. The kernel stores `data_head` after the records (`smp_wmb`); it is loaded with acquire. So is `aux_head`.
//! B. Records are copied before `data_tail` is stored with release: the kernel writes over them from then on. So are
//!    bytes of the trace before `aux_tail` is.

use crate::fd::Fd;
use crate::mem::{Mapping, PAGE_BYTES, copy_shared};
use crate::perf_count::{TimeScale, time_scale};
use crate::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering};

/// `data_head`, `data_tail` in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `aux_head`, `aux_tail`, `aux_offset`, `aux_size` there.
const TRACE_HEAD: usize = 1056;
const TRACE_TAIL: usize = 1064;
const TRACE_OFFSET: usize = 1072;
const TRACE_SIZE: usize = 1080;
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
        // What the kernel has written it has written whole, and where there was room; anything else is passed over.
        let there = head.wrapping_sub(tail);
        let whole = len >= 8 && len <= there && there <= (self.memory.len() - PAGE_BYTES) as u64;
        let next = if whole { tail.wrapping_add(len) } else { head };
        let kept = to.len().min(if whole { len as usize } else { 0 });
        if let Some(to) = to.get_mut(..kept) {
            self.copy(tail, to);
        }
        // Ordering: B.
        self.word(TAIL).store(next, Ordering::Release);
        Some(kept)
    }

    /// The clock of the event's times, where the kernel tells it.
    pub fn time_scale(&self) -> Option<TimeScale> {
        // SAFETY: the first page is mapped while `self` lives.
        unsafe { time_scale(self.memory.base().cast()) }
    }

    /// Maps memory for the event's hardware trace: `pages` of 4 KiB, a power of two.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for an event that has none; `EPERM`, `ENOMEM` as [`PerfRing::new`].
    pub fn trace(&self, pages: usize, kept: Kept) -> Result<TraceMemory> {
        if !pages.is_power_of_two() || pages > 1 << 24 {
            return Err(Errno(libc::EINVAL));
        }
        let (offset, len) = (self.memory.len(), pages * PAGE_BYTES);
        self.word(TRACE_OFFSET).store(offset as u64, Ordering::Relaxed);
        self.word(TRACE_SIZE).store(len as u64, Ordering::Relaxed);
        let memory = match kept {
            Kept::All => Mapping::shared_at(&self.event, offset as u64, len)?,
            // By this the kernel knows that no reader says how far it has read.
            Kept::Last => Mapping::shared_to_read(&self.event, offset as u64, len)?,
        };
        Ok(TraceMemory { memory })
    }

    /// How far the hardware trace has come: bytes since its begin; with [`Kept::Last`] where in the memory it is.
    pub fn trace_head(&self) -> u64 {
        // Ordering: A.
        self.word(TRACE_HEAD).load(Ordering::Acquire)
    }

    /// Gives the kernel the memory of the trace up to there again. What was copied of it was copied before.
    pub fn free_trace(&self, up_to: u64) {
        // Ordering: B.
        self.word(TRACE_TAIL).store(up_to, Ordering::Release);
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
        // SAFETY: the ring is all behind the first page, and a power of two. The kernel does not write there until
        // `TAIL` is moved; were it otherwise, the bytes would be wrong and nothing else.
        unsafe {
            copy_ring(self.memory.base().wrapping_add(PAGE_BYTES), self.memory.len() - PAGE_BYTES, from, to)
        }
    }
}

/// What is kept of a hardware trace when its memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All that there is room for: it stops until some was read.
    All,
    /// The last of it: it writes over the first.
    Last,
}

/// The memory of a hardware trace, a ring.
#[derive(Debug)]
pub struct TraceMemory {
    memory: Mapping,
}

impl TraceMemory {
    /// How many bytes it has, a power of two.
    pub fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Copies the bytes from position `from` on, which is taken modulo [`TraceMemory::bytes`]; at most as many as there
    /// are. What is written there meanwhile is copied as it is at some moment.
    ///
    /// # Cost
    /// As memcpy.
    pub fn copy(&self, from: u64, to: &mut [u8]) {
        // SAFETY: the ring is all of the mapping, and a power of two.
        unsafe { copy_ring(self.memory.base(), self.memory.len(), from, to) }
    }
}

/// Copies the bytes of a ring from position `from` on, which is taken modulo its length; at most as many as there are.
///
/// # Safety
/// `bytes` are mapped at `base`, and a power of two.
unsafe fn copy_ring(base: *const u8, bytes: usize, from: u64, to: &mut [u8]) {
    let at = from as usize & (bytes - 1);
    let first = to.len().min(bytes - at);
    let rest = (to.len() - first).min(at);
    // SAFETY: `at + first` is not beyond the ring's end, and `to` has as many bytes.
    unsafe { copy_shared(to.as_mut_ptr(), base.wrapping_add(at), first) };
    // SAFETY: as above, from the ring's begin on: `first + rest` is at most `to.len()`, and `rest` at most `at`.
    unsafe { copy_shared(to.as_mut_ptr().wrapping_add(first), base, rest) };
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
    #[test]
    fn a_trace_is_a_ring_beside_the_records() {
        let pages = 2;
        // Any memory does that is shared and large enough: one page, two of records, two of the trace.
        let file = crate::mem::sealed_memfd(c"trace", 5 * PAGE_BYTES as u64).expect("memory");
        let kernel = crate::fd::duplicate(&file).expect("a descriptor");
        let ring = PerfRing::new(file, pages).expect("memory");
        for kept in [Kept::All, Kept::Last] {
            let trace = ring.trace(pages, kept).expect("memory");
            assert_eq!(trace.bytes(), 2 * PAGE_BYTES as u64);
            let base = 3 * PAGE_BYTES as u64;
            crate::fd::write_at(&kernel, b"begin", base).expect("memory");
            crate::fd::write_at(&kernel, b"end", base + trace.bytes() - 3).expect("memory");
            crate::fd::write_at(&kernel, &77_u64.to_le_bytes(), TRACE_HEAD as u64).expect("memory");
            let mut bytes = [0; 8];
            trace.copy(5 * trace.bytes() - 3, &mut bytes);
            assert_eq!((&bytes, ring.trace_head()), (b"endbegin", 77));
            ring.free_trace(1 << 40);
            let mut word = [0; 8];
            crate::fd::read_at(&kernel, &mut word, TRACE_TAIL as u64).expect("memory");
            assert_eq!(u64::from_le_bytes(word), 1 << 40);
            // More than there is: as much as there is.
            let mut all = [9; 2 * PAGE_BYTES + 100];
            trace.copy(1, &mut all);
            assert_eq!(
                (&all[..4], &all[2 * PAGE_BYTES - 1..2 * PAGE_BYTES + 2]),
                (&b"egin"[..], &b"b\x09\x09"[..])
            );
        }
        assert_eq!(ring.time_scale(), None, "nobody has said it");
        assert_eq!(ring.trace(3, Kept::All).map(drop), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn attributes_are_opened_as_they_are() {
        // A software event that does nothing, of its first size.
        let mut attribute = [0; 64];
        attribute[0] = 1;
        attribute[4] = 64;
        attribute[8] = 9;
        match crate::perf::open_attribute(&attribute, 0, -1) {
            Ok(event) => {
                assert!(PerfRing::new(event, 1).is_ok_and(|ring| ring.trace(1, Kept::All).is_err()));
            }
            Err(why) => return mote_skip::skip(format_args!("{why:?}")),
        }
        attribute[4] = 9;
        assert_eq!(crate::perf::open_attribute(&attribute, 0, -1).map(drop), Err(Errno(libc::E2BIG)));
        assert_eq!(crate::perf::open_attribute(&[0; 137], 0, -1).map(drop), Err(Errno(libc::E2BIG)));
    }
}
