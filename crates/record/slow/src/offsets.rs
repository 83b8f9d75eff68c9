//! Where members lie in the structures of the running kernel, by its BTF.

use mote_catalog::btf::Btf;
use mote_generate::namespace::Namespace;
use mote_generate::state;
use mote_generate::{Facts, arch};
use mote_kernel::Error;
use mote_kernel::map::State;

/// Offsets of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// `task_struct.pid`: the thread's id.
    pub pid: i16,
    /// `task_struct.tgid`: the process's.
    pub tgid: i16,
    /// `task_struct.min_flt` and `maj_flt`.
    pub faults: [i16; 2],
    /// The word of `task_struct` of which [`arch::OTHER_ABI`] says that the system call is of another ABI.
    pub abi_word: Option<i16>,
    /// `task_struct.thread_pid`, then `level` and `numbers` of `struct pid`, bytes of one of these numbers, `nr` in it.
    pub thread_pid: i16,
    /// See `thread_pid`.
    pub level: i16,
    /// See `thread_pid`.
    pub numbers: i16,
    /// See `thread_pid`.
    pub number_bytes: i32,
    /// `task_struct.group_leader`: the thread whose id the process has.
    pub group_leader: i16,
    /// How the recorder sees threads, if it has other ids for them than the kernel.
    pub(crate) namespace: Option<Namespace>,
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
    pub files: i16,
    /// `files_struct.fdt`
    pub table: i16,
    /// `fdtable.max_fds` and `fdtable.fd`
    pub most: i16,
    /// See `most`.
    pub array: i16,
    /// `file.f_inode`, `inode.i_ino`
    pub inode: [i16; 2],
    /// `file.f_path.dentry`, `dentry.d_name.name`
    pub name: [i16; 2],
}

/// How it is seen that the bandwidth of its cgroup took a thread off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// `task_struct.throttled` (Linux 6.18: threads are held back one by one, when they return to their program).
    Task(i16),
    /// `task_struct.se.cfs_rq`, then `throttle_count` of it: the whole queue is.
    Queue(i16, i16),
    /// Not at all.
    Unknown,
}

impl Offsets {
    /// Those of the kernel that `btf` describes.
    ///
    /// # Errors
    /// [`Error::Types`] with the member that is missing.
    pub fn of(btf: &Btf) -> Result<Offsets, Error> {
        let find = |structure: &str, path: &str| {
            let found = btf.offset(structure, path).and_then(|at| i16::try_from(at).ok());
            found.ok_or_else(|| {
                mote_generate::Error::Types(format!("this kernel's {structure} has no {path}"))
            })
        };
        let task = |path: &str| find("task_struct", path);
        let throttled = match (task("throttled"), task("se.cfs_rq"), find("cfs_rq", "throttle_count")) {
            (Ok(at), ..) => Throttled::Task(at),
            (_, Ok(queue), Ok(count)) => Throttled::Queue(queue, count),
            _ => Throttled::Unknown,
        };
        let files = || {
            Ok::<Files, Error>(Files {
                files: task("files")?,
                table: find("files_struct", "fdt")?,
                most: find("fdtable", "max_fds")?,
                array: find("fdtable", "fd")?,
                inode: [find("file", "f_inode")?, find("inode", "i_ino")?],
                name: [find("file", "f_path.dentry")?, find("dentry", "d_name.name")?],
            })
        };
        Ok(Offsets {
            files: files().ok(),
            pid: task("pid")?,
            tgid: task("tgid")?,
            faults: [task("min_flt")?, task("maj_flt")?],
            abi_word: arch::ABI_WORD.and_then(|path| task(path).ok()),
            thread_pid: task("thread_pid")?,
            level: find("pid", "level")?,
            numbers: find("pid", "numbers")?,
            number_bytes: btf
                .size("upid")
                .ok_or_else(|| mote_generate::Error::Types("no struct upid".into()))?
                as i32,
            group_leader: task("group_leader")?,
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
