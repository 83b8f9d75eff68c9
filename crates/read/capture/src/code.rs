//! The code of a process: bytes by address, in versions, and names.

use crate::compiled::Compiled;
use crate::files::{File, Files};
use crate::moment::Moment;
use crate::note::{Image as Mapped, KERNEL, Note, What};
use crate::versions::{Entries, Versions};
use mote_pt::image::{self, NoImage, Space};
use mote_pt::time::Clocks;
use mote_symbol::{Symbol, demangle};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The code of a process as one of its threads has met it.
///
/// A version is all that is known until something else lies at an address that had code: the process has become another
/// program, a library came into the place of another one, code was written anew.
#[derive(Debug, Default)]
pub struct Code {
    /// From when on a version counts.
    versions: Vec<(Moment, Space)>,
    /// Of each version: where something begins, and what it is.
    places: BTreeMap<(Space, u64), Part>,
    /// What each version of a processor's code is: one of a process, and one of the kernel. There are none of a
    /// process's.
    pairs: Vec<[Space; 2]>,
    /// Whose address spaces packets say that are entered, where they say which process runs.
    entries: Option<Entries>,
    /// From when on which thread runs, where the code is that of a processor.
    runs: Vec<(Moment, i32)>,
    /// From when on which version counts for packets of virtual machines; none, where no code of one is known.
    guests: Versions,
    /// How it was traced.
    tracing: Tracing,
    /// The clocks by which these count.
    clocks: Clocks,
    /// How many versions were adopted.
    spaces: u64,
    /// What is to be said of files that are not what they were.
    problems: Vec<String>,
    /// Where it is not known when code has changed.
    uncertain: Vec<Uncertain>,
}

/// Code that has changed at a time that is not known: what was executed there meanwhile is followed as the later code,
/// and may have been the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncertain {
    /// The first byte that has changed.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// The time stamp counter when it was the earlier code.
    pub since: u64,
    /// When it was the later one; nothing where that is not known.
    pub until: Option<u64>,
}

/// How a processor was told to trace, as far as readers need to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing {
    /// Which addresses; all, where there are none.
    pub(crate) filter: Vec<RangeInclusive<u64>>,
    /// No packets of branches were asked for (BranchEn is clear).
    pub(crate) is_without_branches: bool,
}

/// Something that is mapped.
#[derive(Clone, Debug)]
struct Part {
    end: u64,
    file: Option<Arc<File>>,
    /// How far above the addresses of its file it lies.
    shift: u64,
    /// Its bytes begin there in these, which are those of its file.
    at: usize,
    bytes: Arc<[u8]>,
    /// The names of what is of no file.
    compiled: Option<Arc<Compiled>>,
    /// The time stamp counter up to which it is in this version, where that is known.
    until: Option<u64>,
}

/// What the code of run-time compilers is called, where a file is asked for.
const COMPILED: &str = "[compiled at run time]";

impl Part {
    /// The bytes from an address on; the part begins at `start`.
    fn from(&self, start: u64, address: u64) -> &[u8] {
        let all = self.bytes.get(self.at..).unwrap_or_default();
        let all = all.get(..(self.end - start) as usize).unwrap_or(all);
        all.get((address - start) as usize..).unwrap_or_default()
    }
}

/// What an address is in people's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function, demangled.
    pub function: String,
    /// How many bytes behind its begin.
    pub offset: u64,
    /// How many bytes the function has; 0 where that is not known.
    pub bytes: u64,
    /// The file.
    pub file: PathBuf,
}

impl Code {
    /// The version that has no code at all.
    pub(crate) const NOTHING: Space = Space(u64::MAX - 1);

