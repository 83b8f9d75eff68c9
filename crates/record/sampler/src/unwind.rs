//! From a copy of a stack to addresses.

use crate::arch::{AROUND, Moved, Registers, moved};
use crate::library::tops;
use crate::mappings::Table;
use crate::memory::Memory;
use crate::modules::{Bytes, Files, Known};
use crate::sample::{Given, Raw};
use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _, UnwinderNative,
};
use mote_journal::Map;
use mote_layout::stack::{End, FRAMES_MAX};
use mote_layout::stubs::{Slots, WORDS};
use mote_symbol::LIBRARY;
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
    /// What knows of return addresses that were replaced: of our library, where it is loaded.
    finders: Vec<u64>,
    /// The process's memory, where the library is loaded.
    memory: Option<Memory>,
}

impl Space {
    fn of(pid: u32, modules: Vec<Known>) -> Space {
        let mut space = Space::default();
        for Known { code, module, restorers, finder } in modules {
            space.known.push(code);
            space.restorers.extend(restorers);
            space.finders.extend(finder);
            space.unwinder.add_module(module);
        }
        space.memory = space.finders.first().and_then(|_| Memory::of(pid));
        space
    }

    /// What leads to the slots of the threads of this process (`library::tops`).
    fn tops(&self) -> Option<[u64; WORDS]> {
        let memory = self.memory.as_ref()?;
        self.finders.iter().find_map(|finder| tops(memory, *finder))
    }

    /// Whether a thread is in code that bodies call to be counted, which is not the library's own.
    fn is_counting(&self, at: u64) -> bool {
        !self.knows(at) && self.memory.as_ref().is_some_and(|memory| memory.counts(at))
    }

    /// Where in a function a thread is that is in the code between it and its probe.
    fn moved(&self, at: u64) -> Option<Moved> {
        if self.knows(at) {
            return None;
        }
        let (from, code) = self.memory.as_ref()?.around(at, AROUND)?;
        let is_code = |address: u64| self.known.iter().any(|code| code.contains(&address));
        moved(from, usize::try_from(at - from).ok()?, &code, is_code)
    }

    /// Where a thread is that has these registers, as if there were no code between functions and their probes.
    fn placed(
        &self,
        registers: &Registers,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> (UnwindRegsNative, u64) {
        let (mut now, mut at) = (registers.to_unwind(), registers.instruction());
        if self.is_counting(at)
            && let Ok(body) = read(now.sp())
        {
            at = body;
            now = UnwindRegsNative::new(at, now.sp().wrapping_add(8), now.bp());
        }
        if let Some(moved) = self.moved(at) {
            at = moved.instruction;
            now = UnwindRegsNative::new(at, now.sp().wrapping_add(moved.pushed), now.bp());
        }
        (now, at)
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
    /// Of processes whose mappings are new, what leads to the slots of their threads, where that is wanted.
    found: Option<Vec<(u32, Option<[u64; WORDS]>)>>,
}

/// A copy of a stack, and what is to be known with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied<'c> {
    pub(crate) registers: Registers,
    /// From where the stack pointer points to.
    pub(crate) stack: &'c [u8],
    /// There is no more of it.
    pub(crate) is_to_end: bool,
    /// Where return addresses are that were replaced.
    pub(crate) slots: Slots<'c>,
}

impl Copied<'_> {
    /// The word at an address of the stack, with the return address that is really there; below the stack pointer only
    /// one that was replaced is known.
    fn word(&self, address: u64) -> Option<u64> {
        let Some(at) = address.checked_sub(self.registers.stack_pointer()) else {
            return self.slots.at(address);
        };
        let word = u64::from_le_bytes(*self.stack.get(usize::try_from(at).ok()?..)?.first_chunk::<8>()?);
        Some(self.slots.behind(word).unwrap_or(word))
    }
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
    /// One that finds what leads to the slots of threads, too ([`Unwinder::found`]).
    pub(crate) fn that_finds() -> Unwinder {
        Unwinder { found: Some(Vec::new()), ..Unwinder::default() }
    }

