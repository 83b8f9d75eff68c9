//! The programs that know which threads are sampled ([`crate::chosen`]), and what a process has replaced on its stacks
//! ([`crate::replaced`]).
//!
//! The map of the first has a state for each thread that is chosen, by its id.

use crate::sample::MARK;
use mote_bpf::helper::{
    CURRENT_CPU, GET_CURRENT_PID_TGID, GET_CURRENT_TASK_BTF, MAP_DELETE, MAP_LOOKUP, MAP_UPDATE,
    PERF_EVENT_OUTPUT, PROBE_READ_USER,
};
use mote_bpf::{Insn, Reg};
use mote_builder::{Build, BuildError, Builder, Expr, Field, Label, Local, Pointer, Value, field, map};
use mote_generate::namespace::Task;
use mote_generate::stubs::{in_region, read_top};
use std::mem::offset_of;

/// The thread is sampled.
pub(crate) const SAMPLED: u32 = 1;
/// It is from the moment on when it runs another program.
pub(crate) const FROM_EXEC: u32 = 2;
/// What it starts is; it is not.
pub(crate) const LAUNCHES: u32 = 3;

/// The number of the map in all programs.
const THREADS: u32 = 0;
/// Further ones at samples: of processes with replaced return addresses, by their ids; room for a record; events.
const PROCESSES: u32 = 1;
const ROOM: u32 = 2;
const EVENTS: u32 = 3;

/// What the program at `sched_process_fork` is given.
#[repr(C)]
struct Forked {
    parent: *const Task,
    child: *const Task,
}

/// What the program at `sched_process_exec` is given.
#[repr(C)]
struct Executed {
    task: *const Task,
    /// The thread's id until now.
    old: u32,
}

/// What the program at `sched_process_exit` is given first.
#[repr(C)]
struct Ended {
    task: *const Task,
}

/// A program in the making.
struct Code {
    b: Builder,
    /// Where it ends.
    out: Label,
    thread: Local<u32>,
    other: Local<u32>,
    state: Local<u32>,
}

impl Build for Code {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }
}

impl Code {
    fn new() -> Code {
        let mut b = Builder::new();
        let (out, thread, other, state) = (b.label(), b.local(), b.local(), b.local());
        Code { b, out, thread, other, state }
    }

    fn arguments<A>(&mut self) -> Pointer<A> {
        self.pin(Reg::R1).to()
    }

    /// Reads the state of the thread; ends the program where it has none.
    fn find(&mut self) {
        let found = self.invoke(MAP_LOOKUP, (map(THREADS), self.thread.address()));
        self.jump_if(found.eq(0), self.out);
        self.put(self.state, Expr::from(&found).place::<u32>());
    }

    fn finish(mut self) -> Result<Vec<Insn>, BuildError> {
        self.bind(self.out);
        self.exit_with(0);
        self.b.finish()
    }
}

/// At forks: what a thread starts is chosen as that is.
pub(crate) fn fork(pid: Field<Task, u32>) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new();
    let arguments = code.arguments::<Forked>();
    let parent = code.get(arguments.at(field!(Forked, parent))).to::<Task>();
    code.put(code.thread, parent.at(pid));
    drop(parent);
    let child = code.get(arguments.at(field!(Forked, child))).to::<Task>();
    code.put(code.other, child.at(pid));
    drop((arguments, child));
    code.find();
    code.when(Expr::from(code.state).eq(LAUNCHES), |code| code.put(code.state, FROM_EXEC));
    let _ = code.invoke(MAP_UPDATE, (map(THREADS), code.other.address(), code.state.address(), 0));
    code.finish()
}

/// At execs: the thread is sampled, and has its process's id.
pub(crate) fn exec(pid: Field<Task, u32>) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new();
    let arguments = code.arguments::<Executed>();
    code.put(code.thread, arguments.at(field!(Executed, old)));
    let task = code.get(arguments.at(field!(Executed, task))).to::<Task>();
    code.put(code.other, task.at(pid));
    drop((arguments, task));
    code.find();
    code.when(Expr::from(code.thread).ne(code.other), |code| {
        let _ = code.invoke(MAP_DELETE, (map(THREADS), code.thread.address()));
    });
    code.put(code.state, SAMPLED);
    let _ = code.invoke(MAP_UPDATE, (map(THREADS), code.other.address(), code.state.address(), 0));
    code.finish()
}

