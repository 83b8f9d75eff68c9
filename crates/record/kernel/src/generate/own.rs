//! The program that is run in the recorder's own thread: which one that is, in which namespace, and what time it is.

use super::ids::{self, IdPlaces};
use super::{helper, map_number};
use crate::map;
use crate::session::Error;
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg};
use mote_builder::Builder;

/// Returns the thread's id, and leaves the time in the state map, and its pid namespace if it is known where that is found.
///
/// # Errors
/// [`Error::Event`].
pub(crate) fn program(places: Option<IdPlaces>) -> Result<Vec<Insn>, Error> {
    let mut b = Builder::new();
    b.call(helper::KTIME_GET_NS);
    b.map_value(Reg::R1, map_number::STATE, map::NOW);
    b.store(Size::DW, Reg::R1, 0, Reg::R0);
    if let Some(places) = places {
        ids::note_namespace(&mut b, map_number::STATE, places);
    }
    b.call(helper::GET_CURRENT_PID_TGID);
    b.mov32(Reg::R0, Reg::R0);
    b.exit();
    b.finish().map_err(|error| Error::event("mote_own", error.to_string()))
}
