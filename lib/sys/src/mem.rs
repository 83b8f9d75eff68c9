//! Memory shared between processes: sealed memfds and their mappings.

use crate::fd::Fd;
use crate::raw::syscall;
use crate::{Errno, Result};
use core::ffi::CStr;
use core::ptr::NonNull;

pub use crate::arch::PAGE_BYTES;

/// Makes an anonymous file of `size` bytes that can neither shrink nor grow.
///
/// A peer that holds the descriptor cannot make the mapping fault by truncating it (`F_SEAL_SHRINK`).
///
/// # Errors
/// `ENOMEM`, `EMFILE`, `EFBIG`.
pub fn sealed_memfd(name: &CStr, size: u64) -> Result<Fd> {
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    // SAFETY: `name` is NUL-terminated and outlives the call.
    let raw = unsafe { syscall(libc::SYS_memfd_create, [name.as_ptr() as usize, flags, 0, 0, 0, 0]) }?;
    let fd = Fd::from_raw(raw as i32);
    seal(&fd, size)?;
    Ok(fd)
}

/// Gives a memfd that may be sealed (`MFD_ALLOW_SEALING`) its size for good.
///
/// # Errors
/// `EINVAL` when it is none, `EPERM` when it is sealed; `EFBIG`.
pub fn seal(fd: &Fd, size: u64) -> Result<()> {
    crate::fd::truncate(fd, size)?;
    let seals = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as usize;
    // SAFETY: fcntl(F_ADD_SEALS) touches no memory of ours.
    unsafe { syscall(libc::SYS_fcntl, [fd.raw() as usize, libc::F_ADD_SEALS as usize, seals, 0, 0, 0]) }?;
    Ok(())
}

/// Allocates the pages of `range` now, so that touching them later cannot fail.
///
/// # Errors
/// `ENOSPC` or `ENOMEM` when there is not enough memory.
///
/// # Cost
/// The kernel clears every page: about 0.2 ms a MiB.
pub fn allocate(fd: &Fd, offset: u64, len: u64) -> Result<()> {
    // SAFETY: fallocate touches no memory of ours.
    unsafe { syscall(libc::SYS_fallocate, [fd.raw() as usize, 0, offset as usize, len as usize, 0, 0]) }
        .map(drop)
}

/// True when `fd` is memory: a memfd, or a file of tmpfs. Whatever it is, the call does not wait.
pub fn is_memory(fd: &Fd) -> bool {
    // SAFETY: fcntl(F_GET_SEALS) touches no memory.
    unsafe { syscall(libc::SYS_fcntl, [fd.raw() as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0]) }.is_ok()
}

/// True when `fd` is a memfd that can no longer shrink.
pub fn cannot_shrink(fd: &Fd) -> bool {
    // SAFETY: fcntl(F_GET_SEALS) touches no memory.
    let seals =
        unsafe { syscall(libc::SYS_fcntl, [fd.raw() as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0]) };
    seals.is_ok_and(|seals| seals & libc::F_SEAL_SHRINK as usize != 0)
}

/// True when what `fd` refers to keeps its size for good: a memfd that can no longer shrink, or an object of the kernel
/// without a file, as a map of eBPF. Touching a mapping of it cannot fault for want of a page behind its end.
pub fn keeps_its_size(fd: &Fd) -> bool {
    crate::fd::identity(fd.raw()).is_ok_and(|file| file.is_anonymous) || cannot_shrink(fd)
}

/// Copies `len` bytes from or to memory that other processes may write at the same time.
///
/// They may do so against all agreements: a hostile one writes when it likes. For Rust's own copies that is a data
/// race, whatever becomes of the bytes; this one is made of machine instructions, which have no such rule: each byte
/// that arrives is one that was there at some moment.
///
/// # Safety
/// `len` bytes must be readable at `from` and writable at `to`, and the two must not overlap. What of them is not
/// shared belongs to the caller.
///
/// # Cost
/// As memcpy: `rep movsb` for large ones, 32 bytes at a time for others.
#[inline]
pub unsafe fn copy_shared(to: *mut u8, from: *const u8, len: usize) {
    #[cfg(miri)]
    // SAFETY: the caller's promise; miri runs no assembly, and has one process.
    unsafe {
        to.copy_from_nonoverlapping(from, len)
    };
    #[cfg(not(miri))]
    // SAFETY: the caller's promise.
    unsafe {
        crate::arch::copy_shared(to, from, len)
    };
}

