//! Copies of stacks that records have (`mote_layout::stack`), to addresses.
//!
//! A copy is unwound by what its process had mapped when it was made: the program that it ran then, which may be
//! another one now, or be gone. What the kernel tells of mappings is taken in first ([`Copies::refresh`]): then all is
//! known that a record which was read before needs. Where the kernel tells nothing, or a process has not been heard of,
//! `/proc/PID/maps` says what is mapped now.
//!
//! Processes that copy their stacks themselves say hello first, to the recorder, which tells of them ([`Reports`]); no
//! other process is believed in. What these map later is looked for where a stack leads to it.

use crate::arch::Registers;
use crate::finding::{Finding, Found};
use crate::mappings::{self, Change, How, Mappings};
use crate::unwind::{Copied, Unwinder};
use mote_journal::Map;
use mote_layout::stack::{Copy, End};
use mote_symbol::LIBRARY;
use mote_symbol::collect::{self, BuildIds};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Processes that are remembered, also when they have gone.
const PROCESSES_MAX: usize = 4096;
/// Programs of each: those that it ran last.
const PROGRAMS_MAX: usize = 4;
/// How often `/proc/PID/maps` is read of a process that is where it had nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who tells of processes.
enum Source {
    /// The kernel.
    Kernel(Mappings),
    /// The recorder.
    Reports(Arc<Reports>),
    /// Nobody.
    None,
}

/// A program that a process runs which has said hello.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The process's id, as its copies have it.
    pub id: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its id for the kernel, as this process sees it.
    pub pid: u32,
    /// When, on the clock of the records.
    pub at: u64,
    /// It has begun now, or was found; else this is more of what it has mapped.
    pub is_new: bool,
    /// It is a child of fork.
    pub is_fork: bool,
    /// What it has mapped.
    pub maps: Vec<Map>,
}

/// What the recorder reports of processes, and what was found out about them.
#[derive(Debug, Default)]
pub struct Reports {
    joined: Mutex<Vec<Joined>>,
    found: Mutex<Vec<(u32, Vec<Map>)>>,
}

impl Reports {
    /// Reports a process, before any of its records is read.
    pub fn add(&self, joined: Joined) {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).push(joined);
    }

    /// What processes have mapped besides, by their ids as they were reported, since this was asked last.
    pub fn found(&self) -> Vec<(u32, Vec<Map>)> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Unwinds copies of stacks.
pub struct Copies {
    source: Source,
    processes: HashMap<u32, Process>,
    unwinder: Unwinder,
    build_ids: BuildIds,
    finding: Option<Finding>,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

/// The programs that a process has run, the last one last.
#[derive(Debug, Default)]
struct Process {
    programs: Vec<Program>,
    /// Its id for the kernel.
    pid: u32,
    /// When `/proc/PID/maps` was read.
    looked: Option<Instant>,
}

/// What a process has mapped for a program.
#[derive(Clone, Debug, Default)]
struct Program {
    number: u32,
    /// When it began, in nanoseconds of `CLOCK_MONOTONIC`.
    from: u64,
    /// A process that was forked has its parent's until one of them maps something.
    maps: Arc<BTreeMap<u64, Map>>,
    /// All that it has mapped is known.
    is_known: bool,
}

impl Copies {
    /// Begins to hear what processes map. Where return addresses may have been replaced in a process, `found` hears
    /// what leads to the real ones, so that copies have these, too.
    ///
    /// # Cost
    /// Looks at what all processes have mapped, and begins a thread, which ends with this.
    #[must_use]
    pub fn open(cpus: u32, found: Found) -> Copies {
        let source = Mappings::open(cpus, false).map_or(Source::None, Source::Kernel);
        let mut copies = Copies { finding: Finding::begin(found), ..Copies::by(source) };
        // A command is this process until it runs another program.
        let own = std::process::id();
        copies.begin(own, own, Program::default());
        copies.look(own, 0);
        copies
    }

