//! Which thread of the host a vCPU is: the one that had the processor while the guest executed.
//!
//! Where a VMM has a thread for each vCPU (KVM), each time that a guest executes lies within a time in which its thread
//! has the processor. What the host's scheduler and its hypervisor say of that has other clocks than packets have, and
//! packets tell changes a little early: so an interval counts for the thread that had its processor in the middle of
//! it, and most of them decide.

use super::interval::{Doing, Interval, Space, Vmcs};
use std::collections::BTreeMap;

/// The thread that runs where none does: the kernel's idle task of a processor.
const IDLE: i32 = 0;

/// A thread of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its process, where that is known.
    pub pid: Option<i32>,
    /// Its name (`comm`), where that is known.
    pub name: Option<String>,
    /// Which vCPU of its machine the hypervisor says that it is.
    pub vcpu: Option<u64>,
}

/// What threads the processors had, by what the host says.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Of each processor: from when on which thread, in nanoseconds.
    cpus: BTreeMap<u32, Vec<(i64, i32)>>,
    threads: BTreeMap<i32, Thread>,
    is_sorted: bool,
}

impl Schedule {
    /// A thread has a processor from a time on, or has it then.
    pub fn runs(&mut self, cpu: u32, time_ns: i64, tid: i32) {
        let of_cpu = self.cpus.entry(cpu).or_default();
        // Most of what a hypervisor says is of the thread that was seen there last.
        if of_cpu.last().is_none_or(|(_, last)| *last != tid) {
            of_cpu.push((time_ns, tid));
            self.is_sorted = false;
        }
    }

    /// What is known of a thread.
    pub fn thread(&mut self, tid: i32) -> &mut Thread {
        self.threads.entry(tid).or_default()
    }

    /// Nothing was said of any processor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// To be asked, once all is said.
    #[must_use]
    pub fn sorted(mut self) -> Schedule {
        self.cpus.values_mut().for_each(|all| all.sort_by_key(|(time, _)| *time));
        self.is_sorted = true;
        self
    }

    /// The thread that has a processor at a time.
    fn at(&self, cpu: u32, time_ns: i64) -> Option<i32> {
        debug_assert!(self.is_sorted, "asked before it is sorted");
        let all = self.cpus.get(&cpu)?;
        let before = all.partition_point(|(from, _)| *from <= time_ns).checked_sub(1)?;
        all.get(before).map(|(_, tid)| *tid)
    }

    /// What a vCPU is called that is this thread: `CPU 0/KVM (thread 4711)`.
    #[must_use]
    pub fn name_of(&self, tid: i32) -> String {
        let Thread { name, vcpu, .. } = self.threads.get(&tid).cloned().unwrap_or_default();
        let vcpu = vcpu.map_or_else(String::new, |vcpu| format!("vCPU {vcpu}, "));
        match name {
            Some(name) => format!("{name} ({vcpu}thread {tid})"),
            None => format!("{vcpu}thread {tid}"),
        }
    }

    /// What a machine is called one of whose vCPUs is this thread: its process.
    #[must_use]
    pub fn process_of(&self, tid: i32) -> Option<String> {
        let pid = self.threads.get(&tid)?.pid?;
        Some(match self.threads.get(&pid).and_then(|main| main.name.as_deref()) {
            Some(name) => format!("{name} (process {pid})"),
            None => format!("process {pid}"),
        })
    }
}

/// Counts for which threads intervals of guests are.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    vcpus: BTreeMap<Vmcs, BTreeMap<i32, u64>>,
    /// Address spaces of VMMs.
    machines: BTreeMap<Space, BTreeMap<i32, u64>>,
}

/// The thread that most intervals are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winner {
    /// The thread.
    pub tid: i32,
    /// How many intervals are for it.
    pub votes: u64,
    /// Of how many.
    pub all: u64,
}

impl Winner {
    fn of(votes: &BTreeMap<i32, u64>) -> Option<Winner> {
        let (tid, most) = votes.iter().max_by_key(|(tid, count)| (**count, -**tid))?;
        let all = votes.values().sum();
        // Half of them is not most of them.
        (most * 2 > all).then_some(Winner { tid: *tid, votes: *most, all })
    }

    /// More than one in ten intervals was another thread's.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.votes.saturating_mul(10) < self.all.saturating_mul(9)
    }
}

impl Votes {
    /// Takes an interval of a processor; `to_ns` makes nanoseconds of its ticks, as the schedule has them.
    pub fn add(
        &mut self,
        schedule: &Schedule,
        cpu: u32,
        interval: &Interval,
        to_ns: impl FnOnce(u64) -> Option<i64>,
    ) {
        let Doing::Guest { vmcs, vm, .. } = interval.doing else { return };
        let Some((begin, end)) = interval.begin.zip(interval.end) else { return };
        let middle = to_ns(begin + end.saturating_sub(begin) / 2);
        // A guest does not execute while nothing does: then the clocks are apart by more than such a time.
        let tid = middle.and_then(|time| schedule.at(cpu, time)).filter(|tid| *tid != IDLE);
        let Some(tid) = tid else { return };
        if let Some(vmcs) = vmcs {
            *self.vcpus.entry(vmcs).or_default().entry(tid).or_default() += 1;
        }
        if let Some(vm) = vm {
            *self.machines.entry(vm).or_default().entry(tid).or_default() += 1;
        }
    }

