//! Which code processes have mapped, as the kernel tells it: without it, the stack of a process that is gone has no
//! names.
//!
//! `/proc/PID/maps` is read too late for a process that lives for a millisecond. The kernel's side band
//! (`mote_sys::perf::side_band`) tells each mapping, exec and fork at its time, with the build id of the file.

use crate::records::{Record, What};
use mote_journal::Map;
use mote_sys::perf_ring::{PerfRing, RECORD_MAX};
use mote_sys::{Errno, perf};
use std::collections::{BTreeMap, HashMap};

/// Pages of 4 KiB for the records of one CPU.
const PAGES: usize = 128;

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was forked: its mappings are those of its parent at that time.
    Fork,
    /// It runs a new program: its old mappings are gone.
    Exec,
    /// It has mapped more.
    Mapped,
}

/// News of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its id.
    pub pid: u32,
    /// Its parent's; of the change's own only after a fork, else as known, or 0.
    pub parent: u32,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// How the process began or changed.
    pub how: How,
    /// The program's name; empty when it is not known.
    pub name: String,
    /// All its mappings after a fork or an exec, else the new ones.
    pub maps: Vec<Map>,
}

/// A thread's name from some moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// The name.
    pub name: String,
}

/// What has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Of processes, in the order of time.
    pub processes: Vec<Change>,
    /// Of threads, in the order of time.
    pub threads: Vec<Named>,
}

/// Follows what all processes map, or some of them, and how their threads are called.
#[derive(Debug)]
pub struct Mappings {
    bands: Vec<PerfRing>,
    table: Table,
    buffer: Vec<u8>,
}

/// What processes have mapped, and how their threads are called, by the records that were taken in.
#[derive(Debug, Default)]
pub(crate) struct Table {
    processes: HashMap<u32, Process>,
    /// Names of their threads.
    names: HashMap<u32, String>,
    /// Only processes that were made known, and what they fork.
    chosen_only: bool,
    /// Process and thread of those that have left since the last time: their records may still come from other CPUs.
    left: Vec<(u32, u32)>,
    lost: u64,
}

#[derive(Clone, Debug, Default)]
struct Process {
    parent: u32,
    name: String,
    maps: BTreeMap<u64, Map>,
}

impl Mappings {
    /// Opens the side bands of all CPUs. `chosen_only`: of processes that are [made known](Mappings::know), and of what
    /// they fork; else of all.
    ///
    /// # Errors
    /// `EACCES`, `EPERM` without `CAP_PERFMON`; `EINVAL` before Linux 5.12.
    pub fn open(cpus: u32, chosen_only: bool) -> Result<Mappings, Errno> {
        let mut bands = Vec::new();
        for cpu in 0..cpus {
            match perf::side_band(cpu).and_then(|event| PerfRing::new(event, PAGES)) {
                Ok(band) => bands.push(band),
                // A CPU that is possible, but not there.
                Err(Errno(libc::ENODEV)) => {}
                Err(error) => return Err(error),
            }
        }
        let table = if chosen_only { Table::of_chosen() } else { Table::default() };
        Ok(Mappings { bands, table, buffer: vec![0; RECORD_MAX] })
    }

    /// Makes a process known that was there before, with its mappings as `/proc` has them.
    pub fn know(&mut self, pid: u32, parent: u32, name: &str, maps: impl IntoIterator<Item = Map>) {
        self.table.know(pid, parent, name, maps);
    }

    /// Records that were lost because they were not fetched in time.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.table.lost
    }

    /// What has happened since the last time. Call it some ten times a second.
    pub fn news(&mut self) -> News {
        // Records of one process come through several CPUs: all of them first, then in the order of time.
        let mut records = Vec::new();
        for band in &mut self.bands {
            while let Some(len) = band.next(&mut self.buffer) {
                records.extend(self.buffer.get(..len).and_then(Record::read));
            }
        }
        records.sort_by_key(|record| record.at);
        self.table.forget();
        let mut news = News::default();
        records.into_iter().for_each(|record| self.table.take(record, &mut news));
        news.tidy();
        news
    }
}

impl News {
    /// Leaves out processes of which there is nothing new.
    pub(crate) fn tidy(&mut self) {
        self.processes.retain(|change| !(change.maps.is_empty() && change.how == How::Mapped));
    }
}

impl Table {
    /// Only of processes that are made known, and of what they fork.
    pub(crate) fn of_chosen() -> Table {
        Table { chosen_only: true, ..Table::default() }
    }

    /// Makes a process known, with its mappings.
    pub(crate) fn know(&mut self, pid: u32, parent: u32, name: &str, maps: impl IntoIterator<Item = Map>) {
        let maps = maps.into_iter().map(|map| (map.start, map)).collect();
        self.names.insert(pid, name.to_owned());
        self.processes.insert(pid, Process { parent, name: name.to_owned(), maps });
    }

    /// All processes that are known.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// A process with all that it has mapped, as news.
    pub(crate) fn seen(&self, pid: u32, at: u64, how: How) -> Option<Change> {
        Some(self.processes.get(&pid)?.change(pid, at, how))
    }

    /// Whether a process is known.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// What a process has mapped, by address.
    pub(crate) fn maps(&self, pid: u32) -> impl Iterator<Item = &Map> {
        self.processes.get(&pid).into_iter().flat_map(|process| process.maps.values())
    }

