//! A snapshot of a flight recorder: what its rings hold now, as a recording beside the recording.
//!
//! The consumer copies the rings first ([`crate::tap::Pipe::snapshot`]); the loop then gives the directories their metadata and journals.

use crate::folder::Folder;
use crate::kernel;
use crate::problems::Kind;
use crate::recorder::Recorder;
use crate::tap::Consumed;
use mote_journal::Fact;
use std::io;
use std::path::PathBuf;

/// Where snapshots are made: beside the recording, because readers look for traces in and below a directory.
pub(crate) struct Beside {
    /// The recording's directory, as it was given.
    pub(crate) recording: PathBuf,
    /// The directory that it is in.
    pub(crate) parent: Folder,
}

/// The directory of one.
pub(crate) struct Snapshot {
    /// Where it is, for a person.
    pub(crate) path: PathBuf,
    /// Itself.
    pub(crate) folder: Folder,
    /// It is the answer to so many requests of persons.
    pub(crate) persons: u64,
}

impl Beside {
    /// Where the snapshot with this number is: `DIRECTORY.snapshot-NUMBER`.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        let mut name = self.recording.file_name().unwrap_or_default().to_owned();
        name.push(format!(".snapshot-{number}"));
        self.recording.with_file_name(name)
    }

    /// Makes its directory.
    ///
    /// # Errors
    /// As mkdir(2): there may be one already.
    pub(crate) fn make(&self, number: u32, persons: u64) -> io::Result<Snapshot> {
        let path = self.path(number);
        let name = path.file_name().unwrap_or_default();
        Ok(Snapshot { folder: self.parent.make(name)?, path, persons })
    }
}

impl Recorder<'_> {
    /// Gives a snapshot what makes it a recording.
    pub(crate) fn complete_snapshot(&mut self, snapshot: &Snapshot, parts: &[Consumed]) {
        let Snapshot { path, folder, persons } = snapshot;
        for Consumed { totals, .. } in parts {
            totals.problems.iter().for_each(|text| self.problem(text.clone()));
            totals.damaged.iter().for_each(|text| self.problem_of(Kind::Damage, 0, text.clone()));
        }
        let duration_ns = self.began.elapsed().as_nanos() as u64;
        let mut completed = Ok(());
        let mut problem = None;
        if let Some(own) = parts.first() {
            let end = Fact::End(self.summary(own, duration_ns));
            completed = self.trace.directory.complete(folder, &end);
        }
        if let (Some(kernel), Some(part)) = (&self.kernel, parts.get(1)) {
            let mut part = part.clone();
            completed = completed.and_then(|()| {
                let inside = folder.open(kernel::DIRECTORY)?;
                match kernel.add_slow(&inside) {
                    Ok(count) => part.totals.count(kernel.slow_id().unwrap_or(0), count),
                    Err(why) => {
                        problem = Some(format!("slow system calls are missing in {}: {why}", path.display()))
                    }
                }
                kernel.trace.directory.complete(&inside, &Fact::End(kernel.summary(&part, duration_ns)))
            });
        }
        let came_to = match completed {
            Ok(()) => {
                self.owner.keep(folder);
                let text = format!("snapshot written: {}", path.display());
                self.watch.say(&text);
                Ok(text)
            }
            Err(why) => Err(format!("cannot finish snapshot {}: {why}", path.display())),
        };
        problem.into_iter().chain(came_to.clone().err()).for_each(|why| self.problem(why));
        self.answer_snapshots(*persons, came_to);
    }
}
