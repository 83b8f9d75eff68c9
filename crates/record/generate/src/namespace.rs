//! Where a thread's ids in its pid namespaces lie (`struct pid`, `include/linux/pid.h`), and the code that reads one.

use crate::helper;
use crate::state;
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Size};
use mote_builder::{Builder, Label};
use mote_catalog::btf::Btf;

/// Where ids are in this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdOffsets {
    /// `task_struct.thread_pid`: its `struct pid`.
    pub(crate) thread_pid: i16,
    /// `task_struct.group_leader`: the thread whose id the process has.
    pub(crate) group_leader: i16,
    /// `pid.level`: that of its own namespace.
    pub(crate) level: i16,
    /// `pid.numbers`, one for each level.
    pub(crate) numbers: i16,
    /// Bytes of one of them, and of what lies there `nr` and `ns`.
    pub(crate) number_bytes: i32,
    pub(crate) nr: i16,
    pub(crate) ns: i16,
    /// The iterator over all threads (`bpf_iter_task`, Linux 5.8).
    pub iterator: Option<u32>,
}

/// Bytes of the stack for a number.
pub(crate) const NUMBER_BYTES: i32 = 16;

impl IdOffsets {
    /// `None` for a kernel that says nothing of them.
    pub(crate) fn of(btf: &Btf) -> Option<IdOffsets> {
        let offset = |structure: &str, path: &str| i16::try_from(btf.offset(structure, path)?).ok();
        Some(IdOffsets {
            thread_pid: offset("task_struct", "thread_pid")?,
            group_leader: offset("task_struct", "group_leader")?,
            level: offset("pid", "level")?,
            numbers: offset("pid", "numbers")?,
            number_bytes: i32::try_from(btf.size("upid")?).ok().filter(|bytes| *bytes <= NUMBER_BYTES)?,
            nr: offset("upid", "nr")?,
            ns: offset("upid", "ns")?,
            iterator: btf.function("bpf_iter_task"),
        })
    }
}

/// How the recorder sees threads, where that is otherwise than the kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Level of the recorder's namespace; not 0.
    pub level: u32,
    /// Where ids are in this kernel.
    pub offsets: IdOffsets,
}

/// `r0` becomes what the recorder calls the task in `r1`, which is typed; goes to `outside` when it does not see it. Takes 16 bytes of the stack; only `r6`
/// to `r9` are kept.
pub fn recorder_id(b: &mut Builder, namespace: Namespace, state: u32, outside: Label) {
    let Namespace { level, offsets } = namespace;
    let number = -NUMBER_BYTES as i16;
    b.load(Size::DW, Reg::R3, Reg::R1, offsets.thread_pid);
    b.branch(Cond::Eq, Reg::R3, 0, outside);
    b.load(Size::W, Reg::R4, Reg::R3, offsets.level);
    b.branch(Cond::Lt, Reg::R4, level as i32, outside);
    b.mov(Reg::R4, level as i32);
    read_id(b, offsets);
    b.load(Size::DW, Reg::R1, Reg::R10, number + offsets.ns);
    b.map_value(Reg::R2, state, state::NAMESPACE);
    b.load(Size::DW, Reg::R2, Reg::R2, 0);
    b.branch(Cond::Ne, Reg::R1, Reg::R2, outside);
    b.load(Size::W, Reg::R0, Reg::R10, number + offsets.nr);
}

/// Copies the number of level `r4` of the `struct pid` in `r3` to the end of the stack; zeros when it cannot be read.
pub(crate) fn read_id(b: &mut Builder, offsets: IdOffsets) {
    let number = -NUMBER_BYTES as i16;
    b.store(Size::DW, Reg::R10, number, 0);
    // By way of the stack: the sum is a number for the verifier then, and the read is one that may fail.
    b.store(Size::DW, Reg::R10, number + 8, Reg::R3);
    b.load(Size::DW, Reg::R3, Reg::R10, number + 8);
    b.mul(Reg::R4, offsets.number_bytes);
    b.add(Reg::R4, i32::from(offsets.numbers));
    b.add(Reg::R3, Reg::R4);
    b.store(Size::DW, Reg::R10, number + 8, 0);
    b.mov(Reg::R1, Reg::R10);
    b.add(Reg::R1, -NUMBER_BYTES);
    b.mov(Reg::R2, offsets.number_bytes);
    b.call(helper::PROBE_READ_KERNEL);
}

/// Leaves level and namespace of the running thread in the state map.
pub(crate) fn note_namespace(b: &mut Builder, state: u32, offsets: IdOffsets) {
    b.call(helper::GET_CURRENT_TASK_BTF);
    b.load(Size::DW, Reg::R3, Reg::R0, offsets.thread_pid);
    b.load(Size::W, Reg::R4, Reg::R3, offsets.level);
    b.map_value(Reg::R1, state, state::LEVEL);
    b.store(Size::DW, Reg::R1, 0, Reg::R4);
    read_id(b, offsets);
    b.load(Size::DW, Reg::R2, Reg::R10, offsets.ns - NUMBER_BYTES as i16);
    b.map_value(Reg::R1, state, state::NAMESPACE);
    b.store(Size::DW, Reg::R1, 0, Reg::R2);
}
