//! Questions to the kernel that change nothing, for `mote doctor`.

use crate::Result;
use crate::mem::PAGE_BYTES;
use crate::raw::syscall;
use core::ffi::CStr;

/// Bytes that an unprivileged user may still write to the file system of `path`.
///
/// # Errors
/// As statfs(2).
pub fn free_disk_bytes(path: &CStr) -> Result<u64> {
    let mut answer = core::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` is NUL-terminated; the kernel fills a `statfs`, whose layout libc's x86-64 definition matches.
    unsafe { syscall(libc::SYS_statfs, [path.as_ptr() as usize, answer.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    // SAFETY: all zero bytes are a valid statfs, and the kernel has filled it.
    let answer = unsafe { answer.assume_init() };
    Ok(answer.f_bavail.saturating_mul(answer.f_bsize.unsigned_abs()))
}

/// Whether code of this process can be made writable with mprotect(2), and be code again: a page of its own code is.
///
/// # Errors
/// `EACCES` or `EPERM` where the system forbids it (SELinux `execmod`, PaX, systemd's `MemoryDenyWriteExecute`).
pub fn make_text_writable() -> Result<()> {
    let page = make_text_writable as *const () as usize & !(PAGE_BYTES - 1);
    let code = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    // SAFETY: the page is code of this crate and stays executable and as it is; it only may be written for a moment,
    // which no thread does through this.
    unsafe { syscall(libc::SYS_mprotect, [page, PAGE_BYTES, code | libc::PROT_WRITE as usize, 0, 0, 0]) }?;
    // SAFETY: gives the page back the protection that code has.
    unsafe { syscall(libc::SYS_mprotect, [page, PAGE_BYTES, code, 0, 0, 0]) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_a_size_and_nothing_has_none() {
        assert!(free_disk_bytes(c"/").is_ok());
        assert_eq!(free_disk_bytes(c"/no/such/place"), Err(crate::Errno(libc::ENOENT)));
    }

    #[test]
    fn text_stays_executable() {
        let _ = make_text_writable();
        assert!(free_disk_bytes(c"/").is_ok());
    }
}
