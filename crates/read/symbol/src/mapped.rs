//! The files that a process has mapped: which they are, and how to open them.
//!
//! A process decides what it maps, under which name, and in which mount namespace: the name means nothing here, or
//! another file. So a file is never opened by its name in our namespace, but through `/proc/PID/map_files`, which leads
//! to what is mapped (for root, proc_pid_map_files(5)), or else below the process's own root, without following links,
//! and then it has to be the file that is mapped (device and inode). Only regular files are opened: they are looked at
//! before, by a descriptor that opens nothing (`O_PATH`). [`Bounded`] reads no more of one than it was told.
//!
//! A file system that a program serves (FUSE) can let a reader wait for ever: where the process is not our own user's,
//! its files are not opened.

use crate::arch;
use mote_journal::Map;
use mote_sys::Errno;
use mote_sys::fd::{self, Fd};
use object::{ReadCache, ReadRef};
use std::cell::Cell;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Most bytes that are read of `/proc/PID/maps` and the like: several hundred thousand lines as usual.
const TABLE_MAX: u64 = 32 << 20;

/// A mapping of code, and which file it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// Addresses, and the path by which the process has the file.
    pub map: Map,
    /// Which file: `None` for memory without one.
    pub file: Option<FileId>,
}

/// Which file: device (major, minor) and inode, as the kernel tells them of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Number of the device, in two parts.
    pub device: (u32, u32),
    /// Number of the inode, unique within the device.
    pub inode: u64,
}

