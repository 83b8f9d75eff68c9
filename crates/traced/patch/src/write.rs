//! Writing to text: `/proc/self/mem` first, pages made writable if that is refused.
//!
//! `/proc/self/mem` writes through the page protection (`FOLL_FORCE`), so the text never is writable for
//! other code. Kernels built or booted with `proc_mem.force_override=never`, sandboxes and processes that
//! are not dumpable refuse it. Then the pages of the batch become writable beside readable and executable
//! until the batch ends, which in turn SELinux (`execmod`) and `PR_SET_MDWE` refuse.
//!
//! Both copy a page of a private file mapping at the first write (copy on write), so no file and no other
//! process changes.

use crate::arch::{self, HOP};
use crate::code::SITE_BYTES;
use crate::maps;
use crate::table::BATCH;
use mote_sys::fd::{self, Fd};
use mote_sys::raw::syscall;
use mote_sys::{Errno, Result};

/// Bytes of a page. Text in huge pages answers `EINVAL` to being made writable by this.
const PAGE: usize = mote_sys::mem::PAGE_BYTES;
/// A site lies in at most two pages.
const PAGES: usize = 2 * BATCH;
/// Room for the pages of a batch.
pub(crate) type Pages = [Page; PAGES];
/// Room that holds none.
pub(crate) const NO_PAGES: Pages = [Page { start: 0, protection: 0 }; PAGES];

/// `/proc/self/mem`, as long as it works, and its lock: other copies of this library in the process have a
/// [`mod@crate::lock`] of their own.
pub(crate) struct Memory {
    file: Option<Fd>,
    is_locked: bool,
}

impl Memory {
    /// Opens it for writing; a refusal shows later, in how [`Writer`] writes. Waits for other copies of this library.
    pub(crate) fn open() -> Memory {
        let file = fd::open(c"/proc/self/mem", libc::O_RDWR, 0).ok();
        let is_locked = file.as_ref().is_some_and(|file| fd::lock(file).is_ok());
        Memory { file, is_locked }
    }

    /// Whether no other copy of this library writes meanwhile.
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Reads what may not be there.
    ///
    /// # Errors
    /// `EIO` when a byte is not there or cannot be read; what the kernel says when it refuses.
    pub(crate) fn read(&self, addr: usize, into: &mut [u8]) -> Result<()> {
        let Some(file) = &self.file else { return Err(Errno(libc::EACCES)) };
        let len = into.len();
        if fd::read_at(file, into, addr as u64)? == len { Ok(()) } else { Err(Errno(libc::EIO)) }
    }

    /// Writes, and after a failure never tries again.
    pub(crate) fn write(&mut self, addr: usize, bytes: &[u8]) -> Result<()> {
        let Some(file) = &self.file else { return Err(Errno(libc::EACCES)) };
        let done = fd::write_at(file, bytes, addr as u64);
        if done == Err(Errno(libc::EBADF)) {
            // The program closed it. The number is no longer ours to close.
            self.file.take().map(Fd::into_raw);
        } else if done.is_err() {
            self.close();
        }
        done
    }

    /// A child of fork may have the descriptor, too: the lock would not go with ours alone.
    fn close(&mut self) {
        if let Some(file) = self.file.take().filter(|_| self.is_locked) {
            fd::unlock(&file);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.close();
    }
}

/// A page made writable, and its protection before (`libc::PROT_*`).
#[derive(Clone, Copy)]
pub(crate) struct Page {
    start: usize,
    protection: i32,
}

/// Writes the text of one batch of sites; restores the protection of their pages when dropped.
pub(crate) struct Writer<'a> {
    memory: &'a mut Memory,
    pages: &'a mut Pages,
    /// Pages at the start of `pages` that belong to the batch.
    count: usize,
    is_open: bool,
}

impl<'a> Writer<'a> {
    /// A writer for the sites at `addrs`, at most [`BATCH`].
    pub(crate) fn new(
        memory: &'a mut Memory,
        pages: &'a mut Pages,
        addrs: impl Iterator<Item = usize>,
    ) -> Writer<'a> {
        let mut writer = Writer { memory, pages, count: 0, is_open: false };
        for addr in addrs {
            writer.add(addr & !(PAGE - 1));
            writer.add(addr.wrapping_add(SITE_BYTES - 1) & !(PAGE - 1));
        }
        writer
    }

    fn add(&mut self, start: usize) {
        // Sites come by their address: most likely it is the last one.
        let known = self.pages.iter().take(self.count).rev().any(|page| page.start == start);
        if let (false, Some(page)) = (known, self.pages.get_mut(self.count)) {
            *page = Page { start, protection: libc::PROT_READ | libc::PROT_EXEC };
            self.count += 1;
        }
    }

    /// Writes `bytes` at `addr`, inside a site of the batch. Not atomic beyond one byte.
    ///
    /// # Errors
    /// The error of making the page writable, when both ways are refused.
    ///
    /// # Safety
    /// The site is mapped text, and may hold these bytes as far as any thread that runs it is concerned.
    pub(crate) unsafe fn write(&mut self, addr: usize, bytes: &[u8]) -> Result<()> {
        if self.memory.write(addr, bytes).is_ok() {
            return Ok(());
        }
        self.open()?;
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: `open` made the pages of the batch writable; the bytes are the caller's promise.
            unsafe { arch::store(addr.wrapping_add(n), *byte) };
        }
        Ok(())
    }

    /// Writes two bytes at `addr` by one store instruction, never through `/proc/self/mem`: the kernel copies two
    /// bytes as two of one (`memcpy_orig`, label `.Lless_3bytes`) or by `rep movsb`, which promises no width.
    ///
    /// # Errors
    /// The error of making the page writable.
    ///
    /// # Safety
    /// As [`Writer::write`].
    pub(crate) unsafe fn write_pair(&mut self, addr: usize, pair: [u8; HOP.len()]) -> Result<()> {
        self.open()?;
        // SAFETY: as in `write`.
        unsafe { arch::store_pair(addr, pair) };
        Ok(())
    }

    /// Makes the pages of the batch writable, once.
    fn open(&mut self) -> Result<()> {
        if self.is_open {
            return Ok(());
        }
        let pages = self.pages.get_mut(..self.count).unwrap_or_default();
        maps::each(&mut |line| {
            for page in pages.iter_mut().filter(|page| line.range.contains(&page.start)) {
                // Text is executable whatever is said of it: qemu-user 7.2 shows the protection that its own process
                // has there (`open_self_maps`).
                page.protection = line.protection | libc::PROT_EXEC;
            }
        });
        for (n, page) in pages.iter().enumerate() {
            if let Err(errno) = protect(page.start, page.protection | libc::PROT_WRITE) {
                restore(pages.get(..n).unwrap_or_default());
                return Err(errno);
            }
        }
        self.is_open = true;
        Ok(())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.is_open {
            restore(self.pages.get(..self.count).unwrap_or_default());
        }
    }
}

fn restore(pages: &[Page]) {
    for page in pages {
        // What cannot be restored (no memory to split the mapping) stays writable, and works.
        let _ = protect(page.start, page.protection);
    }
}

fn protect(page: usize, protection: i32) -> Result<()> {
    // SAFETY: `site-mapped`: only pages that hold a site of the batch; reading and executing stay allowed, so that
    // threads that run there go on.
    unsafe { syscall(libc::SYS_mprotect, [page, PAGE, protection as usize, 0, 0, 0]) }.map(drop)
}
