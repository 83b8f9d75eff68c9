//! Changing sites by other pages: what holds them is copied, changed in the copy, and the copy moved to where threads
//! run it. No thread meets a breakpoint, and none is looked at.
//!
//! # Parties
//! Patcher: the holder of the lock. Runners: any thread, in any site, at any moment.
//!
//! # State
//! A block of text, some pages: the old pages; none; the new ones. A *spare* is the part of the file that the text is
//! of, mapped once more, and with the text's protection. What of it differs from the file is this process's own (copied
//! on write), as in the text.
//!
//! # Transitions
//! 1. What the text holds, with the changes, is written to the spare through `/proc/self/mem` where the file has
//!    something else, and then until a look finds both alike.
//! 2. mremap(2), MREMAP_FIXED, moves the block of the spare to the text: with the lock of the address space held, the
//!    kernel takes the old pages away, has all CPUs forget where they were (a TLB flush), and puts the new ones there
//!    (Linux mm/mremap.c, `mremap_to`, `move_vma`).
//!
//! # Ordering
//! R1. No runner executes bytes of both. An instruction that is fetched before its CPU forgets is of the old pages, all
//!     of it: what it has not fetched by then faults. One that is fetched when the new ones are there is of them. What
//!     is fetched in between faults, waits for the lock, and is fetched again from its first byte.
//! R2. Every pass that starts after the batch executes the new code: what a CPU fetched before goes with the barrier at
//!     the end (SYNC_CORE), also where the kernel needs no interrupt for a TLB flush (AMD's INVLPGB).
//!
//! A runner cannot be inside a site of one instruction. One between the instructions of a [`crate::Place`] goes on
//! there with the guard in the jump's own bytes, or, when the jump goes, with the program's bytes: both are whole.
//!
//! # What others write
//! Another copy of this library waits for [`Memory`]'s lock. What is in the text by our last look is copied. What a
//! debugger, the program or the kernel (for a uprobe) writes there between that look and the move, some 2 us, is lost:
//! a process that is traced is left to [`crate::batch`].
//!
//! # Progress
//! A thread that needs a page in the moment of a move sleeps until it is over, and then has to wait for its turn as
//! after any sleep. A patcher that the scheduler sends away in a move would keep it waiting for as long: so it works in
//! turns far shorter than the scheduler's, and sleeps for a moment before each ([`TURN_NS`]).
//!
//! # Where it does not work
//! Text that is of no file, or of one that the path does not lead to any more (deleted, another root directory); a
//! process that has locked memory, and with it asks for no faults; no `/proc/self/mem`. All that is found out before
//! anything changes, and then the batch goes by gates.
//!
//! # Cost
//! For a block of four pages 6 us, of which threads that come by wait for 2 or less; for the first block of a mapping
//! two reads of `/proc/self/maps` more. The text's mapping in `/proc/self/maps` comes to be several lines of one file.
//!
//! # Signals, fork
//! The patcher's own signals are blocked. A child that is forked in between has whole text, old or new, and maybe a
//! spare that it does not need.

use crate::Error;
use crate::batch::Change;
use crate::code::SITE_BYTES;
use crate::maps::{self, File, Line};
use crate::table::BATCH;
use crate::write::Memory;
use core::ffi::CStr;
use core::ops::Range;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::PAGE_BYTES;
use mote_sys::raw::syscall;
use mote_sys::time::{self, ClockId};
use mote_sys::{Errno, Result, membarrier};

/// Text is replaced by so many bytes at a time, aligned: what threads wait for, and how many mappings there may be.
const BLOCK: usize = 4 * PAGE_BYTES;
/// Processor time of a turn of work, in nanoseconds. A thread that has just slept is not sent away for others of its
/// kind for 1.4 ms where there are two processors, and 2.8 where there are eight (Linux kernel/sched/fair.c,
/// `sysctl_sched_base_slice`, RUN_TO_PARITY).
const TURN_NS: u64 = 1_000_000;
/// How often the spare is looked at until it is as it has to be.
const LOOKS: u32 = 4;
/// Text may be read and executed.
const TEXT: i32 = libc::PROT_READ | libc::PROT_EXEC;
/// Bytes of a path, with its end.
const PATH: usize = libc::PATH_MAX as usize + 1;