/// The user that a process runs as (its effective user id); `None` when it has gone.
#[must_use]
pub fn user(pid: u32) -> Option<u32> {
    let status = table(&format!("/proc/{pid}/status"));
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The state of a process, and its flags (`PF_*` of `include/linux/sched.h`), as the kernel has them
/// (`/proc/PID/stat`); `None` when it has gone.
#[must_use]
pub fn state(pid: i32) -> Option<(char, u64)> {
    let stat = table(&format!("/proc/{pid}/stat"));
    let (_, fields) = stat.rsplit_once(") ")?;
    Some((fields.chars().next()?, fields.split(' ').nth(6)?.parse().ok()?))
}

/// A table of `/proc`, up to a bound: of one that is longer its beginning, in whole lines. Empty when it cannot be
/// read.
#[must_use]
pub fn table(path: &str) -> String {
    read_table(Path::new(path)).unwrap_or_default()
}

/// Whether the processor compares where functions of a process return to with a copy of its own: a return address must
/// not be replaced there.
#[must_use]
pub fn has_shadow_stack(pid: u32) -> bool {
    arch::has_shadow_stack(&table(&format!("/proc/{pid}/status")))
}

/// As [`table`], with why not.
///
/// # Errors
/// As open(2) and read(2).
pub fn read_table(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(TABLE_MAX).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == TABLE_MAX {
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The addresses of the mapping of a line of `/proc/PID/maps`; `None` when it is no such line.
#[must_use]
pub fn addresses(line: &str) -> Option<Range<u64>> {
    let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some(hex(begin)?..hex(end)?)
}

/// The mappings of a process that hold code; none when it has gone or may not be looked at.
#[must_use]
pub fn code(pid: u32) -> Vec<Mapped> {
    let text = table(&format!("/proc/{pid}/maps"));
    let mapped = |line: &str| Some(Mapped { map: crate::space::code_map(line)?, file: FileId::parse(line) });
    text.lines().filter_map(mapped).collect()
}

impl FileId {
    /// From a line of `/proc/PID/maps`; `None` when the mapping is of no file.
    #[must_use]
    pub fn parse(line: &str) -> Option<FileId> {
        let mut words = line.split_ascii_whitespace().skip(3);
        let (major, minor) = words.next()?.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let inode = words.next()?.parse().ok().filter(|inode| *inode != 0)?;
        Some(FileId { device: (hex(major)?, hex(minor)?), inode })
    }

    /// Opens the file that process `pid` has mapped at `start..end` under the name `path`, for reading.
    ///
    /// # Errors
    /// As open(2); `ENXIO` when it is not a regular file, `ESTALE` when what is at its place is another file,
    /// `EOPNOTSUPP` when its file system may let us wait for ever.
    pub fn open(&self, pid: u32, (start, end): (u64, u64), path: &str) -> io::Result<File> {
        let found = self.pin(pid, (start, end), path)?;
        open_pinned(&found)
    }

    /// A descriptor of the file by which nothing can be read (`O_PATH`), but which names it for good:
    /// `/proc/self/fd/N`.
    ///
    /// # Errors
    /// As [`FileId::open`].
    pub fn pin(&self, pid: u32, (start, end): (u64, u64), path: &str) -> io::Result<Fd> {
        if self.may_block(pid) {
            return Err(failed(Errno(libc::EOPNOTSUPP)));
        }
        let link = text(&format!("/proc/{pid}/map_files/{start:x}-{end:x}"))?;
        match fd::open(&link, libc::O_PATH, 0) {
            Ok(found) if fd::identity(found.raw()).is_ok_and(|file| file.is_regular) => Ok(found),
            Ok(_) => Err(failed(Errno(libc::ENXIO))),
            Err(_) => self.below_root(pid, path),
        }
    }

    /// Opens the regular file `path` below the process's root, which lies beside this one: following no links.
    ///
    /// # Errors
    /// As [`FileId::open`].
    pub fn open_beside(&self, pid: u32, path: &str) -> io::Result<File> {
        if self.may_block(pid) {
            return Err(failed(Errno(libc::EOPNOTSUPP)));
        }
        let found = in_root(pid, path)?;
        let device = fd::identity(found.raw()).map_err(failed)?.device;
        // Something that may let us wait for ever can be mounted there.
        let is_beside = (libc::major(device), libc::minor(device)) == self.device;
        if is_beside || mount_device(pid, &found) == Some(self.device) {
            open_pinned(&found)
        } else {
            Err(failed(Errno(libc::EXDEV)))
        }
    }

    /// The file with this name below the process's root, if it is this one.
    fn below_root(&self, pid: u32, path: &str) -> io::Result<Fd> {
        let found = in_root(pid, path)?;
        let identity = fd::identity(found.raw()).map_err(failed)?;
        let device = (libc::major(identity.device), libc::minor(identity.device));
        // Some file systems have a number for each part of them (btrfs), and mappings the whole one's.
        let is_it = device == self.device || mount_device(pid, &found) == Some(self.device);
        if is_it && identity.inode == self.inode { Ok(found) } else { Err(failed(Errno(libc::ESTALE))) }
    }

    /// Whether its file system is served by a program that may be the process's, which is not our user's.
    fn may_block(&self, pid: u32) -> bool {
        // The owner of `/proc/PID` is root for a process that is not to be looked into.
        if user(pid).is_some_and(|user| Some(user) == self::user(std::process::id())) {
            return false;
        }
        let mounts = table(&format!("/proc/{pid}/mountinfo"));
        let mut all = mounts.lines().filter_map(Mount::parse);
        all.any(|mount| mount.device == self.device && mount.kind.starts_with("fuse"))
    }
}

/// A regular file below a process's root, by a descriptor by which nothing can be read.
fn in_root(pid: u32, path: &str) -> io::Result<Fd> {
    let root = text(&format!("/proc/{pid}/root"))?;
    let root = fd::open(&root, libc::O_PATH | libc::O_DIRECTORY, 0).map_err(failed)?;
    let found = fd::open_in_root(&root, &text(path)?, libc::O_PATH).map_err(failed)?;
    match fd::identity(found.raw()).map_err(failed)?.is_regular {
        true => Ok(found),
        false => Err(failed(Errno(libc::ENXIO))),
    }
}

/// Opens a file for reading that is pinned by a descriptor: this one, whatever has happened to its name.
fn open_pinned(found: &Fd) -> io::Result<File> {
    let careful = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(careful).open(format!("/proc/self/fd/{}", found.raw()))
}

/// Opens the regular file with this name in our own mount namespace, following no links: for what has to be found
/// without a process that has mapped it. Whoever asks has to look whether it is the right one (its build id): anybody
/// may have put it there.
///
/// # Errors
/// As open(2); `ENXIO` when it is not a regular file, `EOPNOTSUPP` when its file system may let us wait for ever.
pub fn open_named(path: &str) -> io::Result<File> {
    let mounts = table("/proc/self/mountinfo");
    let shown = shown(path);
    let all = mounts.lines().filter_map(Mount::parse).filter(|mount| mount.holds(&shown));
    // Of those at one place the last one is on top.
    let mount = all.max_by_key(|mount| mount.point.len());
    if mount.is_none_or(|mount| mount.kind.starts_with("fuse")) {
        return Err(failed(Errno(libc::EOPNOTSUPP)));
    }
    let found = in_root(std::process::id(), path)?;
    open_pinned(&found)
}

/// Opens a regular file of user `owner` in the directory `/tmp` that `root` has, which is `/proc/PID/root` or `/`.
///
/// # Errors
/// As open(2); `EACCES` when it is another user's, `ENXIO` when it is not a regular file, `EOPNOTSUPP` when its file
/// system may let us wait for ever.
pub(crate) fn open_temporary(root: &str, mounts: &str, name: &str, owner: u32) -> io::Result<File> {
    let served = |mount: &Mount<'_>| ["/", "/tmp"].contains(&mount.point) && mount.kind.starts_with("fuse");
    if table(mounts).lines().filter_map(Mount::parse).any(|mount| served(&mount)) {
        return Err(failed(Errno(libc::EOPNOTSUPP)));
    }
    let root = fd::open(&text(root)?, libc::O_PATH | libc::O_DIRECTORY, 0).map_err(failed)?;
    let found = fd::open_in_root(&root, &text(&format!("tmp/{name}"))?, libc::O_PATH).map_err(failed)?;
    if !fd::identity(found.raw()).is_ok_and(|file| file.is_regular) {
        return Err(failed(Errno(libc::ENXIO)));
    }
    let file = open_pinned(&found)?;
    if file.metadata()?.uid() == owner { Ok(file) } else { Err(failed(Errno(libc::EACCES))) }
}

/// A line of `/proc/PID/mountinfo`.
struct Mount<'a> {
    id: u64,
    device: (u32, u32),
    point: &'a str,
    kind: &'a str,
}

impl Mount<'_> {
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (mut words, mut behind) = (line.split(' '), line.split(" - ").nth(1)?.split(' '));
        let id = words.next()?.parse().ok()?;
        let (major, minor) = words.nth(1)?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        Some(Mount { id, device, point: words.nth(1)?, kind: behind.next()? })
    }

    /// Whether a path, as mountinfo writes it, is below the mount point.
    fn holds(&self, shown: &str) -> bool {
        let rest = shown.strip_prefix(self.point.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

/// A path as mountinfo writes it: proc_pid_mountinfo(5), and `mangle` of the kernel's fs/seq_file.c.
fn shown(path: &str) -> String {
    const ESCAPED: [(char, &str); 4] = [('\\', "\\134"), (' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")];
    ESCAPED.iter().fold(path.to_owned(), |path, (c, by)| path.replace(*c, by))
}

/// Device of the mount that an open file is on.
fn mount_device(pid: u32, found: &Fd) -> Option<(u32, u32)> {
    let about = table(&format!("/proc/self/fdinfo/{}", found.raw()));
    let id: u64 = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    let mounts = table(&format!("/proc/{pid}/mountinfo"));
    mounts.lines().filter_map(Mount::parse).find(|mount| mount.id == id).map(|mount| mount.device)
}

fn text(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(|_| failed(Errno(libc::EINVAL)))
}

fn failed(why: Errno) -> io::Error {
    io::Error::from_raw_os_error(why.0)
}

/// A file that is read in parts, of which so many bytes are read at most; then reading fails. Memory is only taken for
/// what may be read.
#[derive(Debug)]
pub struct Bounded {
    cache: ReadCache<File>,
    left: Cell<u64>,
}

/// What a name is counted as.
const NAME_BYTES: u64 = 64;

impl Bounded {
    /// At most `most` bytes of `file`.
    #[must_use]
    pub fn new(file: File, most: u64) -> Bounded {
        Bounded { cache: ReadCache::new(file), left: Cell::new(most) }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a Bounded {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.take(NAME_BYTES)?;
        self.cache.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn own(path_end: &str) -> Mapped {
        let all = code(std::process::id());
        all.into_iter().find(|mapped| mapped.map.path.ends_with(path_end)).expect("it is mapped")
    }

    #[test]
    fn lines_are_read() {
        let line = "7f-8f r-xp 00001000 fe:0a 1234                       /opt/a b (deleted)";
        assert_eq!(FileId::parse(line), Some(FileId { device: (0xfe, 0xa), inode: 1234 }));
        assert_eq!(FileId::parse("7f-8f r-xp 00000000 00:00 0 "), None);
        assert_eq!(FileId::parse(""), None);
        let mount = "36 35 98:0 /mnt1 /mnt/2 rw,noatime master:1 - fuse.sshfs host: rw";
        let mount = Mount::parse(mount).expect("a mount");
        assert_eq!((mount.id, mount.device, mount.point, mount.kind), (36, (98, 0), "/mnt/2", "fuse.sshfs"));
        assert!(Mount::parse("36 35 98:0").is_none());
    }

    #[test]
    fn mount_points_hold_what_is_below_them() {
        let holds = |point: &str, path: &str| {
            let line = format!("36 35 98:0 / {point} rw - ext4 /dev/sda rw");
            Mount::parse(&line).expect("a mount").holds(&shown(path))
        };
        assert!(holds("/", "/a b") && holds("/mnt", "/mnt/a"));
        assert!(!holds("/mnt", "/mnt2/a") && !holds("/mnt/a", "/mnt/b"));
        assert!(holds(r"/mnt/a\040b", "/mnt/a b/file") && !holds(r"/mnt/a\040b", "/mnt/a c/file"));
        assert!(holds(r"/a\134b\011\012", "/a\\b\t\n/file"));
        // A name that looks like what is escaped.
        assert!(!holds(r"/mnt/a\040b", r"/mnt/a\040b/file") && holds(r"/mnt/a\134040b", r"/mnt/a\040b/file"));
    }

    #[test]
    fn the_mapped_file_is_opened_both_ways() {
        let pid = std::process::id();
        let exe = std::env::current_exe().expect("known");
        let mapped = own(exe.file_name().and_then(|name| name.to_str()).expect("text"));
        let (file, map) = (mapped.file.expect("a file"), &mapped.map);
        let is_it =
            |file: &File| file.metadata().expect("open").ino() == fs::metadata(&exe).expect("there").ino();
        assert!(is_it(&file.open(pid, (map.start, map.end), &map.path).expect("by either way")));
        assert!(file.below_root(pid, &map.path).is_ok());
        assert!(is_it(&open_named(&map.path).expect("by its name")));
    }

    #[test]
    fn another_file_at_its_place_is_not_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let pid = std::process::id();
        fs::write(path("file"), "it").expect("a file");
        fs::write(path("other"), "another").expect("a file");
        symlink(path("file"), path("link")).expect("a link");
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        let data = fs::metadata(path("file")).expect("there");
        let device = (libc::major(data.dev()), libc::minor(data.dev()));
        let file = FileId { device, inode: data.ino() };
        let error =
            |name: &str| file.below_root(pid, &path(name)).map(drop).map_err(|why| why.raw_os_error());
        let beside =
            |name: &str| file.open_beside(pid, &path(name)).map(drop).map_err(|why| why.raw_os_error());
        assert_eq!((beside("file"), beside("other")), (Ok(()), Ok(())));
        assert_eq!(beside("link"), Err(Some(libc::ELOOP)));
        assert_eq!(beside("pipe"), Err(Some(libc::ENXIO)));
        assert_eq!(beside("none"), Err(Some(libc::ENOENT)));
        assert_eq!(error("file"), Ok(()));
        assert_eq!(error("other"), Err(Some(libc::ESTALE)));
        assert_eq!(error("link"), Err(Some(libc::ELOOP)));
        // It has no writer: opening it would wait for ever.
        assert_eq!(error("pipe"), Err(Some(libc::ENXIO)));
        assert_eq!(error("none"), Err(Some(libc::ENOENT)));
        let named = |name: &str| open_named(&path(name)).map(drop).map_err(|why| why.raw_os_error());
        assert_eq!((named("file"), named("other")), (Ok(()), Ok(())));
        assert_eq!(named("link"), Err(Some(libc::ELOOP)));
        assert_eq!(named("pipe"), Err(Some(libc::ENXIO)));
        assert_eq!(named("none"), Err(Some(libc::ENOENT)));
        assert!(open_named("file").is_err(), "it is no path from the root");
    }

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, [7; 100]).expect("a file");
        let data = &Bounded::new(File::open(path).expect("there"), 50);
        assert_eq!(data.read_bytes_at(0, 40), Ok(&[7; 40][..]));
        assert_eq!(data.read_bytes_at(40, 11), Err(()));
        assert_eq!(data.read_bytes_at(0, u64::MAX), Err(()));
        assert_eq!(data.read_bytes_at(40, 10), Ok(&[7; 10][..]));
    }
}
