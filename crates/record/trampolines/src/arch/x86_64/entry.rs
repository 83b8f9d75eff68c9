//! The first instructions of a function, and the ways to put a probe there.

use super::copy::{self, Copy};
use super::{BODY_AT, CALL, INVALID, LEAD, Reach, TRAP};
use crate::{By, Refusal, Request};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};
use mote_functions::{Function, Way, ends};
use mote_layout::functions::{JUMP_BYTES, Scope, Value};

/// The place of a probe in a function.
pub(crate) struct Entry {
    /// Where bytes change: behind the instruction for indirect calls, where room was left there.
    pub(crate) address: u64,
    /// The first bytes.
    pub(crate) old: [u8; JUMP_BYTES],
    /// As many as may be moved, at least one.
    instructions: Vec<Instruction>,
    /// Of the function.
    way: Way,
    otherwise: Way,
    /// Whether a jump is not longer than the function and the padding behind it.
    has_room: bool,
    /// What its body begins with.
    begin: &'static [u8],
}

/// A way to put a probe there.
pub(crate) struct Candidate {
    pub(crate) by: By,
    /// How many instructions are moved to its body.
    pub(crate) moved: usize,
    /// Where it may lead.
    pub(crate) reach: Reach,
}

impl Entry {
    /// Decodes the first instructions of a function.
    pub(crate) fn read(request: &Request<'_>) -> Result<Entry, Refusal> {
        let Function { room, way, otherwise, pad, .. } = *request.function;
        // There, the placeholder alone is what is changed.
        let room = if pad.is_some() { JUMP_BYTES as u64 } else { room };
        let windows = [way, otherwise].map(|way| match way {
            Way::Window { instructions, .. } => usize::from(instructions),
            _ => 1,
        });
        let wanted = windows.iter().fold(1, |most, one| *one.max(&most));
        let mut decoder = Decoder::with_ip(64, request.code, request.address, DecoderOptions::NONE);
        let mut instructions = decoded(&mut decoder, wanted);
        let is_marked = instructions.first().is_some_and(|one| one.code() == Code::Endbr64);
        if way == Way::Placeholder && is_marked {
            instructions = decoded(&mut decoder, 1);
        }
        let (Some(first), Some(last)) = (instructions.first(), instructions.last()) else {
            return Err(Refusal::Undecodable);
        };
        let skipped = (first.ip() - request.address) as usize;
        let end = ((last.next_ip() - request.address) as usize).max(skipped + JUMP_BYTES);
        if request.current.is_some_and(|current| differ(current, request.code, end)) {
            return Err(Refusal::Changed);
        }
        let mut old = [0; JUMP_BYTES];
        old.iter_mut().zip(request.code.iter().skip(skipped)).for_each(|(old, byte)| *old = *byte);
        let has_room = room >= (skipped + JUMP_BYTES) as u64 && request.code.len() >= skipped + JUMP_BYTES;
        let begin = if returns(request) { &LEAD[..] } else { &CALL[..] };
        Ok(Entry { address: first.ip(), old, way, otherwise, has_room, instructions, begin })
    }

    /// All of them, from the best to the worst.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let base = self.address + JUMP_BYTES as u64;
        let mut candidates = Vec::new();
        if self.has_room && matches!(self.way, Way::Jump | Way::Placeholder) && self.covers(1) {
            candidates.push(Candidate { by: By::Jump, moved: 1, reach: Reach::any(base) });
        } else if self.has_room {
            let [_, offset @ ..] = self.old;
            let first = self.instructions.first().map_or(1, Instruction::len);
            let mut bytes = offset.map(Some);
            bytes.iter_mut().take(first - 1).for_each(|byte| *byte = None);
            candidates.push(Candidate { by: By::Punned, moved: 1, reach: Reach::fixed(base, bytes) });
            candidates.extend(self.windows(base));
        }
        candidates.push(Candidate { by: By::Trap, moved: 1, reach: Reach::any(base) });
        candidates
    }

    /// Whether nothing else is run of what a jump lies over than these first instructions.
    fn covers(&self, moved: usize) -> bool {
        let last = moved.checked_sub(1).and_then(|last| self.instructions.get(last));
        last.is_some_and(|last| last.next_ip() >= self.address + JUMP_BYTES as u64 || ends(last))
    }

    /// The candidates that take several instructions.
    fn windows(&self, base: u64) -> Vec<Candidate> {
        let Way::Window { instructions, .. } = self.otherwise else { return Vec::new() };
        let moved = usize::from(instructions);
        let Some(guarded) = self.instructions.get(1..moved).filter(|_| self.covers(moved)) else {
            return Vec::new();
        };
        let mut bytes = [None; 4];
        for one in guarded {
            if let Some(byte) = bytes.get_mut((one.ip() - self.address) as usize - 1) {
                *byte = Some(TRAP);
            }
        }
        let mut offsets = vec![bytes];
        // A guard in the highest byte leads far down if it is a breakpoint: others lead up.
        let [rest @ .., highest] = bytes;
        let last = guarded.iter().find(|one| one.ip() + 1 == base);
        // One that is meant to be invalid is the program's.
        if highest.is_some() && last.is_some_and(|last| !is_invalid(last)) {
            offsets.extend(INVALID.map(|byte| {
                let [a, b, c] = rest;
                [a, b, c, Some(byte)]
            }));
        }
        let window = |bytes| Candidate { by: By::Window, moved, reach: Reach::fixed(base, bytes) };
        offsets.into_iter().map(window).collect()
    }

    /// Where the instructions behind the first one begin that a jump lies over, in bytes from there, and their numbers.
    pub(crate) fn boundaries(&self, candidate: &Candidate) -> Vec<(u64, usize)> {
        let moved = self.instructions.iter().enumerate().take(candidate.moved).skip(1);
        let boundaries = moved.map(|(number, one)| (one.ip() - self.address, number));
        boundaries.filter(|(distance, _)| *distance < JUMP_BYTES as u64).collect()
    }

    /// How many bytes of a body are before the copy.
    pub(crate) fn copy_at(&self) -> u64 {
        self.begin.len() as u64
    }

    /// What is at `at`: the cells, the way to the probe, and the copy of the first instructions; offsets are from `at`.
    /// `None` when they cannot be moved there.
    pub(crate) fn body(&self, moved: usize, at: u64) -> Option<Copy> {
        let before = BODY_AT + self.copy_at();
        let copy = self.copy(moved, at.wrapping_add(before))?;
        let mut bytes = vec![0; BODY_AT as usize];
        bytes.extend(self.begin);
        bytes.extend(copy.bytes);
        Some(Copy { bytes, offsets: copy.offsets.iter().map(|offset| offset + before).collect() })
    }

    /// The copy of the first instructions alone.
    pub(crate) fn copy(&self, moved: usize, at: u64) -> Option<Copy> {
        copy::copy(self.instructions.get(..moved)?, at)
    }
}

/// Whether something is done when calls return: always, but where only their entries are counted.
fn returns(request: &Request<'_>) -> bool {
    request.values != [Value::ENTRIES] || request.scope == Scope::Caller
}

/// Whether an instruction raises what a byte does that is none.
fn is_invalid(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2)
}

fn decoded(decoder: &mut Decoder<'_>, most: usize) -> Vec<Instruction> {
    let next = || decoder.can_decode().then(|| decoder.decode()).filter(|one| !one.is_invalid());
    std::iter::from_fn(next).take(most).collect()
}

/// Whether the first bytes are not the same, as far as both are known.
fn differ(current: &[u8], code: &[u8], len: usize) -> bool {
    current.iter().zip(code).take(len).any(|(a, b)| a != b)
}
