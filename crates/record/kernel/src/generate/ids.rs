//! Ids of threads as the recorder sees them, and as they see themselves.
//!
//! The kernel counts threads by an id of its own, which is that of the outermost pid namespace; the thread table is by it. Where the recorder runs in
//! another namespace (in a container), records have the ids that this one has: those of its `/proc`, of `-p`, of kill(2). A thread has an id at each level of
//! its namespaces (`struct pid`, `include/linux/pid.h`); the one that is meant is at the recorder's level, if the namespace there is the recorder's. A thread
//! that is not in it has the kernel's id, negative. A thread that ends has no ids any more before it leaves its CPU for the last time: then it is the one
//! that the table has.
//!
//! In the outermost namespace none of this is in any program but those that keep the table.

use super::code::{Access, Code};
use super::{helper, slot};
use crate::catalog::btf::Btf;
use crate::{map, threads};
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Size};

/// Where ids are in this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdPlaces {
    /// `task_struct.thread_pid`: its `struct pid`.
    thread_pid: i16,
    /// `task_struct.group_leader`: the thread whose id the process has.
    group_leader: i16,
    /// `pid.level`: that of its own namespace.
    level: i16,
    /// `pid.numbers`, one for each level.
    numbers: i16,
    /// Bytes of one of them, and of what lies there `nr` and `ns`.
    number_bytes: i32,
    nr: i16,
    ns: i16,
    /// The iterator over all threads (`bpf_iter_task`, Linux 5.8).
    pub(crate) iterator: Option<u32>,
}

/// Bytes of the stack for a number.
const NUMBER_BYTES: i32 = 16;

