//! Why a schedule cannot be played.

use mote_pt::packet::Unfit;
use thiserror::Error;

/// Why a script cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unplayable {
    /// A step that a processor cannot do there.
    #[error("processor {cpu}, step {step}: {why}")]
    Step {
        /// The processor.
        cpu: usize,
        /// The step's number, from 1.
        step: usize,
        /// Why it cannot.
        why: &'static str,
    },
    /// A value that does not fit into a packet.
    #[error("cannot write a packet: {0}")]
    Packet(Unfit),
    /// There are more packets than anybody wants to keep.
    #[error("a processor has more than {0} MiB of packets: make the schedule shorter, or `branches` longer")]
    TooLong(usize),
}