/// Which changes of a batch were made.
pub(crate) type Done = [bool; BATCH];

/// What this needs while it works: too much for a stack.
pub(crate) struct Buffers {
    text: [u8; PAGE_BYTES],
    spare: [u8; PAGE_BYTES],
    path: [u8; PATH],
}

impl Buffers {
    pub(crate) const NONE: Buffers =
        Buffers { text: [0; PAGE_BYTES], spare: [0; PAGE_BYTES], path: [0; PATH] };
}

/// The text of a file, as it is mapped: one or several mappings without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    range: Range<usize>,
    /// Where in the file it begins.
    offset: usize,
    file: File,
}

impl Text {
    /// The mapping of a line, if it can be mapped once more as text.
    fn of(line: &Line<'_>) -> Option<Text> {
        let is_text = line.protection == TEXT && line.is_private && line.file.inode != 0;
        is_text.then(|| Text { range: line.range.clone(), offset: line.offset, file: line.file })
    }

    /// Takes in what follows without a gap, in the file as in memory.
    fn extend(&mut self, next: &Text) -> bool {
        let follows = self.range.end == next.range.start && self.offset_of(next.range.start) == next.offset;
        if follows && self.file == next.file {
            self.range.end = next.range.end;
            return true;
        }
        false
    }

    fn offset_of(&self, addr: usize) -> usize {
        self.offset.wrapping_add(addr.wrapping_sub(self.range.start))
    }
}

/// The text around the last change, its file, and the spare. Of one call of [`crate::apply`].
pub(crate) struct Spare {
    text: Range<usize>,
    /// `None`: it cannot be mapped once more.
    file: Option<(Fd, Text)>,
    /// What of the text, up to its end, has its spare still.
    left: Range<usize>,
    /// Where the spare of `left` begins.
    at: usize,
    /// When the turn ends, by this thread's processor time.
    turn_until: u64,
    /// Something was moved since the last barrier.
    has_moved: bool,
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.unmap_until(self.left.end);
    }
}

impl Spare {
    /// Of no text.
    pub(crate) const NONE: Spare =
        Spare { text: 0..0, file: None, left: 0..0, at: 0, turn_until: 0, has_moved: false };

    /// Makes the changes that can be made in this way, and notes them.
    ///
    /// # Errors
    /// [`Error::NotWritable`] when the kernel took old pages away and could not put new ones there, for want of memory:
    /// then the file's own are there again.
    ///
    /// # Safety
    /// `site-mapped`, `site-whole`, `target-enterable`, `patch-locked`; `old` is what is there. Guards that come to be
    /// there can be served on each thread.
    pub(crate) unsafe fn write(
        &mut self,
        changes: &[Change],
        memory: &mut Memory,
        buffers: &mut Buffers,
        done: &mut Done,
    ) -> core::result::Result<(), Error> {
        if !memory.is_locked() {
            return Ok(());
        }
        for (n, change) in changes.iter().enumerate() {
            if done.get(n) != Some(&false) || !self.is_at(change.addr, buffers) {
                continue;
            }
            let block = self.block(change.addr, changes);
            let inside = |one: &Change| block.start <= one.addr && one.addr + SITE_BYTES <= block.end;
            if !inside(change) || !self.begin(&block) {
                continue;
            }
            if self.fill(&block, changes.iter().filter(|one| inside(one)), memory, buffers).is_none() {
                continue;
            }
            let lost = |errno| Error::NotWritable { addr: change.addr, errno };
            // SAFETY: the caller's promises; `fill` made the spare what the text is, with these changes.
            if unsafe { self.exchange(&block) }.map_err(lost)? {
                let now_done = done.iter_mut().zip(changes).filter(|(_, one)| inside(one));
                now_done.for_each(|(done, _)| *done = true);
                self.has_moved = true;
            }
        }
        Ok(())
    }

    /// Has every pass that starts from now on execute what was written (R2).
    pub(crate) fn settle(&mut self) {
        if core::mem::take(&mut self.has_moved) {
            // It is registered, and in want of memory the flushes alone have to do.
            let _ = membarrier::sync_core();
        }
    }

