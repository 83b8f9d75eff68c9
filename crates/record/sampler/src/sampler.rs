//! The events that sample threads, and one round of reading them.

use crate::chosen::{self, Chosen, State};
use crate::mappings::{How, News, Table};
use crate::records::{self, Record};
use crate::replaced::Replaced;
use crate::sample::{Given, Raw};
use crate::unwind::{Sample, Unwinder};
use crate::waits::Waits;
use mote_catalog::btf::Btf;
use mote_symbol::collect::{self, BuildIds};
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::perf::{self, Sampling};
use mote_sys::perf_ring::{PerfRing, RECORD_MAX};
use mote_sys::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pages of 4 KiB for the records of one CPU: as many as the kernel gives, from the largest on.
const PAGES: [usize; 5] = [256, 128, 64, 32, 16];
/// Of these, as many as users have where nothing else is said (`kernel.perf_event_mlock_kb`), and how long they may
/// fill.
const PAGES_USUAL: usize = 128;
const TICK: Duration = Duration::from_millis(20);
/// How often the threads of a process are listed, until there are no new ones.
const LISTS: usize = 10;

/// What is sampled, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Samples in a second of time on a CPU, for each CPU.
    pub frequency: u64,
    /// Bytes that are copied of a thread's stack; 0: it is followed by frame pointers.
    pub stack: u32,
    /// Times without a CPU, too.
    pub off_cpu: bool,
    /// CPUs that there can be.
    pub cpus: u32,
    /// By one event for each CPU, and not for each thread, where that is cheaper and can be had.
    pub by_cpu: bool,
    /// Whose threads.
    pub targets: Targets,
}

/// Whose threads are sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// What the calling thread starts from now on, from the moment on when it runs another program.
    Started,
    /// These processes, and what they start from now on.
    Processes(Vec<u32>),
    /// All processes of the machine.
    All,
}

/// Why threads cannot be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernel does not let us.
    #[error(
        "the kernel does not let this user sample these threads ({0:?}): set sysctl kernel.perf_event_paranoid to 2 \
         or less, or record as root; of all processes (-a) only root may, or with perf_event_paranoid 0"
    )]
    Forbidden(Errno),
    /// The same, of the moments when threads leave their CPU.
    #[error(
        "times without a CPU (--off-cpu) need samples in the kernel: record as root, or set sysctl \
         kernel.perf_event_paranoid to 1 or less"
    )]
    NoKernel,
    /// There is no memory for records that may be locked.
    #[error(
        "there is no memory for samples that may be locked: raise `ulimit -l`, or kernel.perf_event_mlock_kb"
    )]
    Memory,
    /// A process has ended.
    #[error("process {0} has ended")]
    Gone(u32),
    /// Another error of perf_event_open(2).
    #[error("perf_event_open(2): {0:?}")]
    Other(Errno),
}

/// What a round of reading has found.
#[derive(Debug, Default)]
pub struct Round {
    /// By time.
    pub samples: Vec<Sample>,
    /// What processes have mapped, forked and run.
    pub news: News,
    /// CPUs on which records were lost since the last round, because they were not read in time, and how many.
    pub lost: Vec<(u32, u64)>,
}

/// Samples threads.
pub struct Sampler {
    /// Events by CPU; the records of all of one go to the ring of the first. Those of switches have rings of their own.
    events: BTreeMap<(u32, Kind), Vec<Fd>>,
    rings: Rings,
    /// Pages of each ring.
    pages: usize,
    how: Sampling,
    table: Table,
    unwinder: Unwinder,
    build_ids: BuildIds,
    buffer: Vec<u8>,
    has_switches: bool,
    /// Whose samples are kept, where there is one event for each CPU.
    chosen: Option<Chosen>,
    /// What is replaced on the stacks, where the kernel lets us see it.
    replaced: Option<Replaced>,
    /// The programs at samples, where these are of single threads.
    programs: Vec<(Kind, Fd)>,
    waits: Waits,
    /// Records that came while others were read.
    later: Vec<Item>,
    /// Lost records that were told of.
    lost_reported: u64,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("how", &self.how).finish_non_exhaustive()
    }
}

/// Memory for records, by CPU.
type Rings = Vec<Ring>;

/// Memory for the records of a CPU.
struct Ring {
    of: (u32, Kind),
    memory: PerfRing,
    /// Of the next sample.
    given: Option<Given>,
}

