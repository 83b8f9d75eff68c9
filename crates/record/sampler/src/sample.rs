//! A record that is a sample.

use crate::arch::{REGISTERS, Registers};
use crate::records::number;

/// `PERF_RECORD_SAMPLE`
const SAMPLE: u64 = 9;
/// Above these addresses in a call chain there are none, but marks (`enum perf_callchain_context`).
const MARKS: u64 = 4095_u64.wrapping_neg();
/// What follows is in the kernel, or in the process.
const IN_KERNEL: u64 = 128_u64.wrapping_neg();
const IN_USER: u64 = 512_u64.wrapping_neg();

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
        Some(Raw { pid: pid?, tid: tid?, time, kernel, user, copy })
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
    fn cut_samples_are_none() {
        let whole = record(&[55, 1, 0x1234, 2, 0xbbbb, 0x7ff0, 0x5555, 16, 1, 2, 16]);
        assert!(Raw::read(&whole, true).is_some());
        for len in 0..whole.len() {
            assert_eq!(Raw::read(&whole[..len], true), None, "{len} bytes");
        }
    }
}
