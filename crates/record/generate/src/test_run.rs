//! The program that is run in the recorder's own thread: which one that is, in which namespace, and what time it is.

use crate::error::Error;
use crate::namespace::{self, IdOffsets};
use crate::state;
use crate::{helper, map_number};
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg};
use mote_builder::Builder;

/// Returns the thread's id, and leaves the time in the state map, and its pid namespace if it is known where that is found.
///
/// # Errors
/// [`Error::Event`].
pub fn program(offsets: Option<IdOffsets>) -> Result<Vec<Insn>, Error> {
    let mut b = Builder::new();
    b.call(helper::KTIME_GET_NS);
    b.map_value(Reg::R1, map_number::STATE, state::NOW);
    b.store(Size::DW, Reg::R1, 0, Reg::R0);
    if let Some(offsets) = offsets {
        namespace::note_namespace(&mut b, map_number::STATE, offsets);
    }
    b.call(helper::GET_CURRENT_PID_TGID);
    b.mov32(Reg::R0, Reg::R0);
    b.exit();
    b.finish().map_err(|error| Error::event("mote_own", error.to_string()))
}
