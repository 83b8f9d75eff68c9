//! The memory of a process, to be read while it runs.
//!
//! A process can hold up whatever reads it for as long as it likes, and in a way that nothing ends: by a mapping of a
//! file that it serves itself (FUSE). So of another user's process no file is read but those that are memory, as our
//! library is there. One that exchanges a mapping between the look and the read may still hold us up.
//!
//! A look reads all mappings, of which a process with probes has thousands: it is good for the reads of one round.

use mote_layout::functions::COUNTING;
use mote_symbol::mapped::{FileId, addresses, table, user};
use mote_sys::fd;
use mote_sys::mem::{PAGE_BYTES, sealed_memfd};
use std::cell::RefCell;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Most bytes that are read at once.
const PART_MAX: u64 = 4 << 20;

/// The device of files that are memory (memfd_create(2)), as it stands in `/proc/PID/maps`.
static IN_MEMORY: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
    let file = sealed_memfd(c"mote", PAGE_BYTES as u64).ok()?;
    let device = fd::identity(file.raw()).ok()?.device;
    Some((libc::major(device), libc::minor(device)))
});

/// How long a look is good for.
const LOOK: Duration = Duration::from_millis(20);

/// The memory of a process.
pub(crate) struct Memory {
    file: fs::File,
    /// What of it is not to be read, if it is another user's.
    files: Option<RefCell<Files>>,
}

/// Mappings of files that are not memory.
struct Files {
    /// Where they are told.
    maps: String,
    mapped: Vec<Range<u64>>,
    /// Where what is told ends: of too many mappings the last ones are not.
    end: u64,
    looked: Option<Instant>,
}

impl Files {
    fn of(pid: u32) -> Files {
        Files { maps: format!("/proc/{pid}/maps"), mapped: Vec::new(), end: 0, looked: None }
    }

    /// Whether one of them may have bytes there.
    fn are_in(&mut self, range: &Range<u64>) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            let maps = table(&self.maps);
            self.mapped = maps.lines().filter_map(file).collect();
            self.end = maps.lines().next_back().and_then(addresses).map_or(0, |last| last.end);
            self.looked = Some(Instant::now());
        }
        range.end > self.end
            || self.mapped.iter().any(|file| file.start < range.end && range.start < file.end)
    }
}

impl Memory {
    /// `None` when it may not be read.
    pub(crate) fn of(pid: u32) -> Option<Memory> {
        let file = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
        let is_ours = user(pid).is_some_and(|its| Some(its) == user(std::process::id()));
        Some(Memory { file, files: (!is_ours).then(|| RefCell::new(Files::of(pid))) })
    }

    /// Bytes at an address; `None` when they are not there, too many, or in a file that may not come.
    pub(crate) fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let len = range.end.checked_sub(range.start).filter(|len| *len <= PART_MAX)?;
        if self.files.as_ref().is_some_and(|files| files.borrow_mut().are_in(&range)) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut bytes, range.start).ok()?;
        Some(bytes)
    }

    /// Bytes around an address, and where they begin: so many before it and behind, but for what is in other pages
    /// where these are not there.
    pub(crate) fn around(&self, at: u64, (before, behind): (u64, u64)) -> Option<(u64, Vec<u8>)> {
        const PAGE: u64 = PAGE_BYTES as u64;
        let (from, to) = (at.checked_sub(before)?, at.checked_add(behind)?);
        let page = at - at % PAGE;
        let ranges = [from..to, from.max(page)..to, from..to.min(page.saturating_add(PAGE))];
        ranges.into_iter().find_map(|range| Some((range.start, self.bytes(range)?)))
    }

    /// Whether at an address there is nothing but code that bodies of functions call to be counted.
    pub(crate) fn counts(&self, at: u64) -> bool {
        self.words(at - at % PAGE_BYTES as u64) == Some([COUNTING])
    }

    pub(crate) fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let bytes = self.bytes(at..at.checked_add(8 * N as u64)?)?;
        let mut words = [0; N];
        words.iter_mut().zip(bytes.as_chunks::<8>().0).for_each(|(to, word)| *to = u64::from_le_bytes(*word));
        Some(words)
    }
}

/// Where the mapping of a line of `/proc/PID/maps` lies, if it is of a file that is not memory; everywhere, if that is
/// not told.
fn file(line: &str) -> Option<Range<u64>> {
    let is_other = FileId::parse(line).is_some_and(|file| Some(file.device) != *IN_MEMORY);
    is_other.then(|| addresses(line).unwrap_or(0..u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_files_only_memory_is_read() {
        let (major, minor) = IN_MEMORY.expect("a file in memory");
        let line = |rest: &str| format!("1000-3000 r-xp 00000000 {rest}");
        assert_eq!(file(&line(&format!("{major:02x}:{minor:02x} 7 /memfd:libmote.so (deleted)"))), None);
        assert_eq!(file(&line("00:00 0 ")), None);
        let served = file(&line("ff:27 1 /memfd:libmote.so (deleted)"));
        assert_eq!(served, Some(0x1000..0x3000));
        let looked = Some(Instant::now() + Duration::from_secs(60));
        let mut files = Files { maps: String::new(), mapped: Vec::from_iter(served), end: 0x5000, looked };
        for range in [0x1000..0x1008, 0x2ff8..0x3008, 0xff8..0x1008, 0..0x4000, 0x4ff8..0x5001] {
            assert!(files.are_in(&range), "{range:x?}");
        }
        for range in [0xff8..0x1000, 0x3000..0x3008] {
            assert!(!files.are_in(&range), "{range:x?}");
        }
    }

    #[test]
    fn own_memory_is_read_where_it_is() {
        let here = [0x5ee_d0f_5ee_u64; 4];
        let at = here.as_ptr().addr() as u64;
        let own = Memory::of(std::process::id()).expect("it is ours");
        let pid = std::process::id();
        let strange = Memory { files: Some(RefCell::new(Files::of(pid))), ..Memory::of(pid).expect("ours") };
        for memory in [own, strange] {
            assert_eq!(memory.words(at), Some(here));
            assert_eq!(memory.words::<1>(8), None);
            assert_eq!(
                memory.around(at, (8, 16)).map(|(from, bytes)| (from, bytes.len())),
                Some((at - 8, 24))
            );
        }
    }
}
