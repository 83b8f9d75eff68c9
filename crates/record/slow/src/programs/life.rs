//! The programs at the end of a thread and at exec: slots are given back.

use crate::offsets::Offsets;
use crate::places as at;
use crate::programs::code::Code;
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg};
use mote_builder::BuildError;
use mote_generate::state::Layout;
use mote_generate::threads;
use mote_layout::cooperation as area;
use std::mem::offset_of;

/// `sched_process_exit(task)`: the call that never returns is over, and the slot is nobody's.
pub(crate) fn exit(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let (out, process) = (code.out, code.b.label());
    code.b.mov(Reg::R6, Reg::R1);
    code.b.load(Size::DW, Reg::R8, Reg::R6, 0);
    code.thread(out);
    code.b.store(Size::W, Reg::R9, at::NUMBER, 0);
    code.b.bind(process);
    code.area(out);
    code.slot(out);
    // It still runs for a while, and has no slot then.
    code.b.store(Size::W, Reg::R9, at::SLOT, at::NO_SLOT);
    let thread = offset_of!(area::Slot, thread) as i16;
    for word in (thread + 8..area::SLOT_BYTES as i16).step_by(8) {
        code.b.store(Size::DW, Reg::R0, word, 0);
    }
    code.b.store(Size::W, Reg::R0, thread, 0);
    code.end();
    code.finish()
}

/// `sched_process_exec(task, old thread id, ..)`: the area was in the memory that is gone.
pub(crate) fn exec(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let out = code.out;
    code.b.mov(Reg::R6, Reg::R1);
    code.b.load(Size::DW, Reg::R8, Reg::R6, 0);
    code.thread(out);
    code.b.store(Size::W, Reg::R7, threads::INDEX, 0);
    code.b.store(Size::W, Reg::R9, at::SLOT, 0);
    code.end();
    code.finish()
}
