//! Pads: a placeholder, the instructions that made room for the jump there, and the jump back.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions as Options, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock,
};
use mote_functions::ends;

/// Bytes of a jump that leads anywhere in the file.
pub(crate) const JUMP_BYTES: u64 = 5;
/// Bytes of a jump to somewhere near.
pub(crate) const SHORT_BYTES: u64 = 2;
/// Pads lie at multiples of it: their first eight bytes, with the placeholder, can be changed by one store.
pub(crate) const PAD_ALIGNMENT: u64 = 8;
/// The placeholder: `nopl 0(%rax,%rax)`.
pub(crate) const PLACEHOLDER: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// `int3`: what is left of instructions that were moved.
pub(crate) const NEVER_RUN: u8 = 0xcc;

/// The code of a pad.
#[derive(Debug)]
pub(crate) struct Pad {
    pub(crate) bytes: Vec<u8>,
    /// Where each instruction was, and where it is; at last what follows them, with the jump there.
    pub(crate) steps: Vec<(u64, u64)>,
    /// Its last instruction that was moved is a call.
    pub(crate) calls: bool,
}

/// The pad at `at` for the instructions `code`, which lie at `from`; `None` when they cannot do there what they did.
pub(crate) fn pad(code: &[u8], from: u64, at: u64) -> Option<Pad> {
    let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    let mut block: Vec<Instruction> = Vec::new();
    while decoder.can_decode() {
        block.push(Some(decoder.decode()).filter(|one| !one.is_invalid())?);
    }
    let last = *block.last()?;
    let calls = matches!(last.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    let moved: Vec<u64> = block.iter().map(Instruction::ip).collect();
    let goes_on = !ends(&last);
    if goes_on {
        block.push(Instruction::with_branch(Code::Jmp_rel32_64, last.next_ip()).ok()?);
    }
    // What names one of them means the original: it has no place in the block.
    block.iter_mut().for_each(|one| one.set_ip(0));
    let begin = at.checked_add(PLACEHOLDER.len() as u64)?;
    let block = InstructionBlock::new(&block, begin);
    let encoded = BlockEncoder::encode(64, block, Options::RETURN_NEW_INSTRUCTION_OFFSETS).ok()?;
    let offsets = &encoded.new_instruction_offsets;
    // One that became several has no offset: where it could be interrupted is not known.
    if offsets.contains(&u32::MAX) {
        return None;
    }
    let originals = moved.into_iter().chain(goes_on.then_some(last.next_ip()));
    let steps = originals.zip(offsets.iter().map(|offset| begin + u64::from(*offset))).collect();
    Some(Pad { bytes: [&PLACEHOLDER[..], &encoded.code_buffer].concat(), steps, calls })
}

/// A jump from `from` to `to`; `None` when that is too far away.
pub(crate) fn jump(from: u64, to: u64) -> Option<Vec<u8>> {
    let distance = distance(from, JUMP_BYTES, to).and_then(|distance| i32::try_from(distance).ok())?;
    Some([&[0xe9][..], &distance.to_le_bytes()].concat())
}

/// The same to somewhere near.
pub(crate) fn short_jump(from: u64, to: u64) -> Option<Vec<u8>> {
    let distance = distance(from, SHORT_BYTES, to).and_then(|distance| i8::try_from(distance).ok())?;
    Some([&[0xeb][..], &distance.to_le_bytes()].concat())
}

/// The first and the last place where a short jump from `from` can lead.
pub(crate) fn short_reach(from: u64) -> (u64, u64) {
    let end = from.saturating_add(SHORT_BYTES);
    (end.saturating_sub(1 << 7), end.saturating_add((1 << 7) - 1))
}

fn distance(from: u64, bytes: u64, to: u64) -> Option<i64> {
    Some(to.wrapping_sub(from.checked_add(bytes)?).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_does_the_same() {
        // push %rbp; mov 0x10(%rip),%rax; jumps back to 0x1008.
        let code = [0x55, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0];
        let made = pad(&code, 0x1000, 0x9000).expect("it can be moved");
        let [a, b, c, d] = (0x1018_u32.wrapping_sub(0x900d)).to_le_bytes();
        let [e, f, g, h] = (0x1008_u32.wrapping_sub(0x9012)).to_le_bytes();
        let expected = [&PLACEHOLDER[..], &[0x55, 0x48, 0x8b, 0x05, a, b, c, d, 0xe9, e, f, g, h]].concat();
        assert_eq!(made.bytes, expected);
        assert_eq!(made.steps, [(0x1000, 0x9005), (0x1001, 0x9006), (0x1008, 0x900d)]);
        assert!(!made.calls);
        // A return needs no way back.
        let made = pad(&[0x31, 0xc0, 0xc3], 0x1000, 0x9000).expect("it can be moved");
        assert_eq!(made.bytes, [&PLACEHOLDER[..], &[0x31, 0xc0, 0xc3]].concat());
        // A call goes where it did, and returns to the pad.
        let made = pad(&[0xe8, 0, 1, 0, 0], 0x1000, 0x9000).expect("it can be moved");
        assert!(made.calls && made.steps == [(0x1000, 0x9005), (0x1005, 0x900a)]);
        assert_eq!(made.bytes[6..10], 0x1105_u32.wrapping_sub(0x900a).to_le_bytes());
        for no in [&[][..], &[0x06], &[0x48, 0x8b]] {
            assert!(pad(no, 0x1000, 0x9000).is_none(), "{no:x?}");
        }
        // Out of reach.
        assert!(pad(&code, 0x1000, 0x2_0000_0000).is_none());
    }

    #[test]
    fn jumps_lead_where_they_can() {
        assert_eq!(jump(0x1000, 0x1005), Some(vec![0xe9, 0, 0, 0, 0]));
        assert_eq!(jump(0x1000, 0x8000_1005), None);
        let (first, last) = short_reach(0x1000);
        assert_eq!(short_jump(0x1000, first), Some(vec![0xeb, 0x80]));
        assert_eq!(short_jump(0x1000, last), Some(vec![0xeb, 0x7f]));
        assert_eq!((short_jump(0x1000, first - 1), short_jump(0x1000, last + 1)), (None, None));
    }
}
