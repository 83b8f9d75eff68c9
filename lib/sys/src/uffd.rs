//! Which pages of a process were written: userfaultfd(2) with write-protection that the kernel lifts by itself, and
//! `PAGEMAP_SCAN` (Documentation/admin-guide/mm/pagemap.rst), both of Linux 6.7.
//!
//! A descriptor is made by a thread of the process, and belongs to its memory as it is then: not to that of a child,
//! nor of the program that it becomes. A process that has it may watch that memory. A page that is written to is not
//! protected any more: no thread waits, and with the last descriptor all is as before.

use crate::Result;
use crate::fd::Fd;
use crate::raw::syscall;

/// What userfaultfd(2) is asked for: closed by execve(2), `UFFD_USER_MODE_ONLY`, which needs no privilege. What the
/// kernel writes is seen, too: it lifts the protection itself.
pub const FLAGS: i32 = libc::O_CLOEXEC | libc::O_NONBLOCK | 1;

/// The version of the interface, and `UFFD_FEATURE_WP_ASYNC`.
const API: u64 = 0xaa;
const PROTECTS_BY_ITSELF: u64 = 1 << 15;
/// `UFFDIO_REGISTER_MODE_WP`
const PROTECT: u64 = 2;
/// `UFFDIO_API`, `UFFDIO_REGISTER`, `UFFDIO_UNREGISTER`, `PAGEMAP_SCAN` (asm-generic/ioctl.h).
const SHAKE_HANDS: usize = request(3, 0xaa, 0x3f, size_of::<Api>());
const REGISTER: usize = request(3, 0xaa, 0x00, size_of::<Register>());
const UNREGISTER: usize = request(2, 0xaa, 0x01, size_of::<Range>());
const SCAN: usize = request(3, b'f' as usize, 16, size_of::<Scan>());
/// `PM_SCAN_WP_MATCHING` and `PM_SCAN_CHECK_WPASYNC`: what is found is protected, in one step, and nothing else than
/// what is watched is looked at.
const PROTECT_FOUND: u64 = 1 | 2;
/// `PAGE_IS_WRITTEN`, `PAGE_IS_PRESENT`
const WRITTEN: u64 = 1 << 1;
const PRESENT: u64 = 1 << 3;

const fn request(direction: usize, kind: usize, number: usize, bytes: usize) -> usize {
    (direction << 30) | (bytes << 16) | (kind << 8) | number
}

