//! From a copy of a stack to addresses.

use crate::arch::Registers;
use crate::mappings::Table;
use crate::modules::{Bytes, Files, Known};
use crate::sample::Raw;
use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Unwinder as _, UnwinderNative};
use mote_journal::Map;
use mote_layout::stack::{End, FRAMES_MAX};
use std::collections::HashMap;
use std::ops::Range;

/// Address spaces whose modules are remembered.
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

/// What unwinding knows of the memory of a process.
#[derive(Default)]
struct Space {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    /// Where the code lies whose frames are known.
    known: Vec<Range<u64>>,
    /// Where handlers of signals return to.
    restorers: Vec<u64>,
}

impl Space {
    fn of(modules: Vec<Known>) -> Space {
        let mut space = Space::default();
        for Known { code, module, restorers } in modules {
            space.known.push(code);
            space.restorers.extend(restorers);
            space.unwinder.add_module(module);
        }
        space
    }

    /// Whether frames are known of the code at an address, or of the call that returns there.
    fn knows(&self, address: u64) -> bool {
        self.known.iter().any(|code| code.contains(&address) || code.contains(&address.wrapping_sub(1)))
    }
}

/// Unwinds stacks of all processes.
#[derive(Default)]
pub(crate) struct Unwinder {
    files: Files,
    /// By process, and by which of its programs.
    spaces: HashMap<(u32, u32), Space>,
    /// Modules of spaces that were made since the cache was empty.
    modules: usize,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

/// The cache tells spaces apart by 16 bits, which count modules (`framehop`, `modules_generation`): before they come
/// around, it is emptied.
const MODULES_MAX: usize = 1 << 15;

/// How far beyond a copy a stack may go on, for it to be the stack that is read there, and not something else that is
/// taken for one: what stacks have as usual (`ulimit -s`).
const BEYOND: u64 = 8 << 20;

/// Bytes of a stack that may lie above its first frame, for what begins a program.
const BEGIN: u64 = 64;

impl Unwinder {
    /// What this program of a process has mapped is no longer what it was.
    pub(crate) fn forget(&mut self, of: (u32, u32)) {
        self.spaces.remove(&of);
    }

    /// The sample with its stack.
    pub(crate) fn finish(&mut self, raw: Raw, cpu: u32, table: &Table) -> Sample {
        let Raw { pid, tid, time, kernel, mut user, copy } = raw;
        let is_whole = copy.is_some_and(|(registers, stack)| {
            self.unwind((pid, 0), table.maps(pid), (registers, &stack, false), &mut user).is_none()
        });
        Sample { pid, tid, cpu, time, kernel, user, is_whole, off_cpu: None }
    }

    /// Appends the addresses of a stack, by what the process `pid` has mapped. `true`: there is no more of the stack
    /// than the copy. Returns why they end before its begin.
    pub(crate) fn unwind<'m>(
        &mut self,
        (pid, program): (u32, u32),
        maps: impl Iterator<Item = &'m Map>,
        (registers, stack, is_to_end): (Registers, &[u8], bool),
        to: &mut Vec<u64>,
    ) -> Option<End> {
        let Unwinder { files, spaces, modules, cache } = self;
        if spaces.len() >= SPACES_MAX || *modules >= MODULES_MAX {
            (*spaces, *modules) = (HashMap::new(), 0);
            *cache = CacheNative::default();
        }
        let space = spaces.entry((pid, program)).or_insert_with(|| {
            let space = Space::of(files.modules(pid, maps));
            *modules += space.known.len() + 1;
            space
        });
        let bottom = registers.stack_pointer();
        let mut is_beyond = false;
        let mut read = |address: u64| {
            let at = address.checked_sub(bottom).ok_or(())?;
            let word = usize::try_from(at).ok().and_then(|at| stack.get(at..)?.first_chunk::<8>());
            is_beyond = word.is_none() && at < BEYOND;
            Ok(u64::from_le_bytes(*word.ok_or(())?))
        };
        let (mut now, mut at) = (registers.to_unwind(), registers.instruction());
        let mut address = FrameAddress::from_instruction_pointer(at);
        let most = to.len() + FRAMES_MAX;
        let end = loop {
            if to.len() >= most {
                return Some(End::Frames);
            }
            to.push(at);
            if space.restorers.contains(&at) && address.is_return_address() {
                let Ok(interrupted) = Registers::interrupted(now.sp(), &mut read) else { break End::Code };
                (now, at) = (interrupted.to_unwind(), interrupted.instruction());
                address = FrameAddress::from_instruction_pointer(at);
                if interrupted.stack_pointer().wrapping_sub(bottom) > stack.len() as u64 {
                    to.push(at);
                    return Some(End::Stack);
                }
                continue;
            }
            match space.unwinder.unwind_frame(address, &mut now, cache, &mut read) {
                // By frame pointers, each 0 looks like an end: only code that says so is one.
                Ok(None) if space.knows(at) => return None,
                Ok(Some(caller)) if let Some(next) = FrameAddress::from_return_address(caller) => {
                    (at, address) = (caller, next);
                }
                Ok(_) | Err(_) => break End::Code,
            }
        };
        // Where the kernel has entered a program (`_start` of the dynamic linker) there may be no frame.
        let left = bottom.wrapping_add(stack.len() as u64).wrapping_sub(now.sp());
        if is_to_end && left <= BEGIN {
            return None;
        }
        // Of a process that ends there is no stack any more.
        Some(if is_beyond && !stack.is_empty() { End::Copy } else { end })
    }
}
