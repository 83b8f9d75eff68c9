//! The programs that keep the table of followed threads: attached once, when the first thread may be followed.

use super::state::Kernel;
use crate::Error;
use crate::attach;
use crate::load::{Kind, Program};
use mote_generate::thread_programs::{self, Watch};
use std::sync::PoisonError;

/// Attaches the programs that keep the thread table, once.
pub(super) fn watch(kernel: &Kernel) -> Result<(), Error> {
    let mut attached = kernel.attached.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(facts) = kernel.plan.facts.filter(|_| attached.forgets.is_none()) else { return Ok(()) };
    for Watch { btf_id, name, insns } in thread_programs::programs(&kernel.plan, &facts)? {
        let program = Program::load(name, Kind::Typed(btf_id), &insns, &[kernel.state.map()])?;
        let link = attach::tracepoint(&program, name, None)?;
        if name == thread_programs::FORGETS {
            attached.forgets = Some((link, program));
        } else {
            attached.links.push(link);
            attached.programs.push(program);
        }
    }
    Ok(())
}

/// Has the program that forgets threads run behind those that were attached meanwhile: programs at a tracepoint run in
/// the order in which they were attached, and the others still have to find the thread.
pub(super) fn forget_last(kernel: &Kernel) -> Result<(), Error> {
    let mut attached = kernel.attached();
    if let Some((link, program)) = attached.forgets.take() {
        // A thread that is freed in between is taken for gone later (`threads`).
        drop(link);
        let link = attach::tracepoint(&program, thread_programs::FORGETS, None)?;
        attached.forgets = Some((link, program));
    }
    Ok(())
}
