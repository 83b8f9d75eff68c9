//! What paths of system calls weigh, and which are meant.

use crate::cmd::pt::gather::Gathered;
use crate::cmd::pt::times::Times;
use clap::ValueEnum;
use mote_hardware::paths::{Node, ROOT};
use mote_words::counted_grouped;

/// What paths weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Weight {
    /// Instructions.
    Instructions,
    /// Nanoseconds, at most.
    Time,
}

impl Weight {
    /// What a path weighs by itself.
    pub(super) fn of(self, node: &Node, times: Times) -> u64 {
        match self {
            Weight::Instructions => node.instructions,
            Weight::Time => times.duration_ns(node.busy.ticks()).high.unwrap_or(0),
        }
    }

    pub(super) fn words(self, weight: u64) -> String {
        match self {
            Weight::Instructions => counted_grouped(weight, "instruction", "instructions"),
            Weight::Time => mote_analysis::latency::time(weight),
        }
    }
}

/// The paths of the system calls that are meant, by number: each a system call's name and functions.
pub(super) fn paths(found: &Gathered) -> Vec<bool> {
    let nodes = found.of.tree.nodes();
    let mut is_meant = vec![false; nodes.len()];
    for (number, node) in nodes.iter().enumerate().skip(1) {
        is_meant[number] = match node.parent {
            ROOT => found.of.calls.contains_key(&found.functions.get(node.function).name),
            parent => is_meant[parent as usize],
        };
    }
    is_meant
}