    /// Whether the text at `addr` can have a spare.
    fn is_at(&mut self, addr: usize, buffers: &mut Buffers) -> bool {
        if !self.text.contains(&addr) {
            self.unmap_until(self.left.end);
            (self.text, self.file) = (addr..addr.saturating_add(1), None);
            let Some(text) = find(addr, &mut buffers.path) else { return false };
            self.text = text.range.clone();
            self.file = open(&buffers.path).map(|file| (file, text));
            if !self.map_from(self.text.start) || !self.is_of_the_same_file() {
                self.file = None;
            }
        }
        self.file.is_some()
    }

    /// The block of text around `addr`, and the next one if a change lies over its end, and so on.
    fn block(&self, addr: usize, changes: &[Change]) -> Range<usize> {
        let end = |addr: usize| addr.saturating_add(SITE_BYTES).next_multiple_of(BLOCK);
        let start = addr & !(BLOCK - 1);
        let mut block = start..end(addr);
        while let Some(over) = changes
            .iter()
            .find(|one| block.contains(&one.addr) && one.addr.saturating_add(SITE_BYTES) > block.end)
        {
            block.end = end(over.addr);
        }
        block.start.max(self.text.start)..block.end.min(self.text.end)
    }

    /// Makes the spare what the text of a block is, with the changes. `None` when that cannot be.
    fn fill<'c>(
        &self,
        block: &Range<usize>,
        changes: impl Iterator<Item = &'c Change> + Clone,
        memory: &mut Memory,
        Buffers { text, spare, .. }: &mut Buffers,
    ) -> Option<()> {
        let Some((file, around)) = &self.file else { return None };
        for look in 0..LOOKS {
            let mut is_alike = look > 0;
            for page in block.clone().step_by(PAGE_BYTES) {
                let there = self.spare_of(page);
                memory.read(page, text).ok()?;
                match look {
                    // A page that is not mapped yet is copied without a TLB flush when it is written.
                    0 => read_file(file, around.offset_of(page), spare)?,
                    _ => memory.read(there, spare).ok()?,
                }
                let is_here = |one: &&Change| one.addr < page + PAGE_BYTES && page < one.addr + SITE_BYTES;
                for change in changes.clone().filter(is_here) {
                    put(text, change.addr.wrapping_sub(page), &change.new);
                }
                if text != spare {
                    memory.write(there, text).ok()?;
                    is_alike = false;
                }
            }
            if is_alike {
                return Some(());
            }
        }
        None
    }

    /// Moves the spare of a block to the text. `false` when the text is as it was.
    ///
    /// # Errors
    /// The text was taken away, and is the file's again.
    ///
    /// # Safety
    /// As [`Spare::write`], and the spare of the block holds what its text may become.
    unsafe fn exchange(&mut self, block: &Range<usize>) -> Result<bool> {
        let (from, len) = (self.spare_of(block.start), block.len());
        let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        // SAFETY: the spare is ours alone, and no code knows of it. In place of the text comes what the caller
        // promises, and a thread that comes by in between waits for it (R1).
        let moved = unsafe { syscall(libc::SYS_mremap, [from, len, len, how, block.start, 0]) };
        let Err(errno) = moved else {
            self.at = from.wrapping_add(len);
            self.left.start = block.end;
            return Ok(true);
        };
        let Some((file, text)) = &self.file else { return Ok(false) };
        // Nothing is mapped over text that is still there.
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        match map(block.start, len, flags, file, text.offset_of(block.start)) {
            Ok(at) if at == block.start => Err(errno),
            Ok(elsewhere) => {
                // Linux before 4.17 takes the address for a wish.
                unmap(elsewhere, len);
                Ok(false)
            }
            Err(_) => Ok(false),
        }
    }

    /// Has the spare begin with a block, and begins another turn if this one is over. `false` when there is no spare.
    fn begin(&mut self, block: &Range<usize>) -> bool {
        let now = || time::clock_gettime(ClockId::ThreadCpu);
        if now() >= self.turn_until {
            let _ = time::sleep(1);
            self.turn_until = now().saturating_add(TURN_NS);
        }
        if block.start < self.left.start {
            return self.map_from(block.start);
        }
        self.unmap_until(block.start);
        true
    }

    /// Maps a spare of the text from `from` on, in place of what is left of the one before.
    fn map_from(&mut self, from: usize) -> bool {
        self.unmap_until(self.left.end);
        let Some((file, text)) = &self.file else { return false };
        let from = from.max(self.text.start);
        let len = self.text.end.saturating_sub(from);
        match map(0, len, libc::MAP_PRIVATE, file, text.offset_of(from)) {
            Ok(at) => {
                self.at = at;
                self.left = from..self.text.end;
                true
            }
            Err(_) => false,
        }
    }

    /// Gives back the spare of what lies before `until`.
    fn unmap_until(&mut self, until: usize) {
        let len = until.min(self.left.end).saturating_sub(self.left.start);
        if len > 0 {
            unmap(self.at, len);
            self.at = self.at.wrapping_add(len);
            self.left.start = self.left.start.wrapping_add(len);
        }
    }

    /// Where the spare of an address in `left` is.
    fn spare_of(&self, addr: usize) -> usize {
        self.at.wrapping_add(addr.wrapping_sub(self.left.start))
    }

    /// Whether the spare is of the very file that the text is of, as the kernel sees both.
    fn is_of_the_same_file(&self) -> bool {
        let mut is_same = false;
        maps::each(&mut |line| {
            let found = line.range.contains(&self.at).then(|| Text::of(&line)).flatten();
            if let (Some(found), Some((_, text))) = (found, &self.file) {
                is_same =
                    found.file == text.file && found.offset_of(self.at) == text.offset_of(self.left.start);
            }
        });
        is_same
    }
}

