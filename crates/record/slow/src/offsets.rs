//! Where members lie in the structures of the running kernel, by its BTF.

use mote_builder::Field;
use mote_catalog::btf::Btf;
use mote_generate::namespace::{Namespace, Pid, Structure, Task, member};
use mote_generate::stack_copy::StackOffsets;
use mote_generate::state;
use mote_generate::{Facts, arch};
use mote_kernel::Error;
use mote_kernel::map::State;

/// `struct files_struct`
#[derive(Debug)]
pub struct OpenFiles;

/// `struct fdtable`
#[derive(Debug)]
pub struct FileTable;

/// `struct cfs_rq`
#[derive(Debug)]
pub struct Queue;

impl Structure for OpenFiles {
    const NAME: &'static str = "files_struct";
}

impl Structure for FileTable {
    const NAME: &'static str = "fdtable";
}

impl Structure for Queue {
    const NAME: &'static str = "cfs_rq";
}

/// Where members are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The thread's id.
    pub pid: Field<Task, u32>,
    /// How many page faults it had: `min_flt` and `maj_flt`.
    pub faults: [Field<Task, u64>; 2],
    /// The word of which [`arch::OTHER_ABI`] says that the system call is of another ABI.
    pub abi_word: Option<Field<Task, u32>>,
    /// The thread's ids in its namespaces.
    pub thread_pid: Field<Task, *const Pid>,
    /// `pid.level`: that of its own namespace.
    pub level: Field<Pid, u32>,
    /// `pid.numbers`, one for each level.
    pub numbers: u32,
    /// Bytes of one of these.
    pub number_bytes: u32,
    /// The thread whose id the process has.
    pub group_leader: Field<Task, *const Task>,
    /// How the recorder sees threads, if it has other ids for them than the kernel.
    pub(crate) namespace: Option<Namespace>,
    /// Where stacks end, if that is known.
    pub(crate) stack: Option<StackOffsets>,
    /// How the file of a descriptor is found, if that is known.
    pub files: Option<Files>,
    /// How the bandwidth of cgroups is seen.
    pub throttled: Throttled,
    /// The variable of each CPU that says whether an interrupt is served: its number in BTF.
    pub preempt_count: Option<u32>,
}

/// From a thread to the file of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// `task_struct.files`
    pub files: Field<Task, *const OpenFiles>,
    /// `files_struct.fdt`
    pub table: Field<OpenFiles, *const FileTable>,
    /// How many descriptors there is room for: `fdtable.max_fds`.
    pub most: Field<FileTable, u32>,
    /// The addresses of their files: `fdtable.fd`.
    pub array: Field<FileTable, u64>,
    /// `file.f_inode`, `inode.i_ino`
    pub inode: [u32; 2],
    /// `file.f_path.dentry`, `dentry.d_name.name`
    pub name: [u32; 2],
}

/// How it is seen that the bandwidth of its cgroup took a thread off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// `task_struct.throttled` (Linux 6.18: threads are held back one by one, when they return to their program).
    Task(Field<Task, u8>),
    /// `task_struct.se.cfs_rq`, then `throttle_count` of it: the whole queue is.
    Queue(Field<Task, *const Queue>, Field<Queue, u32>),
    /// By nothing: this kernel has none of these fields.
    Unknown,
}

fn missing(structure: &str, path: &str) -> mote_generate::Error {
    mote_generate::Error::Types(format!("this kernel's {structure} has no {path} of the size that it had"))
}

fn find<S: Structure, T>(btf: &Btf, path: &str) -> Result<Field<S, T>, Error> {
    Ok(member(btf, path).ok_or_else(|| missing(S::NAME, path))?)
}

impl Offsets {
    /// Those of the kernel that `btf` describes.
    ///
    /// # Errors
    /// [`Error::Types`] with the member that is missing.
    pub fn of(btf: &Btf) -> Result<Offsets, Error> {
        let offset =
            |structure: &str, path: &str| btf.offset(structure, path).ok_or_else(|| missing(structure, path));
        let throttled = match (find(btf, "throttled"), find(btf, "se.cfs_rq"), find(btf, "throttle_count")) {
            (Ok(flag), ..) => Throttled::Task(flag),
            (_, Ok(queue), Ok(count)) => Throttled::Queue(queue, count),
            _ => Throttled::Unknown,
        };
        let files = || {
            Ok::<Files, Error>(Files {
                files: find(btf, "files")?,
                table: find(btf, "fdt")?,
                most: find(btf, "max_fds")?,
                array: find(btf, "fd")?,
                inode: [offset("file", "f_inode")?, offset("inode", "i_ino")?],
                name: [offset("file", "f_path.dentry")?, offset("dentry", "d_name.name")?],
            })
        };
        Ok(Offsets {
            stack: StackOffsets::of(btf),
            files: files().ok(),
            pid: find(btf, "pid")?,
            faults: [find(btf, "min_flt")?, find(btf, "maj_flt")?],
            abi_word: arch::ABI_WORD.and_then(|path| find(btf, path).ok()),
            thread_pid: find(btf, "thread_pid")?,
            level: find(btf, "level")?,
            numbers: offset("pid", "numbers")?,
            number_bytes: btf
                .size("upid")
                .ok_or_else(|| mote_generate::Error::Types("no struct upid".into()))?,
            group_leader: find(btf, "group_leader")?,
            namespace: None,
            throttled,
            preempt_count: arch::PREEMPT_COUNT.and_then(|name| btf.variable(name)),
        })
    }

    /// The same, for a recorder in the pid namespace that `state` says.
    pub(crate) fn seen_by(self, state: &State, btf: &Btf) -> Offsets {
        let level = state.memory().load64(state::LEVEL as usize) as u32;
        let offsets = Facts::of(btf).ok().and_then(|facts| facts.ids).filter(|_| level > 0);
        Offsets { namespace: offsets.map(|offsets| Namespace { level, offsets }), ..self }
    }
}