/// Reads memory of this process that may not be there: the parts behind one another, up to the first that cannot be
/// read. Returns how many bytes were read. A part is read as a whole, or not at all, if it lies in one page.
///
/// # Cost
/// One system call, process_vm_readv(2).
pub fn read_own<const N: usize>(parts: [(usize, usize); N], into: &mut [u8]) -> usize {
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = parts.map(|(address, len)| libc::iovec {
        iov_base: core::ptr::with_exposed_provenance_mut(address),
        iov_len: len,
    });
    let pid = crate::process::pid() as usize;
    let arguments = [pid, &raw const to as usize, 1, from.as_ptr() as usize, N, 0];
    // SAFETY: the kernel writes to `into` only, and copies with care.
    unsafe { syscall(libc::SYS_process_vm_readv, arguments) }.unwrap_or(0)
}

/// Asks the kernel for huge pages, where they are allowed (transparent_hugepage), for `len` bytes of memory from the
/// page `first` on. Only a hint: that there are none is no error.
pub fn want_huge_pages(first: *const u8, len: usize) {
    // SAFETY: MADV_HUGEPAGE changes no byte, whosever memory this is.
    let _ =
        unsafe { syscall(libc::SYS_madvise, [first as usize, len, libc::MADV_HUGEPAGE as usize, 0, 0, 0]) };
}

