//! Snapshots of a flight recorder: given what makes them recordings, and said to the commands that have asked.

use super::Recorder;
use crate::consumer::snapshot::Snapshot;
use crate::consumer::trace::Consumed;
use crate::kernel;
use mote_journal::Fact;
use mote_session::{Input, Kind};

impl Recorder<'_> {
    /// Gives a snapshot what makes it a recording.
    pub(crate) fn complete_snapshot(&mut self, snapshot: &Snapshot, parts: &[Consumed]) {
        let Snapshot { path, folder, persons } = snapshot;
        for Consumed { totals, .. } in parts {
            totals.problems.iter().for_each(|text| self.problem(text.clone()));
            totals.damaged.iter().for_each(|text| self.problem_of(Kind::Damage, 0, text.clone()));
        }
        let duration_ns = self.clock.duration_ns();
        let mut completed = Ok(());
        let mut problem = None;
        if let Some(own) = parts.first() {
            let end = Fact::End(self.summary(own, duration_ns));
            completed = self.output.trace.directory.complete(folder, &end);
        }
        if let (Some(kernel), Some(part)) = (self.kernel.get(), parts.get(1)) {
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
        if let Some(Err(why)) = self.hardware.as_ref().map(|hardware| hardware.snapshot(folder)) {
            problem.get_or_insert(format!("the hardware trace is missing in {}: {why}", path.display()));
        }
        let came_to = match completed {
            Ok(()) => {
                self.output.owner.keep(folder);
                let text = format!("snapshot written: {}", path.display());
                self.screen.say(&text);
                Ok(text)
            }
            Err(why) => Err(format!("cannot finish snapshot {}: {why}", path.display())),
        };
        problem.into_iter().chain(came_to.clone().err()).for_each(|why| self.problem(why));
        self.take(Input::Snapshot(*persons, came_to));
    }
}
