//! Calls that are counted in a process that can load no library: a static program, or one of an older C library.
//!
//! ```text
//! recorder                                             process
//! sends a thread there, as for a descriptor            makes a file in memory
//! gives it its size, and writes the plan's code
//!                                                      maps it: counts, and code where the plan has it
//! stops all threads
//! looks where they stand, and writes the jumps
//! lets them go on
//! at the end, in all processes that have the counts:
//! stops all threads, and writes what was there
//! sends a thread again                                 unmaps it, when no thread is in it
//! ```
//! Nothing runs in the process but a function's own probe, which adds one to its count. So it knows of no end of the
//! recording, and of no death of the recorder: the probes of one that was killed stay, and count on.
//!
//! # Threads
//! They are stopped for as long as the jumps are written: 3 to 4 µs for each function, and their own number of stops.
//! One that stands between the instructions that a jump lies over goes on in their copy. Where one may come back to
//! there, from a handler or with a call that is begun again, the function has to wait for that, or stays off.

use crate::arch::counting;
use crate::descriptor::{Made, Maker, Steps};
use crate::elsewhere::{Leaving, has_child};
use crate::error::Error;
use crate::halt::Halted;
use crate::image;
use crate::shared::descriptor::Step;
use crate::target::{Patience, Target, apart, threads};
use mote_layout::functions::{CODE_AT, COUNT_BYTES, JUMP_BYTES, Plan, RECORD_AT, Scope, Value};
use mote_symbol::{collect, mapped};
use mote_sys::fd::{self, Fd};
use mote_sys::{Errno, mem};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The name of the memory in `/proc/PID/maps`.
const NAME: &str = "mote-bare";
/// How the process makes it.
const MADE: Made = Made::Memory(NAME, libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
const PAGE: u64 = mem::PAGE_BYTES as u64;
/// How often threads are stopped until none stands where a jump is to be.
const LOOKS: u32 = 20;
/// How long they run before they are stopped again.
const PAUSE: Duration = Duration::from_millis(2);
/// How long all of that may take.
const WRITING: Duration = Duration::from_secs(5);

/// The functions of a process, and of its children, whose calls are counted there.
#[derive(Debug)]
pub struct Bare {
    memory: Fd,
    number: u64,
    /// Where the counts are in the process, and the code.
    row: Range<u64>,
    code: Vec<Range<u64>>,
    changes: Vec<Change>,
    left_off: LeftOff,
}

/// How many functions of a plan are not counted, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOff {
    /// Threads stood in them.
    pub busy: usize,
    /// Another recorder has changed them, or another tool.
    pub changed: usize,
}

/// What changes of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    address: u64,
    old: [u8; JUMP_BYTES],
    new: [u8; JUMP_BYTES],
}

impl Bare {
    /// Whether functions of a plan can have their calls counted so: all calls, and nothing else of them.
    pub fn can(plan: &[u8]) -> bool {
        let entries = [Value::ENTRIES.to_bytes()];
        Plan::parse(plan).is_some_and(|plan| {
            plan.counts.is_some()
                && plan.callers == 0
                && plan.probes().all(|probe| {
                    probe.scope == Scope::Anywhere && plan.values(&probe) == Some(entries.as_slice())
                })
        })
    }

    /// Counts the calls of a plan's functions in a process that runs, from now on.
    ///
    /// # Errors
    /// [`Error`]; the process goes on as before. `EEXIST` where something has come to lie where the plan has code.
    ///
    /// # Cost
    /// A thread of it makes a detour of some milliseconds; then all are stopped for 3 to 4 µs for each function.
    pub fn count(pid: i32, plan: &[u8], patience: Patience<'_>) -> Result<Bare, Error> {
        let target = Target::any(pid)?;
        let prepared = Prepared::new(&target, plan)?;
        let memory = prepared.maker.make(|file| prepared.layout.fill(file), patience)?;
        let mut bare = prepared.none_yet(memory);
        let begun = prepared.begin(&mut bare, patience);
        if begun.is_err() {
            // Nothing leads there. It does no harm if it stays.
            let _ = bare.unmap(&target, patience);
        }
        begun.map(|()| bare)
    }

