//! The address space of a process: what is free.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// The lowest address that is used, whatever `vm.mmap_min_addr` allows.
const LOWEST: u64 = 0x10000;
/// Behind the last address of a program.
pub(crate) const HIGHEST: u64 = 0x7fff_ffff_f000;
/// So far behind its end the heap grows without asking: nothing is put there.
const HEAP_NEXT: u64 = 1 << 20;
/// So far it may grow: only what has no other place is put there.
const HEAP_LATER: u64 = 1 << 30;
/// So far below it the main thread's stack may grow.
const STACK_BELOW: u64 = 16 << 20;

/// From here on the kernel puts mappings without a place of their own, from the top down.
const MAPPED_FROM: u64 = 0x7000_0000_0000;
/// So much may be mapped by a process before the places of a plan are reserved: the plan itself, too.
const MAPPED_NEXT: u64 = 64 << 20;

/// The free memory of a process.
#[derive(Clone, Debug)]
pub struct Space {
    /// By address: begin and end.
    free: Ranges,
    /// Where the heap may grow.
    spare: Ranges,
}

impl Space {
    /// What is free in a process now.
    ///
    /// # Errors
    /// As open(2) and read(2) of `/proc/PID/maps`.
    pub fn of(pid: u32) -> io::Result<Space> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let mut space = Space::from_maps(&maps, heap_begin(&stat));
        let lowest = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr").unwrap_or_default();
        space.take(0..lowest.trim().parse().unwrap_or(LOWEST));
        space.leave_room();
        Ok(space)
    }

    /// Leaves the places where the kernel puts what is mapped next: at the upper end of the gaps between libraries, and
    /// below them.
    fn leave_room(&mut self) {
        let gaps: Vec<Range<u64>> = self.free.0.iter().map(|(start, end)| *start..*end).collect();
        for gap in gaps.into_iter().filter(|gap| gap.end > MAPPED_FROM) {
            self.take(gap.start.max(gap.end.saturating_sub(MAPPED_NEXT))..gap.end);
        }
    }

    /// What is free beside these mappings, which are written as in `/proc/PID/maps`; `heap` is where the heap begins,
    /// or would, 0 where that is not known.
    #[must_use]
    pub fn from_maps(maps: &str, heap: u64) -> Space {
        let mut space = Space { free: Ranges::default(), spare: Ranges::default() };
        space.free.0.insert(LOWEST, HIGHEST);
        let mut heap = heap..heap;
        for line in maps.lines() {
            let Some(range) = range(line) else { continue };
            if line.ends_with("[heap]") {
                heap = range.clone();
            }
            let below = if line.ends_with("[stack]") { STACK_BELOW } else { 0 };
            space.take(range.start.saturating_sub(below)..range.end);
        }
        if heap.start != 0 {
            space.take(heap.start..heap.end.saturating_add(HEAP_NEXT));
            let later = heap.end..heap.end.saturating_add(HEAP_LATER);
            space.spare.0 = space.free.within(&later);
            space.free.take(&later);
        }
        space
    }

    /// Marks a range as taken.
    pub fn take(&mut self, range: Range<u64>) {
        self.free.take(&range);
        self.spare.take(&range);
    }

    /// The free range around `at`, or the next one behind it.
    pub(crate) fn next(&self, at: u64, choice: Choice) -> Option<Range<u64>> {
        match choice {
            Choice::Free => self.free.next(at),
            Choice::Spare => self.spare.next(at),
        }
    }
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Where nothing will be.
    Free,
    /// Where the heap may come to.
    Spare,
}

/// Ranges that do not touch, by begin, with their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// The range around `at`, or the next one behind it.
    pub(crate) fn next(&self, at: u64) -> Option<Range<u64>> {
        self.around(at).or_else(|| self.0.range(at..).next().map(|(start, end)| *start..*end))
    }

    /// The range that holds `at`.
    pub(crate) fn around(&self, at: u64) -> Option<Range<u64>> {
        let (start, end) = self.0.range(..=at).next_back()?;
        (*end > at).then_some(*start..*end)
    }

    /// Adds a range that overlaps none.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let before = self.0.range(..range.start).next_back().filter(|(_, end)| **end == range.start);
        let start = before.map_or(range.start, |(start, _)| *start);
        let end = self.0.remove(&range.end).unwrap_or(range.end);
        self.0.insert(start, end);
    }

    /// Removes what lies in `range`.
    pub(crate) fn take(&mut self, range: &Range<u64>) {
        let mut at = range.start;
        while let Some(found) = self.next(at).filter(|found| found.start < range.end) {
            self.0.remove(&found.start);
            if found.start < range.start {
                self.0.insert(found.start, range.start);
            }
            if found.end > range.end {
                self.0.insert(range.end, found.end);
            }
            at = found.end;
        }
    }

    fn within(&self, range: &Range<u64>) -> BTreeMap<u64, u64> {
        let mut rest = self.clone();
        rest.take(&(0..range.start));
        rest.take(&(range.end..u64::MAX));
        rest.0
    }
}

/// The addresses of a line of `/proc/PID/maps`.
fn range(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some(hex(start)?..hex(end)?)
}

/// Where the heap begins, of `/proc/PID/stat` (proc_pid_stat(5)): field 47; those behind the name begin with the third.
fn heap_begin(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().nth(47 - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00500000 r-xp 00000000 fe:00 7      /bin/it
00600000-00700000 rw-p 00000000 00:00 0      [heap]
7ffff7000000-7ffff7fff000 r-xp 00000000 fe:00 8      /lib/it
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0      [stack]
";

    #[test]
    fn what_is_free() {
        let space = Space::from_maps(MAPS, 0x60_0000);
        let free = |at| space.next(at, Choice::Free);
        assert_eq!(free(0), Some(0x1_0000..0x40_0000));
        assert_eq!(free(0x40_0000), Some(0x50_0000..0x60_0000));
        assert_eq!(free(0x60_0000), Some(0x4070_0000..0x7fff_f700_0000));
        assert_eq!(free(0x7fff_f7ff_0000), Some(0x7fff_f7ff_f000..0x7fff_fefd_e000));
        assert_eq!(free(0x7fff_fefd_e000), None);
        assert_eq!(space.next(0, Choice::Spare), Some(0x80_0000..0x4070_0000));
        // Before it is there.
        let space = Space::from_maps("00400000-00500000 r-xp 0 fe:00 7 /bin/it", 0x50_0000);
        assert_eq!(space.next(0x40_0000, Choice::Free), Some(0x4050_0000..HIGHEST));
        assert_eq!(space.next(0x40_0000, Choice::Spare), Some(0x60_0000..0x4050_0000));
    }

    #[test]
    fn ranges_are_taken_and_added() {
        let mut ranges = Ranges::default();
        ranges.add(10..20);
        ranges.add(30..40);
        ranges.add(20..30);
        assert_eq!(ranges.0, [(10, 40)].into());
        ranges.take(&(15..20));
        ranges.take(&(35..50));
        assert_eq!(ranges.0, [(10, 15), (20, 35)].into());
        ranges.take(&(0..100));
        assert_eq!(ranges.0, [].into());
    }

    #[test]
    fn the_heap_of_a_process() {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("readable");
        let begin = heap_begin(&stat);
        assert!(begin > 0x1000, "{stat}");
        assert_eq!(heap_begin("1 (a) b"), 0);
        let space = Space::of(std::process::id()).expect("readable");
        assert!(space.free.around(begin).is_none());
    }
}
