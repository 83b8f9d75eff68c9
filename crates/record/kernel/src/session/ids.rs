//! Whose ids of threads there are in records.

use super::state::Kernel;

/// Whose ids of threads and processes records have, and all questions and returns here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// The kernel's, which are those of the outermost pid namespace: the recorder is there.
    Kernel,
    /// Those of the recorder's pid namespace. Of a thread that is not in it the kernel's, negative.
    Namespace,
    /// The kernel's, though the recorder is in another pid namespace: this kernel does not say which thread has which
    /// id there (no BTF, or before Linux 5.11).
    Unknown,
}

/// Whose ids a recording has.
pub(super) fn of(kernel: &Kernel) -> Ids {
    let is_own = |tid: u32| i64::from(tid) == i64::from(mote_sys::process::tid());
    match kernel.plan.namespace {
        Some(_) => Ids::Namespace,
        None if kernel.test_run.run().is_ok_and(is_own) => Ids::Kernel,
        None => Ids::Unknown,
    }
}
