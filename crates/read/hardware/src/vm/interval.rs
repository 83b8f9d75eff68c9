//! What a processor is busy with, and for how long.

use std::fmt;

/// An address space: where the tables of pages are that CR3 points to.
///
/// Bits 0 to 11 of CR3 are no part of it: they name entries of the TLB (PCID), which Linux gives out anew. Under
/// page-table isolation a process has two address spaces: that of user mode has bits 11 and 12 set, the kernel's has
/// both clear (Linux 6.1, `arch/x86/entry/calling.h`, `PTI_USER_PGTABLE_AND_PCID_MASK`). They are one here. Tables of
/// 32-bit PAE that share a page are one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(u64);

/// The bits of CR3 that a user half has, and the other half has not.
const USER_HALF: u64 = 1 << 11 | 1 << 12;
/// The bits of CR3 that name entries of the TLB.
const PCID: u64 = 0xfff;

impl Space {
    /// The address space of a CR3.
    #[must_use]
    #[inline]
    pub fn of(cr3: u64) -> Space {
        let is_user_half = cr3 & (USER_HALF | PCID & !0x1f) == USER_HALF;
        Space(cr3 & !(if is_user_half { PCID | USER_HALF } else { PCID }))
    }

    /// The physical address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A VMCS: the physical address of what a processor keeps of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vmcs(u64);

impl Vmcs {
    /// What a VMCS packet has where there is no VMCS: all bits set (SDM 3C, 33.4.2.15).
    pub const NONE: u64 = 0x000f_ffff_ffff_f000;

    /// The one of a VMCS packet, where there is one. Processors have fewer bits of physical addresses than the packet,
    /// so that an address with bits 12 to 51 set is never one.
    #[must_use]
    #[inline]
    pub fn of(base: u64) -> Option<Vmcs> {
        (base & Vmcs::NONE != Vmcs::NONE).then_some(Vmcs(base & Vmcs::NONE))
    }

    /// The physical address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Vmcs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a processor is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// A guest's code: VMX non-root operation.
    Guest {
        /// The vCPU, where its VMCS has been seen.
        vmcs: Option<Vmcs>,
        /// The virtual machine: the address space that it was entered from, or that it leaves to.
        vm: Option<Space>,
        /// The guest's process.
        process: Space,
    },
    /// Code of the host: VMX root operation.
    Root {
        /// The VMCS that this processor has loaded last. It is the vCPU that is served if `space` is its VMM's.
        vmcs: Option<Vmcs>,
        /// Whose code.
        space: Space,
    },
    /// Nothing.
    Idle {
        /// What says so.
        by: Rest,
        /// The vCPU, where it has stopped in the guest.
        vmcs: Option<Vmcs>,
    },
    /// It is not known.
    Unknown(Unknown),
}

/// What says that a processor rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rest {
    /// MWAIT or PWRE, and EXSTOP (33.4.2.22 to 33.4.2.25), up to PWRX or the next branch.
    Power,
    /// MTC packets have ceased, and a TSC packet outside of PSB+ ends that, as it does when a processor wakes
    /// (33.4.2.11). It may have been something else that stops its clocks.
    Silence,
}

/// Why it is not known what a processor is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// The trace has begun, and has not said it yet.
    NotYet,
    /// The processor has lost packets (OVF).
    Overflow,
    /// Bytes are no packets.
    Damage,
    /// Tracing was off meanwhile, or was switched off and on.
    Untraced,
    /// Two packets contradict one another: packets between are missing.
    Contradiction,
    /// There is time between two packets in which others should have been.
    Silence,
}

impl Unknown {
    /// The state as people read it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Unknown::NotYet => "not said yet",
            Unknown::Overflow => "packets lost by the processor",
            Unknown::Damage => "bytes that are no packets",
            Unknown::Untraced => "tracing was off",
            Unknown::Contradiction => "packets are missing: they contradict one another",
            Unknown::Silence => "packets are missing: MTC has gaps",
        }
    }
}

/// How an interval begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// A packet says that it changes here.
    Seen,
    /// It goes on beyond, or may: what is there is not known.
    Cut,
}

/// A time in which a processor was busy with one thing.
///
/// Times are ticks of the host's time-stamp counter, and absent where no packet tells of them. They are those of the
/// last packet of time before: the change was then or later, before the next one (see [`super::Counts::late_max`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The state that the processor was in.
    pub doing: Doing,
    /// When it begins.
    pub begin: Option<u64>,
    /// When it ends.
    pub end: Option<u64>,
    /// Where the packet is that begins it, in bytes.
    pub offset: u64,
    /// How it begins.
    pub begins: Edge,
    /// How it ends.
    pub ends: Edge,
    /// Tracing was off for a part of it (TIP.PGD to TIP.PGE): it is taken to have gone on.
    pub is_untraced: bool,
}

impl Interval {
    /// How long it lasts, in ticks of the time-stamp counter.
    #[must_use]
    #[inline]
    pub fn ticks(&self) -> Option<u64> {
        self.end?.checked_sub(self.begin?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_space_is_not_its_tlb_entries() {
        let kernel = Space::of(0x1_2340_2000);
        for same in [0x1_2340_2000, 0x1_2340_2020, 0x1_2340_2fe0, 0x1_2340_3800, 0x1_2340_2800] {
            assert_eq!(Space::of(same), kernel, "{same:#x}");
        }
        // Without bit 11 it is another page, with others of bits 5 to 10 no user half of Linux.
        for other in [0x1_2340_3000, 0x1_2340_3820, 0x1_2340_4000] {
            assert_ne!(Space::of(other), kernel, "{other:#x}");
        }
    }

    #[test]
    fn all_bits_are_no_vmcs() {
        assert_eq!(Vmcs::of(Vmcs::NONE), None);
        assert_eq!(Vmcs::of(0x1000).map(Vmcs::address), Some(0x1000));
    }
}
