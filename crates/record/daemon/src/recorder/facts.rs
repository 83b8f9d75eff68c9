//! What the recorder writes down besides events: metadata and journal, and whether they are still there.

use super::Recorder;
use crate::error::Error;
use crate::output::directory::Directory;
use crate::samples;
use mote_journal::Fact;

impl Recorder<'_> {
    pub(crate) fn renew_metadata(&mut self) {
        if let Err(why) = self.write_metadata() {
            self.look_at_directories();
            if self.shared.failure().is_some() {
                return;
            }
            self.problem(format!("{why}; recording stops; what was written before is complete"));
            self.shared.fail(why.to_string());
        }
    }

    pub(crate) fn write_metadata(&self) -> Result<(), Error> {
        self.trace.write_metadata(self.session.events(), self.samples.conversion())?;
        match &self.kernel {
            Some(kernel) => {
                kernel.trace.write_metadata(&kernel.events, self.samples.conversion_of_monotonic())
            }
            None => Ok(()),
        }
    }

    /// Stops when a directory of the recording was removed.
    pub(crate) fn look_at_directories(&mut self) {
        let shared = self.shared.clone();
        let kernel = self.kernel.as_ref().map(|kernel| &kernel.trace.directory);
        let removed =
            [Some(&self.trace.directory), kernel].into_iter().flatten().find_map(Directory::removed);
        if let Some(path) = removed.filter(|_| shared.failure().is_none()) {
            let text = format!("{} was removed while it was recorded", path.display());
            self.problem(format!("{text}; recording stops"));
            shared.fail(text);
        }
    }

    pub(crate) fn note(&mut self, fact: &Fact) {
        let noted = self.trace.directory.note(fact);
        self.check_journal(noted);
    }

    /// Tells if something could not be noted.
    pub(crate) fn check_journal(&mut self, noted: bool) {
        if !noted {
            self.problem(
                "the journal cannot be written any more; thread names and maps will be missing".to_owned(),
            );
        }
    }

    /// Notes the samples that are new; true when there were any.
    pub(crate) fn note_samples(&mut self) -> bool {
        let news = self.samples.news();
        let mut noted = self.trace.note_samples(news.iter().copied());
        if let Some(kernel) = &mut self.kernel {
            noted &= kernel.trace.note_samples(news.iter().map(samples::of_monotonic));
        }
        self.check_journal(noted);
        !news.is_empty()
    }
}
