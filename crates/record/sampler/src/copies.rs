//! Copies of stacks that records have (`mote_layout::stack`), to addresses.
//!
//! A copy is unwound by what its process had mapped when it was made: the program that it ran then, which may be
//! another one now, or be gone. What the kernel tells of mappings is taken in first ([`Copies::refresh`]): then all is
//! known that a record which was read before needs. Where the kernel tells nothing, or a process has not been heard of,
//! `/proc/PID/maps` says what is mapped now.

use crate::arch::Registers;
use crate::mappings::{self, Change, How, Mappings};
use crate::unwind::Unwinder;
use mote_journal::Map;
use mote_layout::stack::{Copy, End};
use mote_symbol::collect::{self, BuildIds};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Processes that are remembered, also when they have gone.
const PROCESSES_MAX: usize = 4096;
/// Programs of each: those that it ran last.
const PROGRAMS_MAX: usize = 4;
/// How often `/proc/PID/maps` is read of a process that is where it had nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Unwinds copies of stacks.
pub struct Copies {
    /// `None` where the kernel does not tell us.
    mappings: Option<Mappings>,
    processes: HashMap<u32, Process>,
    unwinder: Unwinder,
    build_ids: BuildIds,
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
    /// Begins to hear what processes map.
    #[must_use]
    pub fn open(cpus: u32) -> Copies {
        let mut copies = Copies {
            mappings: Mappings::open(cpus, false).ok(),
            processes: HashMap::new(),
            unwinder: Unwinder::default(),
            build_ids: BuildIds::default(),
        };
        // A command is this process until it runs another program.
        let own = std::process::id();
        copies.begin(own, Program::default());
        copies.look(own, 0);
        copies
    }

    /// Takes in what has been mapped until now. To be called when records have been read, before they are unwound.
    ///
    /// # Cost
    /// Where nothing was mapped a look at each CPU's memory.
    pub fn refresh(&mut self) {
        let Some(mappings) = &mut self.mappings else { return };
        for change in mappings.news().processes {
            self.take(change);
        }
    }

    fn take(&mut self, change: Change) {
        let Change { pid, parent, at, how, maps, .. } = change;
        let maps = maps.into_iter().map(|map| (map.start, map));
        match how {
            How::Exec => {
                let maps = Arc::new(maps.collect());
                self.begin(pid, Program { from: at, maps, is_known: true, number: 0 });
            }
            How::Fork => {
                let parents = self.processes.get(&parent).and_then(|parent| parent.programs.last());
                let program = Program { from: at, ..parents.cloned().unwrap_or_default() };
                self.begin(pid, program);
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

    /// A process begins to run a program.
    fn begin(&mut self, pid: u32, program: Program) {
        if self.processes.len() >= PROCESSES_MAX {
            // Those that live are looked at again.
            self.processes.clear();
        }
        let process = self.processes.entry(pid).or_default();
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
        let registers = Registers::new(copy.registers);
        let pid = copy.process;
        let at = self.program(pid, time, registers.instruction());
        let Some(program) = self.processes.get(&pid).and_then(|process| process.programs.get(at)) else {
            return;
        };
        let maps = program.maps.values();
        let copied = (registers, copy.stack, copy.is_to_end);
        let end = self.unwinder.unwind((pid, program.number), maps, copied, to);
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
            Some((at, false)) => self.look(pid, at),
            None => {
                self.begin(pid, Program::default());
                self.look(pid, 0);
            }
        }
        find(self).map_or(0, |(at, _)| at)
    }

    /// Reads what a process has mapped now, for the program that it runs.
    fn look(&mut self, pid: u32, at: usize) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let is_early = process.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY);
        if is_early || at + 1 < process.programs.len() {
            return;
        }
        process.looked = Some(Instant::now());
        let Some(program) = process.programs.last_mut() else { return };
        program.is_known = true;
        let mut maps = collect::maps(pid);
        self.build_ids.fill(pid, &mut maps);
        maps.into_iter().for_each(|map| program.map(map));
        self.unwinder.forget((pid, program.number));
    }
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
