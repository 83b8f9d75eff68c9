//! An open directory of a recording, and the only way by which the recorder makes, replaces and removes files.
//!
//! Every name is one component, looked up in the directory that is open, so that nobody else decides where a file lies:
//! not by renaming a directory above it, and not by a symbolic link that was there first. Files are made new (`O_EXCL`)
//! and never opened through a link (`O_NOFOLLOW`). A directory has mode 0700 and a file 0600, whatever the umask, as
//! far as the file system knows modes; both belong to the recorder's user. How `-o` is followed to the first of them is
//! in [`crate::output::path`].
//!
//! `cargo xtask tidy` refuses other ways of writing by path in this crate.

use crate::output::owner::User;
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, geteuid, symlinkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Mode of a directory of ours.
const DIRECTORY_MODE: Mode = Mode::S_IRWXU;
/// Mode of a file of ours.
const FILE_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
/// The bits of a mode that say who may do what.
const PERMISSIONS: u32 = 0o777;
/// How directories are opened: never through a link.
const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A directory that is open. A clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Folder(Arc<OwnedFd>);

impl Folder {
    /// A directory that was opened by somebody else, of whom nothing is known.
    pub(crate) fn of(fd: OwnedFd) -> Folder {
        Folder(Arc::new(fd))
    }

    /// Makes a directory, which must not be there yet. Whoever owns this one may give the name to another directory
    /// meanwhile: it is taken only if it is empty and our own, which is as good as new.
    ///
    /// # Errors
    /// As mkdir(2) and open(2); `EPERM` when it is another user's by the time it is open, `EEXIST` when it is not
    /// empty.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        mkdirat(self.fd(), name.as_ref(), DIRECTORY_MODE)?;
        let made = self.open(name)?;
        if made.is_empty()? { Ok(made) } else { Err(Errno::EEXIST.into()) }
    }

    /// Opens a directory of our own. Nobody else may enter it from here on.
    ///
    /// # Errors
    /// As open(2): `ENOTDIR` when it is a link; `EPERM` when another user owns it.
    pub(crate) fn open(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        let found = openat(self.fd(), name.as_ref(), DIRECTORY | OFlag::O_PATH, Mode::empty())?;
        Folder::of(found).own()
    }

    /// The same directory for reading and writing, which only we may enter from here on. `self` may have been opened
    /// with `O_PATH`.
    ///
    /// # Errors
    /// `EPERM` when another user owns it, and as open(2).
    pub(crate) fn own(&self) -> io::Result<Folder> {
        let stat = self.stat()?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(Errno::EPERM.into());
        }
        if stat.st_mode & PERMISSIONS != DIRECTORY_MODE.bits() {
            // The umask, or who made it, has given it another. Some file systems know no modes.
            let _ = self.set_mode(DIRECTORY_MODE);
        }
        Ok(Folder::of(openat(self.fd(), ".", DIRECTORY, Mode::empty())?))
    }

    /// Sets the mode of a directory that may be open with `O_PATH`, which fchmod(2) does not take.
    fn set_mode(&self, mode: Mode) -> nix::Result<()> {
        fchmodat(AT_FDCWD, self.place().as_str(), mode, FchmodatFlags::FollowSymlink)
    }

    /// Gives it back the mode that it had before.
    pub(crate) fn restore_mode(&self, mode: u32) {
        // It is as safe with ours.
        let _ = fchmod(self.fd(), Mode::from_bits_truncate(mode));
    }

    /// Makes a file, which must not be there yet.
    ///
    /// # Errors
    /// As open(2): `EEXIST` when something has its name.
    pub(crate) fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(self.fd(), name.as_ref(), flags, FILE_MODE)?;
        // The umask may have taken more away. Some file systems know no modes.
        let _ = fchmod(&made, FILE_MODE);
        Ok(File::from(made))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As open(2): `ELOOP` when it is a link.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(File::from(openat(self.fd(), name.as_ref(), flags, Mode::empty())?))
    }

    /// Moves a file to a directory of the same file system, where it takes the place of what is there.
    ///
    /// # Errors
    /// As rename(2).
    pub(crate) fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Folder,
        as_name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        Ok(renameat(self.fd(), name.as_ref(), to.fd(), as_name.as_ref())?)
    }

    /// Writes a file of `to` in one step: whoever reads it finds the old or the new. Until it is whole it lies here, as
    /// `NAME.new`.
    ///
    /// # Errors
    /// As open(2), write(2) and rename(2); nothing is left behind then.
    pub(crate) fn replace(&self, to: &Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        let written = self.create(&new).and_then(|mut file| file.write_all(bytes));
        written.and_then(|()| self.rename(&new, to, name)).inspect_err(|_| self.remove(&new))
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As symlink(2).
    pub(crate) fn link(&self, name: impl AsRef<OsStr>, target: &Path) -> io::Result<()> {
        Ok(symlinkat(target, self.fd(), name.as_ref())?)
    }

    /// Removes a file or a link, if it is there.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) {
        let _ = unlinkat(self.fd(), name.as_ref(), UnlinkatFlags::NoRemoveDir);
    }

    /// Removes an empty directory, if it is there.
    pub(crate) fn remove_directory(&self, name: impl AsRef<OsStr>) {
        let _ = unlinkat(self.fd(), name.as_ref(), UnlinkatFlags::RemoveDir);
    }

    /// Removes everything in it, as far as that can be done.
    pub(crate) fn clear(&self) {
        for (name, is_directory) in self.entries().unwrap_or_default() {
            if is_directory {
                self.open(&name).iter().for_each(Folder::clear);
                self.remove_directory(&name);
            } else {
                self.remove(&name);
            }
        }
    }

    /// Gives it, and all files and directories in it, to a user; itself last, so that nobody enters before it is done.
    ///
    /// # Errors
    /// As fchown(2): `EPERM` unless we are root. What was given by then stays given, and out of reach.
    pub(crate) fn give(&self, user: User) -> io::Result<()> {
        for (name, is_directory) in self.entries()? {
            if is_directory {
                self.open(&name)?.give(user)?;
            } else if let Ok(file) = self.read(&name) {
                let stat = fstat(&file)?;
                // A link to another file, hard or symbolic, is not ours to give.
                if is(&stat, SFlag::S_IFREG) && stat.st_nlink == 1 && stat.st_uid == geteuid().as_raw() {
                    fchown(&file, Some(Uid::from_raw(user.uid)), user.gid.map(Gid::from_raw))?;
                }
            }
        }
        self.give_alone(user)
    }

    /// Gives it to a user without what is in it.
    ///
    /// # Errors
    /// As fchown(2).
    pub(crate) fn give_alone(&self, user: User) -> io::Result<()> {
        Ok(fchown(self.fd(), Some(Uid::from_raw(user.uid)), user.gid.map(Gid::from_raw))?)
    }

    /// Whether there is nothing in it.
    ///
    /// # Errors
    /// As readdir(3).
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.entries()?.is_empty())
    }

    /// Names of what is in it, and whether each is a directory.
    fn entries(&self) -> io::Result<Vec<(OsString, bool)>> {
        // Of its own, because the position in a directory belongs to what is open.
        let mut dir = Dir::from_fd(openat(self.fd(), ".", DIRECTORY, Mode::empty())?)?;
        let mut entries = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let is_directory = match entry.file_type() {
                Some(kind) => kind == Type::Directory,
                None => {
                    let stat = fstatat(self.fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
                    is(&stat, SFlag::S_IFDIR)
                }
            };
            entries.push((name.to_owned(), is_directory));
        }
        Ok(entries)
    }

    /// What the kernel says of it.
    ///
    /// # Errors
    /// As fstat(2).
    pub(crate) fn stat(&self) -> io::Result<FileStat> {
        Ok(fstat(self.fd())?)
    }

    /// Opens what has this name without following it, and without being able to read it.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(self.fd(), name, flags, Mode::empty())?)
    }

    /// Where the link leads that was opened by [`Folder::look`].
    pub(crate) fn target(&self) -> io::Result<PathBuf> {
        Ok(readlinkat(self.fd(), "")?.into())
    }

    /// Its path now, for a person: it may be out of date at once.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(self.place())
    }

    fn place(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What kind of file it is.
pub(crate) fn is(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    /// A directory, open and by its path, for the life of the value.
    struct TestFolder {
        path: PathBuf,
        folder: Folder,
    }

    impl TestFolder {
        fn new(name: &str) -> TestFolder {
            let path = std::env::temp_dir().join(format!("mote-folder-{name}-{}", std::process::id()));
            let folder = crate::output::path::make(&path).expect("a directory").folder;
            TestFolder { path, folder }
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.path).expect("removed");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_that_was_there_first() {
        let test = TestFolder::new("links");
        let victim = test.path.join("victim");
        fs::write(&victim, "data").expect("a file");
        for name in ["metadata", "metadata.new", "journal.jsonl"] {
            symlink(&victim, test.path.join(name)).expect("a link");
        }
        let why = test.folder.create("journal.jsonl").expect_err("something has this name");
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
        let why = test.folder.replace(&test.folder, "metadata", b"new").expect_err("in the way");
        assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
        test.folder.replace(&test.folder, "metadata", b"new").expect("nothing was left in the way");
        assert_eq!(fs::read_to_string(&victim).expect("it"), "data");
        assert_eq!(fs::read_to_string(test.path.join("metadata")).expect("it"), "new");
        symlink(&test.path, test.path.join("inner")).expect("a link");
        assert!(test.folder.open("inner").is_err() && test.folder.make("inner").is_err());
    }

    #[test]
    fn what_is_made_is_ours_alone_and_goes_where_the_directory_goes() {
        let test = TestFolder::new("moved");
        let inner = test.folder.make("inner").expect("made");
        inner.create("first").expect("made");
        fs::rename(test.path.join("inner"), test.path.join("other")).expect("renamed");
        symlink("/", test.path.join("inner")).expect("a link");
        inner.create("second").expect("made");
        for (name, mode) in [("other", 0o40700), ("other/first", 0o100600), ("other/second", 0o100600)] {
            let found = fs::metadata(test.path.join(name)).expect("there");
            assert_eq!(found.mode(), mode, "{name}");
        }
        test.folder.clear();
        assert!(test.folder.is_empty().expect("readable"));
        assert!(fs::metadata("/").is_ok_and(|root| root.is_dir()), "the link is gone, and nothing behind it");
    }

    #[test]
    fn an_empty_directory_of_ours_is_taken_and_given_back() {
        let test = TestFolder::new("taken");
        fs::set_permissions(&test.path, fs::Permissions::from_mode(0o777)).expect("ours");
        let output = crate::output::path::make(&test.path).expect("empty and ours");
        assert_eq!(output.folder.stat().expect("open").st_mode, 0o40700);
        output.folder.restore_mode(output.found.expect("it was there"));
        assert_eq!(fs::metadata(&test.path).expect("there").mode(), 0o40777);
        fs::write(test.path.join("precious"), "data").expect("a file");
        let refused = crate::output::path::make(&test.path).expect_err("not empty");
        assert!(refused.to_string().contains("not empty"), "{refused}");
        assert_eq!(fs::metadata(&test.path).expect("there").mode(), 0o40777, "left as it was");
    }
}