    /// Where calls are counted: rows of words, as a plan's [`mote_layout::functions::Counts`] say, of which only the
    /// first one is used. The process writes there, too.
    pub fn memory(&self) -> &Fd {
        &self.memory
    }

    /// By which number its session knows these counts.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many functions are counted.
    pub fn functions(&self) -> usize {
        self.changes.len()
    }

    /// How many are not.
    pub fn left_off(&self) -> LeftOff {
        self.left_off
    }

    /// Puts back what was there, in each process that has the counts: the one that they were made for, and its
    /// children. Counts and code are unmapped, where no thread is in the code.
    ///
    /// # Errors
    /// [`Error`] of the first process in which that cannot be done, and the process; it counts on.
    ///
    /// # Cost
    /// Reads the mappings of all processes.
    pub fn end(&self, patience: Patience<'_>) -> Result<(), (i32, Error)> {
        let inode = self.inode().map_err(|why| (0, why))?;
        let (mut done, mut first) = (BTreeSet::new(), Ok(()));
        // Some are forked meanwhile.
        loop {
            let holders = self.holders(inode);
            let left: Vec<i32> = holders.iter().copied().filter(|pid| !done.contains(pid)).collect();
            if left.is_empty() {
                return first;
            }
            // A child that has its parent's memory for a moment (vfork) is waited for: its parent's threads run.
            if holders.iter().any(|pid| is_a_parent(*pid)) && !patience.is_over() {
                std::thread::sleep(PAUSE);
                continue;
            }
            for pid in left {
                done.insert(pid);
                match self.end_in(pid, &patience) {
                    Ok(()) | Err(Error::Ended | Error::Replaced) => {}
                    Err(why) => first = first.and(Err((pid, why))),
                }
            }
        }
    }

    /// Whether a process has the counts: the one that they were made for, or a child.
    pub fn has_holder(&self) -> bool {
        self.inode().is_ok_and(|inode| !self.holders(inode).is_empty())
    }

    fn inode(&self) -> Result<u64, Error> {
        fd::identity(self.memory.raw()).map(|file| file.inode).map_err(Error::Forbidden)
    }

    /// The processes that have mapped all of it, where it was mapped: nobody else has it by being given the file.
    fn holders(&self, inode: u64) -> Vec<i32> {
        let pids = collect::processes().map(u32::cast_signed);
        pids.filter(|pid| self.is_held_by(*pid, inode)).collect()
    }

    /// Whether a process has mapped all of it.
    fn is_held_by(&self, pid: i32, inode: u64) -> bool {
        let mapped = mappings(pid, inode);
        !mapped.is_empty() && self.ranges().all(|range| is_within(&mapped, range))
    }

    /// Counts and code, as they lie in the processes.
    fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        std::iter::once(&self.row).chain(&self.code)
    }

    fn end_in(&self, pid: i32, patience: &Patience<'_>) -> Result<(), Error> {
        let target = Target::whatever_it_does(pid)?;
        let back: Vec<Change> = self.changes.iter().map(|change| change.back()).collect();
        let put_back = || {
            let _halted = Halted::new(&target, &patience.at_most(WRITING))?;
            write(target.memory(), &back, &mut Vec::new()).map_err(|_| target.why_not())
        };
        apart(put_back).unwrap_or(Err(Error::Over))?;
        // It does no harm if it stays.
        if Leaving::new(self.code.clone()).wait(&target, patience)? {
            let _ = self.unmap(&target, *patience);
        }
        Ok(())
    }

    /// Unmaps counts and code, in which no thread is, as far as they are mapped.
    fn unmap(&self, target: &Target, patience: Patience<'_>) -> Result<(), Error> {
        let mapped = mappings(target.pid(), self.inode()?);
        let is_there = |range: &&Range<u64>| is_within(&mapped, range);
        let unmap = |range: &Range<u64>| Step::unmap(range.start, range.end - range.start);
        let steps: Vec<Step> = self.ranges().filter(is_there).map(unmap).collect();
        let fill = |file: &Fd| {
            mem::seal(file, (steps.len() * Step::BYTES) as u64)
                .and_then(|()| Steps::write(file, 0, &steps))
                .map_err(Error::Refused)
        };
        Maker::new(target, MADE)?.make(fill, patience).map(drop)
    }
}