    /// From the notes about a process, as thread `tid` has met them.
    pub(crate) fn of<'n>(notes: impl Iterator<Item = &'n Note>, tid: i32, files: &Files) -> Code {
        let mut notes = notes.peekable();
        let pid = notes.peek().map_or(KERNEL, |note| note.pid);
        let mut making = Making::of(pid, files);
        for note in notes {
            let is_of_other = note.tid != tid && note.instructions.is_some();
            // Each thread notes the code of no file that it executes, by its own count.
            if is_of_other && matches!(note.what, What::Code { .. }) {
                continue;
            }
            // What else another thread has noted by its own count is from before whatever this one has executed, as far
            // as this is known.
            let from = match (note.instructions, note.time) {
                (Some(count), _) if note.tid == tid => Moment::Instructions(count),
                (Some(_), _) | (None, None) => Moment::BEGIN,
                (None, Some(time)) => Moment::Return(time),
            };
            making.take(from, note);
        }
        making.finish()
    }

    /// Adds all of another one's versions, under other names, which are given with the moments from which they count.
    pub(crate) fn adopt(&mut self, other: Code) -> Vec<(Moment, Space)> {
        let first = self.spaces;
        let named = |space: Space| Space(space.0 + first);
        self.spaces = first + other.versions.len() as u64;
        self.places.extend(other.places.into_iter().map(|((space, at), part)| ((named(space), at), part)));
        let news = other.problems.into_iter().filter(|problem| !self.problems.contains(problem));
        let news: Vec<String> = news.collect();
        self.problems.extend(news);
        self.uncertain.extend(other.uncertain);
        other.versions.into_iter().map(|(from, space)| (from, named(space))).collect()
    }

    /// Adds all of the code of a processor, as [`Code::adopt`] adds that of a process.
    pub(crate) fn adopt_pairs(&mut self, mut other: Code) -> Versions {
        let (first, before) = (self.spaces, self.pairs.len() as u64);
        let spaces = other.spaces;
        let pairs = std::mem::take(&mut other.pairs);
        self.pairs.extend(pairs.into_iter().map(|pair| pair.map(|space| Space(space.0 + first))));
        let versions = std::mem::take(&mut other.versions);
        self.adopt(other);
        self.spaces = first + spaces;
        versions.into_iter().map(|(from, space)| (from, Space(space.0 + before))).collect()
    }

    /// The same code, whose versions are pairs, as those of a processor are.
    pub(crate) fn paired(self) -> Code {
        if !self.pairs.is_empty() {
            return self;
        }
        let mut all = Code { runs: self.runs.clone(), ..Code::default() };
        let versions = all.adopt(self);
        all.pairs = versions.iter().map(|(_, space)| [*space; 2]).collect();
        all.versions = versions.iter().zip(0..).map(|((from, _), number)| (*from, Space(number))).collect();
        all
    }

    /// Says from when on which version counts for packets of virtual machines.
    pub(crate) fn set_guests(&mut self, guests: Versions) {
        self.guests = guests;
    }

    /// From when on each version counts for packets of virtual machines.
    pub(crate) fn guests(&self) -> &[(Moment, Space)] {
        &self.guests
    }

    /// Says how it was traced.
    pub(crate) fn with_tracing(self, tracing: Tracing) -> Code {
        Code { tracing, ..self }
    }

    /// How it was traced.
    pub(crate) fn tracing(&self) -> &Tracing {
        &self.tracing
    }

    /// Says from when on which version counts.
    pub(crate) fn set_versions(&mut self, versions: Vec<(Moment, Space)>) {
        self.versions = versions;
    }

    /// Says what versions of a processor's code are.
    pub(crate) fn set_pairs(&mut self, pairs: Vec<[Space; 2]>) {
        self.pairs = pairs;
    }

    /// Says whose address spaces packets name.
    pub(crate) fn set_entries(&mut self, entries: Entries) {
        self.entries = Some(entries);
    }

    /// From when on each version counts of the process whose address space is entered, when `is_reached` says what is
    /// reached; nothing where packets do not say which process runs.
    pub(crate) fn entered(&self, cr3: u64, is_reached: impl Fn(Moment) -> bool) -> Option<&Versions> {
        self.entries.as_ref()?.entered(cr3, is_reached)
    }

    /// Says which thread runs from when on.
    pub(crate) fn set_runs(&mut self, runs: Vec<(Moment, i32)>) {
        self.runs = runs;
    }

    /// Which thread runs from when on, where that is known.
    pub(crate) fn runs(&self) -> &[(Moment, i32)] {
        &self.runs
    }

    /// From when on each version counts.
    pub(crate) fn versions(&self) -> &[(Moment, Space)] {
        &self.versions
    }

    /// How many parts all versions have.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> usize {
        self.places.len()
    }

    /// How the clocks run by which versions count, or threads; nothing where none counts by time.
    pub(crate) fn clocks(&self) -> Option<Clocks> {
        let counts_by_time = |from: &Moment| matches!(from, Moment::Time(_) | Moment::Return(_));
        let mut all = self.moments().chain(self.runs.iter().map(|(from, _)| from));
        all.any(counts_by_time).then(|| self.clocks.clone())
    }

    /// Says how they run.
    pub(crate) fn with_clocks(self, clocks: Clocks) -> Code {
        Code { clocks, ..self }
    }

    /// Whether a version counts from one of the stream's instructions on that is not the first.
    pub(crate) fn changes_by_count(&self) -> bool {
        self.moments().any(|from| matches!(from, Moment::Instructions(1..)))
    }

    /// All moments from which a version counts.
    fn moments(&self) -> impl Iterator<Item = &Moment> {
        let of_entries = self.entries.iter().flat_map(Entries::moments);
        self.versions.iter().chain(&self.guests).map(|(from, _)| from).chain(of_entries)
    }

    /// What is to be said of files that are not what they were.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Where it is not known when code has changed.
    #[must_use]
    pub fn uncertain(&self) -> &[Uncertain] {
        &self.uncertain
    }

    /// The bytes at an address.
    #[must_use]
    pub fn bytes(&self, space: Space, address: u64) -> Option<&[u8]> {
        let (start, part) = self.part(space, address)?;
        Some(part.from(start, address))
    }

    /// The function at an address.
    #[must_use]
    pub fn place(&self, space: Space, address: u64) -> Option<Place> {
        let (_, part) = self.part(space, address)?;
        let Some(file) = &part.file else {
            let (function, offset) = part.compiled.as_ref()?.find(address, part.until)?;
            let function = demangle(function).into_owned();
            return Some(Place { function, offset, bytes: 0, file: COMPILED.into() });
        };
        let at = address.wrapping_sub(part.shift);
        let tables = [file.image.as_ref().map(|image| &image.table), file.separate.as_ref()];
        // A symbol without a size is where something begins, and does not say how far it goes.
        let holds = |symbol: &Symbol<'_>| symbol.size > 0 || symbol.address == at;
        let symbol = tables.into_iter().flatten().find_map(|table| table.find(at).filter(holds))?;
        let function = demangle(symbol.name).into_owned();
        let (offset, bytes) = (at - symbol.address, symbol.size);
        Some(Place { function, offset, bytes, file: file.path.clone() })
    }

    /// An address behind this one that no function begins before, as far as names are known.
    #[must_use]
    pub fn next_begin(&self, space: Space, address: u64) -> Option<u64> {
        let (_, part) = self.part(space, address)?;
        let file = part.file.as_ref()?;
        let at = address.wrapping_sub(part.shift);
        let tables = [file.image.as_ref().map(|image| &image.table), file.separate.as_ref()];
        let next = tables.into_iter().flatten().filter_map(|table| table.next_begin(at)).min();
        Some(next.map_or(part.end, |next| next.wrapping_add(part.shift).min(part.end)))
    }

    /// Whether a function begins at an address.
    #[must_use]
    pub fn is_function(&self, space: Space, address: u64) -> bool {
        let begins = |(_, part): (u64, &Part)| {
            let (file, at) = (part.file.as_ref()?, address.wrapping_sub(part.shift));
            let tables = [file.image.as_ref().map(|image| &image.table), file.separate.as_ref()];
            tables.into_iter().flatten().find_map(|table| table.find(at)).map(|symbol| symbol.address == at)
        };
        self.part(space, address).and_then(begins) == Some(true)
    }

    /// The file that the code at an address is of, and its address there.
    #[must_use]
    pub fn in_file(&self, space: Space, address: u64) -> Option<(&Path, u64)> {
        let (_, part) = self.part(space, address)?;
        let file = part.file.as_ref()?;
        Some((&file.path, address.wrapping_sub(part.shift)))
    }

    /// What a version has at an address, and where that begins.
    fn part(&self, space: Space, address: u64) -> Option<(u64, &Part)> {
        match self.pairs.get(space.0 as usize) {
            // The upper half of all addresses is the kernel's.
            Some([process, kernel]) if address >> 63 == 0 => {
                self.layer(*process, address).or_else(|| self.layer(*kernel, address))
            }
            Some([process, kernel]) => self.layer(*kernel, address).or_else(|| self.layer(*process, address)),
            None => self.layer(space, address),
        }
    }

    fn layer(&self, space: Space, address: u64) -> Option<(u64, &Part)> {
        let ((of, start), part) = self.places.range(..=(space, address)).next_back()?;
        (*of == space && address < part.end).then_some((*start, part))
    }
}

