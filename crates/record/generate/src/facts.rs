//! What programs need to know of this kernel's types.

use crate::arch;
use crate::error::Error;
use crate::namespace::{IdOffsets, Task, member};
use crate::stack_copy::StackOffsets;
use mote_builder::Field;
use mote_catalog::btf::Btf;

/// Where things are in this kernel, and the BTF numbers of tracepoints that every recording uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A task's thread id.
    pub(crate) pid: Field<Task, u32>,
    /// Its process id.
    pub(crate) tgid: Field<Task, u32>,
    /// The word of which [`arch::OTHER_ABI`] says that it is in a system call of another ABI.
    pub(crate) abi_word: Option<Field<Task, u32>>,
    /// BTF number of the tracepoint at the entry of system calls.
    pub sys_enter: u32,
    /// BTF number of the tracepoint at their return.
    pub sys_exit: u32,
    pub(crate) fork: u32,
    pub(crate) exec: u32,
    pub(crate) exit: u32,
    pub(crate) free: u32,
    /// Where the ids of threads are in their namespaces.
    pub ids: Option<IdOffsets>,
    /// Where their stacks end.
    pub(crate) stack: Option<StackOffsets>,
}

impl Facts {
    /// From the kernel's types.
    ///
    /// # Errors
    /// [`Error::Types`], naming what is not there.
    pub fn of(btf: &Btf) -> Result<Facts, Error> {
        let missing = |what: &str| Error::Types(format!("the kernel's BTF has no {what}"));
        let of_task =
            |path: &str| member(btf, path).ok_or_else(|| missing(&format!("task_struct.{path} of 32 bits")));
        let tracepoint = |name: &str| btf.tracepoint(name).ok_or_else(|| missing(name));
        Ok(Facts {
            pid: of_task("pid")?,
            tgid: of_task("tgid")?,
            abi_word: arch::ABI_WORD.and_then(|path| of_task(path).ok()),
            sys_enter: tracepoint("sys_enter")?,
            sys_exit: tracepoint("sys_exit")?,
            fork: tracepoint("sched_process_fork")?,
            exec: tracepoint("sched_process_exec")?,
            exit: tracepoint("sched_process_exit")?,
            free: tracepoint("sched_process_free")?,
            ids: IdOffsets::of(btf),
            stack: StackOffsets::of(btf),
        })
    }
}
