//! Gives the threads that a process has their names in the trace of a session that comes later.
//!
//! A thread leaves its name where sessions are at its first event (`channel::introduce_thread`). For a session that comes after that somebody else
//! has to: the control path, which looks the threads up in `/proc/self/task`. Where there is no `/proc` they have no names.

use crate::channel::Channel;
use core::ffi::CStr;
use mote_sys::fd::{self, Fd};
use mote_sys::process;
use mote_sys::raw::syscall;

/// Room for a few directory entries (getdents64(2)).
#[repr(align(8))]
struct Entries([u8; 1024]);

/// Names all threads of the process but the calling one in a channel that has been published.
pub(crate) fn introduce_all(channel: &Channel) {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let Ok(tasks) = fd::open(c"/proc/self/task", flags, 0) else { return };
    let mut entries = Entries([0; 1024]);
    while let Some(mut rest) = read_entries(&tasks, &mut entries).filter(|entries| !entries.is_empty()) {
        while let Some((name, next)) = first_entry(rest) {
            rest = next;
            if let Some((tid, comm)) = thread(name).filter(|(tid, _)| *tid != process::tid() as u32) {
                channel.writer.introduce(tid, process::pid() as u32, comm);
            }
        }
    }
}

fn read_entries<'a>(directory: &Fd, into: &'a mut Entries) -> Option<&'a [u8]> {
    let (at, room) = (into.0.as_mut_ptr() as usize, into.0.len());
    // SAFETY: the kernel writes at most `room` bytes to `into`.
    let len = unsafe { syscall(libc::SYS_getdents64, [directory.raw() as usize, at, room, 0, 0, 0]) }.ok()?;
    into.0.get(..len)
}

/// Splits entries into the name of the first and the rest. An entry: inode, offset, its length in 16 bits at byte
/// 16, the type, and at byte 19 the name up to a NUL.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]) as usize;
    let name = entries.get(19..len)?.split(|byte| *byte == 0).next()?;
    Some((name, entries.get(len..)?))
}

/// Id and name of a thread, by its entry. The id is the one that the thread itself knows, which in a container is another one than the entry's.
fn thread(entry: &[u8]) -> Option<(u32, [u8; 16])> {
    if !entry.first()?.is_ascii_digit() {
        return None;
    }
    let mut buffer = [0; 4096];
    let status = read(entry, b"/status", &mut buffer)?;
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let ids = line.unwrap_or(entry).trim_ascii_end();
    let id = ids.rsplit(|byte| !byte.is_ascii_digit()).next()?;
    let id = core::str::from_utf8(id).ok()?.parse().ok()?;
    let text = read(entry, b"/comm", &mut buffer)?.trim_ascii_end();
    let mut comm = [0; 16];
    // The last byte stays the NUL.
    comm.iter_mut().take(15).zip(text).for_each(|(to, from)| *to = *from);
    Some((id, comm))
}

/// The start of a thread's file.
fn read<'a>(thread: &[u8], file: &[u8], into: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0; 64];
    let parts = [b"/proc/self/task/", thread, file];
    // The last byte stays the NUL.
    for (to, from) in path.iter_mut().take(63).zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    let file = fd::open(CStr::from_bytes_until_nul(&path).ok()?, libc::O_RDONLY, 0).ok()?;
    let len = fd::read(&file, into).ok()?;
    into.get(..len)
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn a_thread_is_found_by_its_entry() {
        let own = mote_sys::process::tid();
        let (tid, comm) = super::thread(std::format!("{own}").as_bytes()).expect("we are there");
        assert_eq!((tid, comm), (own as u32, mote_sys::process::comm()));
        assert_eq!(super::thread(b"."), None);
        assert_eq!(super::thread(b"1999999999"), None);
    }
}
