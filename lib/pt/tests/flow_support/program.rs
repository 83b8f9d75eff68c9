//! Random programs: functions of random instructions, as bytes and as what they mean.
//!
//! Ways without a packet lead to higher addresses only: an infinite one would be a program whose trace says nothing.
//! The bytes mean the same in 64-bit and in 32-bit mode.

use super::random::Random;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Sequential,
    Conditional(u64),
    Jump(u64),
    Call(u64),
    CallNext,
    IndirectJump,
    IndirectCall,
    Return,
    /// A system call, or a return from an interrupt.
    Far,
    Ptwrite,
    MovCr3,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Insn {
    pub(crate) len: u8,
    pub(crate) op: Op,
}

pub(crate) struct Program {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) code: BTreeMap<u64, Insn>,
    /// The first instruction of each function.
    pub(crate) functions: Vec<u64>,
    /// Where branches may lead to.
    pub(crate) places: Vec<u64>,
    /// Functions from this address on are not traced.
    pub(crate) traced_end: u64,
}

/// How often kinds of instructions are met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) far: bool,
    pub(crate) ptwrite: bool,
    pub cr3: bool,
    pub(crate) filter: bool,
    /// Fewer branches need an address.
    pub(crate) is_calm: bool,
}

const FILLERS: [&[u8]; 6] =
    [&[0x90], &[0x66, 0x90], &[0x89, 0xc8], &[0x0f, 0x1f, 0], &[0x0f, 0x1f, 0x40, 0], &[0xb8, 1, 2, 3, 4]];

impl Program {
    pub(crate) fn random(random: &mut Random, base: u64, mix: Mix) -> Program {
        let (functions, insns) = (2 + random.below(6), 4 + random.below(40));
        let mut kinds: Vec<Vec<u8>> = Vec::new();
        let mut starts = Vec::new();
        for _ in 0..functions {
            starts.push(kinds.len());
            for _ in 0..1 + random.below(insns) {
                kinds.push(kind(random, mix));
            }
            let ends: [&[u8]; 5] = [&[0xc3], &[0xc3], &[0xc2, 8, 0], &[0xf3, 0xc3], &[0xff, 0xe0]];
            kinds.push(ends[random.below(if mix.is_calm { 4 } else { 5 })].to_vec());
        }
        let mut addresses = vec![base];
        for kind in &kinds {
            addresses.push(addresses[addresses.len() - 1] + kind.len() as u64);
        }
        let traced = if mix.filter { starts[functions / 2 + 1..].first() } else { None };
        let mut program = Program {
            base,
            bytes: Vec::new(),
            code: BTreeMap::new(),
            functions: starts.iter().map(|&index| addresses[index]).collect(),
            places: addresses[..kinds.len()].to_vec(),
            traced_end: traced.map_or(u64::MAX, |&index| addresses[index]),
        };
        for (index, kind) in kinds.iter().enumerate() {
            program.encode(random, &addresses, index, kind);
        }
        program
    }

    fn encode(&mut self, random: &mut Random, addresses: &[u64], index: usize, kind: &[u8]) {
        let (start, end) = (addresses[index], addresses[index + 1]);
        let mut bytes = kind.to_vec();
        let higher: Vec<u64> = self.places.iter().copied().filter(|&place| place >= end).collect();
        let op = match kind {
            [0x0f, 0x80..=0x8f, ..] => {
                let target = random.pick(&self.places);
                put_offset(&mut bytes[2..], end, target);
                Op::Conditional(target)
            }
            [0x70..=0x7f | 0xe0..=0xe3, _] => {
                let is_close = |place: &&u64| place.abs_diff(end) < 0x70;
                let close: Vec<u64> = self.places.iter().filter(is_close).copied().collect();
                let target = random.pick(&close);
                bytes[1] = target.wrapping_sub(end) as u8;
                Op::Conditional(target)
            }
            [0xe9, ..] => {
                let target = random.pick(&higher);
                put_offset(&mut bytes[1..], end, target);
                Op::Jump(target)
            }
            [0xe8, 0, ..] => Op::CallNext,
            [0xe8, ..] => {
                let functions = self.functions.iter().copied().filter(|&f| f > end);
                let target = functions.collect::<Vec<_>>();
                let target = if target.is_empty() { random.pick(&higher) } else { random.pick(&target) };
                put_offset(&mut bytes[1..], end, target);
                if target == end { Op::CallNext } else { Op::Call(target) }
            }
            [0xff, 0xe0] => Op::IndirectJump,
            [0xff, 0xd0] => Op::IndirectCall,
            [0xc3] | [0xc2, ..] | [0xf3, 0xc3] => Op::Return,
            [0xcf] | [0x0f, 0x05] => Op::Far,
            [0xf3, 0x0f, 0xae, 0xe0] => Op::Ptwrite,
            [0x0f, 0x22, 0xd8] => Op::MovCr3,
            _ => Op::Sequential,
        };
        self.code.insert(start, Insn { len: bytes.len() as u8, op });
        self.bytes.extend(bytes);
    }
}

fn kind(random: &mut Random, mix: Mix) -> Vec<u8> {
    let kind: &[u8] = match random.below(28) {
        0..4 => return vec![0x0f, 0x80 + random.below(16) as u8, 0, 0, 0, 0],
        4..6 => return vec![0x70 + random.below(16) as u8, 0],
        6 => return vec![0xe0 + random.below(4) as u8, 0],
        7 | 8 => &[0xe9, 0, 0, 0, 0],
        9..12 => &[0xe8, 1, 0, 0, 0],
        12 => &[0xe8, 0, 0, 0, 0],
        13..17 if mix.is_calm => random.pick(&FILLERS),
        13 => &[0xff, 0xe0],
        14 | 15 => &[0xff, 0xd0],
        16 | 17 => &[0xc3],
        18 if mix.far => random.pick(&[&[0xcf][..], &[0x0f, 0x05]]),
        19 if mix.ptwrite => &[0xf3, 0x0f, 0xae, 0xe0],
        20 if mix.cr3 => &[0x0f, 0x22, 0xd8],
        _ => random.pick(&FILLERS),
    };
    kind.to_vec()
}

fn put_offset(bytes: &mut [u8], end: u64, target: u64) {
    bytes.copy_from_slice(&(target.wrapping_sub(end) as u32).to_le_bytes());
}
