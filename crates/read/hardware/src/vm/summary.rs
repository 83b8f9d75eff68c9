//! What is made of intervals: consumption by machine, vCPU and process, exits, latencies.

use super::interval::{Doing, Edge, Interval, Space, Unknown, Vmcs};
use super::names::Names;
use super::waits::{Places, Waits};
use mote_analysis::Histogram;
use std::collections::{BTreeMap, BTreeSet};

/// Most vCPUs, processes and address spaces of the host that are told apart; what is beyond is summed up.
const KEYS_MAX: usize = 1 << 16;

/// Time of one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many intervals.
    pub intervals: u64,
    /// Those of them whose length is not known.
    pub untimed: u64,
    /// Ticks of the time-stamp counter, of the others.
    pub ticks: u64,
    /// Of these, those of intervals in which tracing was off for a part.
    pub untraced: u64,
}

impl Sum {
    fn add(&mut self, interval: &Interval) {
        self.intervals += 1;
        match interval.ticks() {
            Some(ticks) => {
                self.ticks = self.ticks.saturating_add(ticks);
                self.untraced = self.untraced.saturating_add(if interval.is_untraced { ticks } else { 0 });
            }
            None => self.untimed += 1,
        }
    }

    /// Adds another one.
    pub fn join(&mut self, other: &Sum) {
        self.intervals += other.intervals;
        self.untimed += other.untimed;
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.untraced = self.untraced.saturating_add(other.untraced);
    }

    /// The ticks; `None` where no interval has a length.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        (self.intervals > self.untimed).then_some(self.ticks)
    }
}

/// A vCPU: its VMCS, and its machine. A VMCS that is used again by another machine is another vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuId {
    /// The machine: the address space of its VMM, where that is known.
    pub vm: Option<Space>,
    /// The VMCS, where that is known.
    pub vmcs: Option<Vmcs>,
}

/// A vCPU.
#[derive(Clone, Debug, Default)]
pub struct Vcpu {
    /// Time in the guest.
    pub guest: Sum,
    /// Time of its VMM, while its VMCS was the one that the processor had loaded last.
    pub vmm: Sum,
    /// Entries into the guest.
    pub entries: u64,
    /// Exits from it.
    pub exits: u64,
    /// From an exit to the next entry of the same vCPU, where nothing but its VMM was between.
    pub handling: Histogram,
    /// Processors.
    pub cpus: BTreeSet<usize>,
    /// When it was seen first and last.
    pub seen: Option<(u64, u64)>,
    /// Waiting for processors.
    pub waits: Waits,
}

/// A process of a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Time.
    pub guest: Sum,
    /// How often the guest has changed to it from another one of its processes.
    pub switches: u64,
}

/// A processor.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Time in guests.
    pub guest: Sum,
    /// Time of VMMs.
    pub vmm: Sum,
    /// Time of the host's other address spaces.
    pub host: Sum,
    /// Time in which it rested.
    pub idle: Sum,
    /// Time in which it is not known what it did, by cause.
    pub unknown: BTreeMap<Unknown, Sum>,
    /// From the exit of a vCPU to the entry of another one, without a rest between.
    pub switches: Histogram,
    /// When it was seen first and last.
    pub seen: Option<(u64, u64)>,
}

/// What a processor has done before.
#[derive(Clone, Copy, Debug)]
struct Before {
    doing: Doing,
    /// The vCPU that has left its guest last, when, and what has been since.
    left: Option<(Option<Vmcs>, Option<u64>, Since)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Since {
    /// Only its VMM.
    Served,
    /// Something else of the host.
    Away,
}

/// Sums intervals up.
///
/// Intervals of several processors are to come by their ends ([`super::merge`]).
#[derive(Clone, Debug, Default)]
pub struct Summary {
    names: Names,
    cpus: BTreeMap<usize, Cpu>,
    vcpus: BTreeMap<VcpuId, Vcpu>,
    processes: BTreeMap<(VcpuId, Space), Process>,
    roots: BTreeMap<(usize, Option<Vmcs>, Space), Sum>,
    /// Which VMCS was entered from, or left to, which address space.
    pairs: BTreeSet<(Vmcs, Space)>,
    /// The address spaces of these.
    machines: BTreeSet<Space>,
    before: BTreeMap<usize, Before>,
    places: Places,
    /// Time of what there was no place for.
    others: Sum,
}

impl Summary {
    /// Nothing yet. Of the names, those count that say what is idle.
    #[must_use]
    pub fn new(names: Names) -> Summary {
        Summary { names, ..Summary::default() }
    }

