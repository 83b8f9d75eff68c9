//! The private directory of a recorder's sockets: made, found by others, and removed.
//!
//! Where anybody can make files, a name proves nothing. So a directory is opened once, without following a link, and is
//! what the open descriptor says: it counts when its owner is right and nobody else can write there. What is in it is
//! looked at and removed relative to that descriptor.

use crate::error::Error;
use mote_session::trust::Trust;
use mote_sys::socket;
use mote_wire::PLACES_APART;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, fchownat, unlinkat};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// How a directory's name begins; the recorder's process id follows, and a number that nobody can guess.
const DIRECTORY: &str = "mote-";
/// Where processes say hello.
pub(crate) const SESSION: &str = "session";
/// Where requests come in.
pub(crate) const CONTROL: &str = "control";
/// All that is ever in such a directory.
const ALL: [&str; 2] = [CONTROL, SESSION];
/// Where there is nothing better: for root, whose services may have a `/tmp` of their own, and for everybody.
const OF_ROOT: &str = "/run";
const COMMON: &str = "/tmp";
/// Longest path of a base: a socket's has 107 bytes.
const BASE_MAX: usize = 60;
/// How often another name is tried.
const TRIES: u32 = 16;

/// A directory of ours.
#[derive(Debug)]
pub(crate) struct Sockets {
    base: OwnedFd,
    name: String,
    path: PathBuf,
    /// Open, and locked for as long as we live: that is how another recorder of ours knows that the directory is not
    /// left behind.
    directory: File,
}

impl Sockets {
    /// Makes one for our own processes: where the user's sockets belong, or else in `/tmp`. What recorders of ours have
    /// left behind in either is removed.
    ///
    /// # Errors
    /// [`Error::Loop`].
    pub(crate) fn make(trust: Trust) -> Result<Sockets, Error> {
        let own = runtime_directory().filter(|path| is_plain(path)).and_then(|path| {
            let base = look_at(&path).ok()?;
            is_closed(&fstat(&base).ok()?, trust.own()).then_some((base, path))
        });
        let mut bases: Vec<(OwnedFd, PathBuf)> = own.into_iter().collect();
        bases.extend(common_bases(trust));
        bases.iter().for_each(|(base, path)| sweep(base, path, trust));
        make_in_one(bases, Mode::S_IRWXU)
    }

    /// Makes one that processes of others can come to. They can see nothing in it but what they know the name of, and
    /// change nothing.
    ///
    /// # Errors
    /// [`Error::Loop`].
    pub(crate) fn make_for_others(trust: Trust) -> Result<Sockets, Error> {
        make_in_one(common_bases(trust), Mode::S_IRWXU | Mode::S_IXGRP | Mode::S_IXOTH)
    }

