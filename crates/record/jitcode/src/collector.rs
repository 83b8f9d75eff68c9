//! The recorder's side: programs attached, and what they have copied read.

use crate::error::Error;
use crate::places::{self, BYTES, Control, HEAD_BITS, HEADS_AT, Head, PAGES_AT, PROCESSES, SLOTS, kind};
use crate::programs;
use mote_builder::{Field, field};
use mote_catalog::btf::Btf;
use mote_generate::namespace::{Task, member};
use mote_kernel::attach::{self, Link};
use mote_kernel::load::{Kind, Program};
use mote_kernel::map::{Create, Map, MapType, Mapped};
use mote_sys::mem::PAGE_BYTES;

/// The number of the outermost pid namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const OUTERMOST: &str = "pid:[4026531836]";

/// What has become of memory that may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// When: `CLOCK_MONOTONIC`, in nanoseconds; before the process goes on.
    pub time_ns: u64,
    /// The process.
    pub pid: i32,
    /// The first address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// What has happened.
    pub what: What<'a>,
}

/// What has happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A page may be executed from now on.
    Copied {
        /// Its bytes.
        page: &'a [u8],
        /// It may be written, too.
        is_writable: bool,
    },
    /// So may this memory, which was not copied: it is new, or was too much.
    Executable,
    /// What lay at this address lies here now.
    Moved {
        /// Its first address before.
        from: u64,
    },
}

/// The programs at work.
#[derive(Debug)]
pub struct Collector {
    /// First, so that they are dropped first.
    links: Vec<Link>,
    programs: Vec<Program>,
    memory: Mapped,
    watched: Map,
    /// Slots that were read.
    read: u64,
    page: Vec<u8>,
}

impl Collector {
    /// Attaches the programs; no process is watched yet.
    ///
    /// # Errors
    /// [`Error`].
    ///
    /// # Cost
    /// 17 MiB of memory. Each system call of the machine takes longer, and one of a process that is watched and makes
    /// pages executable for each page (docs/FIGURES.md, `jit`).
    pub fn attach() -> Result<Collector, Error> {
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace.to_string_lossy() != OUTERMOST {
            return Err(Error::Namespace);
        }
        let btf = Btf::of_kernel()?;
        let watched = Create {
            map_type: MapType::Hash,
            key_bytes: 4,
            value_bytes: 4,
            entries: PROCESSES,
            flags: 0,
            inner: None,
            name: "mote_watched",
        };
        let mut collector = Collector {
            links: Vec::new(),
            programs: Vec::new(),
            memory: Mapped::create("mote_jitcode", BYTES).map_err(Error::memory)?,
            watched: Map::make(&watched).map_err(Error::memory)?,
            read: 0,
            page: vec![0; PAGE_BYTES],
        };
        collector.load(&btf)?;
        Ok(collector)
    }

    fn load(&mut self, btf: &Btf) -> Result<(), Error> {
        let cpus = mote_sys::process::possible_cpus().map_err(Error::Cpus)?;
        let missing = |what: &str| {
            mote_kernel::Error::from(mote_generate::Error::Types(format!("the kernel's BTF has no {what}")))
        };
        let tgid: Field<Task, u32> = member(btf, "tgid").ok_or_else(|| missing("task_struct.tgid"))?;
        // What is forked is watched before its system calls are.
        for (name, insns) in
            [("sched_process_fork", programs::forked(cpus, tgid)), ("sys_exit", programs::returned(cpus))]
        {
            let id = btf.tracepoint(name).ok_or_else(|| missing(name))?;
            let insns = insns.map_err(|error| mote_kernel::Error::event(name, error.to_string()))?;
            let program = Program::load(name, Kind::Typed(id), &insns, &[self.memory.map(), &self.watched])?;
            self.links.push(attach::tracepoint(&program, name, None)?);
            self.programs.push(program);
        }
        Ok(())
    }

    /// Watches a process from now on, and those that it forks.
    ///
    /// # Errors
    /// There are too many.
    pub fn watch(&self, pid: i32) -> Result<(), Error> {
        let watched = self.watched.update(&pid.to_ne_bytes(), &1_u32.to_ne_bytes());
        watched.map_err(|errno| Error::Watch { pid, errno })
    }

    /// Watches all processes.
    pub fn watch_all(&self) {
        self.memory.store64(field!(Control, all).offset(), 1);
    }

    /// Watches a process no longer: it has ended.
    pub fn forget(&self, pid: i32) {
        // It may not have been watched.
        let _ = self.watched.delete(&pid.to_ne_bytes());
    }

    /// Reads what has happened since the last time, in the order in which it was noted.
    ///
    /// # Errors
    /// Those of `to`; what it was given is not given again.
    pub fn read<E>(&mut self, mut to: impl FnMut(Change<'_>) -> Result<(), E>) -> Result<(), E> {
        loop {
            let index = self.read as u32 & (SLOTS - 1);
            let head = (HEADS_AT + (index << HEAD_BITS)) as usize;
            let long = |member: Field<Head, u64>| self.memory.load64(head + member.offset());
            if long(field!(Head, sequence)) != self.read + 1 {
                return Ok(());
            }
            let word = |member: Field<Head, u32>| self.memory.load32(head + member.offset());
            let (kind, pid) = (word(field!(Head, kind)), word(field!(Head, process)).cast_signed());
            if kind == kind::PAGE {
                let at = (PAGES_AT + (index << places::PAGE_BITS)) as usize;
                for (word, at) in self.page.as_chunks_mut::<8>().0.iter_mut().zip((at..).step_by(8)) {
                    *word = self.memory.load64(at).to_ne_bytes();
                }
            }
            let what = match kind {
                kind::PAGE => {
                    let is_writable = long(field!(Head, from)) & programs::WRITABLE as u64 != 0;
                    Some(What::Copied { page: &self.page, is_writable })
                }
                kind::REST => Some(What::Executable),
                kind::MOVED => Some(What::Moved { from: long(field!(Head, from)) }),
                _ => None,
            };
            let [time_ns, start, end] =
                [field!(Head, time), field!(Head, start), field!(Head, end)].map(long);
            let given = what.map_or(Ok(()), |what| to(Change { time_ns, pid, start, end, what }));
            self.read += 1;
            self.memory.store64(field!(Control, read).offset(), self.read);
            given?;
        }
    }

    /// How many changes were not noted: there was no slot for them, or their program did not run, because it was
    /// interrupted by itself; and processes that are not watched, because there were too many.
    #[must_use]
    pub fn lost(&self) -> [u64; 2] {
        let missed: u64 = self.programs.iter().map(Program::missed).sum();
        let count = |member: Field<Control, u64>| self.memory.load64(member.offset());
        [count(field!(Control, lost)) + missed, count(field!(Control, unwatched))]
    }
}
