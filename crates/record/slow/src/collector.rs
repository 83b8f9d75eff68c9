//! What system calls come to while a recording runs: figures of each call, thresholds that follow them, what each slow
//! one was about.

use crate::adaptive::Learner;
use crate::call_name;
use crate::figures::{CallFigures, Latencies, OpenCall};
use crate::histogram::Histogram;
use crate::latency::Latency;
use crate::options::LatencyOptions;
use crate::slow::{Slow, Whose};
use crate::subject::{Subjects, waits};
use crate::waits::is_read;
use mote_kernel::map::State;
use mote_layout::cooperation::SYSCALLS;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

/// What one call has come to.
#[derive(Debug, Default)]
struct Call {
    durations: Histogram,
    slow: u64,
    max_ns: u64,
}

/// Collects what [`Latency`]'s programs have found.
#[derive(Debug)]
pub struct Collector {
    options: LatencyOptions,
    learner: Option<Learner>,
    calls: BTreeMap<u32, Call>,
    waited: u64,
    subjects: Subjects,
    began: Instant,
    stepped: Instant,
}

impl Collector {
    /// One that has collected nothing; its intervals begin now.
    pub fn new(options: &LatencyOptions) -> Collector {
        Collector {
            options: options.clone(),
            learner: options.adaptive.map(Learner::new),
            calls: BTreeMap::new(),
            waited: 0,
            subjects: Subjects::default(),
            began: Instant::now(),
            stepped: Instant::now(),
        }
    }

    /// Reads the slow calls that came since the last time. Each that is to be recorded goes to `record`, with what it
    /// was about; reads that waited for another side are counted only.
    ///
    /// # Cost
    /// For each slow call on a descriptor a few system calls, for a socket that was not seen before some tables of
    /// `/proc/PID/net`.
    pub fn read(&mut self, latency: &mut Latency, mut record: impl FnMut(Slow, &str)) {
        latency.slow(|slow| {
            let name = call_name(slow.number);
            let file = self.subjects.of(&slow);
            let by_request = slow.whose == Whose::Session && !self.options.names(slow.number);
            if by_request && is_read(&name) && waits(&file) {
                self.waited += 1;
                return;
            }
            let call = self.calls.entry(slow.number).or_default();
            call.slow += 1;
            call.max_ns = call.max_ns.max(slow.duration_ns);
            record(slow, &file);
        });
    }

    /// At the end of an interval, moves the thresholds that learn and returns the figures so far; `None` before.
    pub fn step(&mut self, latency: &mut Latency) -> Option<Latencies> {
        if self.stepped.elapsed() < self.options.interval {
            return None;
        }
        self.stepped = Instant::now();
        self.durations(latency);
        self.move_thresholds(latency);
        Some(self.figures(latency))
    }

    /// The figures at the end, at `now_ns` of CLOCK_MONOTONIC, with the calls that have not returned. What the programs
    /// cost is measured in the calling thread, whose id is `tid`.
    pub fn end(&mut self, latency: &mut Latency, state: &State, tid: Option<u32>, now_ns: u64) -> Latencies {
        self.durations(latency);
        let open = latency.open(state).into_iter().map(|open| OpenCall {
            number: open.number,
            name: call_name(open.number),
            tid: open.tid,
            age_ns: now_ns.saturating_sub(open.since_ns),
        });
        let mut open: Vec<OpenCall> = open.collect();
        open.sort_by_key(|open| Reverse(open.age_ns));
        let cost_ns = tid.and_then(|tid| latency.cost_ns(state, tid));
        Latencies { open, cost_ns, ..self.figures(latency) }
    }

    fn durations(&mut self, latency: &mut Latency) {
        let (calls, learner) = (&mut self.calls, &mut self.learner);
        latency.durations(|number, bucket, count| {
            calls.entry(number).or_default().durations.add_bucket(bucket, count);
            learner.iter_mut().for_each(|learner| learner.add(number, bucket, count));
        });
    }

    fn move_thresholds(&mut self, latency: &Latency) {
        for (number, ns) in self.learner.iter_mut().flat_map(Learner::step) {
            if self.options.learns(number) {
                latency.set_threshold(number, ns);
            }
        }
    }

    fn figures(&self, latency: &Latency) -> Latencies {
        let none = Call::default();
        let figures = |number: u32| {
            let call = self.calls.get(&number).unwrap_or(&none);
            let durations = &call.durations;
            let percentiles = durations.percentile(50.0).zip(durations.percentile(99.0));
            // Of a histogram only the buckets are known; of slow calls the durations.
            let highest = durations.highest().unwrap_or(0);
            let max_ns = match percentiles {
                _ if call.max_ns >= highest => call.max_ns,
                Some((_, p99)) => highest.max(p99),
                None => highest,
            };
            let percentiles = percentiles.map(|(p50, p99)| (p50.min(max_ns), p99.min(max_ns)));
            CallFigures {
                name: call_name(number),
                count: latency.count(number),
                slow: call.slow,
                percentiles,
                max_ns,
                threshold_ns: latency.threshold(number),
            }
        };
        let mut calls: Vec<CallFigures> =
            (0..SYSCALLS as u32).map(figures).filter(|call| call.count > 0).collect();
        calls.sort_by_key(|call| Reverse((call.slow, call.max_ns, call.count)));
        let counters = latency.counters();
        Latencies {
            calls,
            elapsed: self.began.elapsed(),
            waited: self.waited,
            counters,
            open: Vec::new(),
            cost_ns: None,
        }
    }
}