/// A mapping: `len` bytes at `base`, readable and writable.
///
/// It is a raw range on purpose: other processes write to it at any moment, so no reference or slice
/// may point into it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is address space of the process, not of a thread; all access goes through raw
// pointers whose users argue for themselves.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only hands out the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from its start, shared.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn shared(fd: &Fd, len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED, fd.raw(), 0)
    }

    /// Maps `len` bytes of `fd` from `offset`, a multiple of the page size, on, shared.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn shared_at(fd: &Fd, offset: u64, len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED, fd.raw(), offset as usize)
    }

    /// The same, to be read only. What writes there ends the process: only functions of this crate that read are given
    /// one.
    ///
    /// # Errors
    /// As mmap(2).
    pub(crate) fn shared_to_read(fd: &Fd, offset: u64, len: usize) -> Result<Mapping> {
        Mapping::map_as(len, libc::PROT_READ, libc::MAP_SHARED, fd.raw(), offset as usize)
    }

    /// Maps `len` bytes of fresh, zeroed, private memory.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn private(len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: usize) -> Result<Mapping> {
        Mapping::map_as(len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, offset)
    }

    fn map_as(len: usize, protection: i32, flags: i32, fd: i32, offset: usize) -> Result<Mapping> {
        let arguments = [0, len, protection as usize, flags as usize, fd as isize as usize, offset];
        // SAFETY: a null hint without MAP_FIXED never replaces an existing mapping.
        let base = unsafe { syscall(libc::SYS_mmap, arguments) }?;
        let base = NonNull::new(base as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        Ok(Mapping { base, len })
    }

    /// Maps `len` bytes of `fd` from `offset`, a multiple of the page size, on, shared, in place of what is mapped at
    /// `at`; left out of core dumps. A thread that reads or writes there meanwhile does it in the old or the new
    /// memory.
    ///
    /// # Errors
    /// As mmap(2); what was there stays.
    ///
    /// # Safety
    /// `len` bytes at `at` are a mapping that was leaked, and no thread has references or slices there but of atomics,
    /// or counts on what is in it.
    pub unsafe fn replace(at: *mut u8, fd: &Fd, offset: u64, len: usize) -> Result<()> {
        // SAFETY: the caller's promise: the range is a mapping of ours, of which nothing is lost that is counted on.
        unsafe { Mapping::map_over(at, libc::MAP_SHARED, fd.raw(), offset, len) }
    }

    /// Maps something in place of what is mapped at `at`.
    ///
    /// # Safety
    /// `len` bytes at `at` are a mapping that was leaked, and no thread counts on what is in it.
    unsafe fn map_over(at: *mut u8, flags: i32, fd: i32, offset: u64, len: usize) -> Result<()> {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (flags | libc::MAP_FIXED) as usize;
        let arguments = [at as usize, len, prot, flags, fd as isize as usize, offset as usize];
        // SAFETY: the caller's promise: the range is ours.
        unsafe { syscall(libc::SYS_mmap, arguments) }?;
        // SAFETY: it was mapped just now, and is given up again.
        if let Some(memory) = unsafe { Mapping::adopt(at, len) } {
            memory.keep_out_of_core_dumps();
            memory.leak();
        }
        Ok(())
    }

    /// Maps the pages of a leaked shared mapping a second time, somewhere else; with the same flags (mremap(2), an old
    /// size of 0).
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` where the mapping is not shared.
    ///
    /// # Safety
    /// `base` and `len` must be those of a leaked mapping.
    pub unsafe fn again(base: *mut u8, len: usize) -> Result<Mapping> {
        let arguments = [base as usize, 0, len, libc::MREMAP_MAYMOVE as usize, 0, 0];
        // SAFETY: with an old size of 0 nothing is taken away, and a place that is not given is a free one.
        let base = unsafe { syscall(libc::SYS_mremap, arguments) }?;
        let base = NonNull::new(base as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        Ok(Mapping { base, len })
    }

    /// Address of the first byte; the memory is there as long as `self`.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when the mapping has no bytes, which mmap(2) never gives.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Asks the kernel to map the pages of `offset..offset + len` for writing now (Linux 5.14).
    ///
    /// # Errors
    /// `EINVAL` on older kernels, `EFAULT`/`ENOMEM` when a page is not to be had.
    pub fn populate(&self, offset: usize, len: usize) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Errno(libc::EINVAL));
        }
        let from = self.base.as_ptr() as usize + offset;
        // SAFETY: the range lies inside the mapping, checked above; MADV_POPULATE_WRITE changes no byte.
        unsafe { syscall(libc::SYS_madvise, [from, len, libc::MADV_POPULATE_WRITE as usize, 0, 0, 0]) }
            .map(drop)
    }

    /// Leaves the mapping out of core dumps.
    pub fn keep_out_of_core_dumps(&self) {
        // SAFETY: changes a flag of our own mapping.
        let _ = unsafe {
            syscall(
                libc::SYS_madvise,
                [self.base.as_ptr() as usize, self.len, libc::MADV_DONTDUMP as usize, 0, 0, 0],
            )
        };
    }

    /// Takes over a mapping that was given up by [`Mapping::leak`].
    ///
    /// # Safety
    /// `base` and `len` must be those of a leaked mapping, which no thread uses any more once this is dropped.
    pub unsafe fn adopt(base: *mut u8, len: usize) -> Option<Mapping> {
        Some(Mapping { base: NonNull::new(base)?, len })
    }

    /// Puts fresh, zeroed, private memory in the place of a leaked mapping, for good: a thread that still writes there
    /// does no harm, and what was mapped is let go.
    ///
    /// # Errors
    /// `ENOMEM`; the mapping stays as it was then.
    ///
    /// # Safety
    /// `base` and `len` must be those of a leaked mapping of which no thread expects what was written to be there.
    pub unsafe fn replace_by_zeros(base: *mut u8, len: usize) -> Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the caller's promise.
        unsafe { Mapping::map_over(base, flags, -1, 0, len) }
    }

    /// Keeps the mapping for the rest of the process's life and gives its address.
    pub fn leak(self) -> *mut u8 {
        let base = self.base.as_ptr();
        core::mem::forget(self);
        base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `self` owns the range; users of `base()` promise not to outlive it.
        let _ = unsafe { syscall(libc::SYS_munmap, [self.base.as_ptr() as usize, self.len, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec;

    #[test]
    fn a_copy_has_all_bytes_and_no_more() {
        let from: vec::Vec<u8> = (0..1200).map(|at| (at * 7 % 251) as u8 + 1).collect();
        for len in (0..140).chain([255, 256, 511, 767, 768, 769, 1000]) {
            for (start, place) in [(0, 0), (1, 3), (5, 8), (7, 1)] {
                let mut to = vec![0; 1200];
                // SAFETY: `place + len` and `start + len` are at most 1200, and the two are different memory.
                unsafe {
                    copy_shared(to.as_mut_ptr().wrapping_add(place), from.as_ptr().wrapping_add(start), len)
                };
                assert_eq!(to[place..place + len], from[start..start + len], "{len} from {start} to {place}");
                assert!(to[..place].iter().chain(&to[place + len..]).all(|byte| *byte == 0), "{len}");
            }
        }
    }
}
