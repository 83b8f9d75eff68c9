//! How a jump of five bytes can be put at a function's entry.

use super::targets::Targets;
use crate::binary::{Binary, part_at};
use crate::starts::Start;
use crate::way::{Reason, Way};
use crate::{Pad, Window};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use std::ops::Range;

/// Bytes of `jmp rel32`.
const JUMP: u64 = 5;
/// Bytes of `endbr64`.
const LANDING: u64 = 4;
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
    if is_placeholder(first) || first.code() == Code::Endbr64 && rest.first().is_some_and(is_placeholder) {
        return (Way::Placeholder, Way::Placeholder);
    }
    if first.len() as u64 >= JUMP || ends(first) && entry.is_padding(first.next_ip()) {
        return (Way::Jump, Way::Jump);
    }
    let window = entry.window(&instructions, targets);
    (entry.punned(first, binary).unwrap_or(window), window)
}

/// The first instructions of a function that have so many bytes together: see [`crate::Code::window`]. They begin
/// behind the one for indirect calls, which stays where it is.
pub(crate) fn window(
    binary: &Binary,
    targets: &Targets,
    start: &Start,
    bytes: u64,
) -> Result<Window, Reason> {
    let code = part_at(&binary.code, start.address).and_then(|part| part.from(start.address));
    let code = code.ok_or(Reason::Undecodable)?;
    let entry = Entry { bytes: code, start };
    let is_marked = entry.instructions().first().is_some_and(|one| one.code() == Code::Endbr64);
    let skipped = if is_marked { LANDING } else { 0 };
    let behind = Start {
        address: start.address + skipped,
        len: start.len.saturating_sub(skipped),
        room: start.room.saturating_sub(skipped),
        name: None,
    };
    let entry = Entry { bytes: code.get(skipped as usize..).unwrap_or_default(), start: &behind };
    let instructions = entry.instructions();
    let (moved, end) = entry.moved(&instructions, bytes)?;
    if targets.lie_between(start.address, end.max(behind.address + bytes)) {
        return Err(Reason::JumpedInto);
    }
    Ok(Window { begin: behind.address, instructions: moved, bytes: (end - behind.address) as u8 })
}

/// Where the padding behind a function begins, and its end, when nothing runs into it: see [`crate::Code::padding`].
pub(crate) fn padding(binary: &Binary, targets: &Targets, start: &Start) -> Option<Range<u64>> {
    let (begin, end) = (start.address.checked_add(start.len)?, start.address.checked_add(start.room)?);
    if begin >= end || start.len == 0 || targets.lie_between(begin - 1, end) {
        return None;
    }
    let bytes = part_at(&binary.code, start.address)?.from(start.address)?;
    let len = usize::try_from(start.room).ok()?;
    let bytes = bytes.get(..len)?;
    let mut decoder = Decoder::with_ip(64, bytes, start.address, DecoderOptions::NONE);
    let mut ended = false;
    while decoder.can_decode() && decoder.ip() < begin {
        let one = decoder.decode();
        ended = !one.is_invalid() && ends(&one);
    }
    if !ended || decoder.ip() != begin {
        return None;
    }
    while decoder.can_decode() {
        let one = decoder.decode();
        if !matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return None;
        }
    }
    Some(begin..end)
}

/// The placeholder to which a function's entry leads, by jumps that have a target of their own: see [`crate::Pad`].
/// Where anything else `begins` the way does not go on, as another function's placeholder would be there.
pub(crate) fn pad(binary: &Binary, begins: &[u64], address: u64) -> Option<Pad> {
    /// From the entry to padding nearby, and from there.
    const JUMPS_MAX: usize = 2;
    let pads = binary.pads.as_ref()?;
    let decoded = |at: u64| {
        let bytes = part_at(&binary.code, at)?.from(at)?;
        Some(Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode())
    };
    let mut one = decoded(address)?;
    if one.code() == Code::Endbr64 {
        one = decoded(one.next_ip())?;
    }
    for _ in 0..JUMPS_MAX {
        if !matches!(one.code(), Code::Jmp_rel8_64 | Code::Jmp_rel32_64) {
            return None;
        }
        one = decoded(one.near_branch_target())?;
        if pads.range.contains(&one.ip()) {
            let offset = pads.offset.checked_add(one.ip() - pads.range.start)?;
            return is_placeholder(&one).then_some(Pad { address: one.ip(), offset });
        }
        if begins.binary_search(&one.ip()).is_ok() {
            return None;
        }
    }
    None
}

/// The NOP of five bytes.
fn is_placeholder(one: &Instruction) -> bool {
    one.code() == Code::Nop_rm32 && one.len() == 5
}

/// Whether nothing behind an instruction is run.
#[must_use]
pub fn ends(instruction: &Instruction) -> bool {
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
            let is_nop = matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
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
        match self.moved(instructions, JUMP) {
            Ok((_, end)) if targets.lie_between(begin, end.max(begin + JUMP)) => {
                Way::Trap(Reason::JumpedInto)
            }
            Ok((instructions, end)) => Way::Window { instructions, bytes: (end - begin) as u8 },
            Err(why) => Way::Trap(why),
        }
    }

    /// How many instructions have so many bytes, with the padding behind them where they end the function; and where
    /// the last one ends.
    fn moved(&self, instructions: &[Instruction], bytes: u64) -> Result<(u8, u64), Reason> {
        let begin = self.start.address;
        let mut end = begin;
        for (number, one) in (1_u8..).zip(instructions) {
            end = one.next_ip();
            if end >= begin + bytes || ends(one) && self.is_padding(end) {
                return Ok((number, end));
            }
            if one.flow_control() == FlowControl::Call {
                return Err(Reason::Call);
            }
        }
        let decoded_all = end >= begin + self.start.len.min(JUMP) || instructions.last().is_some_and(ends);
        Err(if decoded_all { Reason::Short } else { Reason::Undecodable })
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
