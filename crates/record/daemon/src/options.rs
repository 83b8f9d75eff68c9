//! What to record, and where to.

pub use crate::output::memory::Memory;
pub use crate::output::owner::User;
pub use crate::output::streams::Streams;
pub use mote_catalog::stack::Stacks;
pub use mote_clock::Source;
use mote_filter::Rule;
pub use mote_layout::stack::BYTES_MAX as STACK_COPY_MAX;
use mote_pmu::{AnyMachine, Device, Filter, Kept, Settings, Targets};
pub use mote_ring::Mode;
use mote_ring::geometry::{BadGeometry, COUNT_BITS_MAX, RING_BITS_MAX, SUB_BITS_MAX, SUB_BITS_MIN};
pub use mote_slow::LatencyOptions;
pub use mote_slow::adaptive::Percentile;
pub use mote_trampolines::{CallsAre, Counting, Sampling};
use std::ffi::OsString;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything that a recording is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory to make.
    pub output: PathBuf,
    /// Where the streams of events go.
    pub streams: Streams,
    /// What to do with which events on what condition; events that no rule is about stay off.
    pub rules: Vec<Rule>,
    /// Objects with filters that clang has compiled.
    pub objects: Vec<PathBuf>,
    /// An event whose filter has a fault is recorded, not dropped.
    pub keeps_on_fault: bool,
    /// How often counts and histograms are shown.
    pub interval: Option<Duration>,
    /// Columns of the lines in which they are shown.
    pub columns: usize,
    /// Patterns of events to leave out.
    pub exclude: Vec<String>,
    /// Sizes of the buffers.
    pub buffers: Buffers,
    /// What happens when they are full.
    pub mode: Mode,
    /// Format of the metadata.
    pub ctf: Ctf,
    /// When to stop, counted from when all processes that run are recorded; `None` when the last process has gone.
    pub duration: Option<Duration>,
    /// Trace clock to use instead of the one that the machine suggests.
    pub clock: Option<Source>,
    /// Functions of programs that are to have events of their own: patterns of `mote_functions`. Rules say what becomes
    /// of these events.
    pub functions: Vec<String>,
    /// Which of these have to be around calls of the others, so that they are recorded: patterns, too; none where they
    /// are recorded anywhere.
    pub under: Vec<String>,
    /// Probe lists, which have names for functions of stripped binaries.
    pub probe_lists: Vec<PathBuf>,
    /// What becomes of their calls.
    pub calls: CallsAre,
    /// Most bytes of a thread's stack that are copied with each event of a process, to follow it; 0 for no stacks.
    pub stack: u32,
    /// How functions are sampled when rules ask for that (`fperf "db::*" for 2s`); `None` for as `mote fperf` does.
    pub sampling: Option<Sampling>,
    /// What to record of the kernel; `None` for nothing.
    pub kernel: Option<KernelOptions>,
    /// Whether threads are sampled, and how.
    pub profile: Option<ProfileOptions>,
    /// What of the hardware trace is recorded, if it is.
    pub hardware: Option<HardwareOptions>,
    /// Who is to have the recording; `None` for whoever has called sudo, if all of it is theirs, or else for who
    /// records.
    pub owner: Option<User>,
    /// Running processes to record.
    pub attach: Vec<i32>,
    /// The command and its arguments; empty when only running processes, or the whole system, are to be recorded.
    pub command: Vec<OsString>,
}

impl Options {
    /// The patterns of functions that rules have sampled; each once.
    pub(crate) fn asked_functions(&self) -> Vec<String> {
        let kernel = self.kernel.iter().flat_map(|kernel| &kernel.rules);
        let mut patterns: Vec<String> = Vec::new();
        for pattern in self.rules.iter().chain(kernel).flat_map(Rule::sampled_functions) {
            if !patterns.iter().any(|known| known == pattern) {
                patterns.push(pattern.to_owned());
            }
        }
        patterns
    }

    /// Whether functions get probes.
    pub(crate) fn has_functions(&self) -> bool {
        !self.functions.is_empty() || !self.asked_functions().is_empty()
    }

    /// Whether anything of processes is recorded that needs nothing of them.
    pub(crate) fn sees_from_outside(&self) -> bool {
        self.kernel.is_some() || self.hardware.is_some()
    }

    /// Whether anything would be in the recording: without rules for programs, what the kernel's side has; rules that
    /// only say what to do when an event occurs (set a flag, take a snapshot) record nothing by themselves.
    pub(crate) fn yields(&self) -> bool {
        let kernel = self.kernel.as_ref();
        if self.hardware.is_some() {
            return true;
        }
        let has_rules = !self.rules.is_empty() || kernel.is_some_and(|kernel| !kernel.rules.is_empty());
        let mut rules = self.rules.iter().chain(kernel.iter().flat_map(|kernel| &kernel.rules));
        let is_latency = kernel.is_some_and(|kernel| kernel.latency.is_some());
        is_latency || !has_rules || !self.objects.is_empty() || rules.any(Rule::yields)
    }

    /// Whether filters count, and nothing is recorded.
    pub fn only_counts(&self) -> bool {
        let kernel = self.kernel.as_ref();
        let mut rules = self.rules.iter().chain(kernel.iter().flat_map(|kernel| &kernel.rules));
        let is_latency = kernel.is_some_and(|kernel| kernel.latency.is_some());
        let counts = rules.clone().any(Rule::yields) && !rules.any(Rule::writes);
        !is_latency && self.objects.is_empty() && counts && self.asked_functions().is_empty()
    }
}

/// How threads are sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Samples in a second.
    pub frequency: u64,
    /// Bytes that are copied of a thread's stack; 0: it is followed by frame pointers.
    pub stack: u32,
    /// Times without a CPU, too.
    pub off_cpu: bool,
    /// Of the whole system, not only of the command and the processes.
    pub all: bool,
    /// Only samples are kept that rules ask for (`profile for 2s`).
    pub when_asked: bool,
}

