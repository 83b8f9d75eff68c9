//! One program for many probes whose events have the same fields: the cookie of the place is the event's id.

use super::code::{Access, Code};
use super::record::Id;
use super::{Generated, Plan, helper, select, slot};
use crate::event::Event;
use crate::session::Error;
use mote_bpf::Reg;
use mote_bpf::op::Size;

/// The program of events like `event`, which have no filter.
///
/// # Errors
/// [`Error::Event`].
pub(crate) fn many(plan: &Plan, event: &Event) -> Result<Generated, Error> {
    let mut code = Code::new(plan, Access::Probe);
    code.begin();
    code.thread_id();
    code.select(&select::about(event), false);
    code.b.mov(Reg::R1, Reg::R6);
    code.b.call(helper::GET_ATTACH_COOKIE);
    code.b.store(Size::DW, Reg::R10, slot::ID, Reg::R0);
    code.claim(false);
    code.record(event, Id::Slot)?;
    Ok(Generated { insns: code.finish(&event.name)?, table: None })
}
