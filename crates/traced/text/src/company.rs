//! Who else runs in this process, and whether a breakpoint would kill them.
//!
//! The kernel kills a thread that meets an int3 while it blocks SIGTRAP (`force_sig`), and a debugger takes the
//! trap away. So before a batch we look for both. What we look at changes under us; what remains is in
//! `docs/soundness/text.md`, "Residual races".

use crate::maps::hex;
use core::ffi::CStr;
use mote_sys::fd::{self, Fd};
use mote_sys::raw::syscall;
use mote_sys::{Result, process, signal};

/// io_pgetevents(2), which libc does not name on this architecture.
const SYS_IO_PGETEVENTS: libc::c_long = 333;

/// `/proc` text of one thread is below 2 KiB; what is beyond is not looked at.
type Buffer = [u8; 4096];

/// True when a SIGTRAP could kill a thread, or not reach our handler, which is installed.
///
/// # Cost
/// Two reads in `/proc` for each thread, and 63 other system calls.
pub(crate) fn is_closed() -> bool {
    a_handler_blocks() || a_thread_blocks().unwrap_or(true)
}

/// True when the process has one thread, for sure.
///
/// # Cost
/// One read of `/proc/self/status`.
pub(crate) fn is_alone() -> bool {
    let mut buffer: Buffer = [0; 4096];
    read(c"/proc/self/status", &mut buffer).is_ok_and(|status| field(status, b"Threads:") == Some(b"1"))
}

fn blocks(mask: u64) -> bool {
    mask & signal::bit(libc::SIGTRAP) != 0
}

/// True when some signal's handler runs with SIGTRAP blocked: it could start at any moment, on any thread.
///
/// SIGTRAP itself does not count: while a batch runs its handler is ours.
fn a_handler_blocks() -> bool {
    (1..=64).filter(|signal| *signal != libc::SIGTRAP).any(|signal| {
        signal::action(signal).is_ok_and(|action| action.handler > libc::SIG_IGN && blocks(action.mask))
    })
}

/// True when a thread other than the caller blocks SIGTRAP, or may once its system call ends, or is traced.
///
/// The caller runs nothing but this crate until the batch is done, and meets no site there.
fn a_thread_blocks() -> Result<bool> {
    let me = process::tid();
    let tasks = fd::open(c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut entries = Entries([0; 256]);
    loop {
        let len = entries.read(&tasks)?;
        if len == 0 {
            return Ok(false);
        }
        let mut rest = entries.bytes().get(..len).unwrap_or_default();
        while let Some((name, next)) = first_entry(rest) {
            rest = next;
            if number(name).is_some_and(|tid| tid != me as usize) && thread_blocks(name) {
                return Ok(true);
            }
        }
    }
}

/// True when the thread `tid` blocks SIGTRAP, or may once its system call ends, or when a debugger takes its traps;
/// false when it has gone.
fn thread_blocks(tid: &[u8]) -> bool {
    let mut buffer: Buffer = [0; 4096];
    let Ok(status) = read(Path::of(tid, b"/status").as_cstr(), &mut buffer) else { return false };
    let is_traced = field(status, b"TracerPid:") != Some(b"0");
    let is_open = field(status, b"SigBlk:").and_then(hex).is_some_and(|mask| !blocks(mask as u64));
    if is_traced || !is_open {
        return true;
    }
    // Not every kernel has this file; without it the race of a thread that leaves `sigwait` stays.
    let Ok(call) = read(Path::of(tid, b"/syscall").as_cstr(), &mut buffer) else { return false };
    waits_with_other_mask(call)
}

/// True when `call`, the text of `/proc/.../syscall`, is a wait with a signal mask for its duration, after
/// which SIGTRAP could be blocked.
fn waits_with_other_mask(call: &[u8]) -> bool {
    let mut words = call.trim_ascii_end().split(|byte| *byte == b' ');
    let Some(call) = words.next().and_then(number) else { return false };
    let mut argument = |n| {
        let word = words.nth(n).unwrap_or_default();
        hex(word.strip_prefix(b"0x").unwrap_or_default()).unwrap_or(0)
    };
    match call as libc::c_long {
        // Waits for signals that the thread blocks otherwise.
        libc::SYS_rt_sigtimedwait => waited_for(argument(0)).is_none_or(blocks),
        libc::SYS_rt_sigsuspend => true,
        libc::SYS_ppoll => argument(3) != 0,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 | libc::SYS_io_uring_enter => argument(4) != 0,
        libc::SYS_pselect6 | SYS_IO_PGETEVENTS => argument(5) != 0,
        _ => false,
    }
}

/// The signal set at `addr` of another thread's stack, which may vanish: read in a way that cannot fault.
fn waited_for(addr: usize) -> Option<u64> {
    let mut set = 0u64;
    let to = libc::iovec { iov_base: (&raw mut set).cast(), iov_len: size_of::<u64>() };
    let from = libc::iovec { iov_base: addr as *mut _, iov_len: size_of::<u64>() };
    let pid = process::pid() as usize;
    // SAFETY: the kernel writes 8 bytes to `set`, and returns EFAULT when `addr` cannot be read.
    let done = unsafe {
        syscall(libc::SYS_process_vm_readv, [pid, &raw const to as usize, 1, &raw const from as usize, 1, 0])
    };
    (done == Ok(size_of::<u64>())).then_some(set)
}

/// Reads the start of a file.
fn read<'a>(path: &CStr, buffer: &'a mut Buffer) -> Result<&'a [u8]> {
    let file = fd::open(path, libc::O_RDONLY, 0)?;
    let len = fd::read(&file, buffer)?;
    Ok(buffer.get(..len).unwrap_or_default())
}