    /// Of processes that the recorder tells of. Times are on the clock of their records.
    #[must_use]
    pub fn of_reported(reports: Arc<Reports>) -> Copies {
        Copies::by(Source::Reports(reports))
    }

    fn by(source: Source) -> Copies {
        Copies {
            source,
            processes: HashMap::new(),
            unwinder: Unwinder::default(),
            build_ids: BuildIds::default(),
            finding: None,
        }
    }

    /// Takes in what has been mapped until now. To be called when records have been read, before they are unwound.
    ///
    /// # Cost
    /// Where nothing was mapped a look at each CPU's memory.
    pub fn refresh(&mut self) {
        match &mut self.source {
            Source::Kernel(mappings) => mappings.news().processes.into_iter().for_each(|change| {
                let (pid, is_exec) = (change.pid, matches!(change.how, How::Exec));
                let maps_it = change.maps.iter().any(is_library);
                self.take(change);
                let has_library = maps_it || self.has_library(pid);
                self.finding.iter_mut().for_each(|finding| finding.look(pid, has_library, is_exec));
            }),
            Source::Reports(reports) => {
                let joined =
                    std::mem::take(&mut *reports.joined.lock().unwrap_or_else(PoisonError::into_inner));
                joined.into_iter().for_each(|joined| self.join(joined));
            }
            Source::None => {}
        }
    }

    fn has_library(&self, pid: u32) -> bool {
        let program = self.processes.get(&pid).and_then(|process| process.programs.last());
        program.is_some_and(|program| program.maps.values().any(is_library))
    }

    fn join(&mut self, joined: Joined) {
        let Joined { id, parent, pid, at, is_new, is_fork, maps } = joined;
        if is_new {
            let parents = is_fork.then(|| self.processes.get(&parent)?.programs.last()).flatten();
            self.begin(id, pid, Program { from: at, is_known: true, ..parents.cloned().unwrap_or_default() });
        }
        let Some(process) = self.processes.get_mut(&id) else { return };
        if let Some(program) = process.programs.last_mut() {
            maps.into_iter().for_each(|map| program.map(map));
            self.unwinder.forget((id, program.number));
        }
    }

    fn take(&mut self, change: Change) {
        let Change { pid, parent, at, how, maps, .. } = change;
        let maps = maps.into_iter().map(|map| (map.start, map));
        match how {
            How::Exec => {
                let maps = Arc::new(maps.collect());
                self.begin(pid, pid, Program { from: at, maps, is_known: true, number: 0 });
            }
            How::Fork => {
                let parents = self.processes.get(&parent).and_then(|parent| parent.programs.last());
                let program = Program { from: at, ..parents.cloned().unwrap_or_default() };
                self.begin(pid, pid, program);
            }
            How::Mapped => {
                let Some(program) = self.processes.get_mut(&pid).and_then(|one| one.programs.last_mut())
                else {
                    return;
                };
                maps.for_each(|(_, map)| program.map(map));
                self.unwinder.forget((pid, program.number));
            }
        }
    }

    /// A process begins to run a program; `kernel` is its id for the kernel.
    fn begin(&mut self, pid: u32, kernel: u32, program: Program) {
        if self.processes.len() >= PROCESSES_MAX {
            // Those that live are looked at again.
            self.processes.clear();
        }
        let process = self.processes.entry(pid).or_default();
        process.pid = kernel;
        let number = process.programs.last().map_or(1, |last| last.number.wrapping_add(1));
        if process.programs.len() >= PROGRAMS_MAX {
            process.programs.remove(0);
        }
        process.programs.push(Program { number, ..program });
        self.unwinder.forget((pid, number));
    }

