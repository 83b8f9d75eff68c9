//! A file system for ourselves alone, mounted nowhere.

use crate::Result;
use crate::fd::Fd;
use crate::raw::syscall;
use core::ffi::CStr;

const FSOPEN_CLOEXEC: usize = 1;
const FSCONFIG_CMD_CREATE: usize = 6;
const FSMOUNT_CLOEXEC: usize = 1;

/// The root of a file system of this type, which no other code sees and which is gone when the descriptor is closed
/// (Linux 5.2). Files in it are opened with openat(2), or below `/proc/self/fd/N`.
///
/// # Errors
/// `ENODEV` when the kernel has no such file system, `EPERM` without `CAP_SYS_ADMIN`.
pub fn detached(kind: &CStr) -> Result<Fd> {
    // SAFETY: the kernel reads the name, which outlives the call.
    let raw = unsafe { syscall(libc::SYS_fsopen, [kind.as_ptr() as usize, FSOPEN_CLOEXEC, 0, 0, 0, 0]) }?;
    let context = Fd::from_raw(raw as i32);
    // SAFETY: this command takes no pointers.
    unsafe { syscall(libc::SYS_fsconfig, [raw, FSCONFIG_CMD_CREATE, 0, 0, 0, 0]) }?;
    // SAFETY: no pointers.
    let raw = unsafe {
        syscall(
            libc::SYS_fsmount,
            [context.raw() as usize, FSMOUNT_CLOEXEC, libc::MOUNT_ATTR_RDONLY as usize, 0, 0, 0],
        )
    }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Opens a file below a directory for reading.
///
/// # Errors
/// As openat(2).
pub fn open_below(directory: &Fd, path: &CStr) -> Result<Fd> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: the kernel reads the path, which outlives the call.
    let raw = unsafe {
        syscall(libc::SYS_openat, [directory.raw() as usize, path.as_ptr() as usize, flags, 0, 0, 0])
    }?;
    Ok(Fd::from_raw(raw as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_read_without_being_mounted() {
        let Ok(root) = detached(c"tracefs") else { return };
        let events = open_below(&root, c"README").expect("every tracefs has one");
        let mut text = [0; 16];
        assert!(crate::fd::read(&events, &mut text).is_ok_and(|bytes| bytes == 16));
    }
}