impl image::Image for Code {
    fn read(&self, space: Space, address: u64) -> Result<&[u8], NoImage> {
        let (start, part) = self.part(space, address).ok_or(NoImage { address })?;
        Some(part.from(start, address)).filter(|bytes| !bytes.is_empty()).ok_or(NoImage { address })
    }
}

/// Code as it is at a moment: of the host, and of the virtual machine that it runs.
#[derive(Debug)]
pub(crate) struct Now<'c> {
    code: &'c Code,
    host: Cell<Space>,
    guest: Cell<Space>,
}

impl<'c> Now<'c> {
    pub(crate) fn new(code: &'c Code) -> Now<'c> {
        Now { code, host: Cell::new(Space::ANY), guest: Cell::new(Code::NOTHING) }
    }

    /// The host's is this version from here on.
    pub(crate) fn change(&self, space: Space) {
        self.host.set(space);
    }

    /// The virtual machine's is.
    pub(crate) fn change_guest(&self, space: Space) {
        self.guest.set(space);
    }
}

impl image::Image for Now<'_> {
    fn read(&self, space: Space, address: u64) -> Result<&[u8], NoImage> {
        self.code.read(space, address)
    }

    /// Which process runs is said by notes. The kernel and a program may have address spaces of their own (page table
    /// isolation), and the kernel gives them new ones. A guest's addresses are never those of the host.
    fn space(&self, _cr3: u64, is_guest: bool) -> Space {
        if is_guest { self.guest.get() } else { self.host.get() }
    }
}

