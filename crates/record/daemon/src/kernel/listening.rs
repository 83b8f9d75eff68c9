//! What listens to the kernel for mappings and names, and what of it the journal has.

use mote_sampler::mappings::Mappings;
use std::collections::HashMap;
use std::time::SystemTime;

/// What listens, and what of it the journal has.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) mappings: Mappings,
    /// Processes whose mappings are in the journal, and whose they were when they were heard of.
    pub(super) noted_processes: HashMap<u32, Option<u32>>,
    /// When it began.
    pub(super) since: SystemTime,
    pub(super) late: Late,
}

/// Probes that were placed in forked processes when these ran already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    pub(super) processes: u32,
    pub(super) failed: u32,
    pub(super) ns_max: u64,
}
