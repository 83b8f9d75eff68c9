//! Programs that keep the thread table: at forks, execs and the end of threads.

use crate::access::Access;
use crate::code::Code;
use crate::error::Error;
use crate::facts::Facts;
use crate::helper;
use crate::namespace::{IdOffsets, Namespace};
use crate::plan::Plan;
use crate::threads::{self, ENTRY_BYTES, LAUNCHING, TRACED};
use crate::{births, state};
use mote_bpf::Insn;
use mote_bpf::Reg;
use mote_bpf::op::{AtomicOp, Cond, Size};

/// The program of the iterator over all threads: puts those of the process in [`state::WANTED`], as the recorder sees it, into the table.
///
/// # Errors
/// [`Error::Event`].
pub fn introduce(plan: &Plan, facts: &Facts, namespace: Namespace) -> Result<Vec<Insn>, Error> {
    let mut code = begin(plan);
    // r7 the task: none when all have been seen.
    code.b.load(Size::DW, Reg::R7, Reg::R6, 8);
    code.b.branch(Cond::Eq, Reg::R7, 0, code.out);
    code.b.mov(Reg::R1, Reg::R7);
    code.process_of(namespace);
    code.state(Reg::R1, state::WANTED);
    code.b.load(Size::DW, Reg::R1, Reg::R1, 0);
    code.b.branch(Cond::Ne, Reg::R0, Reg::R1, code.out);
    code.b.load(Size::W, Reg::R1, Reg::R7, facts.pid);
    code.call_insert();
    code.b.branch(Cond::Eq, Reg::R0, 0, code.out);
    code.b.mov(Reg::R9, Reg::R0);
    ids(&mut code, facts);
    code.finish("mote_introduce")
}

/// Notes in the entry in `r9` what the task in `r7` is called.
fn ids(code: &mut Code<'_>, facts: &Facts) {
    code.b.mov(Reg::R1, Reg::R7);
    code.id_of(facts.pid);
    code.b.store(Size::W, Reg::R9, threads::RECORDER_TID, Reg::R0);
    if facts.ids.is_some() {
        code.b.mov(Reg::R1, Reg::R7);
        code.call_vtid();
        code.b.store(Size::W, Reg::R9, threads::VTID, Reg::R0);
    }
}

/// Tells the recorder of the thread whose task is in `r7` and whose entry is in `r9`, if it has other ids for itself than the recorder.
fn born(code: &mut Code<'_>, facts: &Facts, offsets: IdOffsets) {
    let out = code.out;
    code.b.load(Size::W, Reg::R1, Reg::R9, threads::RECORDER_TID);
    code.b.load(Size::W, Reg::R2, Reg::R9, threads::VTID);
    code.b.branch(Cond::Eq, Reg::R1, Reg::R2, out);
    let first = code.plan.layout.births();
    code.state(Reg::R1, first);
    code.b.mov(Reg::R2, 1);
    code.b.atomic(AtomicOp::FetchAdd, Size::DW, Reg::R1, 0, Reg::R2);
    code.b.and(Reg::R2, births::ENTRIES as i32 - 1);
    code.b.lsh(Reg::R2, births::ENTRY_BITS as i32);
    code.state(Reg::R8, first + births::ENTRY_BYTES);
    code.b.add(Reg::R8, Reg::R2);
    for (from, to) in [(threads::RECORDER_TID, births::at::TID), (threads::VTID, births::at::VTID)] {
        code.b.load(Size::W, Reg::R1, Reg::R9, from);
        code.b.store(Size::W, Reg::R8, to, Reg::R1);
    }
    // r7 the first thread of its process.
    code.level(offsets);
    code.b.store(Size::W, Reg::R8, births::at::LEVEL, Reg::R1);
    code.leader(offsets);
    code.b.mov(Reg::R1, Reg::R7);
    code.id_of(facts.pid);
    code.b.store(Size::W, Reg::R8, births::at::PID, Reg::R0);
    code.b.mov(Reg::R1, Reg::R7);
    code.call_vtid();
    code.b.store(Size::W, Reg::R8, births::at::VPID, Reg::R0);
    code.b.call(helper::KTIME_GET_NS);
    // An exchange: what was stored before is seen before.
    code.b.atomic(AtomicOp::Xchg, Size::DW, Reg::R8, births::at::TIME, Reg::R0);
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

/// The programs.
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

fn begin(plan: &Plan) -> Code<'_> {
    let mut code = Code::new(plan, Access::Typed);
    code.b.mov(Reg::R6, Reg::R1);
    code
}

/// `r9` becomes the entry of the thread `r1`, or the program ends.
fn entry(code: &mut Code<'_>) {
    code.call_find();
    code.b.branch(Cond::Eq, Reg::R0, 0, code.out);
    code.b.mov(Reg::R9, Reg::R0);
}