/// At exits: its id may be another thread's soon.
pub(crate) fn exit(pid: Field<Task, u32>) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new();
    let arguments = code.arguments::<Ended>();
    let task = code.get(arguments.at(field!(Ended, task))).to::<Task>();
    code.put(code.thread, task.at(pid));
    drop((arguments, task));
    let _ = code.invoke(MAP_DELETE, (map(THREADS), code.thread.address()));
    code.finish()
}

/// How far from a thread's pointer the words are that lead to its slots, as the map of processes has it.
#[repr(C)]
struct Tops {
    now: u64,
    before: u64,
}

/// A record of slots ([`crate::sample::Slots`]). Behind it are these.
#[repr(C)]
pub(crate) struct Record {
    unused: u32,
    /// The record begins here.
    pub(crate) mark: u32,
    pub(crate) top: u64,
}

/// Bytes of a record's slots.
pub(crate) const SLOTS_BYTES: u32 = 4096;
/// Bytes of the room for a record.
pub(crate) const ROOM_BYTES: u32 = size_of::<Record>() as u32 + SLOTS_BYTES;

/// At the event: 0 drops the sample. With `is_chosen` samples of threads that are not chosen are dropped; where it is
/// known where a task has its thread pointer, slots are given out before a sample.
pub(crate) fn sample(
    is_chosen: bool,
    thread_pointer: Option<Field<Task, u64>>,
) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new();
    let context = code.pin(Reg::R1);
    let context = code.keep(context);
    let both = code.invoke(GET_CURRENT_PID_TGID, ());
    code.put(code.thread, &both);
    code.put(code.other, both >> 32);
    if is_chosen {
        code.find();
        code.jump_if(Expr::from(code.state).ne(SAMPLED), code.out);
    }
    if let Some(field) = thread_pointer {
        give_out_slots(&mut code, context, field);
    }
    code.exit_with(1);
    match is_chosen {
        true => code.finish(),
        false => code.b.finish(),
    }
}

/// Gives out the slots that the running thread has used last, if its process, whose id is `other`, has any.
fn give_out_slots(code: &mut Code, context: Value, thread_pointer: Field<Task, u64>) {
    let none = code.label();
    let process = code.invoke(MAP_LOOKUP, (map(PROCESSES), code.other.address()));
    code.jump_if(process.eq(0), none);
    let process = code.keep(process).to::<Tops>();
    let task = code.invoke(GET_CURRENT_TASK_BTF, ()).to::<Task>();
    let pointer = code.keep(task.at(thread_pointer));
    drop(task);
    let words = [code.local(), code.local()];
    for (word, offset) in words.into_iter().zip([field!(Tops, now), field!(Tops, before)]) {
        code.put(word, &pointer + process.at(offset));
    }
    drop((pointer, process));
    let top = read_top(code, words);
    code.jump_if(Expr::from(top).eq(0), none);
    code.put(code.state, 0);
    let room = code.invoke(MAP_LOOKUP, (map(ROOM), code.state.address()));
    code.jump_if(room.eq(0), none);
    let room = code.keep(room).to::<Record>();
    code.put(room.at(field!(Record, mark)), MARK);
    code.put(room.at(field!(Record, top)), top);
    // From the first slot of its region on, as many as there is room for.
    let bytes = code.keep(in_region(top));
    code.when(Expr::from(&bytes).gt(SLOTS_BYTES), |code| code.set(&bytes, SLOTS_BYTES));
    let from = code.get(Expr::from(top) - &bytes);
    let failed = code.invoke(PROBE_READ_USER, (&room + size_of::<Record>() as i32, &bytes, from));
    code.jump_if(failed.ne(0), none);
    let len = code.get(&bytes + (size_of::<Record>() - offset_of!(Record, mark)) as i32);
    let data = room.address(field!(Record, mark));
    let _ = code.invoke(PERF_EVENT_OUTPUT, (&context, map(EVENTS), CURRENT_CPU, data, len));
    code.bind(none);
}
