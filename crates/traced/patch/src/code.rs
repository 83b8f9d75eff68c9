//! What a site can hold, to and from bytes.

use crate::arch::{NOP, behind, jump, jump_target};

/// Bytes of a site.
pub const SITE_BYTES: usize = crate::arch::SITE_BYTES;

/// What a site should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nothing: the NOP. Disarmed.
    Nop,
    /// Go to this address. Armed.
    Jump(usize),
}

/// What a site holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The NOP.
    Nop,
    /// A jump to this address.
    Jump(usize),
    /// Something that is not a site: these bytes.
    Foreign([u8; SITE_BYTES]),
}

impl Code {
    /// The bytes of this code at `addr`; `None` when the target is out of a jump's reach.
    pub(crate) fn encode(self, addr: usize) -> Option<[u8; SITE_BYTES]> {
        match self {
            Code::Nop => Some(NOP),
            Code::Jump(target) => jump(addr, target),
        }
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
        match jump_target(bytes, addr) {
            Some(target) => State::Jump(target),
            None if bytes == NOP => State::Nop,
            None => State::Foreign(bytes),
        }
    }
}