    /// One more interval.
    pub fn add(&mut self, cpu: usize, interval: &Interval) {
        let seen = &mut self.cpus.entry(cpu).or_default().seen;
        extend(seen, interval);
        match interval.doing {
            Doing::Guest { vmcs, vm, process } => self.guest(cpu, interval, VcpuId { vm, vmcs }, process),
            Doing::Root { vmcs, space } => self.root(cpu, interval, vmcs, space),
            Doing::Idle { .. } => self.rest(cpu, interval),
            Doing::Unknown(why) => {
                self.cpus.entry(cpu).or_default().unknown.entry(why).or_default().add(interval);
                self.places.forget(cpu);
                self.before.remove(&cpu);
                return;
            }
        }
        let left = self.left(cpu, interval);
        self.before.insert(cpu, Before { doing: interval.doing, left });
    }

    fn rest(&mut self, cpu: usize, interval: &Interval) {
        self.cpus.entry(cpu).or_default().idle.add(interval);
        if let Some(end) = interval.end {
            self.places.rested(cpu, end);
        }
    }

    /// Which vCPU has left last, after this interval.
    fn left(&self, cpu: usize, interval: &Interval) -> Option<(Option<Vmcs>, Option<u64>, Since)> {
        match interval.doing {
            Doing::Guest { vmcs, .. } => Some((vmcs, interval.end, Since::Served)),
            Doing::Root { vmcs: loaded, space } => {
                let (vmcs, time, since) = self.before.get(&cpu)?.left?;
                let is_own = vmcs == loaded && loaded.is_some_and(|vmcs| self.pairs.contains(&(vmcs, space)));
                let is_idle = self.names.is_idle(space);
                let since = if is_own { since } else { Since::Away };
                (!is_idle).then_some((vmcs, time, since))
            }
            _ => None,
        }
    }

    fn guest(&mut self, cpu: usize, interval: &Interval, id: VcpuId, process: Space) {
        if let (Some(vm), Some(vmcs)) = (id.vm, id.vmcs)
            && self.pairs.len() < KEYS_MAX
        {
            self.pairs.insert((vmcs, vm));
            self.machines.insert(vm);
        }
        let before = self.before.get(&cpu).copied();
        let of_cpu = self.cpus.entry(cpu).or_default();
        of_cpu.guest.add(interval);
        if self.vcpus.len() >= KEYS_MAX && !self.vcpus.contains_key(&id) {
            self.others.add(interval);
            return;
        }
        let vcpu = self.vcpus.entry(id).or_default();
        vcpu.guest.add(interval);
        vcpu.cpus.insert(cpu);
        extend(&mut vcpu.seen, interval);
        let was_guest = before.is_some_and(|before| matches!(before.doing, Doing::Guest { .. }));
        let is_seen = interval.begins == Edge::Seen;
        if is_seen && before.is_some_and(|before| matches!(before.doing, Doing::Root { .. })) {
            vcpu.entries += 1;
            if let Some((vmcs, Some(left), since)) = before.and_then(|before| before.left)
                && let Some(ticks) = interval.begin.and_then(|begin| begin.checked_sub(left))
            {
                match vmcs == id.vmcs {
                    true if since == Since::Served => vcpu.handling.add(ticks),
                    true => {}
                    false => of_cpu.switches.add(ticks),
                }
            }
        }
        if let (Some(begin), Some(end)) = (interval.begin, interval.end) {
            self.places.ran(cpu, id, (begin, end), &mut vcpu.waits);
        }
        let key = (id, process);
        if self.processes.len() >= KEYS_MAX && !self.processes.contains_key(&key) {
            self.others.add(interval);
            return;
        }
        let process = self.processes.entry(key).or_default();
        process.guest.add(interval);
        process.switches += u64::from(is_seen && was_guest);
    }

    fn root(&mut self, cpu: usize, interval: &Interval, loaded: Option<Vmcs>, space: Space) {
        if self.names.is_idle(space) {
            return self.rest(cpu, interval);
        }
        if interval.begins == Edge::Seen
            && let Some(Doing::Guest { vmcs, .. } | Doing::Idle { vmcs: vmcs @ Some(_), .. }) =
                self.before.get(&cpu).map(|before| before.doing)
            && let Some(vcpu) = self.vcpus.get_mut(&VcpuId { vm: Some(space), vmcs })
        {
            vcpu.exits += 1;
        }
        match (loaded.filter(|vmcs| self.pairs.contains(&(*vmcs, space))), interval.begin, interval.end) {
            (Some(vmcs), Some(begin), Some(end)) => self.places.served(cpu, vmcs, (begin, end)),
            _ => self.places.left(cpu),
        }
        let key = (cpu, loaded, space);
        if self.roots.len() >= KEYS_MAX && !self.roots.contains_key(&key) {
            self.others.add(interval);
            return;
        }
        self.roots.entry(key).or_default().add(interval);
    }