/// Whether a thread of a process waits for a child that has its memory.
fn is_a_parent(pid: i32) -> bool {
    threads(pid).is_ok_and(|mut threads| threads.any(|tid| has_child(pid, tid)))
}

/// A plan, and a place for the code that makes its memory.
pub(crate) struct Prepared<'t> {
    target: &'t Target,
    pub(crate) maker: Maker<'t>,
    pub(crate) layout: Layout<'t>,
}

impl<'t> Prepared<'t> {
    /// Looks where all of it may lie. Nothing is changed.
    ///
    /// # Errors
    /// [`Error`]: there is no room, or the plan is none of counts.
    pub(crate) fn new(target: &'t Target, plan: &'t [u8]) -> Result<Prepared<'t>, Error> {
        Ok(Prepared { target, maker: Maker::new(target, MADE)?, layout: Layout::new(target.pid(), plan)? })
    }

    /// Writes the jumps, once the memory is there.
    fn begin(&self, bare: &mut Bare, patience: Patience<'_>) -> Result<(), Error> {
        self.look(bare)?;
        let patience = patience.at_most(WRITING);
        let guards: Vec<u64> = self.layout.plan.guards().map(|guard| guard.address).collect();
        let mut wanted: Vec<Change> = self.layout.plan.probes().map(Change::of).collect();
        for _ in 0..LOOKS {
            let written = || {
                let mut halted = Halted::new(self.target, &patience)?;
                halted.lead_away(self.target, |at| self.layout.plan.guard(at));
                let busy = halted.stand_at(self.target, &guards);
                self.write(bare, &mut wanted, &busy)
            };
            match apart(written).unwrap_or(Err(Error::Over)) {
                Err(why) if bare.changes.is_empty() => return Err(why),
                Ok(()) if wanted.is_empty() => break,
                _ => std::thread::sleep(PAUSE),
            }
        }
        bare.left_off.busy = self.layout.plan.probe_count() - bare.changes.len() - bare.left_off.changed;
        Ok(())
    }

    /// Looks whether the process has mapped all of it.
    fn look(&self, bare: &Bare) -> Result<(), Error> {
        let is_there = bare.is_held_by(self.target.pid(), bare.inode()?);
        if is_there { Ok(()) } else { Err(Error::Refused(Errno(libc::EEXIST))) }
    }

    /// As that, of a process whose only thread is stopped at the program's begin.
    ///
    /// # Errors
    /// As [`Bare::count`].
    pub(crate) fn begin_at_start(self, memory: Fd) -> Result<Bare, Error> {
        let mut bare = self.none_yet(memory);
        self.look(&bare)?;
        let mut wanted = self.layout.plan.probes().map(Change::of).collect();
        self.write(&mut bare, &mut wanted, &BTreeSet::new())?;
        Ok(bare)
    }

    fn none_yet(&self, memory: Fd) -> Bare {
        let Layout { plan, row, .. } = &self.layout;
        let number = plan.counts.map_or(0, |counts| counts.number);
        let code = self.layout.code().into_iter().map(|(range, _)| range).collect();
        let (changes, left_off) = Default::default();
        Bare { memory, number, row: row.clone(), code, changes, left_off }
    }

    /// Writes all jumps that are wanted but those over an address where a thread is, while all threads are stopped.
    /// Those are left.
    fn write(&self, bare: &mut Bare, wanted: &mut Vec<Change>, busy: &BTreeSet<u64>) -> Result<(), Error> {
        let is_free = |change: &mut Change| busy.range(change.range()).next().is_none();
        let free: Vec<Change> = wanted.extract_if(.., is_free).collect();
        let before = bare.changes.len();
        write(self.target.memory(), &free, &mut bare.changes).map_err(|_| self.target.why_not())?;
        bare.left_off.changed += free.len() - (bare.changes.len() - before);
        Ok(())
    }
}

