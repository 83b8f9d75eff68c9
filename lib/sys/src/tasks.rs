//! The threads of this process, as the mounted `/proc` has them (proc(5), `/proc/self/task`). Needs no allocation.

use crate::Result;
use crate::fd::{self, Fd};
use crate::raw::syscall;
use core::ffi::CStr;
use core::ops::ControlFlow;

/// A thread by its id in the mounted `/proc`, which in a container may be another one than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task(pub u32);

/// Room for a few directory entries (getdents64(2)).
#[repr(align(8))]
struct Entries([u8; 512]);

/// Calls `see` with each thread, until it breaks.
///
/// # Errors
/// As open(2) and getdents64(2): where there is no `/proc`, `ENOENT`.
///
/// # Cost
/// A system call for about 20 threads.
pub fn each(mut see: impl FnMut(Task) -> ControlFlow<()>) -> Result<()> {
    let directory = fd::open(c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut entries = Entries([0; 512]);
    loop {
        let mut rest = entries.read(&directory)?;
        if rest.is_empty() {
            return Ok(());
        }
        while let Some((name, next)) = first_entry(rest) {
            rest = next;
            // `.` and `..` are no numbers.
            let task = core::str::from_utf8(name).ok().and_then(|digits| digits.parse().ok());
            if let Some(id) = task
                && see(Task(id)).is_break()
            {
                return Ok(());
            }
        }
    }
}

impl Task {
    /// Reads the start of one of its files: `stat`, `status`, `comm`, `syscall`.
    ///
    /// # Errors
    /// As open(2) and read(2): `ENOENT` or `ESRCH` of a thread that has ended.
    pub fn read(self, file: &str, into: &mut [u8]) -> Result<usize> {
        let path = self.path(file);
        let file = fd::open(CStr::from_bytes_until_nul(&path).unwrap_or_default(), libc::O_RDONLY, 0)?;
        fd::read(&file, into)
    }

    fn path(self, file: &str) -> [u8; 64] {
        let Task(id) = self;
        let count = id.checked_ilog10().unwrap_or(0);
        let digit = |power| b'0' + id.checked_div(10u32.pow(power)).map_or(0, |left| left % 10) as u8;
        let digits = (0..=count).rev().map(digit);
        let text = b"/proc/self/task/".iter().copied().chain(digits).chain([b'/']).chain(file.bytes());
        let mut path = [0; 64];
        // The last byte stays the NUL.
        path.iter_mut().take(63).zip(text).for_each(|(to, from)| *to = from);
        path
    }
}

impl Entries {
    fn read(&mut self, directory: &Fd) -> Result<&[u8]> {
        let arguments = [directory.raw() as usize, self.0.as_mut_ptr() as usize, self.0.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most as many bytes as `self` has.
        let len = unsafe { syscall(libc::SYS_getdents64, arguments) }?;
        Ok(self.0.get(..len).unwrap_or(&[]))
    }
}

/// Splits entries into the name of the first and the rest. An entry: inode, offset, its length in 16 bits at byte
/// 16, the type, and at byte 19 the name up to a NUL.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]) as usize;
    let name = entries.get(19..len)?.split(|byte| *byte == 0).next()?;
    Some((name, entries.get(len..)?))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Errno, process};
    use std::vec::Vec;

    #[test]
    fn all_threads_are_seen() {
        let (begun, end) = (std::sync::Barrier::new(31), std::sync::Barrier::new(31));
        std::thread::scope(|scope| {
            for _ in 0..30 {
                scope.spawn(|| (begun.wait(), end.wait()));
            }
            begun.wait();
            let mut seen = Vec::new();
            let done = each(|task| {
                seen.push(task);
                ControlFlow::Continue(())
            });
            let mut first = 0;
            let broken = each(|_| {
                first += 1;
                ControlFlow::Break(())
            });
            end.wait();
            assert_eq!((done, broken, first), (Ok(()), Ok(()), 1));
            assert!(seen.len() >= 31 && seen.contains(&Task(process::tid() as u32)), "{seen:?}");
        });
    }

    #[test]
    fn files_of_a_thread_are_read() {
        let mut text = [0; 64];
        let len = Task(process::tid() as u32).read("comm", &mut text).expect("we are there");
        let comm = process::comm();
        let name = comm.split(|byte| *byte == 0).next().expect("a name");
        assert_eq!(text[..len].trim_ascii_end(), name);
        assert_eq!(Task(u32::MAX).read("comm", &mut text), Err(Errno(libc::ENOENT)));
        for (id, path) in [(0, "/proc/self/task/0/stat"), (10, "/proc/self/task/10/stat")] {
            assert!(Task(id).path("stat").starts_with(path.as_bytes()));
        }
    }

    #[test]
    fn entries_of_a_directory() {
        let mut entry = [0u8; 24];
        entry[16] = 24;
        entry[19..21].copy_from_slice(b"17");
        let (name, rest) = first_entry(&entry).unwrap();
        assert_eq!((name, rest.len()), (&b"17"[..], 0));
        assert_eq!(first_entry(rest), None);
        entry[16] = 200;
        assert_eq!(first_entry(&entry), None, "longer than what was read");
        entry[16] = 3;
        assert_eq!(first_entry(&entry), None, "shorter than its head");
    }
}
