//! From a copy of a stack to addresses.

use crate::arch::Registers;
use crate::mappings::Table;
use crate::modules::{Bytes, Files};
use crate::sample::Raw;
use framehop::{CacheNative, MayAllocateDuringUnwind, Unwinder as _, UnwinderNative};
use std::collections::HashMap;

/// Most frames of a stack: what the kernel gives by default (sysctl `kernel.perf_event_max_stack`).
const FRAMES_MAX: usize = 127;
/// Processes whose modules are remembered.
const SPACES_MAX: usize = 512;

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Addresses in the kernel, the innermost frame first; empty when it was not there, or that is not sampled.
    pub kernel: Vec<u64>,
    /// Addresses in the process: where it was, and where calls return to.
    pub user: Vec<u64>,
    /// The stack has been followed to where the program or the thread began.
    pub is_whole: bool,
    /// It was not running: this is where it had left its CPU, until now.
    pub off_cpu: Option<OffCpu>,
}

/// A time without a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// In nanoseconds.
    pub duration: u64,
    /// It could have gone on: others had the CPU.
    pub is_preempted: bool,
}

type Space = UnwinderNative<Bytes, MayAllocateDuringUnwind>;

/// Unwinds stacks of all processes.
#[derive(Default)]
pub(crate) struct Unwinder {
    files: Files,
    spaces: HashMap<u32, Space>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    /// What a process has mapped is no longer what it was.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.spaces.remove(&pid);
    }

    /// The sample with its stack.
    pub(crate) fn finish(&mut self, raw: Raw, cpu: u32, table: &Table) -> Sample {
        let (user, is_whole) = match raw.copy {
            Some((registers, stack)) => self.unwind(raw.pid, registers, &stack, table),
            None => (raw.user, false),
        };
        let Raw { pid, tid, time, kernel, .. } = raw;
        Sample { pid, tid, cpu, time, kernel, user, is_whole, off_cpu: None }
    }

    fn unwind(&mut self, pid: u32, registers: Registers, stack: &[u8], table: &Table) -> (Vec<u64>, bool) {
        let Unwinder { files, spaces, cache } = self;
        if spaces.len() >= SPACES_MAX {
            spaces.clear();
        }
        let space = spaces.entry(pid).or_insert_with(|| {
            let mut space = Space::new();
            files.modules(pid, table.maps(pid)).into_iter().for_each(|module| space.add_module(module));
            space
        });
        let bottom = registers.stack_pointer();
        let mut read = |address: u64| {
            let at = address.checked_sub(bottom).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let word = stack.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(())?;
            Ok(u64::from_le_bytes(*word))
        };
        let mut frames = space.iter_frames(registers.instruction(), registers.to_unwind(), cache, &mut read);
        let mut found = Vec::new();
        while found.len() < FRAMES_MAX {
            match frames.next() {
                Ok(Some(frame)) => found.push(frame.address()),
                Ok(None) => return (found, true),
                Err(_) => break,
            }
        }
        (found, false)
    }
}
