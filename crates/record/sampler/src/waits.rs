//! Threads that have left their CPU, until they have one again.
//!
//! A thread that leaves is sampled, with its stack; then a record says whether it could have gone on, and another one
//! when it has a CPU again.

use crate::unwind::{OffCpu, Sample};
use std::collections::HashMap;

/// Threads without a CPU.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// By thread: where it left, and whether it could have gone on.
    threads: HashMap<u32, (Sample, bool)>,
}

impl Waits {
    /// A thread leaves its CPU.
    pub(crate) fn leaves(&mut self, sample: Sample) {
        self.threads.insert(sample.tid, (sample, false));
    }

    /// It could have gone on.
    pub(crate) fn is_preempted(&mut self, tid: u32) {
        if let Some((_, is_preempted)) = self.threads.get_mut(&tid) {
            *is_preempted = true;
        }
    }

    /// It has one again, at this time: where it was without, if that is known.
    pub(crate) fn comes_back(&mut self, tid: u32, at: u64, cpu: u32) -> Option<Sample> {
        self.threads.remove(&tid).map(|wait| ended(wait, at, cpu))
    }

    /// It has ended.
    pub(crate) fn ends(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// All that are without one still: their waits up to `at`.
    pub(crate) fn all(&mut self, at: u64) -> Vec<Sample> {
        let mut all: Vec<Sample> = self
            .threads
            .drain()
            .map(|(_, wait)| {
                let cpu = wait.0.cpu;
                ended(wait, at, cpu)
            })
            .collect();
        all.sort_by_key(|sample| sample.tid);
        all
    }
}

fn ended((sample, is_preempted): (Sample, bool), at: u64, cpu: u32) -> Sample {
    let off_cpu = Some(OffCpu { duration: at.saturating_sub(sample.time), is_preempted });
    Sample { time: at.max(sample.time), cpu, off_cpu, ..sample }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tid: u32, time: u64) -> Sample {
        let (kernel, user) = (vec![1], vec![2]);
        Sample { pid: 7, tid, cpu: 0, time, kernel, user, is_whole: true, off_cpu: None }
    }

    #[test]
    fn a_wait_lasts_from_where_a_thread_left_to_where_it_came_back() {
        let mut waits = Waits::default();
        waits.leaves(sample(8, 100));
        waits.leaves(sample(9, 110));
        waits.is_preempted(9);
        let back = waits.comes_back(8, 150, 1).expect("it was there");
        assert_eq!((back.time, back.cpu, back.kernel), (150, 1, vec![1]));
        assert_eq!(back.off_cpu, Some(OffCpu { duration: 50, is_preempted: false }));
        assert_eq!(waits.comes_back(8, 160, 1), None, "it is there already");
        waits.leaves(sample(10, 120));
        waits.ends(10);
        let rest = waits.all(200);
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].off_cpu, Some(OffCpu { duration: 90, is_preempted: true }));
    }
}