    /// Appends the addresses of a stack that was copied at `time`, in nanoseconds of `CLOCK_MONOTONIC`: the innermost
    /// first, and behind them an [`End`] where they do not lead to its begin.
    ///
    /// # Cost
    /// A microsecond or two for a stack of twenty functions. The first stack of a process reads what it has mapped, the
    /// first one of a file its frames.
    pub fn unwind(&mut self, copy: &Copy<'_>, time: u64, to: &mut Vec<u64>) {
        to.extend(copy.function());
        let registers = Registers::new(copy.registers);
        let stack = without_stubs(copy);
        let own = to.len();
        let parent = copy.parent().filter(|_| !self.processes.contains_key(&copy.process));
        let pid = parent.unwrap_or(copy.process);
        let at = self.program(pid, time, registers.instruction());
        let end = loop {
            to.truncate(own);
            let of = self.processes.get(&pid).and_then(|process| Some((process, process.programs.get(at)?)));
            let Some((process, program)) = of else { return to.push(End::Code as u64) };
            let (is_to_end, slots) = (copy.is_to_end, copy.slots);
            let copied = Copied { registers, stack: &stack, is_to_end, slots };
            let spaces = ((pid, program.number), process.pid);
            let end = self.unwinder.unwind(spaces, program.maps.values(), copied, to);
            // Nobody tells of what such a process maps later.
            let is_new = matches!(self.source, Source::Reports(_))
                && end == Some(End::Code)
                && to.last().is_some_and(|last| !program.has(*last));
            if !is_new || !self.look(pid, at) {
                break end;
            }
        };
        if copy.is_ours && to.len() > own {
            to.remove(own);
            // The call, as of whatever is innermost.
            to.get_mut(own).into_iter().for_each(|behind| *behind = behind.wrapping_sub(1));
        }
        to.extend(end.map(|end: End| end as u64));
    }

    /// Which program of the process had code at an address at a time.
    fn program(&mut self, pid: u32, time: u64, address: u64) -> usize {
        let find = |copies: &Copies| {
            let programs = &copies.processes.get(&pid)?.programs;
            let at = programs.iter().rposition(|program| program.from <= time).unwrap_or(0);
            programs.get(at).map(|program| (at, program.is_known && program.has(address)))
        };
        match find(self) {
            Some((at, true)) => return at,
            Some((at, false)) => drop(self.look(pid, at)),
            // What was not reported is not looked at.
            None if matches!(self.source, Source::Reports(_)) => {}
            None => {
                self.begin(pid, pid, Program::default());
                self.look(pid, 0);
            }
        }
        find(self).map_or(0, |(at, _)| at)
    }

    /// Reads what a process has mapped now, for the program that it runs. Returns whether there is more than was known.
    fn look(&mut self, pid: u32, at: usize) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        let is_early = process.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY);
        if is_early || at + 1 < process.programs.len() {
            return false;
        }
        process.looked = Some(Instant::now());
        let Some(program) = process.programs.last_mut() else { return false };
        program.is_known = true;
        let mut maps = collect::maps(process.pid);
        let is_same = |known: &Map, map: &Map| {
            (known.end, known.offset, &known.path) == (map.end, map.offset, &map.path)
        };
        maps.retain(|map| !program.maps.get(&map.start).is_some_and(|known| is_same(known, map)));
        self.build_ids.fill(process.pid, &mut maps);
        let is_more = !maps.is_empty();
        if let (true, Source::Reports(reports)) = (is_more, &self.source) {
            reports.found.lock().unwrap_or_else(PoisonError::into_inner).push((pid, maps.clone()));
        }
        maps.into_iter().for_each(|map| program.map(map));
        self.unwinder.forget((pid, program.number));
        is_more
    }
}

/// Whether our library is there, as recorders load it.
fn is_library(map: &Map) -> bool {
    map.path == LIBRARY
}

/// The stack of a copy, with the return addresses that it really has.
fn without_stubs<'c>(copy: &Copy<'c>) -> Cow<'c, [u8]> {
    let mut stack = Cow::Borrowed(copy.stack);
    // Of two at one place the outer one is real: the inner one's function has come by a jump.
    for (at, real) in copy.replaced() {
        if let Some(word) = stack.to_mut().get_mut(at..at + 8) {
            word.copy_from_slice(&real.to_le_bytes());
        }
    }
    stack
}