/// Code that is being put together.
pub(crate) struct Making<'f> {
    code: Code,
    files: &'f Files,
    /// What there is in the version that is being made.
    now: BTreeMap<u64, Part>,
    count: u64,
    /// The names of what is of no file.
    compiled: Option<Arc<Compiled>>,
}

impl<'f> Making<'f> {
    /// Of a process.
    pub(crate) fn of(pid: i32, files: &'f Files) -> Making<'f> {
        let (now, compiled) = (BTreeMap::new(), files.compiled(pid));
        Making { code: Code::default(), files, now, count: 0, compiled }
    }
}

impl Making<'_> {
    pub(crate) fn take(&mut self, from: Moment, note: &Note) {
        match &note.what {
            What::Exec { .. } => {
                self.close(from);
                // The upper half of all addresses is the kernel's.
                self.now.retain(|start, _| start >> 63 != 0);
            }
            What::Image(image) => {
                if let Some(part) = self.mapped(image) {
                    self.add(from, image.start, part);
                }
            }
            What::Code { start, code, since } => {
                let from = since.map_or(from, Moment::Return);
                let Some(end) = start.checked_add(code.len() as u64) else { return };
                let (file, shift) = self.below(*start, end);
                let (bytes, compiled) = (code.as_slice().into(), self.compiled.clone());
                let part = Part { end, file, shift, at: 0, bytes, compiled, until: None };
                if let Some(since) = *since
                    && let Some((start, end)) = self.changed(*start, code)
                {
                    self.code.uncertain.push(Uncertain { start, end, since, until: note.time });
                }
                if self.is_new(*start, code) {
                    self.replace(*start, part);
                } else {
                    self.add(from, *start, part);
                }
            }
            _ => {}
        }
    }

    /// The file that is mapped where code is changed, which has the names of it still; and how far above its addresses.
    fn below(&self, start: u64, end: u64) -> (Option<Arc<File>>, u64) {
        let mut parts = self.overlapping(start, end).filter_map(|at| Some((at, self.now.get(&at)?)));
        let holds = parts.find(|(at, part)| *at <= start && end <= part.end);
        holds.map_or((None, 0), |(_, part)| (part.file.clone(), part.shift))
    }

    /// Adds a part; in a new version, where something else lies there.
    fn add(&mut self, from: Moment, start: u64, part: Part) {
        let overlapping: Vec<u64> = self.overlapping(start, part.end).collect();
        let is_the_same = |at: &u64| {
            let old = &self.now[at];
            *at == start && old.end == part.end && old.from(start, start) == part.from(start, start)
        };
        if overlapping.iter().all(is_the_same) && !overlapping.is_empty() {
            return;
        }
        if !overlapping.is_empty() && !self.begins(from) {
            self.close(from);
        }
        self.replace(start, part);
    }

