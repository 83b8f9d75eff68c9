//! Code of processes that is of no file: what run-time compilers write, as it is when it is looked at.
//!
//! Mappings are told by the kernel; what is written into them is not. So they are read again and again, as far as they
//! have memory, and pages that have changed are noted. What was executed between two looks and changed meanwhile is not
//! known.
//!
//! The thread that looks reads packets, too, whose memory fills within milliseconds: a look is short, and the next one
//! goes on where it has ended.

use crate::open::Open;
use mote_sys::mem::PAGE_BYTES;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of code that a capture may have of such mappings.
const KEPT_MAX: u64 = 256 << 20;
/// Bytes of code that one look reads.
const LOOKED_MAX: u64 = 1 << 20;
/// Pages of which one look asks whether they have memory.
const ASKED_MAX: u64 = 16 << 10;
/// As so many of them counts at least each part of a mapping: files are opened for it.
const PART_MIN: u64 = 64;
/// Looks that take everything in when a recording ends, or a snapshot is made.
const LAST_LOOKS: usize = 32;
/// The shortest time from one round of looks to the next.
const PAUSE: Duration = Duration::from_millis(250);
/// Of a recorder's time no more than one part of so many.
const SHARE: u32 = 20;
const PAGE: u64 = PAGE_BYTES as u64;
/// A page has memory (bit 63 of its word in `/proc/PID/pagemap`, Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
/// Where a round of looks begins: before all mappings.
const FIRST: (i32, u64) = (i32::MIN, 0);

/// The mappings.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// By process and address; those of a process do not overlap.
    mappings: BTreeMap<(i32, u64), Mapping>,
    /// What pages were when they were read, by process and address.
    pages: Pages,
    /// Bytes that may still be kept.
    left: u64,
    /// Process and address where the next look goes on.
    next: (i32, u64),
    /// When the next round may begin; `None` for at once.
    due: Option<Instant>,
    /// No look before.
    rest_until: Option<Instant>,
    /// Pages that were not kept: there were too many.
    refused: u64,
    /// Mappings that could not be read before they were gone.
    unread: u64,
    /// Where it is known which pages are written to, by process and address: no look finds more there.
    tracked: BTreeMap<(i32, u64), u64>,
}

/// Pages, by process and address.
type Pages = BTreeMap<(i32, u64), Page>;

/// What a page was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    hash: u64,
    /// The time stamp counter then, where that is known.
    time: Option<u64>,
    /// It was copied when it became executable, and cannot be written: it needs no look.
    is_closed: bool,
}

/// Code of a process as it is at a time, by the time stamp counter, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed<'c> {
    pub(crate) pid: i32,
    pub(crate) start: u64,
    pub(crate) code: &'c [u8],
    pub(crate) time: Option<u64>,
    /// When it was another one, where that was looked at.
    pub(crate) since: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    end: u64,
    was_read: bool,
}

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere {
            mappings: BTreeMap::new(),
            pages: BTreeMap::new(),
            left: KEPT_MAX,
            next: FIRST,
            due: None,
            rest_until: None,
            refused: 0,
            unread: 0,
            tracked: BTreeMap::new(),
        }
    }
}

impl Elsewhere {
    /// A process has mapped executable memory of no file, or has changed what it may do with it: it replaces what was
    /// there. A round begins as soon as the time for looks allows it.
    pub(crate) fn mapped(&mut self, pid: i32, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        if start == end {
            return;
        }
        let before = self.mappings.range((pid, 0)..(pid, end)).rev();
        let overlapping = before.take_while(|(_, mapping)| mapping.end > start).map(|(key, _)| key.1);
        for at in overlapping.collect::<Vec<_>>() {
            let Some(mapping) = self.mappings.remove(&(pid, at)) else { continue };
            // mprotect(2) of a part tells that part only: the rest is there as before.
            for (from, to) in [(at, start), (end, mapping.end)] {
                if from < to {
                    self.mappings.insert((pid, from), Mapping { end: to, ..mapping });
                }
            }
        }
        self.mappings.insert((pid, start), Mapping { end, was_read: false });
        self.due = None;
    }

