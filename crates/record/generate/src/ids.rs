//! Ids of threads as the recorder sees them, and as they see themselves.
//!
//! The kernel counts threads by an id of its own, which is that of the outermost pid namespace; the thread table is by
//! it. Where the recorder runs in another namespace (in a container), records have the ids that this one has: those of
//! its `/proc`, of `-p`, of kill(2). A thread has an id at each level of its namespaces (`struct pid`,
//! `include/linux/pid.h`); the one that is meant is at the recorder's level, if the namespace there is the recorder's.
//! A thread that is not in it has the kernel's id, negative. A thread that ends has no ids any more before it leaves
//! its CPU for the last time: then it is the one that the table has.
//!
//! In the outermost namespace none of this is in any program but those that keep the table.

use crate::access::Access;
use crate::code::Code;
use crate::facts::Facts;
use crate::namespace::{IdOffsets, Pid, Task, read_id, recorder_id};
use crate::slot;
use crate::threads::{self, Entry};
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Reg, helper};
use mote_builder::{Build, Expr, Label, Pointer, Value, field};

impl Code<'_> {
    /// The running thread's id, as the recorder sees it, into `dst`. Before a ring is left, or behind: nothing of the
    /// frame is touched.
    pub(crate) fn recorder_tid(&mut self, dst: Reg) {
        if self.plan.namespace.is_some() {
            self.b.call(helper::GET_CURRENT_TASK_BTF);
            self.b.mov(Reg::R1, Reg::R0);
            self.call_recorder_id();
            self.b.mov(dst, Reg::R0);
        } else {
            self.b.load(Size::DW, dst, Reg::R10, slot::TID);
        }
    }

    /// Process and thread as the recorder sees them, to their slot: what a filter asks for.
    pub(crate) fn keep_recorder_ids(&mut self, offsets: IdOffsets) {
        for (at, leader) in [(slot::RECORDER_IDS, false), (slot::RECORDER_IDS + 4, true)] {
            self.b.call(helper::GET_CURRENT_TASK_BTF);
            self.b.mov(Reg::R1, Reg::R0);
            if leader {
                self.b.load(Size::DW, Reg::R1, Reg::R1, offsets.group_leader.offset() as i16);
            }
            self.call_recorder_id();
            self.b.store(Size::W, Reg::R10, at, Reg::R0);
        }
    }

    /// `r1` becomes the id of the thread, or of its process, that an argument points to.
    pub(crate) fn task_id(&mut self, argument: u8, path: &[u32], process: bool) -> Result<(), &'static str> {
        let Some(namespace) = self.plan.namespace else { return self.member(argument, path, Size::W) };
        if self.access != Access::Typed {
            return Err("it is an id in a pid namespace, which this kernel shows to typed programs only");
        }
        self.argument(argument)?;
        if process {
            self.b.load(Size::DW, Reg::R1, Reg::R1, namespace.offsets.group_leader.offset() as i16);
        }
        self.call_recorder_id();
        self.b.mov(Reg::R1, Reg::R0);
        Ok(())
    }

    /// The id of a task as the recorder sees it. A call, where it has other ids than the kernel.
    pub(crate) fn id_of(&mut self, task: &Pointer<Task>, facts: &Facts) -> Value {
        if self.plan.namespace.is_some() { self.recorder_id_of(task) } else { self.get(task.at(facts.pid)) }
    }

    /// The id of a task as the recorder sees it, which has other ids than the kernel.
    pub(crate) fn recorder_id_of(&mut self, task: impl Into<Expr>) -> Value {
        let label = self.recorder_id_label();
        self.invoke_function(label, (task,))
    }

    /// The id that a task knows itself by.
    pub(crate) fn vtid_of(&mut self, task: impl Into<Expr>) -> Value {
        let label = self.vtid_label();
        self.invoke_function(label, (task,))
    }

    /// `r1`, a thread's id as the kernel counts, becomes the one that the table has for it, or negative. What is no id
    /// stays what it is.
    pub(crate) fn recorder_tid_step(&mut self) {
        if self.plan.namespace.is_none() {
            return;
        }
        let (none, end) = (self.b.label(), self.b.label());
        self.b.store(Size::DW, Reg::R10, slot::VALUE, Reg::R1);
        self.b.branch(Cond::SLe, Reg::R1, 0, end);
        self.call_find();
        self.b.branch(Cond::Eq, Reg::R0, 0, none);
        self.b.load(Size::W, Reg::R1, Reg::R0, threads::RECORDER_TID);
        self.b.branch(Cond::Ne, Reg::R1, 0, end);
        self.b.bind(none);
        self.b.load(Size::DW, Reg::R2, Reg::R10, slot::VALUE);
        self.b.mov(Reg::R1, 0);
        self.b.sub(Reg::R1, Reg::R2);
        self.b.bind(end);
    }

    /// Function: the id of a task, a typed pointer, as the recorder sees it: 32 bits.
    pub(crate) fn recorder_id_function(&mut self, label: Label) {
        let (Some(namespace), Some(facts)) = (self.plan.namespace, self.plan.facts) else { return };
        self.function(label, |code, [task]| {
            let task = code.keep(task).to::<Task>();
            let outside = code.label();
            let id = recorder_id(code, &task, namespace, crate::map_number::STATE, outside);
            code.exit_with(id);
            code.bind(outside);
            let tid = code.keep(task.at(facts.pid));
            let entry = code.find_entry(&tid);
            code.when(entry.ne(0), |code| {
                let id = code.get(entry.at(field!(Entry, recorder_tid)));
                code.when(id.ne(0), |code| code.exit_with(&id));
            });
            code.exit_with((Expr::from(0) - tid).low());
        });
    }

    /// Function: the id that a task knows itself by, or 0.
    pub(crate) fn vtid_function(&mut self, label: Label) {
        let Some(offsets) = self.plan.facts.and_then(|facts| facts.ids) else { return };
        self.function(label, |code, [task]| {
            let pid = code.get(task.to::<Task>().at(offsets.thread_pid)).to::<Pid>();
            let level = code.get(pid.at(offsets.level));
            let number = read_id(code, pid, level, offsets);
            code.exit_with(number.member(offsets.nr));
        });
    }
}
