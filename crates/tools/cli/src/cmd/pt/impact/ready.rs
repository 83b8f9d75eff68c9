//! A tracer that is ready for one run of a program.

use super::recorded::{Events, Recorded};
use super::run::{Ended, Lab};
use std::ffi::OsString;

/// A tracer that is ready for one run; what was started for that ends when it is dropped.
pub(super) trait Ready {
    /// The words that run the program under it, in the emulator.
    fn words(&self, lab: &Lab, name: &str) -> Vec<OsString>;

    /// What they need in their environment.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }

    /// Whether programs of the tracer's run in the emulator, too, and become the program or start it.
    fn is_inside(&self) -> bool {
        true
    }

    /// How many events it has recorded in a run that has ended.
    ///
    /// # Errors
    /// It has recorded none, or does not say how many.
    fn recorded(&mut self, lab: &Lab, ended: &Ended) -> anyhow::Result<Recorded>;

    /// Instructions of events on another way than the emulator goes, by name, as they were counted in the code.
    fn linked(&self, lab: &Lab) -> Events {
        let _ = lab;
        Events::new()
    }
}
