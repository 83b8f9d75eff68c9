//! Which vCPUs may have waited for a processor, and behind whom.
//!
//! Packets do not say that a vCPU would run if it could. They bound it: a processor that rests has nobody who waits for
//! it. So a vCPU that comes back to the processor where it was before has waited at most since it left, and since the
//! processor last rested; and only if another vCPU was there since. What is counted is this bound.

use super::interval::Vmcs;
use super::summary::VcpuId;
use std::collections::{BTreeMap, BTreeSet};

/// How many others are named for each vCPU.
const BEHIND_MAX: usize = 64;

/// How a vCPU may have waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How often it came back to a processor that another vCPU has used meanwhile without a rest since.
    pub count: u64,
    /// Ticks of the time-stamp counter that it has waited at most, in total.
    pub at_most: u64,
    /// The most of one time.
    pub at_most_max: u64,
    /// Other vCPUs that were there meanwhile; not more than 64.
    pub behind: BTreeSet<VcpuId>,
    /// How often it came back to another processor than before.
    pub moves: u64,
    /// It seems to be on two processors at once for so long: their clocks differ.
    pub overlap_max: u64,
}

/// Where vCPUs were.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    last: BTreeMap<Vmcs, (usize, u64)>,
    cpus: BTreeMap<usize, Place>,
}

/// A processor.
#[derive(Clone, Debug, Default)]
struct Place {
    /// When it rested last, or since when it is known what it does.
    rested: Option<u64>,
    /// When each vCPU was last in its guest here.
    left: BTreeMap<Vmcs, (VcpuId, u64)>,
    /// The vCPU that nothing else has followed yet.
    owner: Option<Vmcs>,
    /// The VMM works for this vCPU, which has not been in its guest since, and begun to at that time.
    serving: Option<(Vmcs, u64)>,
}

impl Places {
    /// It is not known what the processor did.
    pub(super) fn forget(&mut self, cpu: usize) {
        self.cpus.remove(&cpu);
    }

    /// The processor rested until then.
    pub(super) fn rested(&mut self, cpu: usize, end: u64) {
        self.cpus.entry(cpu).or_default().rested = Some(end);
    }

    /// The processor did something that is of no vCPU.
    pub(super) fn left(&mut self, cpu: usize) {
        let place = self.cpus.entry(cpu).or_default();
        (place.owner, place.serving) = (None, None);
    }

    /// The VMM has worked for a vCPU.
    pub(super) fn served(&mut self, cpu: usize, vmcs: Vmcs, (begin, end): (u64, u64)) {
        let place = self.cpus.entry(cpu).or_default();
        if place.owner == Some(vmcs) {
            if let Some((_, until)) = self.last.get_mut(&vmcs) {
                *until = end.max(*until);
            }
        } else if place.serving.is_none_or(|(served, _)| served != vmcs) {
            (place.owner, place.serving) = (None, Some((vmcs, begin)));
        }
    }

    /// A vCPU was in its guest.
    pub(super) fn ran(&mut self, cpu: usize, id: VcpuId, (begin, end): (u64, u64), waits: &mut Waits) {
        let Some(vmcs) = id.vmcs else { return };
        let place = self.cpus.entry(cpu).or_default();
        let rested = *place.rested.get_or_insert(begin);
        let back =
            place.serving.take().filter(|(served, _)| *served == vmcs).map_or(begin, |(_, since)| since);
        match self.last.insert(vmcs, (cpu, end)) {
            Some((last, until)) if last == cpu && place.owner != Some(vmcs) => {
                waits.add(&place.left, vmcs, (until.max(rested), back));
            }
            Some((last, until)) if last != cpu => {
                waits.moves += 1;
                waits.overlap_max = waits.overlap_max.max(until.min(end).saturating_sub(begin));
            }
            _ => {}
        }
        place.owner = Some(vmcs);
        place.left.insert(vmcs, (id, end));
    }
}

impl Waits {
    /// A vCPU was away from `since` until it came `back`.
    fn add(&mut self, left: &BTreeMap<Vmcs, (VcpuId, u64)>, vmcs: Vmcs, (since, back): (u64, u64)) {
        let mut others = left.iter().filter(|(other, (_, left))| **other != vmcs && *left > since).peekable();
        if others.peek().is_none() {
            return;
        }
        let room = BEHIND_MAX.saturating_sub(self.behind.len());
        self.behind.extend(others.map(|(_, (other, _))| *other).take(room));
        let ticks = back.saturating_sub(since);
        self.count += 1;
        self.at_most = self.at_most.saturating_add(ticks);
        self.at_most_max = self.at_most_max.max(ticks);
    }
}