    /// A page of a process was copied when it became executable; gives it to `to`, if it is not what it was before.
    /// Where it may be written, too, looks go on.
    ///
    /// # Errors
    /// Those of `to`.
    pub(crate) fn copied(
        &mut self,
        page: Changed<'_>,
        is_writable: bool,
        mut to: impl FnMut(Changed<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Changed { pid, start, code, time, .. } = page;
        let now = Page { hash: hash(code), time, is_closed: !is_writable };
        // It waited for records of before; what is tracked was perhaps read meanwhile, and counts.
        let is_late = || self.pages.get(&(pid, start)).is_some_and(|last| last.time > time);
        if is_tracked(&self.tracked, pid, start) && is_late() {
            return Ok(());
        }
        if self.pages.insert((pid, start), now).is_some_and(|before| before.hash == now.hash) {
            return Ok(());
        }
        if let Some(mapping) = self.around(pid, start) {
            mapping.was_read = true;
        }
        let Some(left) = self.left.checked_sub(code.len() as u64) else {
            self.refused += 1;
            return Ok(());
        };
        self.left = left;
        to(page)
    }

    /// Says where in a process it is known which pages are written to; nowhere else any more.
    pub(crate) fn set_tracked(&mut self, pid: i32, all: impl Iterator<Item = Open>) {
        self.leave_tracked(pid);
        self.tracked.extend(all.map(|open| ((pid, open.code), open.code + (open.end - open.start))));
    }

    fn leave_tracked(&mut self, pid: i32) {
        self.tracked.extract_if((pid, 0)..=(pid, u64::MAX), |_, _| true).for_each(drop);
    }

    /// A page that is tracked was written to, and was `before` when it was read before, where that is kept; gives what
    /// has changed of it to `to`.
    ///
    /// # Errors
    /// Those of `to`.
    pub(crate) fn written(
        &mut self,
        page: Changed<'_>,
        before: Option<&[u8]>,
        to: &mut impl FnMut(Changed<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Changed { pid, start, code, time, since } = page;
        let now = Page { hash: hash(code), time, is_closed: false };
        let last = self.pages.get(&(pid, start)).copied();
        if let Some(mapping) = self.around(pid, start) {
            mapping.was_read = true;
        }
        if last.is_none() && code.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.pages.insert((pid, start), now);
        if last.is_some_and(|last| last.hash == now.hash) {
            return Ok(());
        }
        let since = since.or_else(|| last.and_then(|last| last.time));
        // Of what is not kept, all of it.
        let whole = || std::iter::once(0..code.len()).collect();
        let parts = before.map_or_else(whole, |before| differences(before, code));
        for part in parts {
            let Some(left) = self.left.checked_sub(part.len() as u64) else {
                self.refused += 1;
                return Ok(());
            };
            self.left = left;
            let start = start + part.start as u64;
            to(Changed { pid, start, code: code.get(part).unwrap_or_default(), time, since })?;
        }
        Ok(())
    }

    /// The mapping that an address lies in.
    fn around(&mut self, pid: i32, at: u64) -> Option<&mut Mapping> {
        let around = self.mappings.range_mut((pid, 0)..=(pid, at)).next_back();
        around.map(|(_, mapping)| mapping).filter(|mapping| mapping.end > at)
    }

    /// A process may execute memory that was not copied: it is looked at.
    pub(crate) fn opened(&mut self, pid: i32, start: u64, bytes: u64) {
        let pages = self.pages.range_mut((pid, start)..(pid, start.saturating_add(bytes)));
        pages.for_each(|(_, page)| page.is_closed = false);
        self.mapped(pid, start, bytes);
    }

    /// What a process had at an address lies at another one now: where that is code, it is read there.
    pub(crate) fn moved(&mut self, pid: i32, from: u64, start: u64, bytes: u64) {
        let has_code = self.pages.range((pid, from)..(pid, from.saturating_add(bytes))).next().is_some();
        if has_code && from != start {
            self.opened(pid, start, bytes);
        }
    }

    /// A process has what another one has.
    pub(crate) fn forked(&mut self, pid: i32, parent: i32) {
        let of_parent = self.mappings.range((parent, 0)..=(parent, u64::MAX));
        let all: Vec<(u64, u64)> = of_parent.map(|((_, start), mapping)| (*start, mapping.end)).collect();
        self.forget_pages(pid);
        all.into_iter().for_each(|(start, end)| self.mapped(pid, start, end - start));
    }

    /// A process has ended, or has become another program.
    pub(crate) fn gone(&mut self, pid: i32) {
        let mappings = self.mappings.extract_if((pid, 0)..=(pid, u64::MAX), |_, _| true);
        self.unread += mappings.filter(|(_, mapping)| !mapping.was_read).count() as u64;
        self.forget_pages(pid);
        self.leave_tracked(pid);
    }

    fn forget_pages(&mut self, pid: i32) {
        self.pages.extract_if((pid, 0)..=(pid, u64::MAX), |_, _| true).for_each(drop);
    }

    /// The processes that have such code.
    pub(crate) fn processes(&self) -> impl Iterator<Item = i32> {
        let mut pids: Vec<i32> = self.mappings.keys().map(|(pid, _)| *pid).collect();
        pids.dedup();
        pids.into_iter()
    }

    /// Whether a process has such code.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.mappings.range((pid, 0)..=(pid, u64::MAX)).next().is_some()
    }

    /// How many mappings could not be read before they were gone, and how many pages were too many.
    pub(crate) fn missing(&self) -> (u64, u64) {
        let unread = self.mappings.values().filter(|mapping| !mapping.was_read).count();
        (self.unread + unread as u64, self.refused)
    }

    /// Whether there is anything to look at now.
    pub(crate) fn is_due(&self) -> bool {
        let is_over = |until: Option<Instant>| until.is_none_or(|until| Instant::now() >= until);
        let is_in_round = self.next != FIRST;
        !self.mappings.is_empty() && (is_in_round || is_over(self.due)) && is_over(self.rest_until)
    }

    /// Looks at mappings, from where the last look has ended; gives what has changed, with its process and address, to
    /// `to`.
    ///
    /// # Errors
    /// Those of `to`.
    ///
    /// # Cost
    /// Reads up to 1 MiB of their memory, and 128 KiB about it: about a millisecond. When looks are made as they are
    /// due, they take at most a twentieth of the time.
    pub(crate) fn look(
        &mut self,
        now: Option<u64>,
        to: impl FnMut(Changed<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let begun = Instant::now();
        if self.next == FIRST {
            self.due = Some(begun + PAUSE);
        }
        let looked = self.go_on(now, to);
        self.rest_until = Some(Instant::now() + begun.elapsed() * SHARE);
        looked
    }

    /// Looks at all mappings, as far as [`LAST_LOOKS`] get.
    ///
    /// # Errors
    /// Those of `to`.
    pub(crate) fn look_at_all(
        &mut self,
        now: Option<u64>,
        mut to: impl FnMut(Changed<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.next = FIRST;
        for _ in 0..LAST_LOOKS {
            self.look(now, &mut to)?;
            if self.next == FIRST {
                break;
            }
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        now: Option<u64>,
        mut to: impl FnMut(Changed<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Elsewhere { mappings, pages, left, next, refused, tracked, .. } = self;
        let (mut looked, mut asked) = (0, 0);
        while looked < LOOKED_MAX && asked < ASKED_MAX {
            let Some(Part { key, start, end }) = part(mappings, *next, ASKED_MAX - asked) else {
                *next = FIRST;
                return Ok(());
            };
            asked += (end - start).div_ceil(PAGE).max(PART_MIN);
            let pid = key.0;
            let memory = Memory::open(pid).and_then(|memory| Ok((memory.present(start, end)?, memory)));
            let Ok((mut present, memory)) = memory else {
                // It has gone, or is nobody's business.
                *next = (pid, u64::MAX);
                continue;
            };
            present.retain(|at| !is_tracked(tracked, pid, *at));
            let room = ((LOOKED_MAX - looked) / PAGE) as usize;
            let (first, later) = present.split_at(room.min(present.len()));
            *next = (pid, later.first().copied().unwrap_or(end));
            looked += first.len() as u64 * PAGE;
            let was_read = memory.changes(pid, first, now, pages, |changed| {
                let bytes = changed.code.len() as u64;
                if *left < bytes {
                    *refused += bytes / PAGE;
                    return Ok(());
                }
                *left -= bytes;
                to(changed)
            })?;
            if let Some(mapping) = mappings.get_mut(&key) {
                mapping.was_read |= was_read;
            }
        }
        Ok(())
    }
}

/// Whether an address of a process is tracked.
fn is_tracked(tracked: &BTreeMap<(i32, u64), u64>, pid: i32, at: u64) -> bool {
    tracked.range((pid, 0)..=(pid, at)).next_back().is_some_and(|(_, end)| *end > at)
}

/// A part of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// The mapping's process and address.
    key: (i32, u64),
    start: u64,
    end: u64,
}

/// What is mapped at `next`, or first behind it: no more than so many pages of it.
fn part(mappings: &BTreeMap<(i32, u64), Mapping>, next: (i32, u64), pages: u64) -> Option<Part> {
    let around = mappings.range(..=next).next_back();
    let around = around.filter(|(key, mapping)| key.0 == next.0 && mapping.end > next.1);
    let (key, mapping) = around.or_else(|| mappings.range(next..).next())?;
    let (_, start) = (*key).max(next);
    let start = start / PAGE * PAGE;
    let end = start.saturating_add(pages * PAGE).min(mapping.end);
    Some(Part { key: *key, start, end })
}

/// The memory of a process.
struct Memory {
    bytes: File,
    pages: File,
}

impl Memory {
    fn open(pid: i32) -> io::Result<Memory> {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}"));
        Ok(Memory { bytes: open("mem")?, pages: open("pagemap")? })
    }

    /// Gives those of these pages that have changed to `to`; returns whether any could be read.
    fn changes(
        &self,
        pid: i32,
        present: &[u64],
        time: Option<u64>,
        pages: &mut Pages,
        mut to: impl FnMut(Changed<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let (mut was_read, mut page) = (false, vec![0; PAGE_BYTES]);
        // Pages that lie behind each other go together: an instruction may lie on two.
        let mut run = Run::default();
        let mut give = |run: &Run| {
            let Run { start, since, code } = run;
            let changed = Changed { pid, start: *start, code, time, since: *since };
            if code.is_empty() { Ok(()) } else { to(changed) }
        };
        for at in present.iter().copied() {
            let before = pages.get(&(pid, at)).copied();
            if before.is_some_and(|before| before.is_closed) {
                was_read = true;
                continue;
            }
            if self.bytes.read_exact_at(&mut page, at).is_err() {
                continue;
            }
            was_read = true;
            let now = Page { hash: hash(&page), time, is_closed: false };
            if before.is_none() && page.iter().all(|byte| *byte == 0) {
                continue;
            }
            pages.insert((pid, at), now);
            if before.is_some_and(|before| before.hash == now.hash) {
                continue;
            }
            let since = before.and_then(|before| before.time);
            if run.start + run.code.len() as u64 != at {
                give(&run)?;
                run = Run { start: at, since, code: Vec::new() };
            }
            run.since = run.since.min(since);
            run.code.extend_from_slice(&page);
        }
        give(&run)?;
        Ok(was_read)
    }

    /// The addresses of pages that have memory: to read others would give them some.
    fn present(&self, start: u64, end: u64) -> io::Result<Vec<u64>> {
        let mut words = vec![0; 8 * (end - start).div_ceil(PAGE) as usize];
        self.pages.read_exact_at(&mut words, start / PAGE * 8)?;
        let (words, _) = words.as_chunks::<8>();
        let pages = (0..).zip(words).filter(|(_, word)| u64::from_le_bytes(**word) & PRESENT != 0);
        Ok(pages.map(|(number, _)| start + number * PAGE).collect())
    }
}

/// Bytes that are the same between two that are not, and belong to the same change still.
const SAME_MAX: usize = 64;

/// Where a page is not what it was before.
fn differences(before: &[u8], now: &[u8]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (at, _) in before.iter().zip(now).enumerate().filter(|(_, (before, now))| before != now) {
        match all.last_mut() {
            Some(last) if at - last.end <= SAME_MAX => last.end = at + 1,
            _ => all.push(at..at + 1),
        }
    }
    all
}

fn hash(page: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    page.hash(&mut hash);
    hash.finish()
}

/// Pages that lie behind each other and have changed.
#[derive(Debug, Default)]
struct Run {
    start: u64,
    /// When the first of them was looked at before.
    since: Option<u64>,
    code: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_noted_once() {
        let own = std::process::id().cast_signed();
        let pages = 4 * PAGE_BYTES;
        // Whole pages of ours.
        let mut memory = vec![0_u8; pages + PAGE_BYTES];
        let skip = memory.as_ptr().align_offset(PAGE_BYTES);
        let start = memory[skip..].as_ptr() as usize as u64;
        memory[skip] = 0x90;
        memory[skip + 2 * PAGE_BYTES] = 0xc3;
        std::hint::black_box(&mut memory);
        let mut elsewhere = Elsewhere::default();
        elsewhere.mapped(own, start, pages as u64);
        let look = |elsewhere: &mut Elsewhere| {
            let mut found = Vec::new();
            let to = |changed: Changed<'_>| {
                found.push((changed.pid, (changed.start - start) / PAGE, changed.code[0]));
                Ok(())
            };
            elsewhere.look(None, to).expect("it is read");
            found
        };
        assert!(elsewhere.is_due());
        assert_eq!(look(&mut elsewhere), [(own, 0, 0x90), (own, 2, 0xc3)]);
        assert_eq!((look(&mut elsewhere), elsewhere.is_due()), (vec![], false));
        memory[skip] = 0xcc;
        std::hint::black_box(&mut memory);
        elsewhere.forked(own, own);
        elsewhere.rest_until = None;
        assert!(elsewhere.is_due());
        assert_eq!(look(&mut elsewhere), [(own, 0, 0xcc), (own, 2, 0xc3)]);
        // What does not fit is counted.
        elsewhere.left = PAGE;
        memory[skip] = 1;
        memory[skip + 3 * PAGE_BYTES] = 2;
        std::hint::black_box(&mut memory);
        assert_eq!(look(&mut elsewhere), [(own, 0, 1)]);
        assert_eq!(elsewhere.missing(), (0, 1));
        elsewhere.gone(own);
        assert_eq!((look(&mut elsewhere), elsewhere.missing()), (vec![], (0, 1)));
        // A process that is not there.
        elsewhere.mapped(0, start, PAGE);
        assert_eq!((look(&mut elsewhere), elsewhere.missing()), (vec![], (1, 1)));
    }

    /// Whole pages of ours, full of a byte: the memory, and their address.
    fn pages(count: usize, byte: u8) -> (Vec<u8>, u64) {
        let mut memory = vec![byte; (count + 1) * PAGE_BYTES];
        let skip = memory.as_ptr().align_offset(PAGE_BYTES);
        let start = memory[skip..].as_ptr() as usize as u64;
        std::hint::black_box(&mut memory);
        (memory, start)
    }

    /// What a look finds: address, how many pages, and the first byte.
    fn look(elsewhere: &mut Elsewhere) -> Vec<(u64, u64, u8)> {
        let mut found = Vec::new();
        let to = |changed: Changed<'_>| {
            found.push((changed.start, changed.code.len() as u64 / PAGE, changed.code[0]));
            Ok(())
        };
        elsewhere.look(None, to).expect("it is read");
        found
    }

    #[test]
    fn what_is_mapped_again_is_not_noted_again() {
        let own = std::process::id().cast_signed();
        let (memory, start) = pages(4, 0x90);
        let mut elsewhere = Elsewhere::default();
        elsewhere.mapped(own, start, 4 * PAGE);
        assert_eq!(look(&mut elsewhere), [(start, 4, 0x90)]);
        elsewhere.mapped(own, start, 4 * PAGE);
        assert!(look(&mut elsewhere).is_empty());
        // A part of it: what lies beside is looked at as before.
        elsewhere.mapped(own, start + PAGE, PAGE);
        let starts: Vec<u64> = elsewhere.mappings.keys().map(|(_, at)| (at - start) / PAGE).collect();
        assert_eq!(starts, [0, 1, 2]);
        assert!(look(&mut elsewhere).is_empty());
        // More than all of it.
        elsewhere.mapped(own, start - PAGE, 6 * PAGE);
        assert_eq!(elsewhere.mappings.len(), 1);
        elsewhere.gone(own);
        assert!(elsewhere.mappings.is_empty() && elsewhere.pages.is_empty());
        drop(memory);
    }

    /// Copies, and looks at 10, 20 and so on: what they find, as first byte and when it was another one.
    #[test]
    fn what_was_copied_is_looked_at_only_where_it_may_be_written() {
        let own = std::process::id().cast_signed();
        let (mut memory, start) = pages(2, 0x90);
        let first = (start - memory.as_ptr() as u64) as usize;
        let mut elsewhere = Elsewhere::default();
        elsewhere.mapped(own, start, 2 * PAGE);
        let mut found = Vec::new();
        let mut time = 0;
        let mut step = |elsewhere: &mut Elsewhere, copied: Option<(u64, u8, bool)>| {
            found.clear();
            time += 10;
            let mut to = |changed: Changed<'_>| {
                found.push(((changed.start - start) / PAGE, changed.code[0], changed.since));
                Ok(())
            };
            let done = match copied {
                Some((page, byte, is_writable)) => {
                    let code = [byte; PAGE_BYTES];
                    let start = start + page * PAGE;
                    let page = Changed { pid: own, start, code: &code, time: Some(time), since: None };
                    elsewhere.copied(page, is_writable, &mut to)
                }
                None => elsewhere.look(Some(time), &mut to),
            };
            done.expect("it is read");
            found.clone()
        };
        assert_eq!(step(&mut elsewhere, Some((0, 0x90, false))), [(0, 0x90, None)]);
        assert_eq!(step(&mut elsewhere, Some((1, 0x90, true))), [(1, 0x90, None)]);
        assert_eq!(step(&mut elsewhere, None), []);
        memory[first..first + 2 * PAGE_BYTES].fill(0xcc);
        std::hint::black_box(&mut memory);
        // The first page is being written: it is copied when it may be executed again.
        assert_eq!(step(&mut elsewhere, None), [(1, 0xcc, Some(30))]);
        assert_eq!(step(&mut elsewhere, Some((0, 0xcc, false))), [(0, 0xcc, None)]);
        assert_eq!(step(&mut elsewhere, Some((0, 0xcc, false))), []);
        elsewhere.opened(own, start, PAGE);
        memory[first..first + 2 * PAGE_BYTES].fill(0xc3);
        std::hint::black_box(&mut memory);
        // The parts of a mapping are looked at one by one.
        assert_eq!(step(&mut elsewhere, None), [(0, 0xc3, Some(60)), (1, 0xc3, Some(40))]);
        drop(memory);
    }

    #[test]
    fn a_look_goes_on_where_the_last_one_has_ended() {
        let own = std::process::id().cast_signed();
        let (at_once, more) = (LOOKED_MAX / PAGE, 10);
        let (memory, start) = pages((at_once + more) as usize, 0x90);
        let mut elsewhere = Elsewhere::default();
        elsewhere.mapped(own, start, (at_once + more) * PAGE);
        assert_eq!(look(&mut elsewhere), [(start, at_once, 0x90)]);
        assert_eq!(elsewhere.next, (own, start + LOOKED_MAX));
        elsewhere.rest_until = None;
        assert!(elsewhere.is_due(), "the round is not over");
        assert_eq!(look(&mut elsewhere), [(start + LOOKED_MAX, more, 0x90)]);
        assert_eq!((elsewhere.next, elsewhere.due.is_some()), (FIRST, true));
        drop(memory);
    }

    #[test]
    fn what_has_changed_of_a_tracked_page_is_noted() {
        let own = std::process::id().cast_signed();
        let (mut memory, start) = pages(2, 0x90);
        let first = (start - memory.as_ptr() as u64) as usize;
        let mut elsewhere = Elsewhere::default();
        elsewhere.mapped(own, start, 2 * PAGE);
        assert_eq!(look(&mut elsewhere), [(start, 2, 0x90)]);
        let open = Open { start, end: start + PAGE, code: start };
        elsewhere.set_tracked(own, [open].into_iter());
        memory[first..].fill(0xcc);
        std::hint::black_box(&mut memory);
        elsewhere.mapped(own, start, 2 * PAGE);
        elsewhere.rest_until = None;
        // A look leaves it alone.
        assert_eq!(look(&mut elsewhere), [(start + PAGE, 1, 0xcc)]);
        // What was copied before it was read last is not told behind that.
        let code = [0xc3; PAGE_BYTES];
        let mut copied = |time: u64, expect: bool| {
            let (mut is_given, since) = (false, None);
            let page = Changed { pid: own, start, code: &code, time: Some(time), since };
            let to = |_: Changed<'_>| {
                is_given = true;
                Ok(())
            };
            elsewhere.pages.entry((own, start)).and_modify(|page| page.time = Some(15));
            elsewhere.copied(page, true, to).expect("it is noted");
            assert_eq!(is_given, expect);
        };
        copied(14, false);
        copied(16, true);
        let mut check = |code: &[u8], before: Option<&[u8]>, expect: &[(u64, usize)]| {
            let mut found = Vec::new();
            let mut to = |changed: Changed<'_>| {
                assert_eq!((changed.time, changed.since), (Some(20), Some(10)));
                found.push((changed.start - start, changed.code.len()));
                Ok(())
            };
            let page = Changed { pid: own, start, code, time: Some(20), since: Some(10) };
            elsewhere.written(page, before, &mut to).expect("it is noted");
            assert_eq!(found, expect);
        };
        let (old, mut new) = (vec![0x90; PAGE_BYTES], vec![0x90; PAGE_BYTES]);
        check(&new, Some(&old), &[]);
        // What lies near belongs together.
        for at in [100, 150, 3000] {
            new[at] = 1;
        }
        check(&new, Some(&old), &[(100, 51), (3000, 1)]);
        check(&new, Some(&old), &[]);
        check(&old, None, &[(0, PAGE_BYTES)]);
        elsewhere.gone(own);
        assert!(elsewhere.tracked.is_empty());
        drop(memory);
    }

    /// Address space that is reserved, and has no memory: 64 TiB, below all that a process has mapped as usual.
    #[test]
    fn a_huge_mapping_holds_nothing_up() {
        const HUGE: (u64, u64) = (0x1_0000, 1 << 46);
        let own = std::process::id().cast_signed();
        let (memory, start) = pages(1, 0x90);
        let (begin, end) = (HUGE.0, HUGE.0 + HUGE.1);
        assert!(start > end);
        let mut elsewhere = Elsewhere::default();
        elsewhere.mapped(own, begin, HUGE.1);
        assert!(look(&mut elsewhere).is_empty());
        let next = (own, begin + ASKED_MAX * PAGE);
        assert_eq!(elsewhere.next, next);
        // What is mapped meanwhile neither skips the rest nor begins the round again.
        elsewhere.rest_until = Some(Instant::now() + Duration::from_secs(3600));
        elsewhere.mapped(own, start, PAGE);
        assert!(!elsewhere.is_due());
        assert_eq!(elsewhere.next, next);
        let expect = Part { key: (own, begin), start: next.1, end: next.1 + 3 * PAGE };
        assert_eq!(part(&elsewhere.mappings, next, 3), Some(expect));
        // The end of the huge one, and the other one.
        elsewhere.next = (own, end - PAGE);
        assert_eq!(look(&mut elsewhere), [(start, 1, 0x90)]);
        assert_eq!(elsewhere.next, FIRST);
        elsewhere.rest_until = None;
        assert!(elsewhere.is_due(), "something was mapped since the round began");
        // All of it would take minutes.
        elsewhere.look_at_all(None, |_| Ok(())).expect("it is read");
        assert_eq!(elsewhere.next, (own, begin + LAST_LOOKS as u64 * ASKED_MAX * PAGE));
        drop(memory);
    }
}
