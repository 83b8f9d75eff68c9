//! File descriptors: an owned one, and the calls on it.

use crate::Result;
use crate::raw::syscall;
use core::ffi::CStr;

/// A descriptor that is closed when dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd(i32);

impl Fd {
    /// Takes over the raw descriptor `raw`; no other code may close it from now on.
    pub const fn from_raw(raw: i32) -> Fd {
        Fd(raw)
    }

    /// The number, still owned by `self`.
    pub const fn raw(&self) -> i32 {
        self.0
    }

    /// Gives up ownership without closing.
    pub fn into_raw(self) -> i32 {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: `self` owns the descriptor (`from_raw`), so no other code uses the number.
        let _ = unsafe { syscall(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Opens a file by path with `flags` (`libc::O_*`, `O_CLOEXEC` is added).
///
/// # Errors
/// As open(2).
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<Fd> {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    // SAFETY: `path` is NUL-terminated and outlives the call.
    let raw = unsafe {
        syscall(
            libc::SYS_openat,
            [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, mode as usize, 0, 0],
        )
    }?;
    Ok(Fd(raw as i32))
}

/// What openat2(2) is asked (`struct open_how`).
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Opens the file that has this path below `root`, as a process would whose root that is, without following links of
/// any kind (openat2(2), Linux 5.6); `O_CLOEXEC` is added.
///
/// # Errors
/// As openat2(2): `ELOOP` where a link is on the way, `ENOSYS`.
pub fn open_in_root(root: &Fd, path: &CStr, flags: i32) -> Result<Fd> {
    let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow { flags: (flags | libc::O_CLOEXEC) as u64, mode: 0, resolve };
    let (path, how) = (path.as_ptr() as usize, &raw const how as usize);
    // SAFETY: the kernel reads the path, which is NUL-terminated, and `how`, of the size that it is told.
    let raw =
        unsafe { syscall(libc::SYS_openat2, [root.0 as usize, path, how, size_of::<OpenHow>(), 0, 0]) }?;
    Ok(Fd(raw as i32))
}

/// Reads up to `into.len()` bytes at the file position.
///
/// # Errors
/// As read(2).
pub fn read(fd: &Fd, into: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`, which is exclusively borrowed.
    unsafe { syscall(libc::SYS_read, [fd.0 as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

/// Another descriptor of the same file, closed by execve(2).
///
/// # Errors
/// `EMFILE`.
pub fn duplicate(fd: &Fd) -> Result<Fd> {
    // SAFETY: fcntl(F_DUPFD_CLOEXEC) touches no memory.
    let new =
        unsafe { syscall(libc::SYS_fcntl, [fd.0 as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0]) }?;
    Ok(Fd(new as i32))
}

/// Duplicates `raw` to the lowest free number that is at least `from`, without close-on-exec.
///
/// # Errors
/// `EMFILE`, `EINVAL` when `from` is over the limit, `EBADF`.
pub fn dup_from(raw: i32, from: i32) -> Result<Fd> {
    // SAFETY: fcntl(F_DUPFD) touches no memory.
    let new =
        unsafe { syscall(libc::SYS_fcntl, [raw as usize, libc::F_DUPFD as usize, from as usize, 0, 0, 0]) }?;
    Ok(Fd(new as i32))
}

/// Moves a descriptor to the lowest free number that is at least `from`, with close-on-exec; leaves it where it is when
/// that cannot be.
pub fn move_above(fd: Fd, from: i32) -> Fd {
    // SAFETY: fcntl(F_DUPFD_CLOEXEC) touches no memory.
    let new = unsafe {
        syscall(libc::SYS_fcntl, [fd.0 as usize, libc::F_DUPFD_CLOEXEC as usize, from as usize, 0, 0, 0])
    };
    new.map_or(fd, |new| Fd(new as i32))
}

/// What identifies an open file: device and inode, and whether it is a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device number of the file system; with `inode` it names the file (stat(2), `st_dev`).
    pub device: u64,
    /// Inode number, unique within the device (stat(2), `st_ino`).
    pub inode: u64,
    /// True when it is a socket.
    pub is_socket: bool,
    /// True when it is a regular file.
    pub is_regular: bool,
    /// True when it is a directory.
    pub is_directory: bool,
    /// The user that owns it; that of nobody when that one has no number here.
    pub owner: u32,
    /// The permission bits.
    pub mode: u32,
    /// True when it is an object of the kernel that has no file (an "anonymous inode": maps of eBPF, epoll, eventfd).
    pub is_anonymous: bool,
    /// Size in bytes.
    pub size: u64,
    /// How many names it has; 0 when it was removed.
    pub links: u64,
}

/// Identity of the open file behind a raw descriptor, which need not be ours.
///
/// # Errors
/// `EBADF` when it is not open.
pub fn identity(raw: i32) -> Result<Identity> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills the whole `stat`, whose layout libc's x86-64 definition matches.
    unsafe { syscall(libc::SYS_fstat, [raw as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    // SAFETY: all zero bytes are a valid stat, and fstat has filled it.
    Ok(identity_of(unsafe { stat.assume_init() }))
}

/// Identity of what is at a path; of a symbolic link itself, where there is one.
///
/// # Errors
/// As stat(2).
pub fn identity_at(path: &CStr) -> Result<Identity> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let (at, flags) = (libc::AT_FDCWD as usize, libc::AT_SYMLINK_NOFOLLOW as usize);
    let to = stat.as_mut_ptr() as usize;
    // SAFETY: `path` is NUL-terminated; the kernel fills the whole `stat`, as above.
    unsafe { syscall(libc::SYS_newfstatat, [at, path.as_ptr() as usize, to, flags, 0, 0]) }?;
    // SAFETY: all zero bytes are a valid stat, and the kernel has filled it.
    Ok(identity_of(unsafe { stat.assume_init() }))
}

fn identity_of(stat: libc::stat) -> Identity {
    let kind = stat.st_mode & libc::S_IFMT;
    Identity {
        device: stat.st_dev,
        inode: stat.st_ino,
        is_socket: kind == libc::S_IFSOCK,
        is_regular: kind == libc::S_IFREG,
        is_directory: kind == libc::S_IFDIR,
        owner: stat.st_uid,
        mode: stat.st_mode & 0o7777,
        is_anonymous: kind == 0,
        size: stat.st_size as u64,
        links: stat.st_nlink,
    }
}

/// Writes all of `bytes` at `offset` of the file (pwrite(2)).
///
/// # Errors
/// As pwrite(2); `EIO` when the kernel wrote less than asked.
pub fn write_at(fd: &Fd, bytes: &[u8], offset: u64) -> Result<()> {
    // SAFETY: the kernel reads `bytes.len()` bytes from `bytes`.
    let done = unsafe {
        syscall(
            libc::SYS_pwrite64,
            [fd.0 as usize, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0],
        )
    }?;
    if done == bytes.len() { Ok(()) } else { Err(crate::Errno(libc::EIO)) }
}

/// A descriptor that can be read once it has been written to (eventfd(2)), which may never happen.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub fn event() -> Result<Fd> {
    // SAFETY: eventfd2 touches no memory.
    let raw = unsafe { syscall(libc::SYS_eventfd2, [0, libc::EFD_CLOEXEC as usize, 0, 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Gives the calling thread a descriptor table of its own and closes in it all but those in `keep`, of which negative
/// ones are none. The numbers are sorted.
///
/// After this, `close` by other threads of the process does not reach those, and the thread keeps
/// none of their descriptors open (close_range(2) with `CLOSE_RANGE_UNSHARE`, Linux 5.9).
///
/// # Errors
/// `ENOSYS` on older kernels; the table may then still be the shared one.
pub fn unshare_all_but(keep: &mut [i32]) -> Result<()> {
    // Not `sort`: this is in programs that want to stay small.
    let mut rest = &mut *keep;
    while let Some((first, others)) = rest.split_first_mut() {
        for other in &mut *others {
            if other < first {
                core::mem::swap(first, other);
            }
        }
        rest = others;
    }
    let last = keep.last().copied().filter(|last| *last >= 0);
    let behind = last.map_or(0, |last| last as usize + 1);
    // What is above all of them goes first: with the flag the kernel copies the others only.
    close_range(behind, u32::MAX as usize, libc::CLOSE_RANGE_UNSHARE as usize)?;
    let mut from = 0;
    for number in keep.iter().filter(|number| **number >= 0).map(|number| *number as usize) {
        if number > from {
            close_range(from, number - 1, 0)?;
        }
        from = number + 1;
    }
    Ok(())
}

fn close_range(first: usize, last: usize, flags: usize) -> Result<()> {
    // SAFETY: closes descriptors of this thread's own table only: `unshare_all_but` unshares first.
    unsafe { syscall(libc::SYS_close_range, [first, last, flags, 0, 0, 0]) }.map(drop)
}

/// Writes two ranges of memory one after the other at `offset` (pwritev(2)). Returns the bytes written.
///
/// # Errors
/// As pwritev(2): `ENOSPC`, `EFBIG`, `EIO`.
///
/// # Safety
/// `lens[i]` bytes at `parts[i]` must be readable for the time of the call. They may be memory that
/// other processes write to.
pub unsafe fn write_parts_at(fd: &Fd, parts: [*const u8; 2], lens: [usize; 2], offset: u64) -> Result<usize> {
    let part = |at: *const u8, iov_len| libc::iovec { iov_base: at.cast_mut().cast(), iov_len };
    let ([first, second], [len, second_len]) = (parts, lens);
    let parts = [part(first, len), part(second, second_len)];
    // SAFETY: the caller's promise; the kernel only reads.
    unsafe { syscall(libc::SYS_pwritev, [fd.0 as usize, parts.as_ptr() as usize, 2, offset as usize, 0, 0]) }
}

/// Writes two slices one after the other at `offset` (pwritev(2)). Returns the bytes written.
///
/// # Errors
/// As pwritev(2).
pub fn write_slices_at(fd: &Fd, slices: [&[u8]; 2], offset: u64) -> Result<usize> {
    // SAFETY: the slices are readable for the time of the call.
    unsafe { write_parts_at(fd, slices.map(<[u8]>::as_ptr), slices.map(<[u8]>::len), offset) }
}

/// Reads at most `into.len()` bytes at `offset` (pread(2)).
///
/// # Errors
/// As pread(2).
pub fn read_at(fd: &Fd, into: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`.
    unsafe {
        syscall(
            libc::SYS_pread64,
            [fd.0 as usize, into.as_mut_ptr() as usize, into.len(), offset as usize, 0, 0],
        )
    }
}

/// Waits until no other open file description has a lock on bytes of the file, and takes one on all of them for this
/// one, which is open for writing (fcntl(2), "open file description locks", Linux 3.15). flock(2) knows nothing of
/// them.
///
/// # Errors
/// As fcntl(2): `EINTR` when a signal came first, `EDEADLK`.
pub fn lock(fd: &Fd) -> Result<()> {
    lock_as(fd, libc::F_WRLCK)
}

/// Gives back what [`lock`] took, also for children that have the descriptor, too.
pub fn unlock(fd: &Fd) {
    // It does not fail for what is locked.
    let _ = lock_as(fd, libc::F_UNLCK);
}

fn lock_as(fd: &Fd, kind: i32) -> Result<()> {
    let whole =
        libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 };
    let arguments = [fd.0 as usize, libc::F_OFD_SETLKW as usize, &raw const whole as usize, 0, 0, 0];
    // SAFETY: the kernel reads `whole`, which outlives the call.
    unsafe { syscall(libc::SYS_fcntl, arguments) }.map(drop)
}

/// Cuts the file at `len` bytes.
///
/// # Errors
/// As ftruncate(2).
pub fn truncate(fd: &Fd, len: u64) -> Result<()> {
    // SAFETY: ftruncate touches no memory of ours.
    unsafe { syscall(libc::SYS_ftruncate, [fd.0 as usize, len as usize, 0, 0, 0, 0]) }.map(drop)
}
