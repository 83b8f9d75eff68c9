//! The programs: at the entry and the return of system calls, at switches and wake-ups, at the end of threads and at exec.

mod code;
mod life;
mod record;
mod sched;
mod syscall;

use crate::offsets::Offsets;
use code::Code;
use mote_bpf::Insn;
use mote_builder::BuildError;
use mote_generate::state::Layout;

/// The tracepoint of wake-ups.
pub(crate) const WAKING: &str = "sched_waking";

/// The programs, each with its tracepoint: entries of calls behind returns, and ends of threads before all, so that nothing is half seen.
pub(crate) fn all(offsets: &Offsets, layout: Layout) -> [(&'static str, Result<Vec<Insn>, BuildError>); 6] {
    let code = || Code::new(offsets, layout);
    [
        ("sched_process_exit", life::exit(offsets, layout)),
        ("sched_process_exec", life::exec(offsets, layout)),
        ("sched_switch", sched::switch(offsets, layout)),
        (WAKING, waking(offsets, layout)),
        ("sys_exit", syscall::exit(code())),
        ("sys_enter", syscall::enter(code())),
    ]
}

/// The program at [`WAKING`].
pub(crate) fn waking(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    sched::waking(offsets, layout)
}
