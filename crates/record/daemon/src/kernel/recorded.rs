//! What the kernel's side of a recording came to.

use mote_journal::Summary;

/// What the kernel's side of a recording came to.
#[derive(Clone, Debug, Default)]
pub struct KernelRecorded {
    /// Its trace.
    pub summary: Summary,
    /// Patterns that chose events of which there were none.
    pub silent: Vec<String>,
    /// What the system calls came to, if slow ones were looked for.
    pub latency: Option<mote_slow::Latencies>,
}