/// Lays `bytes` over `page`, from the offset `at` on, which may be below 0.
fn put(page: &mut [u8; PAGE_BYTES], at: usize, bytes: &[u8]) {
    for (n, byte) in bytes.iter().enumerate() {
        if let Some(to) = page.get_mut(at.wrapping_add(n)) {
            *to = *byte;
        }
    }
}

/// A page of a file; zeros behind its end.
fn read_file(file: &Fd, offset: usize, into: &mut [u8; PAGE_BYTES]) -> Option<()> {
    let len = fd::read_at(file, into, offset as u64).ok()?;
    into.iter_mut().skip(len).for_each(|byte| *byte = 0);
    Some(())
}

/// The text at `addr`, and the path of its file.
fn find(addr: usize, path: &mut [u8; PATH]) -> Option<Text> {
    let mut text: Option<Text> = None;
    maps::each(&mut |line| {
        let is_found = text.as_ref().is_some_and(|text| text.range.contains(&addr));
        let next = Text::of(&line);
        if let (Some(text), Some(next)) = (&mut text, &next)
            && text.extend(next)
        {
            return;
        }
        if is_found {
            return;
        }
        if next.is_some() {
            path.fill(0);
            path.iter_mut().take(PATH - 1).zip(line.path).for_each(|(to, byte)| *to = *byte);
        }
        text = next;
    });
    text.filter(|text| text.range.contains(&addr))
}

/// The file at a path, whatever it is by now.
fn open(path: &[u8; PATH]) -> Option<Fd> {
    let path = CStr::from_bytes_until_nul(path).ok()?;
    // One that would keep its reader waiting is none of ours.
    fd::open(path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY, 0).ok()
}

fn map(addr: usize, len: usize, flags: i32, file: &Fd, offset: usize) -> Result<usize> {
    let (protection, file) = (TEXT as usize, file.raw() as usize);
    // SAFETY: at a place of the kernel's choice, or where nothing is: no memory in use changes.
    unsafe { syscall(libc::SYS_mmap, [addr, len, protection, flags as usize, file, offset]) }
}

/// Unmaps what [`map`] has mapped.
fn unmap(addr: usize, len: usize) {
    // SAFETY: it is ours, and no code knows of it.
    let _: core::result::Result<_, Errno> = unsafe { syscall(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]) };
}
