//! A program for one event that is no system call.

use crate::access::Access;
use crate::chosen::Chosen;
use crate::code::Code;
use crate::error::Error;
use crate::plan::Generated;
use crate::plan::Plan;
use crate::record::Id;
use crate::{filter, select};
use mote_catalog::event::Hook;

/// Events of page faults.
const FAULTS: &str = "exceptions";

/// The program of an event, for this kind of context.
///
/// # Errors
/// [`Error::Event`].
pub fn program(plan: &Plan, chosen: &Chosen, access: Access) -> Result<Generated, Error> {
    let event = &chosen.event;
    let mut code = Code::new(plan, access);
    code.scratch = chosen.filter.as_ref().is_some_and(|it| filter::needs_scratch(event, it));
    code.is_own_doing = matches!(event.hook, Hook::Uprobe { .. }) || event.provider == FAULTS;
    code.begin();
    let tid = code.thread_id();
    code.select(tid, &select::about(event), chosen.filter.is_some());
    code.decided(event, chosen.filter.as_ref())?;
    if chosen.filter.as_ref().is_none_or(|filter| filter.records) {
        code.record(event, Id::Constant(chosen.id))?;
    }
    Ok(Generated { insns: code.finish(&event.name)?, table: None })
}

/// The kinds of context that a hook has: the best one first.
pub fn accesses(plan: &Plan, hook: &Hook) -> Vec<Access> {
    match hook {
        Hook::Raw { btf_id: Some(_), .. } if plan.facts.is_some() => vec![Access::Typed, Access::Raw],
        Hook::Raw { .. } => vec![Access::Raw],
        Hook::Tracepoint { .. } => vec![Access::Record],
        Hook::Uprobe { .. } | Hook::Kprobe { .. } => vec![Access::Probe],
        Hook::Fentry { .. } => vec![Access::Function],
        Hook::SyscallEntry(_) | Hook::SyscallExit(_) => Vec::new(),
    }
}