    /// Forgets those that had left when this was called before.
    pub(crate) fn forget(&mut self) {
        for (pid, tid) in std::mem::take(&mut self.left) {
            self.names.remove(&tid);
            if pid == tid {
                self.processes.remove(&pid);
            }
        }
    }

    /// Takes a record in; records of one process are in the order of time.
    pub(crate) fn take(&mut self, record: Record, news: &mut News) {
        let Record { pid, tid, at, what } = record;
        match what {
            What::Lost(count) => self.lost += count,
            // Of what threads do, not of what processes have mapped.
            What::Out(_) | What::In => {}
            What::Exit => self.left.push((pid, tid)),
            What::Fork(parent) => self.fork((pid, tid), parent, at, news),
            What::Name(name, exec) => {
                let Some(process) = self.process(pid) else { return };
                if exec {
                    process.name.clone_from(&name);
                    process.maps.clear();
                    let change = process.change(pid, at, How::Exec);
                    news.processes.push(change);
                }
                self.names.insert(tid, name.clone());
                news.threads.push(Named { tid, pid, at, name });
            }
            What::Map(map) => {
                let Some(process) = self.process(pid) else { return };
                replace(&mut process.maps, map.clone());
                match news.processes.iter_mut().rev().find(|change| change.pid == pid) {
                    // The mappings of a program follow its exec.
                    Some(change) if change.how != How::Fork => change.maps.push(map),
                    _ => {
                        let change = Change { maps: vec![map], ..process.change(pid, at, How::Mapped) };
                        news.processes.push(change);
                    }
                }
            }
        }
    }

    /// A new thread, of a new process or of its parent's.
    fn fork(&mut self, (pid, tid): (u32, u32), (parent, creator): (u32, u32), at: u64, news: &mut News) {
        let known = self.processes.get(&parent).cloned();
        if known.is_none() && self.chosen_only {
            return;
        }
        let process_name = known.as_ref().map(|process| process.name.clone()).filter(|name| !name.is_empty());
        // An id that is used again.
        self.left.retain(|(_, left)| *left != tid);
        if pid != parent {
            let process = Process { parent, ..known.unwrap_or_default() };
            news.processes.push(process.change(pid, at, How::Fork));
            self.processes.insert(pid, process);
        }
        if let Some(name) = self.names.get(&creator).cloned().or(process_name) {
            self.names.insert(tid, name.clone());
            news.threads.push(Named { tid, pid, at, name });
        }
    }

    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        if !self.chosen_only {
            return Some(self.processes.entry(pid).or_default());
        }
        self.processes.get_mut(&pid)
    }
}

impl Process {
    fn change(&self, pid: u32, at: u64, how: How) -> Change {
        let maps = self.maps.values().cloned().collect();
        Change { pid, parent: self.parent, at, how, name: self.name.clone(), maps }
    }
}

/// Takes a mapping, which replaces what was there.
pub(crate) fn replace(maps: &mut BTreeMap<u64, Map>, map: Map) {
    maps.retain(|_, other| other.end <= map.start || other.start >= map.end);
    maps.insert(map.start, map);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_is_gone_has_told_its_mappings() {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let mut mappings = match Mappings::open(cpus, true) {
            Ok(mappings) => mappings,
            Err(error) => {
                mote_skip::skip(format_args!("{error:?}"));
                return;
            }
        };
        let own = std::process::id();
        mappings.know(own, 0, "test", []);
        // The shell forks, and the child runs another program.
        let mut child =
            Command::new("sh").args(["-c", "/bin/true; exit 0"]).spawn().expect("every machine has it");
        let pid = child.id();
        child.wait().expect("it ends");
        let News { processes: news, threads } = mappings.news();
        let shell: Vec<&Change> = news.iter().filter(|change| change.pid == pid).collect();
        assert_eq!((shell[0].how, shell[0].parent), (How::Fork, own));
        let exec = shell.iter().find(|change| change.how == How::Exec).expect("it ran sh");
        assert_eq!(exec.name, "sh");
        assert!(exec.maps.iter().any(|map| map.path.contains("/libc")), "{exec:?}");
        assert!(exec.maps.iter().any(|map| map.path == "[vdso]"), "{exec:?}");
        let with_id = exec.maps.iter().filter(|map| map.build_id.len() == 40).count();
        assert!(with_id > 0, "{exec:?}");
        let fork =
            news.iter().find(|change| change.parent == pid && change.how == How::Fork).expect("it forked");
        assert!(fork.maps.iter().any(|map| map.path.contains("/libc")), "they are those of its parent");
        assert!(
            news.iter()
                .any(|change| change.pid == fork.pid && change.how == How::Exec && change.name == "true")
        );
        assert!(news.is_sorted_by_key(|change| change.at));
        assert!(news.iter().all(|change| change.pid != own), "this process has mapped nothing executable");
        let names: Vec<&str> =
            threads.iter().filter(|named| named.tid == pid).map(|named| &*named.name).collect();
        assert_eq!(names, ["test", "sh"]);
        assert_eq!(mappings.lost(), 0);
        mappings.news();
        assert!(!mappings.table.knows(pid), "it has left");
    }
}