/// The word behind `name` at the start of a line.
fn field<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii)
}

fn number(digits: &[u8]) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Room for a few directory entries (getdents64(2)).
#[repr(align(8))]
struct Entries([u8; 256]);

impl Entries {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn read(&mut self, directory: &Fd) -> Result<usize> {
        // SAFETY: the kernel writes at most as many bytes as `self` has.
        unsafe {
            syscall(
                libc::SYS_getdents64,
                [directory.raw() as usize, self.0.as_mut_ptr() as usize, self.0.len(), 0, 0, 0],
            )
        }
    }
}

/// Splits entries into the name of the first and the rest. An entry: inode, offset, its length in 16 bits at byte
/// 16, the type, and at byte 19 the name up to a NUL.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]) as usize;
    let name = entries.get(19..len)?.split(|byte| *byte == 0).next()?;
    Some((name, entries.get(len..)?))
}

/// A path below `/proc/self/task`.
struct Path([u8; 64]);

impl Path {
    /// The file `file` of the thread `tid`.
    fn of(tid: &[u8], file: &[u8]) -> Path {
        let mut path = [0; 64];
        let parts = [b"/proc/self/task/", tid, file];
        // The last byte stays the NUL.
        for (to, from) in path.iter_mut().take(63).zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        Path(path)
    }

    fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_status() {
        let status = b"Name:\tx\nTracerPid:\t0\nThreads:\t12\nSigBlk:\t0000000000000010\n";
        assert_eq!(field(status, b"Threads:"), Some(&b"12"[..]));
        assert_eq!(field(status, b"SigBlk:").and_then(hex), Some(0x10));
        assert!(blocks(0x10));
        assert!(!blocks(!0x10));
        assert_eq!(field(status, b"Nothing:"), None);
    }

    #[test]
    fn waits_that_change_the_mask() {
        let check = |call: &[u8], expect| assert_eq!(waits_with_other_mask(call), expect);
        check(b"running\n", false);
        check(b"-1 0x7ffc 0x7f\n", false);
        check(b"130 0x7ffd 0x8 0x0 0x0 0x0 0x0 0x1 0x2\n", true);
        check(b"271 0x7ffd 0x1 0x0 0x0 0x8 0x0 0x1 0x2\n", false);
        check(b"271 0x7ffd 0x1 0x0 0x7ffe 0x8 0x0 0x1 0x2\n", true);
        check(b"281 0x3 0x7f00 0x10 0xffffffff 0x0 0x8 0x1 0x2\n", false);
        check(b"281 0x3 0x7f00 0x10 0xffffffff 0x7f 0x8 0x1 0x2\n", true);
        check(b"270 0x3 0x7f00 0x10 0x0 0x0 0x0 0x1 0x2\n", false);
        let sets = [0x10u64, 0x20];
        for (set, expect) in sets.iter().zip([true, false]) {
            let call = std::format!("128 {:#x} 0x0 0x0 0x8 0x0 0x0 0x1 0x2\n", &raw const *set as usize);
            check(call.as_bytes(), expect);
        }
        check(b"128 0x8 0x0 0x0 0x8 0x0 0x0 0x1 0x2\n", true);
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

    extern crate std;
}
