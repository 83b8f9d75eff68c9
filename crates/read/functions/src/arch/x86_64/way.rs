//! How a jump of five bytes can be put at a function's entry.

use super::targets::Targets;
use crate::binary::{Binary, part_at};
use crate::starts::Start;
use crate::way::{Reason, Way};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

/// Bytes of `jmp rel32`.
const JUMP: u64 = 5;
/// Most bytes of an instruction.
const INSTRUCTION_MAX: usize = 15;
/// Behind a program, the kernel and the C library put its heap: not for jumps.
const HEAP: u64 = 1 << 30;
/// The lowest address that may be mapped (`vm.mmap_min_addr`).
const LOWEST: u64 = 0x10000;

/// The way for a function, and the one for processes that have no free memory for it.
pub(crate) fn ways(binary: &Binary, targets: &Targets, start: &Start) -> (Way, Way) {
    let Some(bytes) = part_at(&binary.code, start.address).and_then(|part| part.from(start.address)) else {
        return (Way::Unknown, Way::Unknown);
    };
    let entry = Entry { bytes, start };
    let instructions = entry.instructions();
    let [first, rest @ ..] = &instructions[..] else { return (Way::Unknown, Way::Unknown) };
    let is_placeholder = |one: &Instruction| one.code() == Code::Nop_rm32 && one.len() == 5;
    if is_placeholder(first) || first.code() == Code::Endbr64 && rest.first().is_some_and(is_placeholder) {
        return (Way::Placeholder, Way::Placeholder);
    }
    if first.len() as u64 >= JUMP || ends(first) && entry.is_padding(first.next_ip()) {
        return (Way::Jump, Way::Jump);
    }
    let window = entry.window(&instructions, targets);
    (entry.punned(first, binary).unwrap_or(window), window)
}

/// Whether nothing behind it is run.
fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Exception
    )
}

/// The first bytes of a function.
struct Entry<'b> {
    /// Up to the end of the section.
    bytes: &'b [u8],
    start: &'b Start,
}

impl Entry<'_> {
    /// The instructions that a jump would lie in, up to one that ends the function or cannot be decoded.
    fn instructions(&self) -> Vec<Instruction> {
        let len = usize::try_from(self.start.len.min(self.start.room)).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(..len.min(self.bytes.len())).unwrap_or_default();
        let bytes = bytes.get(..bytes.len().min(JUMP as usize - 1 + INSTRUCTION_MAX)).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, self.start.address, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        while decoder.can_decode() && decoder.ip() < self.start.address + JUMP {
            let one = decoder.decode();
            if one.is_invalid() {
                break;
            }
            instructions.push(one);
            if ends(&one) {
                break;
            }
        }
        instructions
    }

    /// Whether nothing but padding lies between `from` and the end of a jump at the entry.
    fn is_padding(&self, from: u64) -> bool {
        if self.start.room < JUMP || from < self.start.address + self.start.len {
            return false;
        }
        let at = |address: u64| self.bytes.get((address - self.start.address) as usize);
        let end = self.start.address + self.start.room.min(16);
        let bytes: Vec<u8> = (from..end).map_while(at).copied().collect();
        // INT3, or NOPs of any length.
        let mut decoder = Decoder::with_ip(64, &bytes, from, DecoderOptions::NONE);
        while decoder.can_decode() && decoder.ip() < self.start.address + JUMP {
            let one = decoder.decode();
            let is_nop = matches!(one.mnemonic(), iced_x86::Mnemonic::Nop | iced_x86::Mnemonic::Int3);
            // A NOP may be cut where the bytes end.
            let is_cut = one.is_invalid() && !decoder.can_decode();
            if !(is_nop || is_cut) {
                return false;
            }
        }
        true
    }

    /// A jump whose last bytes are those behind the first instruction.
    ///
    /// The nearer bytes of the offset are free as far as the first instruction goes; a prefix without a meaning before
    /// the jump moves the fixed ones, which gives other targets.
    fn punned(&self, first: &Instruction, binary: &Binary) -> Option<Way> {
        let len = first.len() as u64;
        for prefixes in 0..len {
            let bytes = prefixes + JUMP;
            if bytes > self.start.room {
                break;
            }
            let fixed = self.bytes.get(len as usize..bytes as usize)?;
            let free = 4 - fixed.len() as u32;
            let high = fixed.iter().rev().fold(0, |high: u32, byte| high << 8 | u32::from(*byte));
            let lowest = if free == 0 { high } else { high << (8 * free) };
            let nearest = i64::from(lowest.cast_signed()) + bytes as i64;
            let targets = 1_u64 << (8 * free);
            if has_free(binary, self.start.address, nearest, targets) {
                return Some(Way::Punned { nearest, targets });
            }
        }
        None
    }

    /// Several instructions that are moved away together.
    fn window(&self, instructions: &[Instruction], targets: &Targets) -> Way {
        let begin = self.start.address;
        let mut end = begin;
        for (number, one) in (1_u8..).zip(instructions) {
            end = one.next_ip();
            let is_whole = end >= begin + JUMP || ends(one) && self.is_padding(end);
            if is_whole && targets.lie_between(begin, end.max(begin + JUMP)) {
                return Way::Trap(Reason::JumpedInto);
            }
            if is_whole {
                return Way::Window { instructions: number, bytes: (end - begin) as u8 };
            }
            if one.flow_control() == FlowControl::Call {
                return Way::Trap(Reason::Call);
            }
        }
        let decoded_all = end >= begin + self.start.len.min(JUMP) || instructions.last().is_some_and(ends);
        Way::Trap(if decoded_all { Reason::Short } else { Reason::Undecodable })
    }
}

/// Whether a page may be free where these targets are: outside of the file's own memory, as it is loaded.
fn has_free(binary: &Binary, address: u64, nearest: i64, targets: u64) -> bool {
    const PAGE: u64 = 4096;
    let (low, high) = (binary.extent.start.saturating_sub(PAGE), binary.extent.end.saturating_add(HEAP));
    let first = i128::from(address) + i128::from(nearest);
    let last = first + i128::from(targets) - 1;
    let lowest = if binary.is_fixed { i128::from(LOWEST) } else { i128::MIN };
    // Below the file, or behind its heap.
    let below = first.max(lowest) < i128::from(low) && last >= lowest;
    below || last >= i128::from(high)
}
