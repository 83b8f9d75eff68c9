//! What the recorder writes down besides events: metadata and journal, and whether they are still there.

use super::Recorder;
use crate::error::Error;
use crate::output::directory::Directory;
use mote_journal::Fact;

impl Recorder<'_> {
    /// Writes the metadata, which have changed; the recording stops when that cannot be.
    pub(crate) fn renew_metadata(&mut self) {
        if let Err(why) = self.write_metadata() {
            self.look_at_directories();
            if self.consumer.shared.failure().is_some() {
                return;
            }
            self.problem(format!("{why}; recording stops; what was written before is complete"));
            self.consumer.shared.fail(why.to_string());
        }
    }

    /// Writes the metadata of all traces.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Metadata`].
    pub(crate) fn write_metadata(&self) -> Result<(), Error> {
        self.output.write_metadata(self.session.events(), &self.clock)?;
        self.kernel.write_metadata(&self.clock)?;
        let conversion = self.clock.samples.conversion_of_monotonic();
        self.profile.as_ref().map_or(Ok(()), |profile| profile.write_metadata(conversion))
    }

    /// Stops when a directory of the recording was removed.
    pub(super) fn look_at_directories(&mut self) {
        let kernel = self.kernel.get().map(|kernel| &kernel.trace.directory);
        let profile = self.profile.as_ref().map(|profile| &profile.trace.directory);
        let removed = [Some(&self.output.trace.directory), kernel, profile]
            .into_iter()
            .flatten()
            .find_map(Directory::removed);
        if let Some(path) = removed.filter(|_| self.consumer.shared.failure().is_none()) {
            let text = format!("{} was removed while it was recorded", path.display());
            self.problem(format!("{text}; recording stops"));
            self.consumer.shared.fail(text);
        }
    }

    pub(super) fn note(&mut self, fact: &Fact) {
        let noted = self.output.note(fact);
        self.check_journal(noted);
    }

    /// Tells if something could not be noted.
    pub(super) fn check_journal(&mut self, noted: bool) {
        if !noted {
            self.problem(
                "the journal cannot be written any more; thread names and maps will be missing".to_owned(),
            );
        }
    }

    /// Notes the samples that are new; true when there were any.
    pub(crate) fn note_samples(&mut self) -> bool {
        let news = self.clock.samples.news();
        let noted = self.output.trace.note_samples(news.iter().copied())
            & self.kernel.note_samples(&news)
            & self.profile.as_mut().is_none_or(|profile| profile.note_samples(&news));
        self.check_journal(noted);
        !news.is_empty()
    }
}