    /// The thread of each vCPU: nothing of one where none has most of its intervals.
    pub fn vcpus(&self) -> impl Iterator<Item = (Vmcs, Option<Winner>)> {
        self.vcpus.iter().map(|(vmcs, votes)| (*vmcs, Winner::of(votes)))
    }

    /// What the machines are called: by the process that most of their intervals were threads of.
    #[must_use]
    pub fn machines(&self, schedule: &Schedule) -> BTreeMap<Space, String> {
        let name = |votes: &BTreeMap<i32, u64>| {
            let mut by_process: BTreeMap<String, u64> = BTreeMap::new();
            for (tid, count) in votes {
                *by_process.entry(schedule.process_of(*tid)?).or_default() += count;
            }
            let all: u64 = by_process.values().sum();
            by_process.into_iter().find(|(_, count)| count * 2 > all).map(|(name, _)| name)
        };
        self.machines.iter().filter_map(|(vm, votes)| Some((*vm, name(votes)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::Edge;

    /// Thread 11 of process 10 from 0 on, 12 from 100 on, none from 200 to 210, a thread of another process then.
    fn schedule() -> Schedule {
        let mut schedule = Schedule::default();
        for (time, tid) in [(0, 11), (100, 12), (210, 20), (200, IDLE)] {
            schedule.runs(3, time, tid);
        }
        for (tid, pid, name) in
            [(10, 10, "qemu"), (11, 10, "CPU 0/KVM"), (12, 10, "CPU 1/KVM"), (20, 20, "vim")]
        {
            *schedule.thread(tid) = Thread { pid: Some(pid), name: Some(name.to_owned()), vcpu: None };
        }
        schedule.sorted()
    }

    fn guest(vmcs: u64, begin: u64, end: u64) -> Interval {
        let doing =
            Doing::Guest { vmcs: Vmcs::of(vmcs), vm: Some(Space::of(0x1000)), process: Space::of(0x2000) };
        let (begin, end) = (Some(begin), Some(end));
        Interval { doing, begin, end, offset: 0, begins: Edge::Seen, ends: Edge::Seen, is_untraced: false }
    }

    /// What a vCPU is called after, with how many intervals of how many.
    type Named = (u64, Option<(i32, u64, u64)>);

    fn check(intervals: &[(u64, u64, u64)], expect: &[Named]) -> Votes {
        let (schedule, mut votes) = (schedule(), Votes::default());
        for (vmcs, begin, end) in intervals {
            // Two ticks are a nanosecond.
            votes.add(&schedule, 3, &guest(*vmcs, 2 * begin, 2 * end), |ticks| i64::try_from(ticks / 2).ok());
        }
        let found: Vec<_> = votes
            .vcpus()
            .map(|(vmcs, one)| (vmcs.address(), one.map(|Winner { tid, votes, all }| (tid, votes, all))))
            .collect();
        assert_eq!(found, expect);
        votes
    }

    #[test]
    fn a_vcpu_is_the_thread_that_has_the_processor() {
        let votes = check(
            // The first one begins before it, by the packets' clock.
            &[(0x1000, 0, 50), (0x1000, 60, 90), (0x2000, 98, 120), (0x2000, 150, 190)],
            &[(0x1000, Some((11, 2, 2))), (0x2000, Some((12, 2, 2)))],
        );
        let machines = votes.machines(&schedule());
        assert_eq!(machines.values().map(String::as_str).collect::<Vec<_>>(), ["qemu (process 10)"]);
        assert_eq!(schedule().name_of(11), "CPU 0/KVM (thread 11)");
        assert_eq!(schedule().name_of(99), "thread 99");
    }

    #[test]
    fn most_intervals_decide_and_what_is_not_clear_is_in_doubt() {
        check(&[(0x1000, 0, 50), (0x1000, 110, 120)], &[(0x1000, None)]);
        check(&[(0x1000, 0, 50), (0x1000, 50, 80), (0x1000, 110, 120)], &[(0x1000, Some((11, 2, 3)))]);
        assert!(Winner { tid: 11, votes: 2, all: 3 }.is_in_doubt());
        assert!(!Winner { tid: 11, votes: 9, all: 10 }.is_in_doubt());
        // Nobody has the processor.
        check(&[(0x1000, 201, 209)], &[]);
        // Another processor, and before anything was said.
        let (schedule, mut votes) = (schedule(), Votes::default());
        votes.add(&schedule, 0, &guest(0x1000, 10, 20), |ticks| i64::try_from(ticks).ok());
        votes.add(&schedule, 3, &guest(0x1000, 10, 20), |_| Some(-5));
        votes.add(&schedule, 3, &guest(0x1000, 10, 20), |_| None);
        assert_eq!(votes.vcpus().count(), 0);
    }

    #[test]
    fn what_a_hypervisor_says_is_enough() {
        let mut schedule = Schedule::default();
        // Of each entry and exit, as often as they come.
        for time in [10, 20, 30] {
            schedule.runs(0, time, 7);
        }
        schedule.thread(7).vcpu = Some(1);
        let (schedule, mut votes) = (schedule.sorted(), Votes::default());
        votes.add(&schedule, 0, &guest(0x1000, 12, 18), |ticks| i64::try_from(ticks).ok());
        assert_eq!(votes.vcpus().next().and_then(|(_, winner)| Some(winner?.tid)), Some(7));
        assert_eq!(schedule.name_of(7), "vCPU 1, thread 7");
        assert!(votes.machines(&schedule).is_empty());
    }
}