impl Change {
    fn of(probe: mote_layout::functions::Probe) -> Change {
        Change { address: probe.address, old: probe.old, new: probe.new }
    }

    fn back(self) -> Change {
        Change { old: self.new, new: self.old, ..self }
    }

    fn range(&self) -> Range<u64> {
        self.address..self.address + JUMP_BYTES as u64
    }
}

/// Makes changes where the process has what they change; adds those to `done` that were made. Each is one call: whoever
/// is killed has written all of a jump, or nothing.
fn write(memory: &File, changes: &[Change], done: &mut Vec<Change>) -> std::io::Result<()> {
    for change in changes {
        let mut there = [0; JUMP_BYTES];
        // A library may have gone since.
        if memory.read_exact_at(&mut there, change.address).is_ok() && there == change.old {
            memory.write_all_at(&change.new, change.address)?;
            done.push(*change);
        }
    }
    Ok(())
}

/// Where everything lies, in the process and in the file.
///
/// The file has the counts, from its begin on, as the recorder reads them; then the code that counts, the plan's code,
/// and the list of what is to be mapped.
pub(crate) struct Layout<'p> {
    plan: Plan<'p>,
    /// Where the first row of counts lies in the process, and how many bytes it has.
    row: Range<u64>,
    /// Where in the file the code begins.
    code_at: u64,
}

