//! Copies of the code that counts entries, close to the functions.
//!
//! AMD's processors of family 25 predict a branch well whose target lies in the same 64 GiB or so: one that is farther
//! away takes 1.1 ns more, which is a third of a counted call (`docs/FIGURES.md`). A program and its libraries lie tens
//! of TiB apart.
//!
//! A copy stays: the kernel reads the descriptor of the sequence that a thread was in last (`Head`), and there is one
//! for each part of the address space that functions lie in, a few at most.

use crate::arch;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use mote_sys::mem::PAGE_BYTES;
use mote_sys::raw::syscall;

/// What lies closer than this is close.
const CLOSE: usize = 32 << 30;
/// How far from a function a copy is put: bodies, which need to be within 2 GiB of it, find the same places as before.
/// Below, where neither the heap nor the main thread's stack grows; above only where nothing is below.
const APART: [isize; 2] = [-(8 << 30), 24 << 30];

/// Pages with copies, in the order of their making; 0 for none.
static COPIES: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; _];

/// There was no place for one: it is not looked for again, for each function.
static HAS_NO_PLACE: AtomicBool = AtomicBool::new(false);

fn pages() -> impl Iterator<Item = usize> {
    COPIES.iter().map(|copy| copy.load(Ordering::Acquire)).take_while(|page| *page != 0)
}

/// From where to where copies lie.
pub(crate) fn copies() -> impl Iterator<Item = [usize; 2]> {
    pages().map(|page| [page, page + PAGE_BYTES])
}

/// The code that the body at this address calls of a function whose entries are counted; in a process with restartable
/// sequences if that is so.
///
/// On a thread of ours: it may map memory.
pub(crate) fn entry_counted(body: usize, has_sequences: bool) -> usize {
    let own = arch::entry_counted(has_sequences);
    let is_close = |at: &usize| at.abs_diff(body) < CLOSE;
    if !has_sequences || is_close(&own) {
        return own;
    }
    let page = pages().find(is_close).or_else(|| {
        let made = if HAS_NO_PLACE.load(Ordering::Relaxed) { None } else { make(body) };
        HAS_NO_PLACE.fetch_or(made.is_none(), Ordering::Relaxed);
        made
    });
    page.map_or(own, |page| page + arch::COUNTING_AT)
}

/// Makes a copy close to a body; `None` when there is no place for it, or there are too many.
fn make(body: usize) -> Option<usize> {
    let room = COPIES.iter().find(|copy| copy.load(Ordering::Acquire) == 0)?;
    let page = APART.iter().find_map(|apart| map(body.checked_add_signed(*apart)?, body))?;
    // SAFETY: mapped just now; sequences are there, or bodies would call other code.
    unsafe { arch::copy_counting(core::ptr::with_exposed_provenance_mut(page)) };
    let executable = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    // SAFETY: nothing refers to it yet.
    if unsafe { syscall(libc::SYS_mprotect, [page, PAGE_BYTES, executable, 0, 0, 0]) }.is_err() {
        unmap(page);
        return None;
    }
    room.compare_exchange(0, page, Ordering::Release, Ordering::Relaxed).ok().map(|_| page)
}

/// Maps a page at this place, if nothing is there, or else elsewhere close to a body.
fn map(at: usize, body: usize) -> Option<usize> {
    let at = at.checked_next_multiple_of(PAGE_BYTES)?;
    let writable = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a hint without MAP_FIXED never replaces an existing mapping.
    let page = unsafe { syscall(libc::SYS_mmap, [at, PAGE_BYTES, writable, flags as usize, usize::MAX, 0]) };
    let page = page.ok()?;
    if page.abs_diff(body) < CLOSE {
        return Some(page);
    }
    unmap(page);
    None
}

fn unmap(page: usize) {
    // SAFETY: mapped by `map`, and nothing refers to it.
    let _ = unsafe { syscall(libc::SYS_munmap, [page, PAGE_BYTES, 0, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_functions_share_a_copy_close_to_them() {
        assert!(mote_sync::rseq::find(), "the C library registers no restartable sequences");
        let own = arch::entry_counted(true);
        assert_eq!(entry_counted(own + 4096, true), own);
        let far = own - (20 << 40);
        let copy = entry_counted(far, true);
        assert!(copy.abs_diff(far) < CLOSE, "{copy:#x} for {far:#x}");
        assert_eq!(entry_counted(far + (1 << 30), true), copy);
        assert_eq!(entry_counted(far, false), arch::entry_counted(false));
        // Without anything below.
        let low = entry_counted(0x40_1000, true);
        assert!(low != copy && low.abs_diff(0x40_1000) < CLOSE, "{low:#x}");
        assert_eq!(copies().count(), 2);
    }
}