impl IdPlaces {
    /// `None` for a kernel that says nothing of them.
    pub(super) fn of(btf: &Btf) -> Option<IdPlaces> {
        let offset = |structure: &str, path: &str| i16::try_from(btf.offset(structure, path)?).ok();
        Some(IdPlaces {
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
pub(crate) struct Seen {
    /// Level of the recorder's namespace; not 0.
    pub(crate) level: u32,
    pub(crate) places: IdPlaces,
}

impl Code<'_> {
    /// The running thread's id, as the recorder sees it, into `dst`. Before a ring is left, or behind: nothing of the frame is touched.
    pub(super) fn seen_thread(&mut self, dst: Reg) {
        if self.plan.seen.is_some() {
            self.b.call(helper::GET_CURRENT_TASK_BTF);
            self.b.mov(Reg::R1, Reg::R0);
            self.call_seen();
            self.b.mov(dst, Reg::R0);
        } else {
            self.b.load(Size::DW, dst, Reg::R10, slot::TID);
        }
    }

    /// Process and thread as the recorder sees them, to their slot: what a filter asks for.
    pub(super) fn keep_seen(&mut self, places: IdPlaces) {
        for (at, leader) in [(slot::SEEN, false), (slot::SEEN + 4, true)] {
            self.b.call(helper::GET_CURRENT_TASK_BTF);
            self.b.mov(Reg::R1, Reg::R0);
            if leader {
                self.b.load(Size::DW, Reg::R1, Reg::R1, places.group_leader);
            }
            self.call_seen();
            self.b.store(Size::W, Reg::R10, at, Reg::R0);
        }
    }

    /// `r1` becomes the id of the thread, or of its process, that an argument points to.
    pub(super) fn task_id(&mut self, argument: u8, path: &[u32], process: bool) -> Result<(), &'static str> {
        let Some(seen) = self.plan.seen else { return self.member(argument, path, Size::W) };
        if self.access != Access::Typed {
            return Err("it is an id in a pid namespace, which this kernel shows to typed programs only");
        }
        self.argument(argument)?;
        if process {
            self.b.load(Size::DW, Reg::R1, Reg::R1, seen.places.group_leader);
        }
        self.call_seen();
        self.b.mov(Reg::R1, Reg::R0);
        Ok(())
    }

    /// `r0` becomes the id of the task in `r1` as the recorder sees it.
    pub(super) fn id_of(&mut self, pid: i16) {
        if self.plan.seen.is_some() {
            self.call_seen();
        } else {
            self.b.load(Size::W, Reg::R0, Reg::R1, pid);
        }
    }

    /// The same of its process.
    pub(super) fn process_of(&mut self, seen: Seen) {
        self.b.load(Size::DW, Reg::R1, Reg::R1, seen.places.group_leader);
        self.call_seen();
    }

    /// `r1` becomes the level of the namespace of the task in `r7`.
    pub(super) fn level(&mut self, places: IdPlaces) {
        self.b.load(Size::DW, Reg::R1, Reg::R7, places.thread_pid);
        self.b.load(Size::W, Reg::R1, Reg::R1, places.level);
    }

    /// `r7`, a task, becomes the first one of its process.
    pub(super) fn leader(&mut self, places: IdPlaces) {
        self.b.load(Size::DW, Reg::R7, Reg::R7, places.group_leader);
    }

    /// `r1`, a thread's id as the kernel counts, becomes the one that the table has for it, or negative. What is no id stays what it is.
    pub(super) fn seen_step(&mut self) {
        if self.plan.seen.is_none() {
            return;
        }
        let (none, end) = (self.b.label(), self.b.label());
        self.b.store(Size::DW, Reg::R10, slot::VALUE, Reg::R1);
        self.b.branch(Cond::SLe, Reg::R1, 0, end);
        self.call_find();
        self.b.branch(Cond::Eq, Reg::R0, 0, none);
        self.b.load(Size::W, Reg::R1, Reg::R0, threads::SEEN);
        self.b.branch(Cond::Ne, Reg::R1, 0, end);
        self.b.bind(none);
        self.b.load(Size::DW, Reg::R2, Reg::R10, slot::VALUE);
        self.b.mov(Reg::R1, 0);
        self.b.sub(Reg::R1, Reg::R2);
        self.b.bind(end);
    }

    /// Function: `r0` becomes the id of the task in `r1`, a typed pointer, as the recorder sees it: 32 bits.
    pub(super) fn seen_function(&mut self) {
        let (Some(seen), Some(facts)) = (self.plan.seen, self.plan.facts) else { return };
        let (unseen, none, end) = (self.b.label(), self.b.label(), self.b.label());
        self.b.mov(Reg::R6, Reg::R1);
        seen_number(&mut self.b, seen, super::map_number::STATE, unseen);
        self.b.exit();
        self.b.bind(unseen);
        self.b.load(Size::W, Reg::R1, Reg::R6, facts.pid);
        self.b.mov(Reg::R7, Reg::R1);
        self.call_find();
        self.b.branch(Cond::Eq, Reg::R0, 0, none);
        self.b.load(Size::W, Reg::R0, Reg::R0, threads::SEEN);
        self.b.branch(Cond::Ne, Reg::R0, 0, end);
        self.b.bind(none);
        self.b.mov(Reg::R0, 0);
        self.b.sub(Reg::R0, Reg::R7);
        self.b.mov32(Reg::R0, Reg::R0);
        self.b.bind(end);
        self.b.exit();
    }

    /// Function: `r0` becomes the id that the task in `r1` knows itself by, or 0.
    pub(super) fn innermost_function(&mut self) {
        let Some(places) = self.plan.facts.and_then(|facts| facts.ids) else { return };
        let b = &mut self.b;
        b.load(Size::DW, Reg::R3, Reg::R1, places.thread_pid);
        b.load(Size::W, Reg::R4, Reg::R3, places.level);
        innermost_number(b, places);
        b.load(Size::W, Reg::R0, Reg::R10, places.nr - NUMBER_BYTES as i16);
        b.exit();
    }
}

/// `r0` becomes what the recorder calls the task in `r1`, which is typed; goes to `unseen` when it does not see it. Takes 16 bytes of the stack; only `r6`
/// to `r9` are kept.
pub(crate) fn seen_number(
    b: &mut mote_builder::Builder,
    seen: Seen,
    state: u32,
    unseen: mote_builder::Label,
) {
    let Seen { level, places } = seen;
    let number = -NUMBER_BYTES as i16;
    b.load(Size::DW, Reg::R3, Reg::R1, places.thread_pid);
    b.branch(Cond::Eq, Reg::R3, 0, unseen);
    b.load(Size::W, Reg::R4, Reg::R3, places.level);
    b.branch(Cond::Lt, Reg::R4, level as i32, unseen);
    b.mov(Reg::R4, level as i32);
    innermost_number(b, places);
    b.load(Size::DW, Reg::R1, Reg::R10, number + places.ns);
    b.map_value(Reg::R2, state, map::NAMESPACE);
    b.load(Size::DW, Reg::R2, Reg::R2, 0);
    b.branch(Cond::Ne, Reg::R1, Reg::R2, unseen);
    b.load(Size::W, Reg::R0, Reg::R10, number + places.nr);
}

/// Copies the number of level `r4` of the `struct pid` in `r3` to the end of the stack; zeros when it cannot be read.
fn innermost_number(b: &mut mote_builder::Builder, places: IdPlaces) {
    let number = -NUMBER_BYTES as i16;
    b.store(Size::DW, Reg::R10, number, 0);
    // By way of the stack: the sum is a number for the verifier then, and the read is one that may fail.
    b.store(Size::DW, Reg::R10, number + 8, Reg::R3);
    b.load(Size::DW, Reg::R3, Reg::R10, number + 8);
    b.mul(Reg::R4, places.number_bytes);
    b.add(Reg::R4, i32::from(places.numbers));
    b.add(Reg::R3, Reg::R4);
    b.store(Size::DW, Reg::R10, number + 8, 0);
    b.mov(Reg::R1, Reg::R10);
    b.add(Reg::R1, -NUMBER_BYTES);
    b.mov(Reg::R2, places.number_bytes);
    b.call(helper::PROBE_READ_KERNEL);
}

/// Leaves level and namespace of the running thread in the state map.
pub(super) fn note_namespace(b: &mut mote_builder::Builder, state: u32, places: IdPlaces) {
    b.call(helper::GET_CURRENT_TASK_BTF);
    b.load(Size::DW, Reg::R3, Reg::R0, places.thread_pid);
    b.load(Size::W, Reg::R4, Reg::R3, places.level);
    b.map_value(Reg::R1, state, map::LEVEL);
    b.store(Size::DW, Reg::R1, 0, Reg::R4);
    innermost_number(b, places);
    b.load(Size::DW, Reg::R2, Reg::R10, places.ns - NUMBER_BYTES as i16);
    b.map_value(Reg::R1, state, map::NAMESPACE);
    b.store(Size::DW, Reg::R1, 0, Reg::R2);
}
