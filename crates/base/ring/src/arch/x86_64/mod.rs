//! The sequences of x86-64.
//!
//! # Why the time needs no fence
//! RDTSC may be executed before the load of `pos` that stands before it: it is not a serialising instruction (Intel SDM
//! vol. 2B and AMD APM vol. 3, RDTSC), and a fence would cost as much as the rest. That does no harm: what has to hold
//! is only that of two RDTSCs of one processor the later one does not read less. That is the counter's own promise: it
//! "is guaranteed to return a monotonically increasing unique value whenever executed" (SDM vol. 3B, 17.17, "Time-Stamp
//! Counter"). No processor is known that executes two of them in exchanged order, with the stores of one record and the
//! loads and checks of the next one between them. That a virtual processor's counter goes on where it was when it moves
//! to another core is its host's promise (SDM vol. 3C, "TSC offsetting").

mod direct;
mod frame;
mod record;
mod sub_buffer;

pub(crate) use direct::{
    write_elapsed as direct_elapsed, write_none as direct_none, write_packed as direct_packed,
    write_pieces as direct_pieces, write_two as direct_two, write_words as direct_words,
};
pub(crate) use record::{write_fragments, write_words};
pub(crate) use sub_buffer::{count_ring_full, switch};
