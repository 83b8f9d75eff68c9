//! Virtual machines from outside: what each processor was busy with, by its packets alone.
//!
//! ```text
//! cpu0.pt ─ Decoder ─▶ Machine ─▶ Interval ─┐
//! cpu1.pt ─ Decoder ─▶ Machine ─▶ Interval ─┴─ merge ─▶ Summary: consumption, exits, latencies, waiting
//!                       └ Clock (TSC, TMA, MTC, CYC)
//! ```
//!
//! # The algorithm
//! It is algorithm 2 (HAVAna) of Sharma, "Low-Impact System Performance Analysis Using Hardware Assisted Tracing
//! Techniques", 2017, section 6.3.2: a vCPU is the address in a VMCS packet, a process is the CR3 of a PIP packet, and
//! the bit NR of PIP says whether the processor is in the guest. Changed are:
//!
//! | algorithm 2 | here | why |
//! |---|---|---|
//! | the second PIP without NR means idle | it means another address space: of the VMM again, or of something else on the host | a host that runs another program is not idle, and a VMM that was interrupted goes on as one |
//! | idle is what no vCPU has | idle is what packets of power events say, a silence of MTC that a TSC packet ends, or an address space that a person names | see [`Rest`] |
//! | the first PIP without NR is the VMM's | as here; its address space is also the virtual machine: vCPUs with the same one belong together | the vCPUs of a machine are threads of one process of the host (KVM) |
//! | each CR3 is a process | bits 0 to 11 are left out, and the two halves of a process under page-table isolation are one | they would be several processes ([`Space`]) |
//! | packets in order, from the beginning | beginning anywhere, with loss and damage: what is not known is a [`Interval`] of its own | captures are rings |
//! | every VMCS packet begins a vCPU's time | those of PSB+ only tell where the processor is | they come every few KiB |
//! | times as they are in TSC packets | TSC packets of guests are left out until it is known what they have more than the host's; MTC goes on ([`Clock`]) | a guest's time-stamp counter has an offset (SDM 3C, 33.5.2.1) |
//!
//! # What cannot be known
//! - VMCLEAR, VMXOFF and the end of a virtual machine write no packet.
//! - A thread of the VMM that is no vCPU (of QEMU: disk, display) has the address space of those that are.
//! - Packets that are lost without OVF, and whose absence nothing contradicts.

mod clock;
mod infer;
mod interval;
mod machine;
mod merge;
mod names;
mod status;
mod summary;
mod threads;
mod waits;

pub use clock::{Clock, Rates};
pub use infer::infer;
pub use interval::{Doing, Edge, Interval, Rest, Space, Unknown, Vmcs};
pub use machine::{Counts, Machine};
pub use merge::merge;
pub use names::{BadLine, Names};
pub use summary::{Cpu, Process, Sum, Summary, Vcpu, VcpuId};
pub use threads::{Schedule, Thread, Votes, Winner};
pub use waits::Waits;