    /// Puts a part in the place of what lies there.
    fn replace(&mut self, start: u64, part: Part) {
        let overlapping: Vec<u64> = self.overlapping(start, part.end).collect();
        overlapping.iter().for_each(|at| self.cut(*at, start, part.end));
        self.now.insert(start, part);
    }

    /// Whether the version that is being made counts from this time on, so that another one would be without any.
    fn begins(&self, from: Moment) -> bool {
        let last = self.code.versions.last();
        matches!(from, Moment::Return(_)) && last.is_some_and(|(last, _)| from.not_before(*last) == *last)
    }

    /// Whether code comes to where there was nothing but zeros, also before it, where an instruction could begin whose
    /// last bytes they are: nothing was executed there, and no version is needed.
    fn is_new(&self, start: u64, code: &[u8]) -> bool {
        /// An instruction has no more bytes before its last one.
        const BEFORE: u64 = 14;
        let end = start + code.len() as u64;
        self.overlapping(start.saturating_sub(BEFORE), end).all(|at| {
            let part = &self.now[&at];
            let first = at.max(start.saturating_sub(BEFORE));
            // What is before the begin of a part is not known.
            let mut zeros = 0;
            part.file.is_none()
                && part.from(at, first).iter().zip(first..end).all(|(old, at)| {
                    let now = at.checked_sub(start).and_then(|at| code.get(at as usize));
                    let is_free = now.is_none_or(|now| now == old) || (*old == 0 && zeros >= BEFORE);
                    zeros = if *old == 0 { zeros + 1 } else { 0 };
                    is_free
                })
        })
    }

    /// From where to where code is not what lies there now. Where there is nothing but zeros there is no code.
    fn changed(&self, start: u64, code: &[u8]) -> Option<(u64, u64)> {
        let end = start + code.len() as u64;
        let mut changed: Option<(u64, u64)> = None;
        for at in self.overlapping(start, end) {
            let part = &self.now[&at];
            let from = at.max(start);
            let old = part.from(at, from).iter().zip(from..end);
            let differs = |(byte, at): &(&u8, u64)| **byte != 0 && **byte != code[(at - start) as usize];
            for (_, at) in old.filter(differs) {
                changed = Some((changed.map_or(at, |(first, _)| first), at + 1));
            }
        }
        changed
    }

