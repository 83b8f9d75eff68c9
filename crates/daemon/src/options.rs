//! What to record, and where to.

pub use mote_clock::Source;
pub use mote_ring::Mode;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a recording is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory to make.
    pub output: PathBuf,
    /// Patterns of events to record; none means all.
    pub include: Vec<String>,
    /// Patterns of events to leave out.
    pub exclude: Vec<String>,
    /// Sizes of the buffers.
    pub buffers: Buffers,
    /// What happens when they are full.
    pub mode: Mode,
    /// Format of the metadata.
    pub ctf: Ctf,
    /// When to stop; `None` when the last process has gone.
    pub duration: Option<Duration>,
    /// Trace clock to use instead of the one that the machine suggests.
    pub clock: Option<Source>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// Sizes of one CPU's ring, as powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// log2 of the bytes of a sub-buffer.
    pub sub_bits: u32,
    /// log2 of the number of sub-buffers.
    pub count_bits: u32,
}

/// Metadata format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ctf {
    /// CTF 1.8: TSDL, what babeltrace2 2.0 and Trace Compass read.
    V1_8,
    /// CTF 2: JSON.
    V2,
}

/// Memory that all rings together take by default, at most.
const DEFAULT_TOTAL: u64 = 1 << 30;
/// A CPU's ring by default, at most.
const DEFAULT_CPU: u64 = 64 << 20;
/// A sub-buffer by default, at most.
const DEFAULT_SUB: u64 = 1 << 20;

/// CPUs that there can be, each of which has a ring.
pub fn cpus() -> u32 {
    mote_sys::process::possible_cpus().unwrap_or(1)
}

impl Buffers {
    /// What is taken when nothing is asked for: 64 MiB a CPU in sub-buffers of 1 MiB, less on machines with
    /// many CPUs, so that all together is at most 1 GiB.
    pub fn default_for(cpus: u32) -> Buffers {
        let share = (DEFAULT_TOTAL / u64::from(cpus.max(1))).min(DEFAULT_CPU);
        Buffers::of_cpu_bytes(share)
    }

    /// Sub-buffers that make `bytes` a CPU, rounded up to a power of two.
    pub fn of_cpu_bytes(bytes: u64) -> Buffers {
        let ring_bits = bytes.clamp(8 << 10, 1 << 32).next_power_of_two().trailing_zeros();
        let sub_bits = (DEFAULT_SUB.trailing_zeros()).min(ring_bits - 2).max(12);
        Buffers { sub_bits, count_bits: ring_bits - sub_bits }
    }

    /// `count` sub-buffers of `bytes` each, both rounded up to powers of two.
    pub fn of_sub_buffers(bytes: u64, count: u64) -> Buffers {
        let bits = |n: u64| n.clamp(1, 1 << 40).next_power_of_two().trailing_zeros();
        Buffers { sub_bits: bits(bytes).max(12), count_bits: bits(count).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_powers_of_two_and_bounded() {
        assert_eq!(Buffers::default_for(2), Buffers { sub_bits: 20, count_bits: 6 });
        assert_eq!(Buffers::default_for(256), Buffers { sub_bits: 20, count_bits: 2 });
        assert_eq!(Buffers::of_cpu_bytes(1), Buffers { sub_bits: 12, count_bits: 1 });
        assert_eq!(Buffers::of_cpu_bytes(100_000), Buffers { sub_bits: 15, count_bits: 2 });
        assert_eq!(Buffers::of_sub_buffers(1 << 20, 4), Buffers { sub_bits: 20, count_bits: 2 });
    }
}
