//! The program that is run in the recorder's own thread: which one that is, and what time it is.

use super::{helper, map_number};
use crate::map;
use crate::session::Error;
use mote_assembler::builder::Builder;
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg};

/// Answers the thread's id, and leaves the time in the state map.
///
/// # Errors
/// [`Error::Event`].
pub(crate) fn program() -> Result<Vec<Insn>, Error> {
    let mut b = Builder::new();
    b.call(helper::KTIME_GET_NS);
    b.map_value(Reg::R1, map_number::STATE, map::NOW);
    b.store(Size::DW, Reg::R1, 0, Reg::R0);
    b.call(helper::GET_CURRENT_PID_TGID);
    b.mov32(Reg::R0, Reg::R0);
    b.exit();
    b.finish().map_err(|error| Error::event("mote_own", error.to_string()))
}
