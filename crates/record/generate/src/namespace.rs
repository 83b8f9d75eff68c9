//! Where a thread's ids in its pid namespaces lie (`struct pid`, `include/linux/pid.h`), and the code that reads one.

use crate::state;
use mote_bpf::helper;
use mote_builder::{Build, Expr, Field, Label, Local, Pointer, Value, map_value};
use mote_catalog::btf::Btf;

/// A structure of the kernel, of which programs know members by its BTF.
pub trait Structure {
    /// Its name in BTF.
    const NAME: &'static str;
}

/// `struct task_struct`: a thread.
#[derive(Debug)]
pub struct Task;

/// `struct pid`: the ids of a thread, one at each level of its namespaces.
#[derive(Debug)]
pub struct Pid;

/// `struct upid`: one of these ids, with its namespace.
#[derive(Debug)]
pub struct Upid;

impl Structure for Task {
    const NAME: &'static str = "task_struct";
}

impl Structure for Pid {
    const NAME: &'static str = "pid";
}

impl Structure for Upid {
    const NAME: &'static str = "upid";
}

/// The member of a structure at `path`, names with dots between; `None` when it is not there, or has another size than
/// a `T`.
pub fn member<S: Structure, T>(btf: &Btf, path: &str) -> Option<Field<S, T>> {
    let found = btf.member(S::NAME, path)?;
    match found.path[..] {
        [offset] => Field::found(offset, found.bytes),
        _ => None,
    }
}

/// Where ids are in this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdOffsets {
    /// The thread's ids.
    pub(crate) thread_pid: Field<Task, *const Pid>,
    /// The thread whose id the process has.
    pub(crate) group_leader: Field<Task, *const Task>,
    /// That of its own namespace.
    pub(crate) level: Field<Pid, u32>,
    /// Offset of `pid.numbers`, one for each level.
    pub(crate) numbers: u32,
    /// Bytes of one of them.
    pub(crate) number_bytes: u32,
    pub(crate) nr: Field<Upid, u32>,
    pub(crate) ns: Field<Upid, u64>,
    /// The iterator over all threads (`bpf_iter_task`, Linux 5.8).
    pub iterator: Option<u32>,
}

/// Room for a number.
type Number = [u64; 2];

impl IdOffsets {
    /// `None` for a kernel that says nothing of them.
    pub(crate) fn of(btf: &Btf) -> Option<IdOffsets> {
        Some(IdOffsets {
            thread_pid: member(btf, "thread_pid")?,
            group_leader: member(btf, "group_leader")?,
            level: member(btf, "level")?,
            numbers: btf.offset(Pid::NAME, "numbers")?,
            number_bytes: btf.size(Upid::NAME).filter(|bytes| *bytes as usize <= size_of::<Number>())?,
            nr: member(btf, "nr")?,
            ns: member(btf, "ns")?,
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

/// What the recorder calls a task; goes to `outside` when the recorder does not see it. A call: only saved values are
/// kept.
pub fn recorder_id(
    code: &mut impl Build,
    task: &Pointer<Task>,
    namespace: Namespace,
    state: u32,
    outside: Label,
) -> Value {
    let Namespace { level, offsets } = namespace;
    let pid = code.get(task.at(offsets.thread_pid)).to::<Pid>();
    code.jump_if(pid.eq(0), outside);
    code.jump_if(pid.at(offsets.level).lt(level), outside);
    let number = read_id(code, pid, level, offsets);
    let recorders = map_value(state, state::NAMESPACE).place::<u64>();
    code.jump_if(number.member(offsets.ns).ne(recorders), outside);
    code.get(number.member(offsets.nr))
}

/// Copies the number of a level into the frame; zeros when it cannot be read. A call.
pub(crate) fn read_id(
    code: &mut impl Build,
    pid: Pointer<Pid>,
    level: impl Into<Expr>,
    offsets: IdOffsets,
) -> Local<Upid> {
    let number = code.local::<Number>();
    let [first, second] = [number.offset(), number.offset() + 8].map(Local::<u64>::at);
    code.put(first, 0);
    // By way of the frame: the sum is a number for the verifier then, and the read is one that may fail.
    code.put(second, pid);
    let at = level.into() * offsets.number_bytes + offsets.numbers;
    let address = code.get(at + second);
    code.put(second, 0);
    let to = (number.address(), offsets.number_bytes, address);
    let _failed = code.invoke(helper::PROBE_READ_KERNEL, to);
    Local::at(number.offset())
}

/// Leaves level and namespace of the running thread in the state map.
pub(crate) fn note_namespace(code: &mut impl Build, state: u32, offsets: IdOffsets) {
    let task = code.invoke(helper::GET_CURRENT_TASK_BTF, ()).to::<Task>();
    let pid = code.get(task.at(offsets.thread_pid)).to::<Pid>();
    let level = code.get(pid.at(offsets.level));
    code.put(map_value(state, state::LEVEL).place::<u64>(), &level);
    let number = read_id(code, pid, level, offsets);
    code.put(map_value(state, state::NAMESPACE).place::<u64>(), number.member(offsets.ns));
}