    /// What this program of a process has mapped is no longer what it was.
    pub(crate) fn forget(&mut self, of: (u32, u32)) {
        self.spaces.remove(&of);
    }

    /// The sample with its stack.
    pub(crate) fn finish(&mut self, raw: Raw, cpu: u32, table: &Table) -> Sample {
        let Raw { pid, tid, time, kernel, mut user, copy, given } = raw;
        let slots = given.as_ref().map(Given::slots).unwrap_or_default();
        // What was followed by frame pointers, for which nothing else is to be known of the process.
        if copy.is_none() && table.maps(pid).any(|map| map.path == LIBRARY) {
            self.space(((pid, 0), pid), table.maps(pid));
            user.iter_mut().for_each(|address| *address = slots.behind(*address).unwrap_or(*address));
        }
        let is_whole = copy.is_some_and(|(registers, stack)| {
            let copied = Copied { registers, stack: &stack, is_to_end: false, slots };
            self.unwind(((pid, 0), pid), table.maps(pid), copied, &mut user).is_none()
        });
        Sample { pid, tid, cpu, time, kernel, user, is_whole, off_cpu: None }
    }

    /// Of processes whose mappings are new since this was asked last: what leads to the slots of their threads.
    pub(crate) fn found(&mut self) -> Vec<(u32, Option<[u64; WORDS]>)> {
        self.found.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is known of the memory of a process.
    fn space<'m>(
        &mut self,
        (of, pid): ((u32, u32), u32),
        maps: impl Iterator<Item = &'m Map>,
    ) -> (&mut Space, &mut CacheNative<MayAllocateDuringUnwind>) {
        let Unwinder { files, spaces, modules, cache, found } = self;
        if spaces.len() >= SPACES_MAX || *modules >= MODULES_MAX {
            (*spaces, *modules) = (HashMap::new(), 0);
            *cache = CacheNative::default();
        }
        let space = spaces.entry(of).or_insert_with(|| {
            let space = Space::of(pid, files.modules(pid, maps));
            *modules += space.known.len() + 1;
            if let Some(found) = found.as_mut().filter(|found| found.len() < SPACES_MAX) {
                found.push((pid, space.tops()));
            }
            space
        });
        (space, cache)
    }

