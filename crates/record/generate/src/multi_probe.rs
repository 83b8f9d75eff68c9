//! One program for many probes whose events have the same fields: the cookie of the place is the event's id.

use crate::access::Access;
use crate::code::Code;
use crate::error::Error;
use crate::plan::Generated;
use crate::plan::Plan;
use crate::record::Id;
use crate::{select, slot};
use mote_bpf::helper;
use mote_builder::Build;
use mote_catalog::event::{Event, Hook};

/// The program of events like `event`, which have no filter.
///
/// # Errors
/// [`Error::Event`].
pub fn program(plan: &Plan, event: &Event) -> Result<Generated, Error> {
    let mut code = Code::new(plan, Access::Probe);
    code.is_own_doing = matches!(event.hook, Hook::Uprobe { .. });
    code.begin();
    let tid = code.thread_id();
    code.select(tid, &select::about(event), false);
    let cookie = code.invoke(helper::GET_ATTACH_COOKIE, (code.context(),));
    code.put(slot::ID, cookie);
    code.claim(false);
    code.record(event, Id::Slot)?;
    Ok(Generated { insns: code.finish(&event.name)?, table: None })
}
