//! Which processes are followed.

use super::{Error, Kernel, Targets};
use crate::generate::Selection;
use crate::threads::{LAUNCHING, TRACED};
use mote_sys::Errno;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// While it is held, what its thread forks is followed.
#[derive(Debug)]
pub struct Launching<'a> {
    kernel: &'a Kernel,
    thread: u32,
}

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        self.kernel.state.clear(self.thread, LAUNCHING);
    }
}

pub(super) fn launching(kernel: &Kernel) -> Result<Launching<'_>, Error> {
    let thread = kernel.own.run().map_err(|errno| fail(0, errno.to_string()))?;
    kernel.state.follow(thread, LAUNCHING).map_err(|errno| fail(thread, full(errno)))?;
    Ok(Launching { kernel, thread })
}

fn fail(pid: u32, why: String) -> Error {
    Error::Process { pid, why }
}

fn full(errno: Errno) -> String {
    match errno.0 {
        libc::ENOSPC => "too many threads are followed already".to_owned(),
        _ => errno.to_string(),
    }
}

/// A process that creates threads all the time is not followed for ever: those are followed by the programs, when their creators are.
const ROUNDS: usize = 100;

/// Whether a thread is gone, or is only there until somebody asks for its exit status.
fn has_ended(pid: u32, tid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
    status.map_or(true, |text| text.contains("\nState:\tZ") || text.contains("\nState:\tX"))
}

pub(super) fn process(kernel: &Kernel, pid: u32) -> Result<usize, Error> {
    numbers_are_the_kernels(kernel, pid)?;
    let mut known = 0;
    for _ in 0..ROUNDS {
        let threads = threads(pid)?;
        for tid in &threads {
            kernel.state.follow(*tid, TRACED).map_err(|errno| fail(pid, full(errno)))?;
        }
        // Those that ended meanwhile, and were seen before that, will not be freed by a program.
        for tid in threads.iter().filter(|tid| has_ended(pid, **tid)) {
            kernel.state.clear(*tid, TRACED);
        }
        if threads.len() == known {
            break;
        }
        known = threads.len();
    }
    Ok(known)
}

pub(super) fn forget(kernel: &Kernel, pid: u32) {
    for tid in threads(pid).unwrap_or_default() {
        kernel.state.clear(tid, TRACED);
    }
}

pub(super) fn set_index(kernel: &Kernel, pid: u32, index: u32) -> Result<(), Error> {
    numbers_are_the_kernels(kernel, pid)?;
    super::add::watch(kernel)?;
    for tid in threads(pid)? {
        let entry = kernel.state.follow(tid, 0).map_err(|errno| fail(pid, full(errno)))?;
        kernel.state.set_index(entry, index);
    }
    Ok(())
}

/// In a pid namespace, processes have other numbers than the kernel's programs see.
fn numbers_are_the_kernels(kernel: &Kernel, pid: u32) -> Result<(), Error> {
    let own = kernel.own.run().map_err(|errno| fail(pid, errno.to_string()))?;
    if i64::from(own) == i64::from(mote_sys::process::tid()) {
        return Ok(());
    }
    let why = "mote runs in a pid namespace (a container), where processes have other numbers than in the kernel; run mote outside, or start the command with mote";
    Err(fail(pid, why.to_owned()))
}

/// Ids of a process's threads.
fn threads(pid: u32) -> Result<Vec<u32>, Error> {
    let entries =
        std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| fail(pid, error.to_string()))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}

/// What programs look at.
pub(super) fn selection(targets: &Targets) -> Result<Selection, Error> {
    match targets {
        Targets::All => Ok(Selection::All),
        Targets::Launch | Targets::Near(_) | Targets::Pids(_) => Ok(Selection::Threads),
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