    /// All intervals were added: what belongs together is joined.
    #[must_use]
    pub fn finish(mut self) -> Summary {
        self.join_unnamed();
        for ((cpu, loaded, space), root) in &self.roots {
            let id = self.machine_of(*loaded, *space);
            let of_cpu = self.cpus.entry(*cpu).or_default();
            match id {
                Some(id) => {
                    of_cpu.vmm.join(root);
                    self.vcpus.entry(id).or_default().vmm.join(root);
                }
                None => of_cpu.host.join(root),
            }
        }
        self
    }

    /// Time in a guest of which only the VMCS was known belongs to the machine that has this VMCS, if it is one.
    fn join_unnamed(&mut self) {
        let unnamed: Vec<VcpuId> = self.vcpus.keys().filter(|id| id.vm.is_none()).copied().collect();
        for id in unnamed {
            let Some(known) = self.whole(id).filter(|known| *known != id) else { continue };
            let Some(part) = self.vcpus.remove(&id) else { continue };
            self.vcpus.entry(known).or_default().join(part);
            let of_part = (id, Space::of(0))..=(id, Space::of(u64::MAX));
            let processes: Vec<Space> = self.processes.range(of_part).map(|((_, space), _)| *space).collect();
            for space in processes {
                let Some(part) = self.processes.remove(&(id, space)) else { continue };
                let whole = self.processes.entry((known, space)).or_default();
                whole.guest.join(&part.guest);
                whole.switches += part.switches;
            }
        }
    }

    /// A vCPU with its machine, where the whole of the trace tells it.
    #[must_use]
    pub fn whole(&self, id: VcpuId) -> Option<VcpuId> {
        let (None, Some(vmcs)) = (id.vm, id.vmcs) else { return Some(id) };
        let mut machines = self.pairs.range((vmcs, Space::of(0))..=(vmcs, Space::of(u64::MAX)));
        match (machines.next(), machines.next()) {
            (Some((_, vm)), None) => Some(VcpuId { vm: Some(*vm), vmcs: Some(vmcs) }),
            _ => None,
        }
    }

    /// Whose VMM it is that is executed in an address space of the host while a VMCS is loaded; `None` if it is no VMM.
    #[must_use]
    pub fn machine_of(&self, loaded: Option<Vmcs>, space: Space) -> Option<VcpuId> {
        match loaded {
            Some(vmcs) if self.pairs.contains(&(vmcs, space)) => {
                Some(VcpuId { vm: Some(space), vmcs: Some(vmcs) })
            }
            _ => self.machines.contains(&space).then_some(VcpuId { vm: Some(space), vmcs: None }),
        }
    }

    /// Processors, by their place.
    #[must_use]
    pub fn cpus(&self) -> &BTreeMap<usize, Cpu> {
        &self.cpus
    }

    /// vCPUs. One without a VMCS has what belongs to its machine, and to no vCPU of it that is known.
    #[must_use]
    pub fn vcpus(&self) -> &BTreeMap<VcpuId, Vcpu> {
        &self.vcpus
    }

    /// Processes of vCPUs.
    #[must_use]
    pub fn processes(&self) -> &BTreeMap<(VcpuId, Space), Process> {
        &self.processes
    }

    /// Address spaces of the host that are no VMM's, with their time on all processors.
    #[must_use]
    pub fn host(&self) -> BTreeMap<Space, Sum> {
        let mut host: BTreeMap<Space, Sum> = BTreeMap::new();
        for ((_, loaded, space), root) in &self.roots {
            if self.machine_of(*loaded, *space).is_none() {
                host.entry(*space).or_default().join(root);
            }
        }
        host
    }

    /// Time of what there was no place for: more than 65,536 vCPUs, processes or address spaces.
    #[must_use]
    pub fn others(&self) -> Sum {
        self.others
    }
}

impl Vcpu {
    fn join(&mut self, part: Vcpu) {
        self.guest.join(&part.guest);
        self.vmm.join(&part.vmm);
        self.entries += part.entries;
        self.exits += part.exits;
        self.cpus.extend(part.cpus);
        if let Some((first, last)) = part.seen {
            let seen = self.seen.get_or_insert((first, last));
            *seen = (seen.0.min(first), seen.1.max(last));
        }
    }
}

fn extend(seen: &mut Option<(u64, u64)>, interval: &Interval) {
    for time in [interval.begin, interval.end].into_iter().flatten() {
        let (first, last) = seen.get_or_insert((time, time));
        (*first, *last) = ((*first).min(time), (*last).max(time));
    }
}
