//! What a site can hold, to and from bytes.

use crate::arch::{NOP, TRAP, behind, jump, jump_target};

/// Bytes of a site.
pub const SITE_BYTES: usize = crate::arch::SITE_BYTES;

/// What a site should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nothing: the NOP. Disarmed.
    Nop,
    /// Go to this address. Armed.
    Jump(usize),
    /// What the program does at this place of its code. Disarmed.
    Off(Place),
    /// Go to the probe of this place. Armed.
    On(Place),
}

/// A place of a program's code that is no NOP: one or several of its instructions, with a jump over them while it is
/// on.
///
/// The jump may lie over several instructions, and end in the middle of one that it leaves alone: what of it lies over
/// the begin of an instruction, but the first, is a breakpoint (a *guard*) whatever else the jump's bytes are. So a
/// thread that stood there when it was written, or comes back there later, from a signal's handler or another context,
/// goes on in the copy: the patcher need not look where threads stand (instruction punning with traps: Chamith et al.,
/// PLDI 2017). A guard may also be a byte that is no instruction, which raises SIGILL: a jump whose highest byte is a
/// breakpoint leads far down, where programs at low addresses have nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The program's bytes.
    pub off: [u8; SITE_BYTES],
    /// The jump.
    pub on: [u8; SITE_BYTES],
    /// Where the jump leads.
    pub probe: usize,
    /// Where a copy of the program's instructions is.
    pub copy: usize,
    /// Bit n: the byte n is a guard.
    pub guards: u8,
}

impl Place {
    /// Whether a guard of it is no breakpoint.
    pub(crate) fn has_invalid_guard(&self) -> bool {
        self.on.iter().enumerate().any(|(n, byte)| self.is_guard(n) && *byte != TRAP)
    }

    /// Whether the byte `n` is a guard.
    pub(crate) fn is_guard(&self, n: usize) -> bool {
        self.guards.checked_shr(n as u32).unwrap_or(0) & 1 == 1
    }
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
            Code::Off(place) => Some(place.off),
            Code::On(place) => Some(place.on),
        }
    }

    /// Where a thread goes on that meets this code at `addr`.
    pub(crate) fn leads_to(self, addr: usize) -> usize {
        match self {
            Code::Nop => behind(addr),
            Code::Jump(target) => target,
            Code::Off(place) => place.copy,
            Code::On(place) => place.probe,
        }
    }

    /// The place of a program's code that this is for; `None` for a site.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Code::Nop | Code::Jump(_) => None,
            Code::Off(place) | Code::On(place) => Some(place),
        }
    }

    /// Whether `bytes` at `addr` are what may be changed to this.
    pub(crate) fn may_replace(&self, bytes: [u8; SITE_BYTES], addr: usize) -> bool {
        match self.place() {
            Some(place) => bytes == place.off || bytes == place.on,
            None => !matches!(State::decode(bytes, addr), State::Foreign(_)),
        }
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