/// How the hardware trace (Intel PT) is recorded: of the command, the processes, or of everything.
#[derive(Clone)]
pub struct HardwareOptions {
    /// What the processor can.
    pub device: Device,
    /// What packets there are to be.
    pub settings: Settings,
    /// Bytes of memory for packets of a CPU, a power of two.
    pub memory: usize,
    /// Whether all packets are kept, or the last ones.
    pub kept: Kept,
    /// Limits it to addresses.
    pub filter: Option<Filter>,
    /// Code that is made at run time is copied when it becomes executable.
    pub jit: bool,
    /// On which CPUs.
    pub cpus: Vec<u32>,
    /// Of the whole system, not only of the command and the processes.
    pub all: bool,
    /// The machine that is asked for it, by whose code is to be recorded: the kernel, but for tests.
    pub machine: Arc<dyn Fn(&Targets) -> AnyMachine + Send + Sync>,
}

impl Debug for HardwareOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HardwareOptions").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What to record of the kernel.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// What to do with which events; those that no rule is about are not attached.
    pub rules: Vec<Rule>,
    /// Of the whole system, not only of the command and the processes.
    pub all: bool,
    /// Sizes of the buffers.
    pub buffers: Buffers,
    /// Which stacks are recorded with each event.
    pub stacks: Stacks,
    /// Which system calls are recorded for taking long.
    pub latency: Option<LatencyOptions>,
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
/// A CPU's ring of kernel events by default, at most: it is memory of the kernel, taken at once.
const DEFAULT_KERNEL_CPU: u64 = 16 << 20;
/// A sub-buffer by default, at most.
const DEFAULT_SUB: u64 = 1 << 20;

/// CPUs that there can be, each of which has a ring.
pub fn cpus() -> u32 {
    mote_sys::process::possible_cpus().unwrap_or(1)
}

/// log2 of `n`, rounded up.
fn bits(n: u64) -> u32 {
    n.clamp(1, 1 << 62).next_power_of_two().trailing_zeros()
}

impl Buffers {
    /// What is taken when nothing is asked for: 64 MiB a CPU in sub-buffers of 1 MiB, less on machines with
    /// many CPUs, so that all together is at most 1 GiB.
    pub fn default_for(cpus: u32) -> Buffers {
        let share = (DEFAULT_TOTAL / u64::from(cpus.max(1))).min(DEFAULT_CPU);
        Buffers::of_ring_bits(bits(share))
    }

    /// The least that can be, for a recording without programs.
    pub fn least() -> Buffers {
        Buffers { sub_bits: SUB_BITS_MIN, count_bits: 1 }
    }

    /// The same for kernel events: 16 MiB a CPU, at most 256 MiB. There are two such rings of each.
    pub fn kernel_default_for(cpus: u32) -> Buffers {
        let share = (DEFAULT_TOTAL / 4 / u64::from(cpus.max(1))).min(DEFAULT_KERNEL_CPU);
        Buffers::of_ring_bits(bits(share))
    }

    /// Sub-buffers that make `bytes` a CPU, rounded up to a power of two.
    ///
    /// # Errors
    /// [`BadGeometry`] below 8 KiB and over 4 GiB.
    pub fn of_cpu_bytes(bytes: u64) -> Result<Buffers, BadGeometry> {
        if (8 << 10..=1 << 32).contains(&bytes) {
            Ok(Buffers::of_ring_bits(bits(bytes)))
        } else {
            Err(BadGeometry)
        }
    }

    /// `count` sub-buffers of `bytes` each, both rounded up to powers of two.
    ///
    /// # Errors
    /// [`BadGeometry`] when one of them, or their product, is out of bounds.
    pub fn of_sub_buffers(bytes: u64, count: u64) -> Result<Buffers, BadGeometry> {
        let buffers = Buffers { sub_bits: bits(bytes), count_bits: bits(count) };
        let (sub, count) = (SUB_BITS_MIN..=SUB_BITS_MAX, 1..=COUNT_BITS_MAX);
        let whole = buffers.sub_bits + buffers.count_bits <= RING_BITS_MAX;
        let fits = sub.contains(&buffers.sub_bits) && count.contains(&buffers.count_bits) && whole;
        if fits { Ok(buffers) } else { Err(BadGeometry) }
    }

    fn of_ring_bits(ring_bits: u32) -> Buffers {
        let sub_bits = DEFAULT_SUB.trailing_zeros().min(ring_bits - 2).max(SUB_BITS_MIN);
        Buffers { sub_bits, count_bits: ring_bits - sub_bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_powers_of_two_and_bounded() {
        assert_eq!(Buffers::default_for(2), Buffers { sub_bits: 20, count_bits: 6 });
        assert_eq!(Buffers::default_for(256), Buffers { sub_bits: 20, count_bits: 2 });
        assert_eq!(Buffers::of_cpu_bytes(8192), Ok(Buffers { sub_bits: 12, count_bits: 1 }));
        assert_eq!(Buffers::of_cpu_bytes(100_000), Ok(Buffers { sub_bits: 15, count_bits: 2 }));
        assert_eq!(Buffers::of_sub_buffers(1 << 20, 4), Ok(Buffers { sub_bits: 20, count_bits: 2 }));
        for refused in [0, 1, 1 << 33, u64::MAX] {
            assert_eq!(Buffers::of_cpu_bytes(refused), Err(BadGeometry));
            assert_eq!(Buffers::of_sub_buffers(refused, 4), Err(BadGeometry));
            assert_eq!(Buffers::of_sub_buffers(4096, refused), Err(BadGeometry));
        }
    }
}
