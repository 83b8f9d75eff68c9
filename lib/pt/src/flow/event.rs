//! What the flow says beside the code that was executed.

use crate::insn::{Class, Fault, Mode};
use crate::packet::Packet;
use thiserror::Error;

/// One piece of the flow: code, or what happened between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<C> {
    /// Code that was executed.
    Code(C),
    /// Something that happened before what follows was executed.
    Event {
        /// Where the packet is that says so, as the packets' source counts.
        offset: u64,
        /// What happened.
        event: Event,
    },
    /// Code is missing here that was executed.
    Gap(Gap),
}

/// Something that happened between two instructions.
///
/// Addresses of events are those of FUP packets: of the next instruction, unless something else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Code is known from here on.
    Enabled {
        /// Where it goes on.
        address: u64,
        /// What says so.
        by: Start,
    },
    /// Tracing has ended: packets of code that is executed now are not written.
    Disabled {
        /// The next instruction, if something other than an instruction has ended it.
        from: Option<u64>,
        /// Where the branch leads to that has ended it; nothing if the processor does not say so.
        to: Option<u64>,
    },
    /// An interrupt, an exception, a software interrupt, the exit from a virtual machine, or an aborted transaction.
    AsyncBranch {
        /// The instruction that would have been executed; that which has failed, or is the software interrupt.
        from: u64,
        /// What was executed next.
        to: u64,
    },
    /// The processor has lost packets (OVF), and so code is missing up to the next [`Event::Enabled`].
    Overflow,
    /// A transaction (TSX) has changed its state.
    Transaction {
        /// The state.
        state: Transaction,
        /// Where; nothing if the processor does not say so.
        address: Option<u64>,
    },
    /// Code is of another address space now (PIP).
    AddressSpace {
        /// CR3, with its low 5 bits as 0.
        cr3: u64,
        /// The processor is in a virtual machine (VMX non-root operation).
        is_guest: bool,
    },
    /// A virtual machine's VMCS is used: its physical address. The packet may be up to a branch early.
    Vmcs(u64),
    /// The mode of execution has changed, or interrupts were enabled or disabled (with event trace).
    Mode {
        /// The mode.
        mode: Mode,
        /// The interrupt flag, of processors with event trace.
        interrupts: bool,
    },
    /// A region was entered that stops tracing until software starts it again (TraceStop).
    Stopped,
    /// Packets are not there from here on to those that follow, which were recorded later (snapshots, samples). Readers
    /// of such packets say it, not the flow.
    Cut,
    /// A packet that says nothing about the flow itself.
    ///
    /// Of time (TSC, MTC, CBR and others): behind the branches of all packets before it. PTW: behind the PTWRITE, whose
    /// address it has. Of others (power, PEBS, event trace): where their FUP says, or as near as is known.
    Packet {
        /// What the packet says.
        packet: Packet,
        /// The address of its FUP, or of the PTWRITE that it is about; nothing if the processor does not say so.
        address: Option<u64>,
    },
}

impl Event {
    /// The event, at an address.
    pub(super) fn at(mut self, at: Option<u64>) -> Self {
        if let Event::Transaction { address, .. } | Event::Packet { address, .. } = &mut self {
            *address = at;
        }
        self
    }
}

/// What says that code is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The processor has enabled tracing (TIP.PGE).
    Pge,
    /// The packets are read from here on (PSB).
    Psb,
    /// The processor can write packets again (FUP behind OVF).
    Overflow,
    /// A packet with an address, behind a gap.
    Gap,
}

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// It has begun. Code that follows may turn out to have had no effect.
    Begun,
    /// Its effects are visible.
    Committed,
    /// It has had no effect.
    Aborted,
}

/// Code that was executed, but cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("code{} is missing at packet {offset:#x}: {cause}", if *is_guest { " of a virtual machine" } else { "" })]
pub struct Gap {
    /// Where the packet is that could not be followed, as the packets' source counts; of TNT packets that come one
    /// after the other, perhaps one behind it.
    pub offset: u64,
    /// Why.
    pub cause: Cause,
    /// It is a virtual machine's, as far as is known (PIP.NR).
    pub is_guest: bool,
}

/// Why code is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The bytes of the trace are damaged: what follows cannot be read up to the next PSB.
    #[error("the trace is damaged; reading goes on at the next PSB")]
    Damage,
    /// The image has no code there.
    #[error(transparent)]
    Code(#[from] Fault),
    /// The code does something else than the packets say.
    #[error("the code at {address:#x} does not do what the packets say; the image may be of another version")]
    Contradiction {
        /// The instruction that the packets do not fit.
        address: u64,
        /// What it does to the flow.
        class: Class,
    },
    /// A packet stands where the processor writes none.
    #[error("a packet is where no processor writes it")]
    Unexpected,
    /// The code is a loop that never ends, while packets say that something happened. It was gone through some times
    /// before that was noticed.
    #[error("the code at {address:#x} is a loop without an end, and no packet leads out of it")]
    Loop {
        /// An instruction of the loop.
        address: u64,
    },
    /// A packet has no address where one is needed.
    #[error("a packet has no address, and so none is known")]
    NoAddress,
}
