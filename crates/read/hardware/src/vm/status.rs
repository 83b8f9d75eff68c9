//! What the packets between PSB and PSBEND say of a processor (SDM 3C, 33.3.7): where it is, in any order.

/// What was said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// TSC.
    pub(super) tsc: Option<u64>,
    /// TMA: the crystal clock's count, and ticks since.
    pub(super) tma: Option<(u16, u16)>,
    /// PIP: CR3 and NR.
    pub(super) pip: Option<(u64, bool)>,
    /// VMCS: the address.
    pub(super) vmcs: Option<u64>,
}
