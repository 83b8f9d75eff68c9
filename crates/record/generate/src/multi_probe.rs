//! One program for many probes whose events have the same fields: the cookie of the place is the event's id.

use crate::access::Access;
use crate::code::Code;
use crate::error::Error;
use crate::plan::Generated;
use crate::plan::Plan;
use crate::record::Id;
use crate::{select, slot};
use mote_bpf::op::Size;
use mote_bpf::{Reg, helper};
use mote_catalog::event::{Event, Hook};

/// The program of events like `event`, which have no filter.
///
/// # Errors
/// [`Error::Event`].
pub fn program(plan: &Plan, event: &Event) -> Result<Generated, Error> {
    let mut code = Code::new(plan, Access::Probe);
    code.is_own_doing = matches!(event.hook, Hook::Uprobe { .. });
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