impl Ring {
    /// The next record; `None` when there is none.
    fn next(&mut self, buffer: &mut [u8], has_stack: bool) -> Option<Option<Item>> {
        let (cpu, kind) = self.of;
        let len = self.memory.next(buffer)?;
        let bytes = buffer.get(..len).unwrap_or_default();
        if let Some(given) = Given::read(bytes) {
            self.given = Some(given);
            return Some(None);
        }
        let item = match Raw::read(bytes, has_stack) {
            Some(mut raw) => {
                raw.given = self.given.take().filter(|given| given.is_of(&raw));
                let time = raw.time;
                let what =
                    if kind == Kind::Leaving { What::Leaves(raw, cpu) } else { What::Sample(raw, cpu) };
                Some(Item { time, what })
            }
            None => {
                Record::read(bytes).map(|record| Item { time: record.at, what: What::Record(record, cpu) })
            }
        };
        Some(item)
    }
}

/// What an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Threads that run.
    Running,
    /// Threads that leave their CPU.
    Leaving,
}

#[derive(Debug)]
enum What {
    Leaves(Raw, u32),
    Sample(Raw, u32),
    Record(Record, u32),
}

#[derive(Debug)]
struct Item {
    time: u64,
    what: What,
}

impl Sampler {
    /// Opens the events. What [`Targets::Started`] means is sampled from its start on; others when
    /// [`Sampler::enable`] is called.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(settings: &Settings) -> Result<Sampler, Error> {
        let how = Sampling {
            cycles: true,
            frequency: settings.frequency,
            kernel: true,
            stack: settings.stack / 8 * 8,
            on_exec: settings.targets == Targets::Started,
            counts_lost: true,
            switches: false,
            idle: settings.targets == Targets::All,
        };
        let btf = chosen::types().ok();
        let replaced = btf.as_ref().and_then(|btf| Replaced::make(btf, settings.cpus).ok());
        let mut sampler = Sampler {
            events: BTreeMap::new(),
            rings: Vec::new(),
            pages: 0,
            how,
            table: Table::default(),
            unwinder: Unwinder::that_finds(),
            build_ids: BuildIds::default(),
            buffer: vec![0; RECORD_MAX],
            has_switches: settings.off_cpu,
            chosen: None,
            replaced,
            programs: Vec::new(),
            waits: Waits::default(),
            later: Vec::new(),
            lost_reported: 0,
        };
        if let Some(btf) = btf.filter(|_| settings.by_cpu && settings.targets != Targets::All) {
            sampler.choose(&btf, settings.cpus);
        }
        sampler.load_programs();
        match &settings.targets {
            Targets::Started => {
                sampler.know(std::process::id());
                sampler.add(0, settings.cpus)?;
            }
            Targets::All => {
                sampler.add(-1, settings.cpus)?;
            }
            Targets::Processes(pids) => {
                for pid in pids {
                    sampler.add_process(*pid, settings.cpus)?;
                }
            }
        }
        sampler.make_rings()?;
        if settings.targets == Targets::Started && sampler.chosen.is_some() {
            // The programs know what has been started.
            let running = sampler.events.iter().filter(|((_, kind), _)| *kind == Kind::Running);
            let mut running = running.flat_map(|(_, events)| events);
            running.try_for_each(|event| perf::enable(event).map_err(Error::Other))?;
        }
        Ok(sampler)
    }

    /// Has one event for each CPU, and not for each thread, where that is cheaper, and can be had.
    fn choose(&mut self, btf: &Btf, cpus: u32) {
        // What can be had is found out with an event of this thread.
        drop(self.event(0, 0, Kind::Running));
        if self.how.cycles {
            return;
        }
        let Ok(mut chosen) = Chosen::watch(btf, self.replaced.as_ref()) else { return };
        let how = Sampling { on_exec: false, ..self.how };
        let mut events = BTreeMap::new();
        for cpu in 0..cpus {
            match perf::sample(&how, -1, cpu) {
                Ok(event) if chosen.filter(&event).is_ok() => {
                    events.insert((cpu, Kind::Running), vec![event]);
                }
                // A CPU that is possible, but not there.
                Err(Errno(libc::ENODEV)) => {}
                _ => return,
            }
        }
        (self.events, self.chosen) = (events, Some(chosen));
        self.table = Table::of_chosen();
    }

    /// Loads the programs that see what is replaced on the stacks of single threads.
    fn load_programs(&mut self) {
        let Some(replaced) = &self.replaced else { return };
        let running = self.chosen.is_none().then_some(Kind::Running);
        let kinds = [running, self.has_switches.then_some(Kind::Leaving)].into_iter().flatten();
        self.programs = kinds.filter_map(|kind| Some((kind, replaced.load(kind, None).ok()?))).collect();
    }

    /// How long samples may wait to be read: rings are as large as this user may have them.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let share = self.pages.min(PAGES_USUAL) as u32;
        TICK * share / PAGES_USUAL as u32
    }

    /// Whether code of the kernel is sampled, too: it may be forbidden.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.how.kernel
    }

    /// Whether the processor's cycles are what samples are taken by; else the time on a CPU.
    #[must_use]
    pub fn has_cycles(&self) -> bool {
        self.how.cycles
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn enable(&self) -> Result<(), Error> {
        self.events().try_for_each(|event| perf::enable(event).map_err(Error::Other))
    }

    /// Takes no more samples; those that were taken can still be read.
    pub fn disable(&self) {
        self.events().for_each(|event| {
            let _ = perf::disable(event);
        });
    }

    fn events(&self) -> impl Iterator<Item = &Fd> {
        self.events.values().flatten()
    }

    fn add_process(&mut self, pid: u32, cpus: u32) -> Result<(), Error> {
        self.know(pid);
        let mut known = BTreeSet::new();
        for _ in 0..LISTS {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Error::Gone(pid))?;
            let tids: Vec<i32> = tasks
                .flatten()
                .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
                .filter(|tid| known.insert(*tid))
                .collect();
            if tids.is_empty() {
                break;
            }
            for tid in tids {
                match self.add(tid, cpus) {
                    // A thread that has ended meanwhile.
                    Err(Error::Other(Errno(libc::ESRCH))) => {}
                    added => added?,
                }
                if let Some(chosen) = self.chosen.as_ref().filter(|_| has_ended(pid, tid)) {
                    chosen.forget(tid.unsigned_abs());
                }
            }
        }
        Ok(())
    }

    /// Adds a thread on all CPUs.
    fn add(&mut self, tid: i32, cpus: u32) -> Result<(), Error> {
        if let Some(chosen) = &self.chosen {
            let state = if tid == 0 { State::Launches } else { State::Sampled };
            let tid = if tid == 0 { mote_sys::process::tid() } else { tid };
            chosen.choose(tid.unsigned_abs(), state).map_err(Error::Other)?;
        }
        let running = self.chosen.is_none().then_some(Kind::Running);
        let kinds = [running, self.has_switches.then_some(Kind::Leaving)];
        for cpu in 0..cpus {
            for kind in kinds.into_iter().flatten() {
                let event = match self.event(tid, cpu, kind) {
                    // A CPU that is possible, but not there.
                    Err(Error::Other(Errno(libc::ENODEV))) => continue,
                    event => event?,
                };
                if let Some((_, program)) = self.programs.iter().find(|(of, _)| *of == kind) {
                    // Without it stacks end at what is replaced.
                    let _ = perf::set_program(&event, program);
                }
                self.events.entry((cpu, kind)).or_default().push(event);
            }
        }
        Ok(())
    }

    /// Makes memory for the records of each CPU, as much as may be locked, and the same for each.
    fn make_rings(&mut self) -> Result<(), Error> {
        for pages in PAGES {
            let first = |(at, events): (&(u32, Kind), &Vec<Fd>)| {
                events.first().map(|event| Ok(Ring { of: *at, memory: ring(event, pages)?, given: None }))
            };
            let made: Result<Rings, Errno> = self.events.iter().filter_map(first).collect();
            match made {
                Ok(rings) => (self.rings, self.pages) = (rings, pages),
                Err(Errno(libc::EPERM | libc::ENOMEM)) => continue,
                Err(why) => return Err(Error::Other(why)),
            }
            if let Some(replaced) = &mut self.replaced {
                for ((cpu, kind), events) in &self.events {
                    // As above.
                    let _ = events.first().map(|first| replaced.send(*kind, *cpu, first));
                }
            }
            let others = self.events.values().filter_map(|events| events.split_first());
            return others
                .flat_map(|(first, others)| others.iter().map(move |other| (other, first)))
                .try_for_each(|(other, first)| perf::send_to(other, first).map_err(Error::Other));
        }
        Err(Error::Memory)
    }

    /// Opens an event: of what can be had, which is the same for all.
    fn event(&mut self, tid: i32, cpu: u32, kind: Kind) -> Result<Fd, Error> {
        if kind == Kind::Leaving {
            if !self.how.kernel {
                return Err(Error::NoKernel);
            }
            let how = Sampling { switches: true, ..self.how };
            return perf::sample(&how, tid, cpu).map_err(Error::Other);
        }
        loop {
            let is_first = self.events.is_empty();
            match perf::sample(&self.how, tid, cpu) {
                Ok(event) => return Ok(event),
                // No such counter: a virtual machine.
                Err(Errno(libc::ENOENT | libc::EOPNOTSUPP | libc::ENXIO)) if self.how.cycles && is_first => {
                    self.how.cycles = false;
                }
                Err(Errno(libc::EINVAL)) if self.how.counts_lost && is_first => self.how.counts_lost = false,
                Err(Errno(libc::EACCES | libc::EPERM)) if self.how.kernel && is_first => {
                    self.how.kernel = false
                }
                Err(why @ Errno(libc::EACCES | libc::EPERM)) => return Err(Error::Forbidden(why)),
                Err(why) => return Err(Error::Other(why)),
            }
        }
    }

    /// Makes a process known that runs already.
    fn know(&mut self, pid: u32) {
        let mut maps = collect::maps(pid);
        self.build_ids.fill(pid, &mut maps);
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.table.know(pid, 0, name.trim_end(), maps);
    }

    /// Reads what has come since the last round: some fifty times a second. `is_last`: nothing comes any more.
    pub fn round(&mut self, is_last: bool) -> Round {
        // What comes later than this may depend on what has come on another CPU.
        let until = if is_last { u64::MAX } else { clock_gettime(ClockId::Monotonic) };
        let mut items = std::mem::take(&mut self.later);
        for ring in &mut self.rings {
            while let Some(item) = ring.next(&mut self.buffer, self.how.stack > 0) {
                items.extend(item);
            }
        }
        items.sort_by_key(|item| item.time);
        self.later = items.split_off(items.partition_point(|item| item.time <= until));
        self.table.forget();
        let mut round = Round::default();
        for item in items {
            match item.what {
                What::Record(Record { what: records::What::Lost(count), .. }, cpu) => {
                    round.lost.push((cpu, count))
                }
                What::Record(Record { what: records::What::Out(is_preempted), tid, .. }, _) => {
                    if is_preempted {
                        self.waits.is_preempted(tid);
                    }
                }
                What::Record(Record { what: records::What::In, tid, at, .. }, cpu) => {
                    round.samples.extend(self.waits.comes_back(tid, at, cpu));
                }
                What::Record(record, _) => {
                    if record.what == records::What::Exit {
                        self.waits.ends(record.tid);
                    }
                    let (before, pid) = (round.news.processes.len(), record.pid);
                    let changes = record.changes_mappings();
                    self.table.take(record, &mut round.news);
                    if changes || round.news.processes.len() > before {
                        self.unwinder.forget((pid, 0));
                    }
                }
                What::Leaves(raw, cpu) => {
                    self.make_known(&raw, &mut round.news);
                    self.waits.leaves(self.unwinder.finish(raw, cpu, &self.table));
                }
                What::Sample(raw, cpu) => {
                    self.make_known(&raw, &mut round.news);
                    round.samples.push(self.unwinder.finish(raw, cpu, &self.table));
                }
            }
        }
        if let Some(replaced) = &self.replaced {
            self.unwinder.found().into_iter().for_each(|(pid, tops)| replaced.note(pid, tops));
        }
        if is_last {
            round.samples.extend(self.waits.all(clock_gettime(ClockId::Monotonic)));
        }
        round.news.tidy();
        self.lost_reported += round.lost.iter().map(|(_, count)| count).sum::<u64>();
        // The kernel tells of them with the next record for which there is room: at the end there is none.
        if is_last && let Some(Ring { of: (cpu, _), .. }) = self.rings.first() {
            let lost = self.events().filter_map(|event| perf::lost(event).ok()).sum::<u64>();
            let more = lost.saturating_sub(self.lost_reported);
            round.lost.extend((self.how.counts_lost && more > 0).then_some((*cpu, more)));
        }
        round
    }

    /// Makes the process of a sample known, where it is not.
    fn make_known(&mut self, raw: &Raw, news: &mut News) {
        if !self.table.knows(raw.pid) && raw.pid != 0 {
            self.know(raw.pid);
            news.processes.extend(self.table.seen(raw.pid, raw.time, How::Mapped));
        }
    }

    /// The processes that are known, with all that they have mapped: at the beginning, those that run already.
    #[must_use]
    pub fn known(&self, at: u64) -> News {
        let processes = self.table.pids().filter_map(|pid| self.table.seen(pid, at, How::Mapped)).collect();
        News { processes, threads: Vec::new() }
    }
}

/// Whether a thread is gone, or is a zombie: its id may be another one's soon.
fn has_ended(pid: u32, tid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
    status.map_or(true, |text| text.contains("\nState:\tZ") || text.contains("\nState:\tX"))
}

/// Memory for the records of an event.
fn ring(event: &Fd, pages: usize) -> Result<PerfRing, Errno> {
    PerfRing::new(mote_sys::fd::duplicate(event)?, pages)
}
