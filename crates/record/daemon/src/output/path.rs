//! The way to the directory of a recording: from what `-o` says to a directory that is open and our own.
//!
//! Others may own directories on this way: a person's home, below which root records, or `/tmp`. They cannot lead the
//! recorder elsewhere: a symbolic link is followed only if root, we, or whoever has called sudo has made it, and
//! directories are walked through as they are open. The last one is made by us, or was empty and ours; from there on no
//! path is used any more. So what the owner of a directory above can do is to give the recording another name, or its
//! name to something else.

use crate::error::Error;
use crate::output::folder::{Folder, is};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag};
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// Links that one path may lead through (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// The directory, and where it is.
#[derive(Debug)]
pub(crate) struct Output {
    /// The directory that it is in.
    pub(crate) parent: Folder,
    /// Its name there.
    pub(crate) name: OsString,
    /// Itself: empty, and our own.
    pub(crate) folder: Folder,
    /// Its mode before, if it was there.
    pub(crate) found: Option<u32>,
    /// Those above it that were made, the outermost first.
    pub(crate) above: Vec<Folder>,
}

/// Makes the directory for a recording, with those above it, or takes an empty one of our own.
///
/// # Errors
/// [`Error::Exists`] when there is something in it, [`Error::Output`] otherwise.
pub(crate) fn make(path: &Path) -> Result<Output, Error> {
    let failed = |why| Error::Output(path.to_owned(), why);
    let mut walk = Walk::begin(path).map_err(failed)?;
    let mut above = Vec::new();
    while let Some(name) = walk.left.pop() {
        let is_last = walk.left.is_empty();
        match walk.at.look(&name) {
            Ok(found) => match walk.step(&name, found).map_err(failed)? {
                Some(folder) if is_last => return found_one(path, walk.at, name, &folder),
                Some(folder) => walk.at = folder,
                None => {}
            },
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let folder = walk.at.make(&name).map_err(failed)?;
                if is_last {
                    return Ok(Output { parent: walk.at, name, folder, found: None, above });
                }
                above.push(folder.clone());
                walk.at = folder;
            }
            Err(why) => return Err(failed(why)),
        }
    }
    Err(failed(Errno::ENOENT.into()))
}

/// A directory that was there.
fn found_one(path: &Path, parent: Folder, name: OsString, folder: &Folder) -> Result<Output, Error> {
    let failed = |why| Error::Output(path.to_owned(), why);
    let stat = folder.stat().map_err(failed)?;
    if stat.st_uid != geteuid().as_raw() {
        let text = format!("it belongs to another user ({}), who could change the recording", stat.st_uid);
        return Err(failed(io::Error::other(text)));
    }
    if !folder.is_empty().map_err(failed)? {
        return Err(Error::Exists(path.to_owned()));
    }
    let own = folder.own().map_err(failed)?;
    // Nobody else can put anything there now; until now somebody could, if its mode said so.
    if !own.is_empty().map_err(failed)? {
        own.restore_mode(stat.st_mode);
        return Err(Error::Exists(path.to_owned()));
    }
    let (parent, name) = match name.to_str() {
        Some("." | "..") => parent_of(&own).map_err(failed)?,
        _ => (parent, name),
    };
    Ok(Output { parent, name, folder: own, found: Some(stat.st_mode), above: Vec::new() })
}

/// The directory that one is in, and its name there, which may be out of date at once.
fn parent_of(folder: &Folder) -> io::Result<(Folder, OsString)> {
    let parent = Folder::of(folder.look(OsStr::new(".."))?);
    Ok((parent, folder.path()?.file_name().unwrap_or_default().to_owned()))
}

/// A way that is being walked.
struct Walk {
    at: Folder,
    /// Names that are left, the next one last.
    left: Vec<OsString>,
    links: u32,
}

impl Walk {
    fn begin(path: &Path) -> io::Result<Walk> {
        let mut walk = Walk { at: start(Path::new("."))?, left: Vec::new(), links: 0 };
        walk.turn(path)?;
        Ok(walk)
    }

    /// Walks along `path` from here, and then what was left.
    fn turn(&mut self, path: &Path) -> io::Result<()> {
        if path.is_absolute() {
            self.at = start(Path::new("/"))?;
        }
        let names = path.components().rev().filter_map(|part| match part {
            Component::RootDir | Component::Prefix(_) => None,
            Component::CurDir | Component::ParentDir | Component::Normal(_) => {
                Some(part.as_os_str().to_owned())
            }
        });
        self.left.extend(names);
        if self.left.is_empty() {
            self.left.push(".".into());
        }
        Ok(())
    }

    /// Goes on to what was found: a directory, or along a link, for which the answer is `None`.
    fn step(&mut self, name: &OsStr, found: OwnedFd) -> io::Result<Option<Folder>> {
        let found = Folder::of(found);
        let stat = found.stat()?;
        if is(&stat, SFlag::S_IFDIR) {
            return Ok(Some(found));
        }
        if !is(&stat, SFlag::S_IFLNK) {
            return Err(Errno::ENOTDIR.into());
        }
        if !is_trusted(stat.st_uid) {
            return Err(io::Error::other(format!(
                "{} is a symbolic link of another user ({}), who could lead the recording elsewhere",
                name.display(),
                stat.st_uid
            )));
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::ELOOP.into());
        }
        let target = found.target()?;
        self.turn(&target)?;
        Ok(None)
    }
}

/// Whether a link of this user's is followed.
fn is_trusted(uid: u32) -> bool {
    uid == 0
        || uid == geteuid().as_raw()
        || crate::output::owner::sudo_user().is_some_and(|user| user.uid == uid)
}

fn start(path: &Path) -> io::Result<Folder> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(Folder::of(open(path, flags, Mode::empty())?))
}
