//! The program that is run in the recorder's own thread: which one that is, in which namespace, and what time it is.

use crate::error::Error;
use crate::map_number;
use crate::namespace::{self, IdOffsets};
use crate::state;
use mote_bpf::{Insn, helper};
use mote_builder::{Build, Builder, map_value};

/// Returns the thread's id, and leaves the time in the state map, and its pid namespace if it is known where that is
/// found.
///
/// # Errors
/// [`Error::Event`].
pub fn program(offsets: Option<IdOffsets>) -> Result<Vec<Insn>, Error> {
    let mut b = Builder::new();
    let now = b.invoke(helper::KTIME_GET_NS, ());
    b.put(map_value(map_number::STATE, state::NOW).place::<u64>(), now);
    if let Some(offsets) = offsets {
        namespace::note_namespace(&mut b, map_number::STATE, offsets);
    }
    let both = b.invoke(helper::GET_CURRENT_PID_TGID, ());
    b.exit_with(both.low());
    b.finish().map_err(|error| Error::event("mote_own", error.to_string()))
}
