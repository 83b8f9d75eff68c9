//! The tracing file system: where it is, which events it has, and their formats.

use crate::format::{self, Format};
use mote_sys::fd::Fd;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory, mounted or not.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Keeps a mount alive that is in no directory.
    _mount: Option<Fd>,
}

/// Why an event cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no tracing file system.
    #[error("{event} needs tracefs, which is not there")]
    None {
        /// `system/name`.
        event: String,
    },
    /// Its format cannot be read.
    #[error("cannot read the format of {event}: {why}")]
    Read {
        /// `system/name`.
        event: String,
        /// Why.
        why: io::Error,
    },
    /// Its format is not understood.
    #[error("{event}: {why}")]
    Format {
        /// `system/name`.
        event: String,
        /// Why.
        why: format::Error,
    },
}

impl Tracefs {
    /// Where it is mounted, or else a detached mount of our own.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open() -> io::Result<Tracefs> {
        for place in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            if fs::read_dir(Path::new(place).join("events")).is_ok() {
                return Ok(Tracefs { root: place.into(), _mount: None });
            }
        }
        let mount = mote_sys::mount::detached(c"tracefs");
        let mount = mount.map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.raw()));
        fs::read_dir(root.join("events"))?;
        Ok(Tracefs { root, _mount: Some(mount) })
    }

    /// The file system below this directory.
    pub fn at(root: impl Into<PathBuf>) -> Tracefs {
        Tracefs { root: root.into(), _mount: None }
    }

    /// The systems that have events, in order.
    pub fn systems(&self) -> io::Result<Vec<String>> {
        directories(&self.root.join("events"))
    }

    /// The events of a system, in order.
    pub fn events(&self, system: &str) -> io::Result<Vec<String>> {
        directories(&self.root.join("events").join(system))
    }

    /// The kernel's own functions in which there is room for a jump.
    ///
    /// # Cost
    /// Some 10 ms: they are 50,000.
    pub fn functions(&self) -> io::Result<HashSet<String>> {
        let text = fs::read_to_string(self.root.join("available_filter_functions"))?;
        // Those of modules have its name behind: `name [module]`.
        Ok(text.lines().filter(|line| !line.contains(' ')).map(str::to_owned).collect())
    }

    /// The format of one.
    ///
    /// # Errors
    /// [`Error`], with its name.
    pub fn format(&self, system: &str, name: &str) -> Result<Format, Error> {
        let path = self.root.join("events").join(system).join(name).join("format");
        let event = || format!("{system}/{name}");
        let text = fs::read_to_string(path).map_err(|why| Error::Read { event: event(), why })?;
        format::parse(&text).map_err(|why| Error::Format { event: event(), why })
    }
}

fn directories(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type().is_ok_and(|ty| ty.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
