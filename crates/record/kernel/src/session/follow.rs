//! Which processes are followed.
//!
//! The caller names processes by the ids that `/proc` has here. They are the kernel's, except in a pid namespace: there
//! a program looks at all threads, and puts those that are meant into the table
//! (`mote_generate::thread_programs::introduce`).

use super::ids::{self, Ids};
use super::state::Kernel;
use crate::Error;
use crate::births::Born;
use crate::load::{Kind, Program};
use mote_generate::threads::{LAUNCHING, TRACED};
use mote_generate::{state, thread_programs};
use mote_sys::Errno;
use std::sync::PoisonError;

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
    let thread = kernel.test_run.run().map_err(|errno| fail(0, errno.to_string()))?;
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

/// A process that creates threads all the time is not followed for ever: those are followed by the programs, when their
/// creators are.
const ROUNDS: usize = 100;

/// Whether a thread is gone, or is a zombie.
fn has_ended(pid: u32, tid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
    status.map_or(true, |text| text.contains("\nState:\tZ") || text.contains("\nState:\tX"))
}

pub(super) fn process(kernel: &Kernel, pid: u32) -> Result<usize, Error> {
    let mut known = 0;
    for _ in 0..ROUNDS {
        let threads = threads(pid)?;
        let entries = entries(kernel, pid, &threads)?;
        note_born(kernel, pid, &entries);
        entries.iter().for_each(|(_, entry)| kernel.state.set_flags(*entry, TRACED));
        // Those that ended meanwhile, and were seen before that, will not be freed by a program.
        for (_, entry) in entries.iter().filter(|(tid, _)| has_ended(pid, *tid)) {
            kernel.state.clear_flags(*entry, TRACED);
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
        find(kernel, tid).into_iter().for_each(|entry| kernel.state.clear_flags(entry, TRACED));
    }
}

/// The entry of a thread.
pub(super) fn find(kernel: &Kernel, tid: u32) -> Option<usize> {
    if kernel.plan.namespace.is_some() { kernel.state.find_recorder_tid(tid) } else { kernel.state.find(tid) }
}

pub(super) fn set_index(kernel: &Kernel, pid: u32, index: u32) -> Result<(), Error> {
    super::thread_table::watch(kernel)?;
    for (_, entry) in entries(kernel, pid, &threads(pid)?)? {
        kernel.state.set_index(entry, index);
    }
    Ok(())
}

/// Threads of a process, each with its entry. In a pid namespace those that have ended have none.
fn entries(kernel: &Kernel, pid: u32, threads: &[u32]) -> Result<Vec<(u32, usize)>, Error> {
    let state = &kernel.state;
    let entry = |tid: u32| {
        let entry = state.follow(tid, 0).map_err(|errno| fail(pid, full(errno)))?;
        state.set_ids(entry, tid, own_id(pid, tid).map_or(tid, |(own, _)| own));
        Ok((tid, entry))
    };
    match ids::of(kernel) {
        Ids::Kernel => threads.iter().map(|tid| entry(*tid)).collect(),
        Ids::Unknown => Err(fail(pid, BLIND.to_owned())),
        Ids::Namespace => {
            introduce(kernel, pid)?;
            let found = threads.iter().filter_map(|tid| Some((*tid, state.find_recorder_tid(*tid)?)));
            let found: Vec<(u32, usize)> = found.collect();
            let is_missing = |tid: &&u32| !found.iter().any(|(known, _)| known == *tid);
            match threads.iter().filter(is_missing).find(|tid| !has_ended(pid, **tid)) {
                Some(_) => Err(fail(pid, full(Errno(libc::ENOSPC)))),
                None => Ok(found),
            }
        }
    }
}

/// Notes which threads of a process that is followed have other ids for themselves.
fn note_born(kernel: &Kernel, pid: u32, entries: &[(u32, usize)]) {
    let Some((vpid, level)) = own_id(pid, pid).filter(|(own, _)| *own != pid) else { return };
    let level = level + kernel.state.memory().load64(state::LEVEL as usize) as u32;
    let born = |tid: u32| {
        let vtid = own_id(pid, tid)?.0;
        Some(Born { time_ns: 0, tid, pid, vtid, vpid, level })
    };
    let mut births = kernel.births.lock().unwrap_or_else(PoisonError::into_inner);
    let news = entries.iter().filter_map(|(tid, _)| born(*tid));
    for one in news {
        if !births.found.iter().any(|known| known.tid == one.tid) {
            births.found.push(one);
        }
    }
}

/// Why processes cannot be found by their ids.
const BLIND: &str = "mote runs in a pid namespace (a container), and this kernel does not translate process ids \
                     (that takes BTF and Linux 5.11); run mote on the host, or start the command with mote";

/// Has the kernel put all threads of a process into the table.
fn introduce(kernel: &Kernel, pid: u32) -> Result<(), Error> {
    let (plan, blind) = (&kernel.plan, || fail(pid, BLIND.to_owned()));
    let (facts, namespace) = plan.facts.zip(plan.namespace).ok_or_else(blind)?;
    let iterator = namespace.offsets.iterator.ok_or_else(blind)?;
    kernel.state.memory().store64(state::WANTED as usize, pid.into());
    let insns = thread_programs::introduce(plan, &facts, namespace)?;
    let program = Program::load("mote_introduce", Kind::Iterator(iterator), &insns, &[kernel.state.map()])?;
    mote_sys::bpf::link::iterate(program.fd()).map_err(|errno| fail(pid, errno.to_string()))
}

/// The id that a thread knows itself by: the last one of those that it has in its pid namespaces (`NSpid` of
/// proc_pid_status(5)). And at which level below that of `/proc` it is.
fn own_id(pid: u32, tid: u32) -> Option<(u32, u32)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let ids: Vec<&str> = ids.split_ascii_whitespace().collect();
    Some((ids.last()?.parse().ok()?, ids.len() as u32 - 1))
}

/// Ids of a process's threads.
fn threads(pid: u32) -> Result<Vec<u32>, Error> {
    let entries =
        std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| fail(pid, error.to_string()))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}