impl<'p> Layout<'p> {
    fn new(pid: i32, plan: &'p [u8]) -> Result<Layout<'p>, Error> {
        let invalid = || Error::Refused(Errno(libc::EINVAL));
        let plan = Plan::parse(plan).ok_or_else(invalid)?;
        let counts = plan.counts.ok_or_else(invalid)?;
        let rows = counts.bytes().ok_or_else(invalid)? as u64;
        let planned: Vec<Range<u64>> =
            plan.memories().map(|memory| memory.address..memory.address + memory.len).collect();
        let at = image::hole(pid.unsigned_abs(), &planned).ok_or(Error::NoRoom)?;
        let row = at..at + counts.row_bytes.next_multiple_of(PAGE);
        Ok(Layout { plan, row, code_at: rows.next_multiple_of(PAGE) })
    }

    /// Where the code that counts lies in the process: behind the counts.
    fn counter(&self) -> u64 {
        self.row.end
    }

    /// What is to be mapped, and from which place of the file on: the code that counts, and the plan's memories.
    fn code(&self) -> Vec<(Range<u64>, u64)> {
        let mut offset = self.code_at;
        let counter = self.counter()..self.counter() + PAGE;
        let memories = self.plan.memories().map(|memory| memory.address..memory.address + memory.len);
        let all = std::iter::once(counter).chain(memories);
        all.map(|range| {
            let at = offset;
            offset += range.end - range.start;
            (range, at)
        })
        .collect()
    }

    /// Writes the file, whose size is none yet.
    pub(crate) fn fill(&self, file: &Fd) -> Result<Steps, Error> {
        let code = self.code();
        let list = code.last().map_or(0, |(range, offset)| offset + range.end - range.start);
        let row = self.row.end - self.row.start;
        let executable = libc::PROT_READ | libc::PROT_EXEC;
        let map = |(range, at): &(Range<u64>, u64)| {
            Step::map(range.start, range.end - range.start, executable, *at)
        };
        let steps: Vec<Step> =
            std::iter::once(Step::map(self.row.start, row, libc::PROT_READ | libc::PROT_WRITE, 0))
                .chain(code.iter().map(map))
                .collect();
        let size = list + ((steps.len() * Step::BYTES) as u64).next_multiple_of(PAGE);
        let filled = mem::seal(file, size)
            // A process that touches a page that cannot be had dies.
            .and_then(|()| mem::allocate(file, 0, row))
            .and_then(|()| mem::allocate(file, self.code_at, size - self.code_at))
            .and_then(|()| fd::write_at(file, counting::code(), self.code_at))
            .and_then(|()| self.write_code(file, code.get(1..).unwrap_or_default()))
            .and_then(|()| Steps::write(file, list, &steps));
        filled.map_err(Error::Refused)
    }

    /// Writes the code of the memories, each with the words of the functions in it.
    fn write_code(&self, file: &Fd, parts: &[(Range<u64>, u64)]) -> Result<(), Errno> {
        let mut codes: Vec<Vec<u8>> = Vec::new();
        for memory in self.plan.memories() {
            let mut code = self.plan.code(&memory).ok_or(Errno(libc::EINVAL))?.to_vec();
            code.resize(memory.len as usize, 0);
            codes.push(code);
        }
        let counts = (self.row.start..).step_by(COUNT_BYTES);
        for (probe, count) in self.plan.probes().zip(counts) {
            for (at, word) in [(RECORD_AT, count), (CODE_AT, self.counter())] {
                let at = probe.body.wrapping_sub(at);
                let behind = parts.partition_point(|(range, _)| range.start <= at);
                let index = behind.checked_sub(1).ok_or(Errno(libc::EINVAL))?;
                let part = parts.get(index).zip(codes.get_mut(index));
                let ((range, _), code) = part.ok_or(Errno(libc::EINVAL))?;
                let place = code.get_mut((at - range.start) as usize..).and_then(<[u8]>::first_chunk_mut);
                *place.ok_or(Errno(libc::EINVAL))? = word.to_le_bytes();
            }
        }
        parts.iter().zip(codes).try_for_each(|((_, offset), code)| fd::write_at(file, &code, *offset))
    }
}

fn is_within(mapped: &[Range<u64>], part: &Range<u64>) -> bool {
    mapped.iter().any(|range| range.start <= part.start && part.end <= range.end)
}

/// Where a process has mapped the memory.
fn mappings(pid: i32, inode: u64) -> Vec<Range<u64>> {
    let maps = mapped::table(&format!("/proc/{pid}/maps"));
    let one = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, _, _, number, path, ..] = words.get(..)? else { return None };
        let is_it = path.strip_prefix("/memfd:") == Some(NAME) && number.parse() == Ok(inode);
        is_it.then(|| mapped::addresses(line))?
    };
    maps.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    #[test]
    fn changes_are_made_where_that_is_what_is_there() {
        let folder = std::env::temp_dir().join(format!("mote-bare-{}", std::process::id()));
        let mut bytes = vec![0x90; 3 * PAGE as usize];
        bytes[0x20..0x25].copy_from_slice(b"other");
        fs::write(&folder, &bytes).expect("a file");
        let file = OpenOptions::new().read(true).write(true).open(&folder).expect("the file");
        let change = |address| Change { address, old: [0x90; 5], new: *b"jumps" };
        // At another's bytes, over the end of a page, beside one another, and behind the end.
        let all = [0x20, PAGE - 3, PAGE + 2, 2 * PAGE + 100, 4 * PAGE].map(change);
        let mut done = Vec::new();
        write(&file, &all, &mut done).expect("it can be written");
        assert_eq!(done, all[1..4]);
        for change in &all[1..4] {
            let at = change.address as usize;
            bytes[at..at + JUMP_BYTES].copy_from_slice(b"jumps");
        }
        assert_eq!(fs::read(&folder).expect("the file"), bytes);
        let back: Vec<Change> = done.iter().map(|change| change.back()).collect();
        write(&file, &back, &mut Vec::new()).expect("it can be written");
        assert_eq!(fs::read(&folder).expect("the file").iter().filter(|byte| **byte != 0x90).count(), 5);
        fs::remove_file(&folder).expect("it is there");
    }

    #[test]
    fn plans_of_more_than_entries_cannot_be_counted_so() {
        assert!(!Bare::can(b"no plan"));
    }
}
