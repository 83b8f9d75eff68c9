//! A record that is a sample.

use crate::arch::{REGISTERS, Registers};
use crate::records::number;
use mote_layout::stubs::Slots;

/// `PERF_RECORD_SAMPLE`
const SAMPLE: u64 = 9;
/// Above these addresses in a call chain there are none, but marks (`enum perf_callchain_context`).
const MARKS: u64 = 4095_u64.wrapping_neg();
/// What follows is in the kernel, or in the process.
const IN_KERNEL: u64 = 128_u64.wrapping_neg();
const IN_USER: u64 = 512_u64.wrapping_neg();

/// What a record of slots begins with, behind its size: a sample has there the upper half of how many addresses its
/// call chain has.
pub(crate) const MARK: u32 = 0x6d6f_7465;
/// How far apart a record of slots and the sample behind it are at most, in nanoseconds: a lost sample's are not those
/// of the next one.
const TOGETHER: u64 = 500_000;

/// The slots that a thread had used last, as a program gives them out before a sample of it ([`crate::programs`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    tid: u32,
    time: u64,
    top: u64,
    bytes: Vec<u8>,
}

impl Given {
    /// Reads a record with its header; `None` for one of another kind, or of data.
    pub(crate) fn read(bytes: &[u8]) -> Option<Given> {
        let is_it = number(bytes, 0, 4)? == SAMPLE && number(bytes, 28, 4)? == u64::from(MARK);
        let [tid, len] = [12, 24].map(|at| number(bytes, at, 4));
        let [time, top] = [16, 32].map(|at| number(bytes, at, 8));
        // Behind the size are mark and top.
        let slots = usize::try_from(len?).ok()?.checked_sub(12)?;
        let bytes = bytes.get(40..)?.get(..slots)?.to_vec();
        is_it.then_some(Given { tid: tid? as u32, time: time?, top: top?, bytes })
    }

    /// Whether they are of this sample, which follows: its time is some microseconds before theirs, or behind it.
    pub(crate) fn is_of(&self, sample: &Raw) -> bool {
        self.tid == sample.tid && sample.time.abs_diff(self.time) < TOGETHER
    }

    pub(crate) fn slots(&self) -> Slots<'_> {
        Slots::new(self.top, &self.bytes)
    }
}

/// A sample, as the kernel has left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time: u64,
    /// The kernel's stack, the innermost frame first.
    pub(crate) kernel: Vec<u64>,
    /// The process's stack by frame pointers, where nothing was copied.
    pub(crate) user: Vec<u64>,
    /// The registers of the process, and a copy of its stack from where they point to.
    pub(crate) copy: Option<(Registers, Vec<u8>)>,
    /// The slots of its thread, where they were given out.
    pub(crate) given: Option<Given>,
}

impl Raw {
    /// Reads a record with its header; `None` for one of another kind, or of data. `has_stack`: a part of the stack is
    /// copied (`mote_sys::perf::Sampling`).
    pub(crate) fn read(bytes: &[u8], has_stack: bool) -> Option<Raw> {
        if number(bytes, 0, 4)? != SAMPLE {
            return None;
        }
        let [pid, tid] = [8, 12].map(|at| number(bytes, at, 4).map(|id| id as u32));
        let mut rest = Words(bytes.get(16..)?);
        let time = rest.next()?;
        let (mut kernel, mut user) = (Vec::new(), Vec::new());
        let mut side = None;
        for _ in 0..rest.next()? {
            match rest.next()? {
                IN_KERNEL => side = Some(&mut kernel),
                IN_USER => side = Some(&mut user),
                mark if mark >= MARKS => side = None,
                address => side.iter_mut().for_each(|side| side.push(address)),
            }
        }
        let copy = if has_stack { rest.copy()? } else { None };
        Some(Raw { pid: pid?, tid: tid?, time, kernel, user, copy, given: None })
    }
}

/// Words of a record that are still to be read.
struct Words<'r>(&'r [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// Registers and stack; `Some(None)` of a thread that is no process's.
    fn copy(&mut self) -> Option<Option<(Registers, Vec<u8>)>> {
        let mut words = [0; REGISTERS];
        let has_registers = self.next()? != 0;
        if has_registers {
            for word in &mut words {
                *word = self.next()?;
            }
        }
        let room = usize::try_from(self.next()?).ok()?;
        let (stack, rest) = self.0.split_at_checked(room)?;
        self.0 = rest;
        let copied = if room == 0 { 0 } else { usize::try_from(self.next()?).ok()? };
        let stack = stack.get(..copied.min(room))?;
        Some(has_registers.then(|| (Registers::new(words), stack.to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u64]) -> Vec<u8> {
        let body = words.iter().flat_map(|word| word.to_le_bytes());
        [9, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0].into_iter().chain(body).collect()
    }

    #[test]
    fn both_stacks_are_told_apart() {
        let chain = [55, 6, IN_KERNEL, 0xffff_ffff_8100_0000, IN_USER, 0x5555, 0x5666, 0x5777];
        let raw = Raw::read(&record(&chain), false).expect("a sample");
        assert_eq!((raw.pid, raw.tid, raw.time), (7, 8, 55));
        assert_eq!(raw.kernel, [0xffff_ffff_8100_0000]);
        assert_eq!(raw.user, [0x5555, 0x5666, 0x5777]);
        let copied = [55, 0, 2, 0xbbbb, 0x7ff0, 0x5555, 16, 1, 2, 8];
        let raw = Raw::read(&record(&copied), true).expect("a sample");
        assert_eq!(raw.copy, Some((Registers::new([0xbbbb, 0x7ff0, 0x5555]), vec![1, 0, 0, 0, 0, 0, 0, 0])));
        let of_the_kernel = [55, 0, 0, 0];
        assert_eq!(Raw::read(&record(&of_the_kernel), true).expect("a sample").copy, None);
    }

    #[test]
    fn slots_are_told_from_samples_and_belong_to_the_next_one() {
        let (size, mark) = (12 + 32, u64::from(MARK) << 32);
        let words = [55, mark | size, 0x7000_8000 + 64, 0x5111, 0x7f00, 0, 0, 0];
        let bytes = record(&words);
        let given = Given::read(&bytes).expect("slots");
        assert_eq!((given.tid, given.time), (8, 55));
        assert_eq!(given.slots().behind(0x7000_0024), Some(0x5111));
        assert_eq!(Raw::read(&bytes, true), None);
        let sample = |time| Raw::read(&record(&[time, 0, 0, 0]), true).expect("a sample");
        assert_eq!(Given::read(&record(&[55, 0, 0, 0])), None);
        let of = [50, 55, 900, 55 + TOGETHER].map(|time| given.is_of(&sample(time)));
        assert_eq!(of, [true, true, true, false]);
        assert!(!given.is_of(&Raw { tid: 9, ..sample(56) }));
        for len in 0..bytes.len() {
            let read = Given::read(&bytes[..len]).map(|given| given.bytes.len());
            assert_eq!(read, (len >= 72).then_some(32), "{len} bytes");
        }
        let long = [55, mark | 5000, 0x7000_8000 + 64, 0x5111];
        assert_eq!(Given::read(&record(&long)), None);
        assert_eq!(Given::read(&record(&[55, mark | 3, 0, 0])), None);
    }

    #[test]
    fn cut_samples_are_none() {
        let whole = record(&[55, 1, 0x1234, 2, 0xbbbb, 0x7ff0, 0x5555, 16, 1, 2, 16]);
        assert!(Raw::read(&whole, true).is_some());
        for len in 0..whole.len() {
            assert_eq!(Raw::read(&whole[..len], true), None, "{len} bytes");
        }
    }
}