impl Program {
    /// Takes a mapping, which replaces what was there.
    fn map(&mut self, map: Map) {
        mappings::replace(Arc::make_mut(&mut self.maps), map);
    }

    fn has(&self, address: u64) -> bool {
        self.maps.range(..=address).next_back().is_some_and(|(_, map)| address < map.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::stack::{COPY, FUNCTION, IS_OURS, PARENT, REPLACED};

    const SP: u64 = 0x7000_0000;

    /// Of a process: pairs, then a stack that is followed by frame pointers.
    fn unwound(copies: &mut Copies, process: u64, flags: u64, pairs: &[[u64; 2]], stack: &[u64]) -> Vec<u64> {
        let about = process | flags | (pairs.len() as u64) << REPLACED;
        let words = [&[COPY, about, SP + 8, SP, 0x5000], pairs.as_flattened(), stack].concat();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut to = Vec::new();
        copies.refresh();
        copies.unwind(&Copy::read(&bytes).expect("a copy"), 5, &mut to);
        to
    }

    fn joined(id: u32, parent: u32, is_fork: bool) -> Joined {
        let map =
            Map { start: 0x5000, end: 0x9000, offset: 0, path: "/gone".to_owned(), build_id: String::new() };
        let maps = if is_fork { Vec::new() } else { vec![map] };
        Joined { id, parent, pid: u32::MAX, at: 1, is_new: true, is_fork, maps }
    }

    #[test]
    fn of_processes_that_were_reported_and_of_no_others() {
        const CODE: u64 = End::Code as u64;
        let reports = Arc::new(Reports::default());
        let mut copies = Copies::of_reported(reports.clone());
        let stack = [1, SP + 32, 0x6111, 2, 0, 0x7222];
        assert_eq!(unwound(&mut copies, 7, 0, &[], &stack), [CODE]);
        // Whoever else runs under that number is not looked at.
        let own = u64::from(std::process::id());
        assert_eq!(unwound(&mut copies, own, 0, &[], &stack), [CODE]);
        reports.add(joined(7, 1, false));
        assert_eq!(unwound(&mut copies, 7, 0, &[], &stack), [0x5000, 0x6111, 0x7222, CODE]);
        // A child that has not said hello has its parent's memory; when it has, that as well.
        assert_eq!(unwound(&mut copies, 8, 0, &[[PARENT, 7]], &stack), [0x5000, 0x6111, 0x7222, CODE]);
        reports.add(joined(8, 7, true));
        assert_eq!(unwound(&mut copies, 8, 0, &[[PARENT, 9]], &stack), [0x5000, 0x6111, 0x7222, CODE]);
    }

    #[test]
    fn what_was_replaced_is_put_right_and_what_is_ours_left_away() {
        const CODE: u64 = End::Code as u64;
        let reports = Arc::new(Reports::default());
        let mut copies = Copies::of_reported(reports.clone());
        reports.add(joined(7, 1, false));
        let stack = [1, SP + 32, 0xbad, 2, 0, 0xbad];
        // Of two at one place the outer one is real.
        let pairs = [[SP + 16, 0x1], [SP + 16, 0x6111], [SP + 40, 0x7222], [u64::MAX - 3, 0]];
        assert_eq!(unwound(&mut copies, 7, 0, &pairs, &stack), [0x5000, 0x6111, 0x7222, CODE]);
        let behind = [&[[FUNCTION, 0x5500]][..], &pairs].concat();
        assert_eq!(unwound(&mut copies, 7, 0, &behind, &stack), [0x5500, 0x5000, 0x6111, 0x7222, CODE]);
        // The function that the program has called, and so its call.
        assert_eq!(unwound(&mut copies, 7, 1 << IS_OURS, &pairs, &stack), [0x6110, 0x7222, CODE]);
        assert_eq!(unwound(&mut copies, 7, 1 << IS_OURS, &[], &[]), [CODE]);
    }
}
