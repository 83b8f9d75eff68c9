//! Programs that keep the thread table: at forks, execs and the end of threads.

use crate::births::{self, Birth};
use crate::code::Code;
use crate::error::Error;
use crate::facts::Facts;
use crate::map_number::STATE;
use crate::namespace::{IdOffsets, Namespace, Task};
use crate::plan::Plan;
use crate::state;
use crate::threads::{Entry, LAUNCHING, TRACED};
use mote_bpf::helper::KTIME_GET_NS;
use mote_bpf::{Insn, Reg};
use mote_builder::{Build, Expr, Pointer, field, map_value};
use std::mem::offset_of;

/// What the iterator's program is given.
#[repr(C)]
struct Iteration {
    meta: u64,
    /// Null when all have been seen.
    task: *const Task,
}

/// The program of the iterator over all threads: puts those of the process in [`state::WANTED`], as the recorder sees
/// it, into the table.
///
/// # Errors
/// [`Error::Event`].
pub fn introduce(plan: &Plan, facts: &Facts, namespace: Namespace) -> Result<Vec<Insn>, Error> {
    let (mut code, arguments) = begin::<Iteration>(plan);
    let out = code.out;
    let task = code.keep(arguments.at(field!(Iteration, task))).to::<Task>();
    code.jump_if(task.eq(0), out);
    let process = code.recorder_id_of(task.at(namespace.offsets.group_leader));
    let wanted = map_value(STATE, state::WANTED).place::<u64>();
    code.jump_if(process.ne(wanted), out);
    let entry = code.insert_entry(task.at(facts.pid));
    code.jump_if(entry.eq(0), out);
    let entry = code.keep(entry).to::<Entry>();
    ids(&mut code, facts, &task, &entry);
    code.finish("mote_introduce")
}

/// Notes in its entry what the task is called.
fn ids(code: &mut Code<'_, ()>, facts: &Facts, task: &Pointer<Task>, entry: &Pointer<Entry>) {
    let id = code.id_of(task, facts);
    code.put(entry.at(field!(Entry, recorder_tid)), id);
    if facts.ids.is_some() {
        let id = code.vtid_of(task);
        code.put(entry.at(field!(Entry, vtid)), id);
    }
}

/// Tells the recorder of the thread with this task and entry, if it has other ids for itself than the recorder.
fn born(
    code: &mut Code<'_, ()>,
    facts: &Facts,
    offsets: IdOffsets,
    task: &Pointer<Task>,
    entry: &Pointer<Entry>,
) {
    let (out, first) = (code.out, code.plan.layout.births());
    let same = entry.at(field!(Entry, recorder_tid)).eq(entry.at(field!(Entry, vtid)));
    code.jump_if(same, out);
    let claim = code.fetch_add(map_value(STATE, first).place::<u64>(), 1);
    let offset = (claim & (births::ENTRIES - 1)) << births::ENTRY_BITS;
    let birth = code.keep(map_value(STATE, first + births::ENTRY_BYTES) + offset).to::<Birth>();
    code.put(birth.at(field!(Birth, tid)), entry.at(field!(Entry, recorder_tid)));
    code.put(birth.at(field!(Birth, vtid)), entry.at(field!(Entry, vtid)));
    code.put(birth.at(field!(Birth, level)), task.at(offsets.thread_pid).then(offsets.level));
    let leader = code.keep(task.at(offsets.group_leader)).to::<Task>();
    let pid = code.id_of(&leader, facts);
    code.put(birth.at(field!(Birth, pid)), pid);
    let vpid = code.vtid_of(&leader);
    code.put(birth.at(field!(Birth, vpid)), vpid);
    let now = code.invoke(KTIME_GET_NS, ());
    // An exchange: what was stored before is seen before.
    let _before = code.exchange(birth.at(field!(Birth, time)), now);
}

/// A program, and where it is attached.
pub struct Watch {
    /// The tracepoint's BTF number.
    pub btf_id: u32,
    /// Its name.
    pub name: &'static str,
    /// The instructions.
    pub insns: Vec<Insn>,
}

/// The tracepoint whose program frees entries.
pub const FORGETS: &str = "sched_process_free";

/// The programs that follow threads, each with its tracepoint: made, another program, ended, gone.
///
/// # Errors
/// [`Error::Event`].
pub fn programs(plan: &Plan, facts: &Facts) -> Result<Vec<Watch>, Error> {
    let watch = |btf_id, name, insns| Watch { btf_id, name, insns };
    Ok(vec![
        watch(facts.fork, "sched_process_fork", fork(plan, facts)?),
        watch(facts.exec, "sched_process_exec", exec(plan, facts)?),
        watch(facts.exit, "sched_process_exit", exit(plan, facts)?),
        watch(facts.free, FORGETS, free(plan, facts)?),
    ])
}

/// A program, and what it is given.
fn begin<A>(plan: &Plan) -> (Code<'_, ()>, Pointer<A>) {
    let mut code = Code::of_threads(plan);
    let arguments = code.pin(Reg::R1).to();
    (code, arguments)
}

