//! What the recorder writes beside the streams: metadata and journal, counts, and whose all of it is to be.

use super::aggregates;
use super::clock::Clock;
use super::peers::Peers;
use crate::error::Error;
use crate::kernel::Remarks;
use crate::output::owner::{Owner, Ownership};
use crate::trace::Trace;
use crate::watch::Watch;
use mote_filter::Aggregate;
use mote_journal::{Fact, Process};
use mote_session::PeerId;
use mote_session::events::Events;
use mote_symbol::collect::BuildIds;
use std::path::PathBuf;

/// The trace of the processes, and the recording as a whole.
pub(crate) struct Output {
    /// What the processes write.
    pub(crate) trace: Trace,
    build_ids: BuildIds,
    /// Who is to have the recording.
    pub(crate) owner: Owner,
}

impl Output {
    /// A recording that begins.
    pub(crate) fn new(trace: Trace, owner: Owner) -> Output {
        Output { trace, build_ids: BuildIds::default(), owner }
    }

    /// Notes a fact. Returns false the first time that the journal cannot be written.
    pub(crate) fn note(&mut self, fact: &Fact) -> bool {
        self.trace.directory.note(fact)
    }

    /// Notes a process, with what identifies the files that it has mapped. Returns as [`Output::note`].
    pub(crate) fn note_process(&mut self, pid: i32, mut process: Process) -> bool {
        self.build_ids.fill(pid.unsigned_abs(), &mut process.maps);
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
