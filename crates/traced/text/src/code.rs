//! The five bytes of a site: what they can be, to and from bytes.

/// Bytes of a site.
pub const SITE_BYTES: usize = 5;

/// `nopl 0x0(%rax,%rax,1)`: the one 5-byte NOP that a site may hold (SDM vol. 2, NOP).
pub(crate) const NOP: [u8; SITE_BYTES] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// The breakpoint instruction.
pub(crate) const INT3: u8 = 0xcc;
/// `jmp` over the three bytes behind it: a NOP as long as the site, whatever those three are.
pub(crate) const HOP: [u8; 2] = [0xeb, 0x03];
/// Opcode of `jmp rel32`.
const JUMP: u8 = 0xe9;

/// What a site should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nothing: the 5-byte NOP. Disarmed.
    Nop,
    /// Go to this address. Armed.
    Jump(usize),
}

/// What a site holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The 5-byte NOP.
    Nop,
    /// A `jmp rel32` to this address.
    Jump(usize),
    /// Something that is not a site: these bytes.
    Foreign([u8; SITE_BYTES]),
}

impl Code {
    /// The bytes of this code at `addr`; `None` when the target is out of a jump's reach (2 GiB).
    pub(crate) fn encode(self, addr: usize) -> Option<[u8; SITE_BYTES]> {
        let Code::Jump(target) = self else { return Some(NOP) };
        let distance = target.wrapping_sub(behind(addr)) as isize;
        let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
        Some([JUMP, a, b, c, d])
    }

    /// Where a thread goes on that meets this code at `addr`.
    pub(crate) fn leads_to(self, addr: usize) -> usize {
        match self {
            Code::Nop => behind(addr),
            Code::Jump(target) => target,
        }
    }

    /// The code at `addr` that leads to `target`: inverse of [`Code::leads_to`].
    pub(crate) fn leading_to(target: usize, addr: usize) -> Code {
        if target == behind(addr) { Code::Nop } else { Code::Jump(target) }
    }
}

impl State {
    /// What `bytes` at `addr` are.
    pub(crate) fn decode(bytes: [u8; SITE_BYTES], addr: usize) -> State {
        match bytes {
            NOP => State::Nop,
            [JUMP, a, b, c, d] => {
                let distance = i32::from_le_bytes([a, b, c, d]) as isize;
                State::Jump(behind(addr).wrapping_add_signed(distance))
            }
            _ => State::Foreign(bytes),
        }
    }
}

/// Address of the instruction after a site.
fn behind(addr: usize) -> usize {
    addr.wrapping_add(SITE_BYTES)
}

/// True when `first` can begin a site that no batch holds open: a NOP or a jump, or the short jump of a
/// batch that is just ending.
pub(crate) fn begins_site(first: u8) -> bool {
    first == NOP[0] || first == JUMP || first == HOP[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: Code, addr: usize, bytes: [u8; 5], state: State) {
        assert_eq!(code.encode(addr), Some(bytes));
        assert_eq!(State::decode(bytes, addr), state);
        assert_eq!(Code::leading_to(code.leads_to(addr), addr), code);
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
}
