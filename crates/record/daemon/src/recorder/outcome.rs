//! What the recording has come to, as far as that is known while it ends.

use crate::error::Error;
use crate::kernel::KernelRecorded;
use crate::watch::Recorded;
use mote_journal::Summary;
use std::io;

/// The end of the recording.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The session has said that the recording is over.
    pub(super) is_over: bool,
    /// How long it was when the end began.
    pub(super) duration_ns: u64,
    pub(super) written: Option<Written>,
    pub(super) recorded: Option<Recorded>,
}

/// What was known when everything had been read.
pub(super) struct Written {
    pub(super) summary: Summary,
    pub(super) kernel: Option<KernelRecorded>,
    pub(super) profile: Option<Summary>,
    pub(super) hardware: Option<mote_pmu::Recorded>,
    /// Counts and histograms, as text.
    pub(super) aggregates: String,
}

impl Outcome {
    /// What the recording came to, once.
    ///
    /// # Errors
    /// [`Error::Loop`] when the thread that empties the rings has failed.
    pub(crate) fn take(&mut self) -> Result<Recorded, Error> {
        self.recorded.take().ok_or_else(|| Error::Loop {
            what: "empty the rings",
            why: io::Error::other("the thread that writes the trace has failed (a bug of mote)"),
        })
    }
}