/// `struct uffdio_api`
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`
#[repr(C)]
struct Range {
    start: u64,
    bytes: u64,
}

/// `struct uffdio_register`
#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// `struct pm_scan_arg`
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Pages that lie behind each other (`struct page_region`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The first address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// What the kernel knows about them.
    pub categories: u64,
}

/// Makes a descriptor for the calling process.
///
/// # Errors
/// As userfaultfd(2): `ENOSYS` where the kernel has none.
pub fn make() -> Result<Fd> {
    // SAFETY: no memory.
    let raw = unsafe { syscall(libc::SYS_userfaultfd, [FLAGS as usize, 0, 0, 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Says what the descriptor is for, once.
///
/// # Errors
/// `EINVAL` before Linux 6.7.
pub fn prepare(fd: &Fd) -> Result<()> {
    let mut api = Api { api: API, features: PROTECTS_BY_ITSELF, ioctls: 0 };
    // SAFETY: the kernel reads and writes one structure of this size, borrowed exclusively.
    unsafe { ioctl(fd, SHAKE_HANDS, (&raw mut api) as usize) }
}

/// Watches whole pages of memory. What is watched already stays so.
///
/// # Errors
/// As ioctl_userfaultfd(2): `EBUSY` where another one watches it, `EINVAL` where nothing is mapped, `EPERM` where
/// it may never be written to, `ENOMEM` where the process has gone or become another program.
pub fn watch(fd: &Fd, start: u64, bytes: u64) -> Result<()> {
    let mut register = Register { range: Range { start, bytes }, mode: PROTECT, ioctls: 0 };
    // SAFETY: the kernel reads and writes one structure of this size, borrowed exclusively. Memory that is watched so,
    // of whatever process, can be read and written as before.
    unsafe { ioctl(fd, REGISTER, (&raw mut register) as usize) }
}

/// Watches them no longer.
///
/// # Errors
/// As [`watch`].
pub fn leave(fd: &Fd, start: u64, bytes: u64) -> Result<()> {
    let range = Range { start, bytes };
    // SAFETY: the kernel reads one structure of this size.
    unsafe { ioctl(fd, UNREGISTER, (&raw const range) as usize) }
}

/// Finds pages that have memory and were written to since they were found before, or watched; from now on they are as
/// those that were not. `pagemap`: `/proc/PID/pagemap` of the process. Returns how many regions there are, and where
/// the search has ended, which is before `end` where `found` is full, or as many pages were found as may be.
///
/// # Errors
/// As `PAGEMAP_SCAN`: `EPERM` where some of it is not watched; `ENOTTY` before Linux 6.7; `ESRCH` where the process has
/// gone.
///
/// # Cost
/// 1 us, and 20 ns for each page that has memory.
pub fn written(pagemap: &Fd, start: u64, end: u64, found: &mut [Region], pages: u64) -> Result<(usize, u64)> {
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: PROTECT_FOUND,
        start,
        end,
        vec: found.as_mut_ptr() as u64,
        vec_len: found.len() as u64,
        max_pages: pages,
        category_mask: WRITTEN | PRESENT,
        return_mask: WRITTEN,
        ..Scan::default()
    };
    // SAFETY: the kernel reads and writes one structure of this size, and writes as many regions as it is told that
    // there is room for; both are borrowed exclusively.
    let count = unsafe { syscall(libc::SYS_ioctl, arguments(pagemap, SCAN, (&raw mut scan) as usize)) }?;
    Ok((count.min(found.len()), scan.walk_end))
}

fn arguments(fd: &Fd, request: usize, argument: usize) -> [usize; 6] {
    [fd.raw() as usize, request, argument, 0, 0, 0]
}

/// An ioctl(2) that returns nothing.
///
/// # Safety
/// The argument is the address of what the request wants, of its size, and stays so for the call.
unsafe fn ioctl(fd: &Fd, request: usize, argument: usize) -> Result<()> {
    // SAFETY: as this function's.
    unsafe { syscall(libc::SYS_ioctl, arguments(fd, request, argument)) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd;
    use crate::mem::{Mapping, PAGE_BYTES};

    /// As linux/userfaultfd.h and linux/fs.h have them.
    #[test]
    fn requests_are_those_of_the_kernel() {
        let all = [SHAKE_HANDS, REGISTER, UNREGISTER, SCAN];
        assert_eq!(all, [0xc018_aa3f, 0xc020_aa00, 0x8010_aa01, 0xc060_6610]);
    }

    #[test]
    fn pages_that_are_written_are_found_once() {
        let Ok(tracker) = make() else { return mote_skip::skip("there is no userfaultfd(2)") };
        if prepare(&tracker).is_err() {
            return mote_skip::skip("write-protection that the kernel lifts itself is of Linux 6.7");
        }
        let pagemap = fd::open(c"/proc/self/pagemap", libc::O_RDONLY, 0).expect("ours");
        let memory = Mapping::private(8 * PAGE_BYTES).expect("memory");
        let (start, page) = (memory.base() as u64, PAGE_BYTES as u64);
        let end = start + 8 * page;
        // SAFETY: within the memory.
        let write =
            |at: usize, byte: u8| unsafe { memory.base().wrapping_add(at * PAGE_BYTES).write_volatile(byte) };
        let find = |room: usize, pages: u64| {
            let mut found = [Region::default(); 8];
            let (count, to) =
                written(&pagemap, start, end, &mut found[..room], pages).expect("it is watched");
            let pages = |region: &Region| ((region.start - start) / page, (region.end - start) / page);
            let mut all = [(0, 0); 8];
            all.iter_mut().zip(&found[..count]).for_each(|(to, region)| *to = pages(region));
            (all, count, (to - start) / page)
        };
        let mut none = [Region::default()];
        assert!(written(&pagemap, start, end, &mut none, 8).is_err(), "it is not watched yet");
        write(1, 1);
        watch(&tracker, start, 8 * page).expect("it can be watched");
        let (all, count, to) = find(8, 8);
        assert_eq!((&all[..count], to), (&[(1, 2)][..], 8));
        assert_eq!(find(8, 8).1, 0);
        for at in [1, 2, 5, 7] {
            write(at, 2);
        }
        // No more than there is room for; what was not found yet is found later.
        let (all, count, to) = find(1, 8);
        assert_eq!((&all[..count], to < 8), (&[(1, 3)][..], true));
        let (all, count, _) = find(8, 1);
        assert_eq!(&all[..count], [(5, 6)]);
        let (all, count, _) = find(8, 8);
        assert_eq!(&all[..count], [(7, 8)]);
        leave(&tracker, start, 8 * page).expect("it was watched");
        assert!(written(&pagemap, start, end, &mut none, 8).is_err());
        write(3, 3);
    }
}