/// The child of who is traced, or launching, is traced. A thread of a process with an area has it too.
fn fork(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let mut code = begin(plan);
    let (other, sibling, known) = (code.b.label(), code.b.label(), code.b.label());
    // r7 the child, r8 first its parent, then the flags that it gets; r9 the parent's entry, then the area's number.
    code.b.load(Size::DW, Reg::R8, Reg::R6, 0);
    code.b.load(Size::DW, Reg::R7, Reg::R6, 8);
    code.b.load(Size::W, Reg::R1, Reg::R8, facts.pid);
    code.call_find();
    code.b.branch(Cond::Eq, Reg::R0, 0, other);
    code.b.load(Size::W, Reg::R9, Reg::R0, threads::INDEX);
    code.b.load(Size::W, Reg::R3, Reg::R0, threads::FLAGS);
    code.b.load(Size::W, Reg::R1, Reg::R8, facts.tgid);
    code.b.load(Size::W, Reg::R2, Reg::R7, facts.tgid);
    code.b.branch(Cond::Eq, Reg::R1, Reg::R2, sibling);
    code.b.mov(Reg::R9, 0);
    code.b.bind(sibling);
    code.b.mov(Reg::R8, TRACED as i32);
    code.b.and(Reg::R3, (TRACED | LAUNCHING) as i32);
    code.b.branch(Cond::Ne, Reg::R3, 0, known);
    code.b.mov(Reg::R8, 0);
    code.b.branch(Cond::Eq, Reg::R9, 0, other);
    code.b.bind(known);
    code.b.load(Size::W, Reg::R1, Reg::R7, facts.pid);
    code.call_insert();
    code.b.branch(Cond::Eq, Reg::R0, 0, code.out);
    reset(&mut code, Reg::R0);
    code.b.store(Size::W, Reg::R0, threads::INDEX, Reg::R9);
    code.b.mov(Reg::R9, Reg::R0);
    ids(&mut code, facts);
    code.b.store(Size::W, Reg::R9, threads::FLAGS, Reg::R8);
    if let Some(offsets) = facts.ids {
        born(&mut code, facts, offsets);
    }
    code.b.jump(code.out);
    // Its id may be that of a traced thread which has ended and was not freed yet.
    code.b.bind(other);
    code.b.load(Size::W, Reg::R1, Reg::R7, facts.pid);
    entry(&mut code);
    code.b.store(Size::W, Reg::R9, threads::FLAGS, 0);
    code.finish("sched_process_fork")
}

/// A thread that executes a program gets its process's id; the area that it shared is gone.
fn exec(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let mut code = begin(plan);
    let same = code.b.label();
    code.b.load(Size::DW, Reg::R7, Reg::R6, 0);
    code.b.load(Size::W, Reg::R8, Reg::R6, 8);
    code.b.mov(Reg::R1, Reg::R8);
    entry(&mut code);
    code.b.store(Size::W, Reg::R9, threads::INDEX, 0);
    code.b.load(Size::W, Reg::R1, Reg::R7, facts.pid);
    code.b.branch(Cond::Eq, Reg::R1, Reg::R8, same);
    code.call_insert();
    code.b.branch(Cond::Eq, Reg::R0, 0, code.out);
    reset(&mut code, Reg::R0);
    code.b.load(Size::W, Reg::R1, Reg::R9, threads::FLAGS);
    code.b.store(Size::W, Reg::R0, threads::INDEX, 0);
    for word in [threads::SYSCALL_TIME, threads::SYSCALL] {
        code.b.load(Size::DW, Reg::R2, Reg::R9, word);
        code.b.store(Size::DW, Reg::R0, word, Reg::R2);
    }
    code.b.store(Size::W, Reg::R0, threads::FLAGS, Reg::R1);
    code.b.mov(Reg::R8, Reg::R0);
    forget(&mut code);
    code.b.mov(Reg::R9, Reg::R8);
    ids(&mut code, facts);
    code.b.bind(same);
    code.finish("sched_process_exec")
}

/// The entry learns whose it is: it is freed with that task.
fn exit(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let mut code = begin(plan);
    code.b.load(Size::DW, Reg::R7, Reg::R6, 0);
    code.b.load(Size::W, Reg::R1, Reg::R7, facts.pid);
    entry(&mut code);
    code.b.call(helper::KTIME_GET_NS);
    code.b.store(Size::DW, Reg::R9, threads::SYSCALL_TIME, Reg::R0);
    code.b.store(Size::DW, Reg::R9, threads::TASK, Reg::R7);
    code.finish("sched_process_exit")
}

fn free(plan: &Plan, facts: &Facts) -> Result<Vec<Insn>, Error> {
    let mut code = begin(plan);
    code.b.load(Size::DW, Reg::R7, Reg::R6, 0);
    code.b.load(Size::W, Reg::R1, Reg::R7, facts.pid);
    entry(&mut code);
    code.b.load(Size::DW, Reg::R1, Reg::R9, threads::TASK);
    code.b.mov(Reg::R2, Reg::R7);
    code.b.branch(Cond::Ne, Reg::R1, Reg::R2, code.out);
    forget(&mut code);
    code.finish(FORGETS)
}

/// Clears the thread's words in the entry that `at` points to.
pub(crate) fn reset(code: &mut Code<'_>, at: Reg) {
    code.b.store(Size::W, at, threads::FLAGS, 0);
    code.b.store(Size::W, at, threads::INDEX, 0);
    for word in (threads::SYSCALL_TIME..ENTRY_BYTES as i16).step_by(8) {
        code.b.store(Size::DW, at, word, 0);
    }
}

/// Frees the entry in `r9`.
fn forget(code: &mut Code<'_>) {
    reset(code, Reg::R9);
    code.b.store(Size::W, Reg::R9, threads::TID, 0);
}