    /// Appends the addresses of a stack, by what a process has mapped, whose id for the kernel is `pid`. Returns why
    /// they end before its begin.
    pub(crate) fn unwind<'m>(
        &mut self,
        (of, pid): ((u32, u32), u32),
        maps: impl Iterator<Item = &'m Map>,
        copied: Copied<'_>,
        to: &mut Vec<u64>,
    ) -> Option<End> {
        let (space, cache) = self.space((of, pid), maps);
        let Copied { registers, stack, is_to_end, slots } = copied;
        let bottom = registers.stack_pointer();
        let mut is_beyond = false;
        let mut read = |address: u64| {
            let word = copied.word(address);
            is_beyond = word.is_none() && address.checked_sub(bottom).is_some_and(|at| at < BEYOND);
            word.ok_or(())
        };
        let (mut now, mut at) = space.placed(&registers, &mut read);
        let mut address = FrameAddress::from_instruction_pointer(at);
        let most = to.len() + FRAMES_MAX;
        let end = loop {
            if to.len() >= most {
                return Some(End::Frames);
            }
            to.push(at);
            if space.restorers.contains(&at) && address.is_return_address() {
                let Ok(interrupted) = Registers::interrupted(now.sp(), &mut read) else { break End::Code };
                (now, at) = space.placed(&interrupted, &mut read);
                address = FrameAddress::from_instruction_pointer(at);
                if interrupted.stack_pointer().wrapping_sub(bottom) > stack.len() as u64 {
                    to.push(at);
                    return Some(End::Stack);
                }
                continue;
            }
            // The thread is in a stub: a call begins there, or has returned.
            if !address.is_return_address()
                && let Some(behind) = slots.behind(at)
                && let Some(next) = FrameAddress::from_return_address(behind)
            {
                now.set_ip(behind);
                (at, address) = (behind, next);
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

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::stubs::{REGION, SLOT, SLOTS_AT};

    const SP: u64 = 0x7000_0000;
    const AREA: u64 = 0x7e00_0000_0000;
    const FIRST: u64 = AREA + SLOTS_AT as u64 + SLOT as u64;

    /// What stands on the stack for the slot of this number.
    fn stub(number: u64) -> u64 {
        AREA + number * SLOT as u64 + 4
    }

    /// The functions of a stack that is followed by frame pointers; slots have where they return to and their place.
    fn unwound(at: u64, stack: &[u64], top: u64, slots: &[[u64; 2]]) -> Vec<u64> {
        let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let slots = slots.iter().flat_map(|[to, place]| [*to, *place, 1, 2]);
        let slots: Vec<u8> = slots.flat_map(u64::to_le_bytes).collect();
        let registers = Registers::new([SP + 8, SP, at]);
        let slots = Slots::new(top, &slots);
        let copied = Copied { registers, stack: &stack, is_to_end: false, slots };
        let mut to = Vec::new();
        let none = std::iter::empty();
        let _ = Unwinder::default().unwind(((7, 0), u32::MAX), none, copied, &mut to);
        to
    }

    #[test]
    fn return_addresses_that_were_replaced_are_put_right() {
        let stack = [1, SP + 32, stub(2), 2, SP + 48, 0x7222, 0, stub(1)];
        let slots = [[0x8333, SP + 56], [0x6111, SP + 16]];
        let real = [0x5000, 0x6111, 0x7222, 0x8333];
        assert_eq!(unwound(0x5000, &stack, FIRST + 64, &slots), real);
        // The inner one's function has jumped to another, whose slot is the last.
        let jumped = [[0x8333, SP + 56], [0x6111, SP + 16], [stub(2), SP + 16]];
        let through = [1, SP + 32, stub(3), 2, SP + 48, 0x7222, 0, stub(1)];
        assert_eq!(unwound(0x5000, &through, FIRST + 96, &jumped), real);
        // Without slots it is no code that is known.
        assert_ne!(unwound(0x5000, &stack, FIRST, &[]), real);
        // A thread that is in a stub itself: it has returned, and its slot is still there.
        let inside = unwound(stub(2) + 9, &stack[1..], FIRST + 64, &slots);
        assert_eq!(inside[..2], [stub(2) + 9, 0x6111]);
    }

    #[test]
    fn whatever_slots_say_a_stack_ends() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for _ in 0..3000 {
            let mut word = || match random() % 6 {
                0 => stub(random() % 40),
                1 => SP + 8 * (random() % 80),
                2 => u64::MAX - random() % 64,
                3 => random() % 64,
                4 => AREA + random() % REGION as u64,
                _ => random() << 31 | random(),
            };
            let stack: Vec<u64> = (0..64).map(|_| word()).collect();
            let slots: Vec<[u64; 2]> = (0..32).map(|_| [word(), word()]).collect();
            for (at, top) in [(word(), FIRST + 32 * 32), (stub(3), FIRST + 32 * 32), (stub(9), word())] {
                assert!(unwound(at, &stack, top, &slots).len() <= FRAMES_MAX + 1);
            }
        }
        // All in a circle.
        let circle: Vec<[u64; 2]> = (1..=32).map(|number| [stub(number % 32 + 1), SP]).collect();
        let stack: Vec<u64> = (0..64).flat_map(|at| [SP + 16 * at + 24, stub(1)]).collect();
        assert!(unwound(stub(1), &stack, FIRST + 32 * 32, &circle).len() <= FRAMES_MAX);
    }
}