    /// Where parts begin that lie between two addresses, or reach in between.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        let before = self.now.range(..start).next_back().filter(|(_, part)| part.end > start);
        let inside = self.now.range(start..end);
        before.into_iter().chain(inside).map(|(at, _)| *at)
    }

    /// Takes what lies between two addresses out of the part at `at`.
    fn cut(&mut self, at: u64, start: u64, end: u64) {
        let Some(part) = self.now.remove(&at) else { return };
        let mut keep = |from: u64, to: u64| {
            if from < to {
                self.now.insert(from, Part { end: to, at: part.at + (from - at) as usize, ..part.clone() });
            }
        };
        keep(at, start.clamp(at, part.end));
        keep(end.clamp(at, part.end), part.end);
    }

    /// Ends a version: what comes is of another one, from an instruction on.
    fn close(&mut self, from: Moment) {
        let space = Space(self.count);
        let until = if let Moment::Time(until) | Moment::Return(until) = from { Some(until) } else { None };
        self.put(space, until);
        self.count += 1;
        if self.code.versions.is_empty() {
            self.code.versions.push((Moment::BEGIN, space));
        }
        let from = self.code.versions.last().map_or(from, |(last, _)| from.not_before(*last));
        self.code.versions.push((from, Space(self.count)));
    }

    fn put(&mut self, space: Space, until: Option<u64>) {
        let parts = self.now.iter().map(|(start, part)| ((space, *start), Part { until, ..part.clone() }));
        self.code.places.extend(parts);
    }

    pub(crate) fn finish(mut self) -> Code {
        let last = Space(self.count);
        self.put(last, None);
        if self.code.versions.is_empty() {
            self.code.versions.push((Moment::BEGIN, last));
        }
        self.code
    }

    /// A part of a file that is mapped.
    fn mapped(&mut self, mapped: &Mapped) -> Option<Part> {
        let file = self.file(mapped)?;
        let at = usize::try_from(mapped.offset).ok()?;
        let left = file.bytes.len().checked_sub(at)? as u64;
        let end = mapped.start.checked_add(left.min(mapped.bytes))?;
        let shift = file.image.as_ref().and_then(|image| {
            let by_code = image.shift_of_code(mapped.start, mapped.offset);
            // What is mapped may begin before the code.
            let by_begin = || Some(mapped.start.wrapping_sub(image.address_of(mapped.offset)?));
            by_code.or_else(by_begin)
        });
        let bytes = file.bytes.clone();
        Some(Part {
            end,
            shift: shift.unwrap_or(0),
            at,
            bytes,
            file: Some(file),
            compiled: None,
            until: None,
        })
    }

    /// A file; `None` where it is not what it was.
    fn file(&mut self, mapped: &Mapped) -> Option<Arc<File>> {
        match self.files.get(&mapped.path, mapped.build_id.as_deref()) {
            Ok(file) => Some(file),
            Err(why) => {
                if !self.code.problems.contains(&why) {
                    self.code.problems.push(why);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Reached;
    use mote_pt::image::Image as _;
    use std::fs;

    fn note(tid: i32, instructions: u64, what: What) -> Note {
        Note { pid: 7, tid, cpu: None, instructions: Some(instructions), time: None, what }
    }

    fn code(start: u64, bytes: &[u8]) -> What {
        What::Code { start, code: bytes.to_vec(), since: None }
    }

    /// What a thread finds at an address while it executes an instruction.
    fn check(made: &Code, instruction: u64, address: u64, expect: Option<&[u8]>) {
        let versions = made.versions().iter().rev();
        let is_reached = |from: Moment| from.is_reached(instruction, Reached::default());
        let (_, space) = versions.into_iter().find(|(from, _)| is_reached(*from)).expect("a version");
        let expect = expect.ok_or(NoImage { address });
        assert_eq!(made.read(*space, address), expect, "{address:#x} at {instruction}");
    }

    #[test]
    fn code_that_changes_has_versions() {
        let notes = [
            note(7, 0, code(0x1000, &[1, 2, 3, 4])),
            note(7, 5, code(0x2000, &[9])),
            note(7, 10, code(0x1002, &[7])),
            // The same again is no change.
            note(7, 12, code(0x1002, &[7])),
            note(7, 20, What::Exec { path: "/bin/other".into() }),
            note(7, 20, code(0x1000, &[8])),
        ];
        let made = Code::of(notes.iter(), 7, &Files::default());
        assert_eq!(made.versions().len(), 3);
        check(&made, 0, 0x1000, Some(&[1, 2, 3, 4]));
        // What comes to a free place was there all the time, as far as this thread can tell.
        check(&made, 0, 0x2000, Some(&[9]));
        check(&made, 10, 0x1000, Some(&[1, 2]));
        check(&made, 10, 0x1002, Some(&[7]));
        check(&made, 10, 0x1003, Some(&[4]));
        check(&made, 20, 0x1000, Some(&[8]));
        check(&made, 20, 0x2000, None);
    }

    #[test]
    fn what_other_threads_note_is_from_before() {
        let folder = tempfile::tempdir().expect("a directory");
        let image = |byte: u8| {
            let path = folder.path().join(byte.to_string());
            fs::write(&path, [byte]).expect("a file");
            What::Image(Mapped { start: 0x1000, bytes: 4096, path, offset: 0, build_id: None })
        };
        let notes = [note(8, 1000, image(1)), note(8, 2000, image(2))];
        let made = Code::of(notes.iter(), 7, &Files::default());
        check(&made, 0, 0x1000, Some(&[2]));
    }

    #[test]
    fn code_that_other_threads_note_is_theirs() {
        let other = note(8, 1000, code(0x1000, &[2]));
        let notes = [note(7, 0, code(0x1000, &[1])), other, note(7, 9, code(0x1000, &[3]))];
        let made = Code::of(notes.iter(), 7, &Files::default());
        check(&made, 0, 0x1000, Some(&[1]));
        check(&made, 9, 0x1000, Some(&[3]));
        let made = Code::of(notes.iter(), 8, &Files::default());
        check(&made, 0, 0x1000, Some(&[2]));
    }

    #[test]
    fn run_time_compilers_name_their_functions() {
        let folder = tempfile::tempdir().expect("a directory");
        fs::write(folder.path().join("perf-7.map"), "1002 2 js:price\n").expect("a file");
        let files = Files::of(folder.path().to_owned());
        let made = Code::of([note(7, 0, code(0x1000, &[1, 2, 3, 4, 5]))].iter(), 7, &files);
        let place = |at| made.place(Space(0), at).map(|place| (place.function, place.offset));
        assert_eq!((place(0x1001), place(0x1003)), (None, Some(("js:price".to_owned(), 1))));
    }

    #[test]
    fn code_that_comes_to_where_nothing_was_needs_no_version() {
        let mut page = vec![0; 64];
        page[..2].copy_from_slice(&[1, 2]);
        let notes = [
            note(7, 0, code(0x1000, &page)),
            note(7, 5, code(0x1020, &[9, 9])),
            // Behind another instruction, whose last byte it may be.
            note(7, 6, code(0x1002, &[3])),
            note(7, 7, code(0x1020, &[8])),
        ];
        let made = Code::of(notes.iter(), 7, &Files::default());
        let from: Vec<Moment> = made.versions().iter().map(|(from, _)| *from).collect();
        assert_eq!(from, [Moment::BEGIN, Moment::Instructions(6), Moment::Instructions(7)]);
        check(&made, 0, 0x1020, Some(&[9, 9]));
        check(&made, 0, 0x1001, Some(&page[1..32]));
        check(&made, 6, 0x1002, Some(&[3]));
        check(&made, 7, 0x1020, Some(&[8]));
        check(&made, 7, 0x1021, Some(&[9]));
    }

    #[test]
    fn code_that_has_changed_at_any_time_is_uncertain() {
        let looked = |time: u64, bytes: &[u8], since: Option<u64>| Note {
            pid: 7,
            tid: 7,
            cpu: None,
            instructions: None,
            time: Some(time),
            what: What::Code { start: 0x1000, code: bytes.to_vec(), since },
        };
        let notes = [
            looked(10, &[1, 2, 3, 0], None),
            // Where there was nothing nothing was executed.
            looked(20, &[1, 2, 3, 4], Some(10)),
            looked(30, &[1, 5, 6, 4], Some(20)),
            // Copied when it changed.
            looked(40, &[9, 9, 9, 9], None),
        ];
        let made = Code::of(notes.iter(), 7, &Files::default());
        let expect = Uncertain { start: 0x1001, end: 0x1003, since: 20, until: Some(30) };
        assert_eq!(made.uncertain(), [expect]);
        let from: Vec<Moment> = made.versions().iter().map(|(from, _)| *from).collect();
        assert_eq!(from, [Moment::BEGIN, Moment::Return(10), Moment::Return(20), Moment::Return(40)]);
    }

    #[test]
    fn code_that_is_changed_in_memory_is_of_its_file_still() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, [0x90; 100]).expect("a file");
        let path = file.path().to_owned();
        let mapped = Mapped { start: 0x1000, bytes: 100, path: path.clone(), offset: 0, build_id: None };
        let notes = [
            note(7, 0, What::Image(mapped)),
            note(7, 5, code(0x1010, &[1, 2])),
            note(7, 5, code(0x1063, &[3, 4])),
        ];
        let made = Code::of(notes.iter(), 7, &Files::default());
        let last = made.versions().last().expect("a version").1;
        assert_eq!(made.bytes(last, 0x1010), Some(&[1, 2][..]));
        assert_eq!(made.in_file(last, 0x1011).map(|(found, _)| found.to_owned()), Some(path));
        // What goes beyond the file is not.
        assert_eq!((made.bytes(last, 0x1063), made.in_file(last, 0x1063)), (Some(&[3, 4][..]), None));
    }

    #[test]
    fn files_that_are_not_what_they_were_are_said() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("file");
        fs::write(&file, [0x90; 100]).expect("a file");
        let image = |path: &Path, build_id: Option<&str>| {
            let build_id = build_id.map(str::to_owned);
            let path = path.to_owned();
            note(7, 0, What::Image(Mapped { start: 0x1000, bytes: 4096, path, offset: 10, build_id }))
        };
        let made = Code::of([image(&file, None)].iter(), 7, &Files::default());
        assert_eq!((made.bytes(Space(0), 0x1000).map(<[u8]>::len), made.problems().len()), (Some(90), 0));
        for (wrong, why) in [
            (image(&file, Some("c0ffee")), "it is another build now"),
            (image(&folder.path().join("gone"), None), "No such file"),
        ] {
            let made = Code::of([wrong].iter(), 7, &Files::default());
            assert_eq!(made.bytes(Space(0), 0x1000), None);
            assert!(made.problems()[0].contains(why), "{:?}", made.problems());
        }
    }
}
