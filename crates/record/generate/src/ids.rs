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
use crate::threads::Entry;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Label, Local, Pointer, Value, field};

impl Code<'_> {
    /// The running thread's id, as the recorder sees it. Nothing of the frame is touched, so that it can be asked for
    /// at any time. A call, where the recorder has other ids than the kernel.
    pub(crate) fn recorder_tid(&mut self) -> Value {
        if self.plan.namespace.is_some() {
            let task = self.invoke(helper::GET_CURRENT_TASK_BTF, ());
            self.recorder_id_of(task)
        } else {
            self.get(slot::TID)
        }
    }

    /// Process and thread as the recorder sees them, to their slot: what a filter asks for.
    pub(crate) fn keep_recorder_ids(&mut self, offsets: IdOffsets) {
        for (at, leader) in [(slot::RECORDER_IDS, false), (slot::RECORDER_IDS + 4, true)] {
            let task = self.invoke(helper::GET_CURRENT_TASK_BTF, ()).to::<Task>();
            let task = if leader { task.at(offsets.group_leader).into() } else { Expr::from(task) };
            let id = self.recorder_id_of(task);
            self.put(Local::<u32>::at(at), id);
        }
    }

    /// The id of the thread, or of its process, that an argument points to.
    pub(crate) fn task_id(
        &mut self,
        argument: u8,
        path: &[u32],
        process: bool,
    ) -> Result<Value, &'static str> {
        let Some(namespace) = self.plan.namespace else { return self.member(argument, path, Size::W) };
        if self.access != Access::Typed {
            return Err("ids of a pid namespace (a container) need kernel events with BTF");
        }
        let task = self.argument(argument)?.to::<Task>();
        let leader = namespace.offsets.group_leader;
        let task = if process { Expr::from(task).at(leader).into() } else { Expr::from(task) };
        Ok(self.recorder_id_of(task))
    }

    /// From a thread's id as the kernel counts to the one that the table has for it, or negative. What is no id stays
    /// what it is.
    pub(crate) fn recorder_tid_step(&mut self, tid: Value) -> Value {
        if self.plan.namespace.is_none() {
            return tid;
        }
        self.put(slot::VALUE, &tid);
        self.block(|code, end| {
            code.jump_if(tid.sle(0), end);
            code.block(|code, none| {
                let entry = code.find_entry(&tid);
                code.jump_if(entry.eq(0), none);
                code.set(&tid, Expr::from(entry).at(field!(Entry, recorder_tid)));
                code.jump_if(tid.ne(0), end);
            });
            code.set(&tid, Expr::from(0) - slot::VALUE);
        });
        tid
    }
}

impl<S> Code<'_, S> {
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