/// The entry of a thread, or the program ends.
fn entry(code: &mut Code<'_, ()>, tid: impl Into<Expr>) -> Pointer<Entry> {
    let (out, found) = (code.out, code.find_entry(tid));
    code.jump_if(found.eq(0), out);
    code.keep(found).to()
}

/// What the program at `sched_process_fork` is given.
#[repr(C)]
struct Fork {
    parent: *const Task,
    child: *const Task,
}

/// The child of a thread that is traced, or launching, is traced. A thread of a process with an area has it too.
fn fork(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let (mut code, arguments) = begin::<Fork>(plan);
    let out = code.out;
    let parent = code.keep(arguments.at(field!(Fork, parent))).to::<Task>();
    let child = code.keep(arguments.at(field!(Fork, child))).to::<Task>();
    code.block(|code, other| {
        let parents = code.find_entry(parent.at(facts.pid));
        code.jump_if(parents.eq(0), other);
        let index = code.keep(parents.at(field!(Entry, index)));
        let flags = code.get(parents.at(field!(Entry, flags)));
        code.when(parent.at(facts.tgid).ne(child.at(facts.tgid)), |code| code.set(&index, 0));
        drop(parent);
        let traced = code.keep(TRACED);
        code.when((flags & (TRACED | LAUNCHING)).eq(0), |code| {
            code.set(&traced, 0);
            code.jump_if(index.eq(0), other);
        });
        let entry = code.insert_entry(child.at(facts.pid));
        code.jump_if(entry.eq(0), out);
        let entry = code.keep(entry).to::<Entry>();
        reset(code, &entry);
        code.put(entry.at(field!(Entry, index)), index);
        ids(code, facts, &child, &entry);
        code.put(entry.at(field!(Entry, flags)), traced);
        if let Some(offsets) = facts.ids {
            born(code, facts, offsets, &child, &entry);
        }
        code.jump(out);
    });
    // Its id may be that of a traced thread which has ended and was not freed yet.
    let entry = entry(&mut code, child.at(facts.pid));
    code.put(entry.at(field!(Entry, flags)), 0);
    code.finish("sched_process_fork")
}

/// What the program at `sched_process_exec` is given.
#[repr(C)]
struct Exec {
    task: *const Task,
    /// The thread's id until now.
    old: u32,
}

/// A thread that executes a program gets its process's id; the area that it shared is gone.
fn exec(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let (mut code, arguments) = begin::<Exec>(plan);
    let out = code.out;
    let task = code.keep(arguments.at(field!(Exec, task))).to::<Task>();
    let old = code.keep(arguments.at(field!(Exec, old)));
    let entry = entry(&mut code, &old);
    code.put(entry.at(field!(Entry, index)), 0);
    code.when(task.at(facts.pid).ne(&old), |code| {
        let new = code.insert_entry(task.at(facts.pid));
        code.jump_if(new.eq(0), out);
        reset(code, &new);
        for word in [field!(Entry, syscall_time), field!(Entry, syscall)] {
            code.put(new.at(word), entry.at(word));
        }
        code.put(new.at(field!(Entry, flags)), entry.at(field!(Entry, flags)));
        forget(code, &entry);
        let new = code.keep(new).to::<Entry>();
        ids(code, facts, &task, &new);
    });
    code.finish("sched_process_exec")
}

/// What the programs at the end of threads are given first.
#[repr(C)]
struct Ending {
    task: *const Task,
}

/// The entry learns whose it is: it is freed with that task.
fn exit(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let (mut code, arguments) = begin::<Ending>(plan);
    let task = code.keep(arguments.at(field!(Ending, task))).to::<Task>();
    let entry = entry(&mut code, task.at(facts.pid));
    let now = code.invoke(KTIME_GET_NS, ());
    code.put(entry.at(field!(Entry, syscall_time)), now);
    code.put(entry.at(field!(Entry, task)), &task);
    code.finish("sched_process_exit")
}

fn free(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let (mut code, arguments) = begin::<Ending>(plan);
    let out = code.out;
    let task = code.keep(arguments.at(field!(Ending, task))).to::<Task>();
    let entry = entry(&mut code, task.at(facts.pid));
    code.jump_if(entry.at(field!(Entry, task)).ne(&task), out);
    forget(&mut code, &entry);
    code.finish(FORGETS)
}

/// Clears the thread's words in an entry.
pub(crate) fn reset<S>(code: &mut Code<'_, S>, entry: &Pointer<Entry>) {
    code.put(entry.at(field!(Entry, flags)), 0);
    code.put(entry.at(field!(Entry, index)), 0);
    let words = offset_of!(Entry, syscall_time)..size_of::<Entry>();
    code.clear(entry, words);
}

/// Frees an entry.
fn forget(code: &mut Code<'_, ()>, entry: &Pointer<Entry>) {
    reset(code, entry);
    code.put(entry.at(field!(Entry, tid)), 0);
}
