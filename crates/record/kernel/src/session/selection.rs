//! Which threads' events programs record.

use super::request::Targets;
use crate::Error;
use mote_generate::Selection;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What programs look at.
pub(super) fn selection(targets: &Targets) -> Result<Selection, Error> {
    match targets {
        Targets::All | Targets::Others => Ok(Selection::All),
        Targets::Launch | Targets::ProbedIn(_) | Targets::Pids(_) => Ok(Selection::Threads),
        Targets::Cgroup(path) => cgroup(path),
    }
}

fn cgroup(path: &Path) -> Result<Selection, Error> {
    let fail = |why: String| Error::Cgroup { path: path.display().to_string(), why };
    let real = path.canonicalize().map_err(|error| fail(error.to_string()))?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|error| fail(error.to_string()))?;
    let root = mounts.lines().filter(|line| line.contains(" - cgroup2 ")).find_map(|line| {
        let point = Path::new(line.split(' ').nth(4)?);
        real.strip_prefix(point).ok()
    });
    let below = root.ok_or_else(|| fail("it is not in a file system of type cgroup2".to_owned()))?;
    let id = std::fs::metadata(&real).map_err(|error| fail(error.to_string()))?.ino();
    Ok(Selection::Cgroup { id, level: below.components().count() as u32 })
}
