//! A stream whose file is removed while it is recorded. Nothing fails then: what is written goes where nobody finds it.

use super::{Stream, Totals, add};

impl Stream<'_> {
    /// Looks whether the file is still there; if not, the stream ends.
    pub(crate) fn look(&mut self, totals: &mut Totals) {
        if self.failed.is_none() && self.file.as_ref().is_some_and(|file| file.is_removed()) {
            let name = self.place.name();
            totals.problems.push(format!("{name} was removed while it was recorded; recording stops"));
            self.failed = Some(mote_sys::Errno(libc::ENOENT));
        }
    }

    /// Why the stream cannot be written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        let (name, errno) = (self.place.name(), self.failed?);
        let removed = self.file.as_ref().is_some_and(|file| file.is_removed());
        Some(if removed { format!("{name} was removed") } else { format!("cannot write {name}: {errno}") })
    }

    /// Notes records that are in the file.
    pub(super) fn note_written(&mut self, counts: &[u64]) {
        self.written.resize(counts.len().max(self.written.len()), 0);
        add(&mut self.written, counts);
    }

    /// To be called at the end, when everything is counted: records of a file that is not there any more are lost.
    pub(crate) fn settle(&mut self, totals: &mut Totals) {
        self.look(totals);
        if self.file.as_ref().is_some_and(|file| file.is_removed()) {
            totals.lose(&std::mem::take(&mut self.written));
        }
    }
}
