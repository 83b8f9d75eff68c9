//! The description of stubs in the format of `.eh_frame` (Linux Standard Base, "Exception Frames"; DWARF 4, 6.4 and
//! 2.5).

use crate::stack::{SLOTS_AT, STUB, Slot};
use core::mem::offset_of;

/// Bytes of the description: a CIE, an FDE, and the zero that ends them.
pub(crate) const FRAMES_BYTES: usize = CIE_BYTES + FDE_BYTES + 4;
const CIE_BYTES: usize = 40;
const FDE_BYTES: usize = 32;

/// Stack pointer and return address, as DWARF numbers them (System V ABI, AMD64, figure 3.36).
const RSP: u8 = 7;
const RETURN_ADDRESS: u8 = 16;

const DW_CFA_EXPRESSION: u8 = 0x10;
const DW_CFA_DEF_CFA_SF: u8 = 0x12;
const DW_CFA_VAL_OFFSET_SF: u8 = 0x15;
const DW_OP_BREG0: u8 = 0x70;
const DW_OP_CONST1S: u8 = 0x09;
const DW_OP_AND: u8 = 0x1a;
const DW_OP_PLUS_UCONST: u8 = 0x23;

const _: () = assert!(STUB.is_power_of_two() && STUB <= 128 && offset_of!(Slot, returns_to) == 0);

/// The description of the stubs between `area` and `bytes` behind it.
///
/// A stub's frame is empty. An unwinder that looks for the frame of a handler knows it by the address of the frame that
/// it has called: so this one's is not that of the frame before, but eight bytes below, where no frame that is aligned
/// as it has to be can have it.
///
/// The return address of a stub's frame lies `SLOTS_AT` behind the stub; where in the stub it returns to is what the
/// unwinder has found as the return address before, in the register of that number. So it is where a stub itself was
/// interrupted, at each of its instructions.
pub(crate) fn frames(area: usize, bytes: usize) -> [u8; FRAMES_BYTES] {
    // LEB128: seven bits a byte, the lowest first.
    let [s0, s1, s2] = [SLOTS_AT | 0x80, SLOTS_AT >> 7 | 0x80, SLOTS_AT >> 14].map(|bits| bits as u8);
    const EXPRESSION: u8 = 9;
    let cie: [u8; CIE_BYTES] = fill(&[
        &(CIE_BYTES as u32 - 4).to_le_bytes(),
        // Id, version, augmentation; code and data alignment (1, -8); the return address; encoding: absolute.
        &[0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, RETURN_ADDRESS, 1, 0],
        // The frame's address is rsp - 8, and its caller has that + 8: both in units of -8.
        &[DW_CFA_DEF_CFA_SF, RSP, 1, DW_CFA_VAL_OFFSET_SF, RSP, 0x7f],
        &[DW_CFA_EXPRESSION, RETURN_ADDRESS, EXPRESSION],
        &[DW_OP_BREG0 + RETURN_ADDRESS, 0, DW_OP_CONST1S, (STUB as u8).wrapping_neg(), DW_OP_AND],
        &[DW_OP_PLUS_UCONST, s0, s1, s2],
    ]);
    let fde: [u8; FDE_BYTES] = fill(&[
        &(FDE_BYTES as u32 - 4).to_le_bytes(),
        // How far back its CIE is, from here.
        &(CIE_BYTES as u32 + 4).to_le_bytes(),
        &(area as u64).to_le_bytes(),
        &(bytes as u64).to_le_bytes(),
    ]);
    fill(&[&cie, &fde])
}

/// These parts behind one another, and zeros, which are instructions that do nothing.
fn fill<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut to = bytes.iter_mut();
    for byte in parts.iter().copied().flatten() {
        if let Some(to) = to.next() {
            *to = *byte;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_have_their_sizes() {
        let bytes = frames(0x1122_3344_0000, 1 << 30);
        assert_eq!(bytes[..4], [36, 0, 0, 0]);
        assert_eq!(bytes[40..48], [28, 0, 0, 0, 44, 0, 0, 0]);
        assert_eq!(bytes[48..56], 0x1122_3344_0000_u64.to_le_bytes());
        assert_eq!(bytes[56..64], (1_u64 << 30).to_le_bytes());
        assert_eq!(bytes[72..], [0; 4]);
        // The expression is as long as it says, and adds where the slots begin.
        assert_eq!(bytes[25], 9);
        assert_eq!(bytes[31..35], [DW_OP_PLUS_UCONST, 0x80, 0x80, 2]);
        assert_eq!(SLOTS_AT, 2 << 14);
    }
}
