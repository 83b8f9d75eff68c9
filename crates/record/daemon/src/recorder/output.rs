//! What the recorder writes beside the streams: metadata and journal, counts, and whose all of it is to be.

use super::aggregates;
use super::clock::Clock;
use super::peers::Peers;
use crate::error::Error;
use crate::kernel::Remarks;
use crate::kernel::symbols::{keep_symbols, keep_tables};
use crate::options::Stacks;
use crate::output::owner::{Owner, Ownership};
use crate::trace::Trace;
use crate::watch::Watch;
use mote_filter::Aggregate;
use mote_journal::{Fact, Process};
use mote_sampler::{Joined, Reports};
use mote_session::PeerId;
use mote_session::events::Events;
use mote_symbol::collect::BuildIds;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// The trace of the processes, and the recording as a whole.
pub(crate) struct Output {
    /// What the processes write.
    pub(crate) trace: Trace,
    build_ids: BuildIds,
    /// Who makes addresses of copies of stacks, and wants to know of processes; `None` where there are no copies.
    reports: Option<Arc<Reports>>,
    /// Since when, and of which processes.
    since: SystemTime,
    processes: HashMap<u32, Option<u32>>,
    /// Who is to have the recording.
    pub(crate) owner: Owner,
}

impl Output {
    /// A recording that begins.
    pub(crate) fn new(trace: Trace, owner: Owner, reports: Option<Arc<Reports>>) -> Output {
        let (build_ids, since) = (BuildIds::default(), SystemTime::now());
        Output { trace, build_ids, reports, since, processes: HashMap::new(), owner }
    }

    /// Keeps what gives stacks their names in the vdso, if events have stacks. Returns what cannot be kept.
    pub(crate) fn keep_symbols(&self) -> Vec<String> {
        let of_processes = Stacks { kernel: false, ..Stacks::BOTH };
        if self.reports.is_some() { keep_symbols(&self.trace.directory, of_processes) } else { Vec::new() }
    }

    /// Keeps the tables of run-time compilers, if events have stacks.
    pub(crate) fn keep_tables(&mut self) {
        keep_tables(&self.trace.directory, std::mem::take(&mut self.processes), self.since);
    }

    /// Notes what was found that processes have mapped besides. Returns as [`Output::note`].
    pub(crate) fn note_found(&mut self, at: u64) -> bool {
        let found = self.reports.as_ref().map(|reports| reports.found()).unwrap_or_default();
        found.into_iter().fold(true, |noted, (pid, maps)| {
            let (comm, exe) = (String::new(), String::new());
            let how = "library".to_owned();
            self.note(&Fact::Process(Process { pid: pid as i32, parent: 0, at, how, comm, exe, maps }))
                & noted
        })
    }

    /// Notes a fact. Returns false the first time that the journal cannot be written.
    pub(crate) fn note(&mut self, fact: &Fact) -> bool {
        self.trace.directory.note(fact)
    }

    /// Notes a process, with what identifies the files that it has mapped. Returns as [`Output::note`].
    pub(crate) fn note_process(&mut self, pid: i32, mut process: Process) -> bool {
        self.build_ids.fill(pid.unsigned_abs(), &mut process.maps);
        if let Some(reports) = &self.reports {
            let (kernel, id) = (pid.unsigned_abs(), process.pid.unsigned_abs());
            self.processes.insert(id, mote_symbol::mapped::user(kernel));
            reports.add(Joined {
                id,
                parent: process.parent.unsigned_abs(),
                pid: kernel,
                at: process.at,
                is_new: process.how != "library",
                is_fork: process.how == "fork",
                maps: process.maps.clone(),
            });
        }
        self.note(&Fact::Process(process))
    }

    /// Writes the metadata as they are now.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Metadata`].
    pub(crate) fn write_metadata(&self, events: &Events, clock: &Clock) -> Result<(), Error> {
        self.trace.write_metadata(events, clock.samples.conversion())
    }

    /// Writes counts and histograms into the recording. Returns what is missing.
    pub(crate) fn write_aggregates(&self, all: &[Aggregate], duration_ns: u64) -> Vec<String> {
        let mut problems: Vec<String> = aggregates::missing(all).collect();
        let inner = self.trace.directory.inner();
        let [text_file, json_file] = mote_journal::AGGREGATES;
        let [text, json] = aggregates::files(all, duration_ns);
        let written = inner.replace(inner, json_file, json.as_bytes());
        if let Err(why) = written.and_then(|()| inner.replace(inner, text_file, text.as_bytes())) {
            problems.push(format!("counts and histograms cannot be written: {why}"));
        }
        problems
    }

    /// Looks again at some of the processes that are there: whose they are by now.
    pub(crate) fn look_at_owners(&mut self, peers: &Peers, most: usize) {
        if !self.owner.asks() {
            return;
        }
        for (id, connection) in peers.from(PeerId(self.owner.next + 1)).take(most) {
            self.owner.next = id.0;
            self.owner.came(connection.pid, connection.uid);
        }
    }

    /// Gives the recording, which has ended, to whoever is to have it.
    pub(crate) fn hand_over(&mut self) -> Remarks {
        let mut remarks = Remarks::default();
        let (user, reason) = match self.owner.ownership.clone() {
            Ownership::Stays => return remarks,
            Ownership::Given(user) => (user, ""),
            Ownership::Theirs(user) => (user, ", who has called sudo"),
            Ownership::Kept(user, why) => {
                let name = user.describe();
                remarks.said.push(format!(
                    "the recording stays root's: {why}; --owner {} gives it to {name} anyway",
                    user.uid
                ));
                return remarks;
            }
        };
        let directory = &self.trace.directory;
        let snapshots = std::mem::take(&mut self.owner.snapshots);
        let given = snapshots.iter().try_for_each(|snapshot| snapshot.give(user));
        match given.and_then(|()| directory.give(user)) {
            Ok(()) => {
                let name = user.describe();
                remarks.said.push(format!("the recording now belongs to {name}{reason}"));
            }
            Err(why) => remarks.problems.push(format!(
                "the recording cannot be given to {}: {why}; as root, chown -R {} {}",
                user.describe(),
                user.uid,
                directory.path().display()
            )),
        }
        remarks
    }

    /// Where the recording is now; tells if it was moved while it was made.
    pub(crate) fn place(&self, watch: &mut dyn Watch) -> PathBuf {
        let Some(path) = self.trace.directory.moved_to() else {
            return self.trace.directory.path().to_owned();
        };
        watch.say(&format!("the recording was moved while it was made; it is now {}", path.display()));
        path
    }
}
