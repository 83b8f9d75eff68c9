//! The programs at the end of a thread and at exec: slots are given back.

use super::code::{Code, Thread};
use crate::offsets::Offsets;
use crate::places::{NO_SLOT, Record};
use mote_bpf::Insn;
use mote_builder::{Build, BuildError, field};
use mote_generate::namespace::Task;
use mote_generate::state::Layout;
use mote_generate::threads::Entry;
use mote_layout::cooperation::{SLOT_BYTES, Slot};
use std::mem::offset_of;

/// What the programs are given first.
#[repr(C)]
struct Arguments {
    task: *const Task,
}

/// `sched_process_exit(task)`: the call that never returns is over, and the slot is nobody's.
pub(crate) fn exit(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let out = code.out;
    let arguments = code.context::<Arguments>();
    let task = code.keep(arguments.at(field!(Arguments, task))).to::<Task>();
    let Thread { entry, record } = code.thread(&task, out);
    code.put(record.at(field!(Record, number)), 0);
    let area = code.area(entry, out);
    let slot = code.slot(&area, &record, &task, out);
    // It still runs for a while, and has no slot then.
    code.put(record.at(field!(Record, slot)), NO_SLOT);
    code.clear(&slot, offset_of!(Slot, thread) + 8..SLOT_BYTES);
    code.put(slot.at(field!(Slot, thread)), 0);
    code.end();
    code.finish()
}

/// `sched_process_exec(task, old thread id, ..)`: the area was in the memory that is gone.
pub(crate) fn exec(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let out = code.out;
    let arguments = code.context::<Arguments>();
    let task = code.keep(arguments.at(field!(Arguments, task))).to::<Task>();
    let Thread { entry, record } = code.thread(&task, out);
    code.put(entry.at(field!(Entry, index)), 0);
    code.put(record.at(field!(Record, slot)), 0);
    code.end();
    code.finish()
}