    fn make_in(base: OwnedFd, path: &Path, mode: Mode) -> io::Result<Sockets> {
        let mut tries = 0;
        let name = loop {
            let name = format!("{DIRECTORY}{}-{:016x}", process::id(), random()?);
            match mkdirat(&base, name.as_str(), Mode::S_IRWXU) {
                Ok(()) => break name,
                Err(nix::Error::EEXIST) if tries < TRIES => tries += 1,
                Err(why) => return Err(why.into()),
            }
        };
        let directory = open_in(&base, &name)?;
        directory.try_lock()?;
        // The umask has had a say in the mode.
        nix::sys::stat::fchmod(&directory, mode)?;
        Ok(Sockets { base, path: path.join(&name), name, directory })
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Has `listen` bind and listen at a path, and makes sure that the socket is in this directory: the path's way here
    /// may lead elsewhere by now.
    ///
    /// # Errors
    /// As `bind`; `NotFound` when it is not here.
    pub(crate) fn listen<T>(&self, name: &str, bind: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let bound = bind(&self.path.join(name))?;
        let stat = fstatat(&self.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if is_socket(&stat) { Ok(bound) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Lets a user, and nobody else, connect to a socket.
    ///
    /// # Errors
    /// As fchownat(2): `EPERM` for a recorder that is not root's.
    pub(crate) fn give(&self, name: &str, uid: u32) -> io::Result<()> {
        let only_owner = Mode::S_IRUSR | Mode::S_IWUSR;
        fchmodat(&self.directory, name, only_owner, FchmodatFlags::FollowSymlink)?;
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        Ok(fchownat(&self.directory, name, Some(Uid::from_raw(uid)), None, flags)?)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        remove(&self.base, &self.name, self.directory.as_fd());
    }
}

/// The control sockets that recorders whose directories are in `base` seem to have. Nothing is known of them.
pub(crate) fn all_below(base: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(DIRECTORY);
    entries.filter(is_ours).map(|entry| entry.path().join(CONTROL))
}

/// Connects to a control socket of a user who is `wanted`, and says whose it is: the directory must be that user's,
/// nobody else may be able to write there, the socket in it must be that user's, and such a user must have begun to
/// listen.
///
/// # Errors
/// `PermissionDenied` when it is somebody else's; `WouldBlock` when too many wait there already; as openat(2) and
/// connect(2).
pub(crate) fn call(path: &Path, wanted: impl Fn(u32) -> bool) -> io::Result<(UnixStream, u32)> {
    let (parent, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
    let directory = look_at(parent)?;
    let (place, there) = (fstat(&directory)?, fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?);
    let owner = place.st_uid;
    if !wanted(owner) || !is_closed(&place, owner) || !is_socket(&there) || there.st_uid != owner {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let called = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    let inside = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    connect(called.as_raw_fd(), &UnixAddr::new(&inside)?)?;
    if socket::peer(called.as_raw_fd()).is_ok_and(|peer| peer.uid == owner) {
        let stream = UnixStream::from(called);
        stream.set_nonblocking(false)?;
        return Ok((stream, owner));
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Removes what recorders of this user's that were killed have left behind: directories that are the user's own, and in
/// them sockets. A link is not followed; what others have made under such a name stays.
fn sweep(base: &OwnedFd, path: &Path, trust: Trust) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| pid_of(name).is_some_and(is_gone)) else { continue };
        let Ok(directory) = open_in(base, name) else { continue };
        let is_ours =
            |stat: FileStat| trust.are_same(stat.st_uid, trust.own()) && is_closed(&stat, trust.own());
        if fstat(&directory).is_ok_and(is_ours) && directory.try_lock().is_ok() {
            remove(base, name, directory.as_fd());
        }
    }
}

fn pid_of(name: &str) -> Option<u32> {
    name.strip_prefix(DIRECTORY)?.split('-').next()?.parse().ok()
}

fn is_gone(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

/// Removes the sockets of an open directory, and the directory if it still has this name and nothing else is in it.
fn remove(base: &OwnedFd, name: &str, directory: impl AsFd) {
    for file in ALL {
        if fstatat(&directory, file, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| is_socket(&stat)) {
            let _ = unlinkat(&directory, file, UnlinkatFlags::NoRemoveDir);
        }
    }
    let (named, open) = (fstatat(base, name, AtFlags::AT_SYMLINK_NOFOLLOW), fstat(&directory));
    if let (Ok(named), Ok(open)) = (named, open)
        && (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
    {
        let _ = unlinkat(base, name, UnlinkatFlags::RemoveDir);
    }
}

/// Bases that are everybody's to see.
fn common_bases(trust: Trust) -> Vec<(OwnedFd, PathBuf)> {
    let all = if trust.is_root() { [OF_ROOT, COMMON].as_slice() } else { &[COMMON] };
    all.iter().filter_map(|path| Some((open_base(path).ok()?, PathBuf::from(path)))).collect()
}

/// Makes a directory in the first base where one can be made.
fn make_in_one(bases: Vec<(OwnedFd, PathBuf)>, mode: Mode) -> Result<Sockets, Error> {
    let none = "there is no safe directory for sockets: XDG_RUNTIME_DIR and /tmp are missing, or others can change \
                them";
    let mut refused = io::Error::other(none);
    for (base, path) in bases {
        match Sockets::make_in(base, &path, mode) {
            Ok(made) => return Ok(made),
            Err(why) => refused = why,
        }
    }
    Err(Error::Loop { what: "make a directory for sockets", why: refused })
}

/// Bases where recorders of others may be.
pub(crate) fn bases() -> impl Iterator<Item = PathBuf> {
    let users = fs::read_dir("/run/user").into_iter().flatten().flatten().map(|entry| entry.path());
    runtime_directory().into_iter().chain(users).chain([OF_ROOT, COMMON].map(PathBuf::from))
}

/// Where the user's sockets belong.
fn runtime_directory() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
}

/// Whether sockets can be in it: a relative path would mean something else to a command elsewhere.
fn is_plain(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    path.is_absolute() && bytes.len() < BASE_MAX && !bytes.contains(&(PLACES_APART as u8))
}

/// Opens a directory, to look at it and at what is in it; not through a link.
fn look_at(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(AT_FDCWD, path, DIRECTORY_ONLY | OFlag::O_PATH, Mode::empty())?)
}

/// Opens a directory in another one, to lock it.
fn open_in(base: &OwnedFd, name: &str) -> io::Result<File> {
    Ok(File::from(openat(base, name, DIRECTORY_ONLY | OFlag::O_RDONLY, Mode::empty())?))
}

const DIRECTORY_ONLY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A directory that belongs to the system, in which nobody can take away what somebody else has made.
fn open_base(path: &str) -> io::Result<OwnedFd> {
    // It may be a link, which is root's to make.
    let path = fs::canonicalize(path)?;
    let base = look_at(&path)?;
    let stat = fstat(&base)?;
    let is_sticky = Mode::from_bits_truncate(stat.st_mode).contains(Mode::S_ISVTX);
    if is_sticky || is_closed(&stat, stat.st_uid) {
        return Ok(base);
    }
    Err(io::Error::other("any user could remove the sockets there: the directory has no sticky bit"))
}

/// A directory of this user's, where nobody else can write.
fn is_closed(stat: &FileStat, uid: u32) -> bool {
    let mode = Mode::from_bits_truncate(stat.st_mode);
    kind(stat) == SFlag::S_IFDIR && stat.st_uid == uid && !mode.intersects(Mode::S_IWGRP | Mode::S_IWOTH)
}

fn is_socket(stat: &FileStat) -> bool {
    kind(stat) == SFlag::S_IFSOCK
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::principal;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;

    /// A place of this test's own, that goes with it.
    struct Place(PathBuf);

    impl Place {
        fn make() -> Place {
            let path = env::temp_dir().join(format!("sockets-{:016x}", random().expect("random")));
            fs::create_dir(&path).expect("a directory");
            Place(path)
        }

        /// A directory with a socket, as recorders have it.
        fn recorder(&self, name: &str) -> (PathBuf, UnixListener) {
            let directory = self.0.join(name);
            fs::create_dir(&directory).expect("a directory");
            fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).expect("ours");
            let listener = UnixListener::bind(directory.join(CONTROL)).expect("a socket");
            (directory, listener)
        }

        fn make_sockets(&self) -> Sockets {
            Sockets::make_in(look_at(&self.0).expect("a directory"), &self.0, Mode::S_IRWXU).expect("made")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn own() -> u32 {
        Uid::effective().as_raw()
    }

    #[track_caller]
    fn assert_refused(path: &Path, wanted: impl Fn(u32) -> bool) {
        assert!(call(&path.join(CONTROL), wanted).is_err(), "{}", path.display());
    }

    #[test]
    fn only_who_is_wanted_is_called() {
        let place = Place::make();
        let (plain, _listener) = place.recorder("plain");
        let (_, owner) = call(&plain.join(CONTROL), |uid| uid == own()).expect("it is wanted");
        assert_eq!(owner, own());
        assert_refused(&plain, |uid| uid != own());
        // Others could have put it there.
        fs::set_permissions(&plain, PermissionsExt::from_mode(0o775)).expect("ours");
        assert_refused(&plain, |_| true);
        fs::set_permissions(&plain, PermissionsExt::from_mode(0o700)).expect("ours");
        symlink(&plain, place.0.join("link")).expect("a link");
        assert_refused(&place.0.join("link"), |_| true);
        let leads_on = place.0.join("leads-on");
        fs::create_dir(&leads_on).expect("a directory");
        symlink(plain.join(CONTROL), leads_on.join(CONTROL)).expect("a link");
        assert_refused(&leads_on, |_| true);
    }

    #[test]
    fn owners_must_agree() {
        if own() != 0 {
            mote_skip::skip("giving files away needs root");
            return;
        }
        let place = Place::make();
        // Somebody else's directory with a socket of root's; root's with somebody else's; and somebody else's, at which
        // root listens.
        for (directory, socket) in [(12345, 0), (0, 12345), (12345, 12345)] {
            let (path, _listener) = place.recorder(&format!("{directory}-{socket}"));
            chown(path.join(CONTROL), Some(socket), None).expect("root");
            chown(&path, Some(directory), None).expect("root");
            assert_refused(&path, |_| true);
        }
    }

    #[test]
    fn sockets_are_bound_here_or_not_at_all() {
        let place = Place::make();
        let sockets = place.make_sockets();
        assert_eq!(fs::metadata(sockets.path()).expect("made").permissions().mode() & 0o777, 0o700);
        let elsewhere = place.0.join("elsewhere");
        assert!(sockets.listen(SESSION, |_| UnixListener::bind(&elsewhere)).is_err());
        let listener = sockets.listen(CONTROL, |path| UnixListener::bind(path)).expect("bound");
        let path = sockets.path().to_owned();
        drop((sockets, listener));
        assert!(!path.exists() && elsewhere.exists(), "only what is ours goes");
    }

    #[test]
    fn what_is_in_use_is_not_swept_away() {
        let place = Place::make();
        let base = look_at(&place.0).expect("a directory");
        let sockets = place.make_sockets();
        // Of a process that is of another pid namespace, as far as can be seen here.
        let name = format!("{DIRECTORY}999999999-0");
        fs::rename(sockets.path(), place.0.join(&name)).expect("renamed");
        sweep(&base, &place.0, principal::trust());
        assert!(place.0.join(&name).exists(), "it is locked");
        let Sockets { directory, .. } = &sockets;
        directory.unlock().expect("locked before");
        sweep(&base, &place.0, principal::trust());
        assert!(!place.0.join(&name).exists());
    }
}
