//! What the kernel tells about all processes beside any samples: what they map, what they run, which children they
//! fork.
//!
//! A dummy event of perf_event_open(2) for each CPU, whose records come through memory that is shared with the kernel
//! ([`crate::perf_ring`]).

use crate::Result;
use crate::fd::Fd;
use crate::perf_ring::PerfRing;
use crate::raw::syscall;

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

/// The side band of one CPU.
#[derive(Debug)]
pub struct SideBand(PerfRing);

impl SideBand {
    /// Opens it for one CPU, with `pages` of 4 KiB for records, a power of two. Times are of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// `EACCES`, `EPERM` without `CAP_PERFMON`; `ENODEV` for a CPU that is not there; `EINVAL` on a kernel before Linux
    /// 5.12, or where `pages` is none.
    pub fn open(cpu: u32, pages: usize) -> Result<SideBand> {
        let mut attribute = [0u64; 16];
        (attribute[0], attribute[1], attribute[3], attribute[5]) = (SOFTWARE, DUMMY, TIME, FLAGS);
        // `clockid` is the upper half of this word.
        attribute[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
        let at = attribute.as_ptr() as usize;
        let arguments = [at, usize::MAX, cpu as usize, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0];
        // SAFETY: the kernel reads the attribute, as many bytes as it says, and writes nothing.
        let raw = unsafe { syscall(libc::SYS_perf_event_open, arguments) }?;
        PerfRing::new(Fd::from_raw(raw as i32), pages).map(SideBand)
    }

    /// As [`PerfRing::next`].
    pub fn next(&mut self, to: &mut [u8]) -> Option<usize> {
        self.0.next(to)
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
