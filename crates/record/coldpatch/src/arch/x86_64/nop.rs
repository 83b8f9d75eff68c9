//! What does nothing: NOPs that are written, and those that compilers have left.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};
use mote_probelist::Was;

/// NOPs of 1 to 9 bytes (Intel SDM, volume 2B, NOP: "Recommended Multi-Byte Sequence of NOP Instruction").
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];
/// `ret`
const RETURN: u8 = 0xc3;
/// Most bytes of NOPs that are looked at in one place.
const RUN_MAX: usize = 4096;
/// Most bytes of an XRay sled; those of events have up to 21.
const SLED_MAX: u64 = 64;

/// What takes the place of a call or a jump of `size` bytes; `None` where nothing is to be changed. What a jump leads
/// to would return to the caller: that is done at once.
pub(crate) fn replacement(was: Was, size: usize) -> Option<Vec<u8>> {
    let mut bytes = match was {
        Was::Nop => return None,
        Was::Call => Vec::new(),
        Was::Jump => vec![RETURN],
    };
    while bytes.len() < size {
        let len = (size - bytes.len()).min(NOPS.len());
        bytes.extend_from_slice(NOPS.get(len - 1)?);
    }
    (bytes.len() == size).then_some(bytes)
}

fn first(bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode()
}

/// Bytes of the NOPs that `bytes` begin with.
pub(crate) fn nops(bytes: &[u8]) -> u64 {
    let bytes = bytes.get(..bytes.len().min(RUN_MAX)).unwrap_or_default();
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut end = 0;
    while decoder.can_decode() && decoder.decode().mnemonic() == Mnemonic::Nop {
        end = decoder.ip();
    }
    end
}

/// Bytes of the one NOP that `bytes` begin with; 0 when it is none.
pub(crate) fn nop(bytes: &[u8]) -> u64 {
    let first = first(bytes);
    if first.mnemonic() == Mnemonic::Nop { first.len() as u64 } else { 0 }
}

/// Where, in the code of a function, the NOP of five bytes is that stands in the place of a call of `__fentry__`, and
/// its size.
pub(crate) fn entry_nop(bytes: &[u8]) -> Option<(u64, u64)> {
    let landing = first(bytes);
    let at = if landing.code() == Code::Endbr64 { landing.len() } else { 0 };
    let one = first(bytes.get(at..)?);
    (one.code() == Code::Nop_rm32 && one.len() == 5).then_some((at as u64, 5))
}

/// Bytes of the XRay sled that `bytes` begin with: a short jump and what it jumps over, or a return and a NOP.
pub(crate) fn sled(bytes: &[u8]) -> Option<u64> {
    let one = first(bytes);
    match one.code() {
        Code::Jmp_rel8_64 => {
            let end = one.near_branch_target();
            (end <= SLED_MAX && end >= one.len() as u64).then_some(end)
        }
        Code::Retnq => Some(one.len() as u64 + nop(bytes.get(one.len()..)?)),
        _ => Some(nop(bytes)).filter(|bytes| *bytes > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_does_nothing() {
        for size in 1..=15 {
            let call = replacement(Was::Call, size).expect("it is changed");
            assert_eq!((call.len(), nops(&call)), (size, size as u64));
            if size <= 9 {
                assert_eq!(nop(&call), size as u64, "one instruction");
            }
            let jump = replacement(Was::Jump, size).expect("it is changed");
            assert_eq!((jump[0], jump.len(), nops(&jump[1..])), (RETURN, size, size as u64 - 1));
            assert_eq!(replacement(Was::Nop, size), None);
        }
    }

    #[test]
    fn what_compilers_leave_is_known() {
        let five = [0x0f, 0x1f, 0x44, 0, 0];
        let landing = [0xf3, 0x0f, 0x1e, 0xfa];
        assert_eq!(entry_nop(&five), Some((0, 5)));
        assert_eq!(entry_nop(&[&landing[..], &five].concat()), Some((4, 5)));
        assert_eq!(entry_nop(&[0x55]), None);
        assert_eq!(entry_nop(&landing), None);
        assert_eq!(nops(&[0x90, 0x90, 0x55, 0x90]), 2);
        assert_eq!(nops(&[]), 0);
        // A cut one is none.
        assert_eq!((nops(&five[..4]), nop(&five[..4])), (0, 0));
        let entry = [0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0x55];
        assert_eq!(sled(&entry), Some(11));
        let exit = [0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
        assert_eq!(sled(&exit), Some(11));
        for no in [&[0xeb, 0xfe][..], &[0xeb, 0x70], &[0x55], &[]] {
            assert_eq!(sled(no), None, "{no:x?}");
        }
    }
}
