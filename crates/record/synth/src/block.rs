//! Blocks of instructions as qemu translates them.

use crate::arch::{Instruction, Kind};
use crate::fact::{Exit, Run};
use mote_pt::digest::Digest;

/// A block: qemu ends it at the first branch at the latest.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) start: u64,
    pub(crate) lengths: Vec<u8>,
    pub(crate) digest: Digest,
    /// The last instruction; `None` where it is none that is known.
    pub(crate) last: Option<Instruction>,
    /// The address of the last instruction.
    pub(crate) last_ip: u64,
    /// Where the code is from: 0, or the number of an image.
    pub(crate) image: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Block {
    /// A block of these instructions; `None` where lengths and bytes do not fit.
    pub(crate) fn new(start: u64, image: u32, lengths: &[u8], bytes: &[u8]) -> Option<Block> {
        let last = *lengths.last()?;
        let last_ip = start.wrapping_add((bytes.len() as u64).checked_sub(u64::from(last))?);
        let mut ip = start;
        let mut digest = Digest::default();
        for length in lengths {
            digest.push(ip);
            ip = ip.wrapping_add(u64::from(*length));
        }
        if ip != start.wrapping_add(bytes.len() as u64) {
            return None;
        }
        let last = Instruction::decode(bytes.get(bytes.len() - usize::from(last)..)?, last_ip);
        Some(Block {
            start,
            lengths: lengths.to_owned(),
            digest,
            last,
            last_ip,
            image,
            bytes: bytes.to_owned(),
        })
    }

    /// All of it, executed, and left so.
    pub(crate) fn run(&self, exit: Exit, to: u64) -> Run<'_> {
        Run { start: self.start, lengths: &self.lengths, digest: self.digest, exit, to }
    }

    /// Only so many of its instructions, executed; `None` where that is none.
    pub(crate) fn cut(&self, count: usize) -> Option<Run<'_>> {
        let lengths = self.lengths.get(..count).filter(|lengths| !lengths.is_empty())?;
        let to = lengths.iter().fold(self.start, |ip, length| ip.wrapping_add(u64::from(*length)));
        let mut run = Run { start: self.start, lengths, digest: self.digest, exit: Exit::Plain, to };
        run.digest = run.addresses().collect();
        Some(run)
    }

    /// Which instruction is at this address, by its number.
    pub(crate) fn position(&self, address: u64) -> Option<usize> {
        let mut ip = self.start;
        self.lengths.iter().position(|length| {
            let is_there = ip == address;
            ip = ip.wrapping_add(u64::from(*length));
            is_there
        })
    }

    /// It is a round of a string instruction that repeats, and nothing else.
    pub(crate) fn is_round(&self) -> bool {
        self.lengths.len() == 1 && self.is_repeated()
    }

    /// It is one instruction that does not branch.
    pub(crate) fn is_alone(&self) -> bool {
        self.lengths.len() == 1 && matches!(self.last, Some(Instruction { kind: Kind::Plain, .. }))
    }

    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self.last, Some(Instruction { kind: Kind::Repeated, .. }))
    }
}
