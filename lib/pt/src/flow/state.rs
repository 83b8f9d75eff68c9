//! What is known of a processor, and of packets that wait for others.

use super::event::Event;
use crate::image::Space;
use crate::insn::Mode;

/// What is known of the processor beside its address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) space: Space,
    /// CR3, and whether it is a guest's.
    pub(super) paging: Option<(u64, bool)>,
    pub(super) vmcs: Option<u64>,
    pub(super) mode: Mode,
    pub(super) interrupts: Option<bool>,
    pub(super) is_speculative: bool,
}

/// Whether packets of branches are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracing {
    /// Nothing is known before the next PSB.
    Lost,
    Off,
    On,
}

/// What is known since OVF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// There was none, or a packet since has said where the flow is.
    None,
    /// Where tracing is on, a FUP says where it goes on.
    Open,
    /// Tracing was off: a packet stands behind that stands before no such FUP (SDM 33.4.1, table "Compound Packet Event
    /// Summary").
    Off,
}

/// Where the flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At an address that no packet has told yet, or nowhere while tracing is off.
    Unknown,
    Address(u64),
    /// At the first instruction of a node.
    Node(u32),
}

/// How far code is to be followed until the next packet is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Goal {
    /// The next packet is to be read.
    #[default]
    Packet,
    /// Until the bits are used up.
    Bits,
    /// Over the next branch that needs an address.
    Branch { to: Option<u64> },
    /// To an address.
    Arrive { at: u64, then: Then },
    /// Over the next PTWRITE, or the one at an address.
    Ptwrite { at: Option<u64> },
    /// Over the next instruction that changes the address space.
    Paging { cr3: u64, is_guest: bool },
    /// Over the branch that disables tracing.
    Disable { to: Option<u64> },
}

/// What is done at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Events that were waiting for it happen.
    Deliver,
    /// They do, and something interrupts the flow: a TIP tells what follows.
    Interrupt,
    /// PSB+ holds.
    Status,
}

/// Packets that wait for others that they bind to.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Events that wait for a FUP, or the end of what is being followed.
    pub(super) events: Vec<(u64, Event)>,
    /// The next FUP is theirs: no branch follows it.
    pub(super) owns_fup: bool,
    /// A PTW packet waits for a FUP.
    pub(super) has_ptwrite: bool,
    /// An aborted transaction waits for a FUP: a branch follows it.
    pub(super) has_abort: bool,
    /// The address of a FUP that waits for a TIP.
    pub(super) from: Option<u64>,
    /// MODE.Exec, which waits for a TIP, TIP.PGE or FUP.
    pub(super) mode: Option<(Mode, bool)>,
    /// MODE.Exec was the last packet.
    pub(super) is_mode_last: bool,
    /// MODE.Exec was, before a FUP: it holds where that FUP says.
    pub(super) binds_mode: bool,
    /// The flow is just behind the MOV to CR3 that PIP was about: it may be what TIP.PGD is about, too.
    pub(super) is_behind_cr3: bool,
    /// PIP, which waits for a TIP.
    pub(super) paging: Option<(u64, bool)>,
}

/// What PSB+ says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// The address of the next instruction; nothing if tracing is off.
    pub(super) address: Option<u64>,
    pub(super) paging: Option<(u64, bool)>,
    pub(super) vmcs: Option<u64>,
    pub(super) mode: Option<(Mode, bool)>,
    pub(super) in_transaction: Option<bool>,
}
