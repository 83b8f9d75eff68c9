//! Code of processes that is of no file: what run-time compilers write, as it is when it is looked at.
//!
//! Mappings are told by the kernel; what is written into them is not. So they are read again and again, as far as they
//! have memory, and pages that have changed are noted. What was executed between two looks and changed meanwhile is not
//! known.
//!
//! The thread that looks reads packets, too, whose memory fills within milliseconds: a look is short, and the next one
//! goes on where it has ended.

use mote_sys::mem::PAGE_BYTES;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of code that a capture may have of such mappings.
const KEPT_MAX: u64 = 64 << 20;
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
    pages: BTreeMap<(i32, u64), u64>,
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
    }

    fn forget_pages(&mut self, pid: i32) {
        self.pages.extract_if((pid, 0)..=(pid, u64::MAX), |_, _| true).for_each(drop);
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
    pub(crate) fn look(&mut self, to: impl FnMut(i32, u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let begun = Instant::now();
        if self.next == FIRST {
            self.due = Some(begun + PAUSE);
        }
        let looked = self.go_on(to);
        self.rest_until = Some(Instant::now() + begun.elapsed() * SHARE);
        looked
    }

    /// Looks at all mappings, as far as [`LAST_LOOKS`] get.
    ///
    /// # Errors
    /// Those of `to`.
    pub(crate) fn look_at_all(
        &mut self,
        mut to: impl FnMut(i32, u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.next = FIRST;
        for _ in 0..LAST_LOOKS {
            self.look(&mut to)?;
            if self.next == FIRST {
                break;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, mut to: impl FnMut(i32, u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let Elsewhere { mappings, pages, left, next, refused, .. } = self;
        let (mut looked, mut asked) = (0, 0);
        while looked < LOOKED_MAX && asked < ASKED_MAX {
            let Some(Part { key, start, end }) = part(mappings, *next, ASKED_MAX - asked) else {
                *next = FIRST;
                return Ok(());
            };
            asked += (end - start).div_ceil(PAGE).max(PART_MIN);
            let pid = key.0;
            let memory = Memory::open(pid).and_then(|memory| Ok((memory.present(start, end)?, memory)));
            let Ok((present, memory)) = memory else {
                // It has gone, or is nobody's business.
                *next = (pid, u64::MAX);
                continue;
            };
            let room = ((LOOKED_MAX - looked) / PAGE) as usize;
            let (now, later) = present.split_at(room.min(present.len()));
            *next = (pid, later.first().copied().unwrap_or(end));
            looked += now.len() as u64 * PAGE;
            let was_read = memory.changes(pid, now, pages, |at, code| {
                if *left < code.len() as u64 {
                    *refused += code.len() as u64 / PAGE;
                    return Ok(());
                }
                *left -= code.len() as u64;
                to(pid, at, code)
            })?;
            if let Some(mapping) = mappings.get_mut(&key) {
                mapping.was_read |= was_read;
            }
        }
        Ok(())
    }
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
        pages: &mut BTreeMap<(i32, u64), u64>,
        mut to: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        let (mut was_read, mut page) = (false, vec![0; PAGE_BYTES]);
        // Pages that lie behind each other go together: an instruction may lie on two.
        let mut run = (0, Vec::new());
        for at in present.iter().copied() {
            if self.bytes.read_exact_at(&mut page, at).is_err() {
                continue;
            }
            was_read = true;
            let mut hash = DefaultHasher::new();
            page.hash(&mut hash);
            let hash = hash.finish();
            let is_empty = page.iter().all(|byte| *byte == 0) && !pages.contains_key(&(pid, at));
            if is_empty || pages.insert((pid, at), hash) == Some(hash) {
                continue;
            }
            let (begin, code) = &mut run;
            if *begin + code.len() as u64 != at {
                give(&run, &mut to)?;
                run = (at, Vec::new());
            }
            run.1.extend_from_slice(&page);
        }
        give(&run, &mut to)?;
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

/// Gives pages that have changed to `to`, if there are any.
fn give((begin, code): &(u64, Vec<u8>), to: &mut impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    if code.is_empty() { Ok(()) } else { to(*begin, code) }
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
            let to = |pid, at: u64, bytes: &[u8]| {
                found.push((pid, (at - start) / PAGE, bytes[0]));
                Ok(())
            };
            elsewhere.look(to).expect("it is read");
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
        let to = |_, at, bytes: &[u8]| {
            found.push((at, bytes.len() as u64 / PAGE, bytes[0]));
            Ok(())
        };
        elsewhere.look(to).expect("it is read");
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
        elsewhere.look_at_all(|_, _, _| Ok(())).expect("it is read");
        assert_eq!(elsewhere.next, (own, begin + LAST_LOOKS as u64 * ASKED_MAX * PAGE));
        drop(memory);
    }
}
