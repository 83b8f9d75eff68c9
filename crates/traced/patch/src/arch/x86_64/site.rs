//! The five bytes of a site.

use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU8, Ordering};

/// Bytes of a site.
pub(crate) const SITE_BYTES: usize = 5;

/// `nopl 0x0(%rax,%rax,1)`: the one 5-byte NOP that a site may hold (SDM vol. 2, NOP).
pub(crate) const NOP: [u8; SITE_BYTES] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// `jmp` over the three bytes behind it: a NOP as long as the site, whatever those three are.
pub(crate) const HOP: [u8; 2] = [0xeb, 0x03];
/// Opcode of `jmp rel32`.
const JUMP: u8 = 0xe9;

/// The first byte.
pub(crate) type Head = u8;
/// `int3`.
pub(crate) const TRAP: Head = 0xcc;

/// The bytes of a jump from the site at `addr`; `None` when the target is out of its reach (2 GiB).
pub(crate) fn jump(addr: usize, target: usize) -> Option<[u8; SITE_BYTES]> {
    let distance = target.wrapping_sub(behind(addr)) as isize;
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([JUMP, a, b, c, d])
}

/// Where the bytes of the site at `addr` jump to, if they are a jump.
pub(crate) fn jump_target(bytes: [u8; SITE_BYTES], addr: usize) -> Option<usize> {
    let [JUMP, a, b, c, d] = bytes else { return None };
    let distance = i32::from_le_bytes([a, b, c, d]) as isize;
    Some(behind(addr).wrapping_add_signed(distance))
}

/// Address of the instruction after a site.
pub(crate) fn behind(addr: usize) -> usize {
    addr.wrapping_add(SITE_BYTES)
}

/// What stands at `addr` now.
///
/// # Safety
/// The byte is mapped and readable.
pub(crate) unsafe fn read_head(addr: usize) -> Head {
    // SAFETY: the caller's promise.
    let byte = unsafe { AtomicU8::from_ptr(addr as *mut u8) };
    byte.load(Ordering::Relaxed)
}

/// True when `head` can begin a site that no batch holds open: a NOP or a jump, or the short jump of a batch that is
/// just ending.
pub(crate) fn begins_site(head: Head) -> bool {
    head == NOP[0] || head == JUMP || head == HOP[0]
}

/// Whether the two bytes of a hop at `addr` lie in one naturally aligned quadword.
pub(crate) fn can_hop(addr: usize) -> bool {
    addr % 8 != 7
}

/// Whether the vendor promises that a store of two bytes shows to instruction fetch as both or neither.
///
/// AMD does (APM vol. 2, 7.6.1), and Hygon's cores are AMD's. Intel promises nothing (SDM vol. 3, "Handling Self- and
/// Cross-Modifying Code").
pub(crate) fn is_hop_promised() -> bool {
    is_promised_by(vendor())
}

/// The vendor's name, as CPUID spells it.
fn vendor() -> [u32; 3] {
    let leaf = __cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx]
}

fn is_promised_by(vendor: [u32; 3]) -> bool {
    let name = |text: &[u8; 12]| text.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).eq(vendor);
    name(b"AuthenticAMD") || name(b"HygonGenuine")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Code, State};

    fn check(code: Code, addr: usize, bytes: [u8; 5], state: State) {
        assert_eq!(code.encode(addr), Some(bytes));
        assert_eq!(State::decode(bytes, addr), state);
    }

    #[test]
    fn codes_to_bytes_and_back() {
        check(Code::Nop, 0x1000, NOP, State::Nop);
        check(Code::Jump(0x1006), 0x1000, [0xe9, 1, 0, 0, 0], State::Jump(0x1006));
        check(Code::Jump(0x1000), 0x1000, [0xe9, 0xfb, 0xff, 0xff, 0xff], State::Jump(0x1000));
        let far = 0x1005 + 0x7fff_ffff;
        check(Code::Jump(far), 0x1000, [0xe9, 0xff, 0xff, 0xff, 0x7f], State::Jump(far));
    }

    #[test]
    fn targets_out_of_reach() {
        assert_eq!(Code::Jump(0x1005 + 0x8000_0000).encode(0x1000), None);
        assert_eq!(Code::Jump(0).encode(usize::MAX / 2), None);
        assert_eq!(Code::Jump(0x10).encode(0x8000_0010 - 5), Some([0xe9, 0, 0, 0, 0x80]));
        assert_eq!(Code::Jump(0x10).encode(0x8000_0011 - 5), None);
    }

    #[test]
    fn foreign_bytes() {
        for bytes in [[0xcc, 0x1f, 0x44, 0, 0], [0x90; 5], [0xeb, 3, 0x44, 0, 0], [0x0f, 0x1f, 0x44, 0, 1]] {
            assert_eq!(State::decode(bytes, 0x1000), State::Foreign(bytes));
        }
    }

    #[test]
    fn vendors_are_known_by_their_registers() {
        let words = |text: &[u8; 12]| {
            let mut words = [0; 3];
            words.iter_mut().zip(text.as_chunks().0).for_each(|(to, word)| *to = u32::from_le_bytes(*word));
            words
        };
        assert!(
            is_promised_by([0x6874_7541, 0x6974_6e65, 0x444d_4163]),
            "ebx, edx, ecx of AMD's CPUID specification"
        );
        assert!(is_promised_by(words(b"HygonGenuine")));
        assert!(!is_promised_by(words(b"GenuineIntel")) && !is_promised_by([0; 3]));
    }
}
