//! The recorder's side: programs attached, and what they have copied read.

use crate::error::Error;
use crate::places::{
    self, BYTES, Control, HEAD_BITS, HEADS_AT, Head, PAGES_AT, PROCESS_AT, PROCESSES, SLOTS, TRACKED,
    TRACKED_BITS, kind,
};
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

/// The tracepoint at faults of programs.
const FAULTS: &str = "page_fault_user";

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
    /// A page of memory that is [tracked](Collector::track) is about to be written to.
    Written,
}

/// By which a piece of a process's memory is found.
fn key(pid: i32, piece: u64) -> u64 {
    (u64::from(pid.cast_unsigned()) << PROCESS_AT) | piece
}

/// The programs at work.
#[derive(Debug)]
pub struct Collector {
    /// First, so that they are dropped first.
    links: Vec<Link>,
    programs: Vec<Program>,
    memory: Mapped,
    watched: Map,
    /// Where pages are tracked.
    tracked: Map,
    /// Notes the faults of such pages, where the kernel can tell them; attached with the first of them.
    faults: Option<Program>,
    notes_faults: bool,
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
        let hash = |name: &'static str, key_bytes, entries| Create {
            map_type: MapType::Hash,
            key_bytes,
            value_bytes: 4,
            entries,
            flags: 0,
            inner: None,
            name,
        };
        let mut collector = Collector {
            links: Vec::new(),
            programs: Vec::new(),
            memory: Mapped::create("mote_jitcode", BYTES).map_err(Error::memory)?,
            watched: Map::make(&hash("mote_watched", 4, PROCESSES)).map_err(Error::memory)?,
            tracked: Map::make(&hash("mote_tracked", 8, TRACKED)).map_err(Error::memory)?,
            faults: None,
            notes_faults: false,
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
        let maps = [self.memory.map(), &self.watched, &self.tracked];
        let load = |name: &str, insns: Result<Vec<_>, mote_builder::BuildError>| {
            let id = btf.tracepoint(name).ok_or_else(|| missing(name))?;
            let insns = insns.map_err(|error| mote_kernel::Error::event(name, error.to_string()))?;
            Program::load(name, Kind::Typed(id), &insns, &maps)
        };
        // What is forked is watched before its system calls are.
        for (name, insns) in
            [("sched_process_fork", programs::forked(cpus, tgid)), ("sys_exit", programs::returned(cpus))]
        {
            let program = load(name, insns)?;
            self.links.push(attach::tracepoint(&program, name, None)?);
            self.programs.push(program);
        }
        // Without it, it is only known between which looks pages were written to.
        self.faults = load(FAULTS, programs::faulted(cpus)).ok();
        Ok(())
    }

    /// Notes from now on when pages that lie there are about to be written to, as far as that needs a fault; and some
    /// of those beside them. Returns whether it can.
    ///
    /// # Cost
    /// Faults of all processes take longer from the first time on (docs/FIGURES.md, `jit`).
    pub fn track(&mut self, pid: i32, start: u64, end: u64) -> bool {
        if let Some(program) = self.faults.take() {
            match attach::tracepoint(&program, FAULTS, None) {
                Ok(link) => self.links.push(link),
                Err(_) => return false,
            }
            self.programs.push(program);
            self.notes_faults = true;
        }
        let pieces = start >> TRACKED_BITS..=end.saturating_sub(1) >> TRACKED_BITS;
        self.notes_faults
            && pieces.clone().count() <= TRACKED as usize
            && pieces.into_iter().all(|piece| {
                self.tracked.update(&key(pid, piece).to_ne_bytes(), &1_u32.to_ne_bytes()).is_ok()
            })
    }

    /// Notes that no longer.
    pub fn leave(&self, pid: i32, start: u64, end: u64) {
        let pieces = start >> TRACKED_BITS..=end.saturating_sub(1) >> TRACKED_BITS;
        for piece in pieces.take(TRACKED as usize) {
            // It may not have been there.
            let _ = self.tracked.delete(&key(pid, piece).to_ne_bytes());
        }
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
                kind::WRITTEN => Some(What::Written),
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
