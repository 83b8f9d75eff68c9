//! What calls of functions cost, from samples of them: how often each was called, and what was counted in it.
//!
//! A sample is a call whose event says for how long its function's probe had been there (`since`) and which quota it
//! belongs to (`round`): of a function that is called often there are samples from time to time only
//! (`crates/traced/hook/src/budget.rs`). Calls between the last of a quota and the moment when the probe is taken away
//! are counted by the probe. While it is away the function is taken to be called as often as while it is there, in all
//! rounds together. Functions whose quota was never spent are counted, not estimated. Functions that are sampled when a
//! rule asks for it have no calls outside of these times, and only calls within them are counted and estimated.
//!
//! What sampling takes of a call is taken off: of calls inside of it, as their events say (`overhead`), and of itself,
//! which is the least that any call took, or counted.
//!
//! A function's own part is its cost less that of the functions that it called. Which these were says the address that
//! each sample returns to: so it does not matter whether the caller had its probe then.
//!
//! # Cost
//! Memory: for each quota of a function in each process 48 bytes; for each place that calls a function some 100.

use crate::analysis::Analysis;
use crate::calls::CallClasses;
use mote_ctf::Value;
use mote_ctf::model::FieldClass;
use mote_timeline::{ClassId, Record, Trace};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Fields of a sample, those of counters behind them.
const SINCE: &str = "since";
const ROUND: &str = "round";
const CALLER: &str = "caller";
const OVERHEAD: &str = "overhead";
const COUNTED: &str = "counted";
/// A function has got a quota; its probe was taken away.
const QUOTA: &str = "fperf:quota";
const PAUSED: &str = "fperf:paused";
/// Calls that have passed by between the two, and how long the process ran meanwhile and what samples took of it.
const PASSED: &str = "passed";
const RAN: &str = "ran";
const TOOK: &str = "took";
/// What samples took of the time that a process ran.
const BUDGET: &str = "fperf:budget";
/// What part of a time samples may have taken at most: beyond it nothing is known of what is left.
const TAKEN_MAX: f64 = 0.95;
/// What is counted of a whole call, in percent.
const WHOLE: u64 = 100;

/// Sums up what calls cost; `named` gives the name of the function that an address of an event's process lies in.
pub struct Costs<F> {
    classes: SampleClasses,
    named: F,
    /// Function at an address of a process, by session.
    places: FxHashMap<(usize, u32, u64), Option<usize>>,
    functions: Vec<Samples>,
    /// When functions were sampled that wait for rules.
    times: Vec<Option<Vec<Range<i64>>>>,
    /// By session and process.
    processes: FxHashMap<(usize, u32), Process>,
    budget: Budget,
    least: Least,
}

/// The least that any call took and counted.
#[derive(Debug, Default)]
struct Least {
    ns: Option<u64>,
    counts: Vec<u64>,
}

impl Least {
    fn take(&mut self, ns: u64, counts: Option<&[u64]>) {
        self.ns = Some(self.ns.map_or(ns, |least| least.min(ns)));
        let Some(counts) = counts else { return };
        self.counts.resize(counts.len(), u64::MAX);
        self.counts.iter_mut().zip(counts).for_each(|(least, count)| *least = (*least).min(*count));
    }
}

/// What calls cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostSums {
    /// What was counted.
    pub counters: Vec<String>,
    /// Functions, those first that cost most time.
    pub functions: Vec<FunctionCost>,
    /// Nanoseconds that the processes ran while samples were limited, and what samples took of that; 0 where they were
    /// not.
    pub ran_ns: u64,
    /// See above.
    pub took_ns: u64,
}

/// What calls of a function cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FunctionCost {
    /// Its name, for instance `db::open`.
    pub name: String,
    /// Calls that were recorded.
    pub samples: u64,
    /// Calls that there were.
    pub calls: u64,
    /// They were not all counted.
    pub is_estimate: bool,
    /// Samples that were not counted for the whole of their time, and are in no count.
    pub not_counted: u64,
    /// All calls together, with what they called.
    pub total: Cost,
    /// The same without.
    #[serde(rename = "self")]
    pub own: Cost,
    /// By which functions it was called, those first that called it most. Calls from elsewhere are missing.
    pub callers: Vec<Caller>,
}

/// A function that called another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Caller {
    /// Its name.
    pub name: String,
    /// How often it called that one.
    pub calls: u64,
    /// What that cost.
    pub total: Cost,
}

/// A cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Nanoseconds.
    pub ns: u64,
    /// What was counted, by counter.
    pub counts: Vec<u64>,
}

/// What samples of a function came to.
#[derive(Clone, Debug, Default)]
struct Samples {
    all: Sums,
    /// By the function that called it.
    by_caller: BTreeMap<Option<usize>, Sums>,
    not_counted: u64,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    samples: u64,
    ns: u64,
    /// Samples that were counted.
    counted: u64,
    counts: Vec<u64>,
}

impl Sums {
    fn add(&mut self, ns: u64, counts: Option<&[u64]>) {
        self.samples += 1;
        self.ns = self.ns.saturating_add(ns);
        if let Some(counts) = counts {
            self.counted += 1;
            self.counts.resize(counts.len().max(self.counts.len()), 0);
            for (sum, count) in self.counts.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        }
    }
}

impl Sums {
    /// Takes what every sample has off.
    fn take_off(&mut self, least: &Least) {
        self.ns = self.ns.saturating_sub(self.samples * least.ns.unwrap_or(0));
        for (sum, least) in self.counts.iter_mut().zip(&least.counts) {
            *sum = sum.saturating_sub(self.counted.saturating_mul(*least));
        }
    }
}

#[derive(Debug, Default)]
struct Process {
    /// When it did something first and last: before, it may have waited for its probes.
    first: Option<i64>,
    last: i64,
    /// By function, and number of the quota.
    rounds: FxHashMap<usize, BTreeMap<u64, Round>>,
}

/// A quota.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    samples: u64,
    /// Since when the probe was there.
    armed: Option<i64>,
    /// When it was taken away.
    paused: Option<i64>,
    /// Calls that have passed by until then.
    passed: u64,
    /// What part of the time until then was the program's own.
    own_part: f64,
}

#[derive(Debug, Default)]
struct Budget {
    ran_ns: u64,
    took_ns: u64,
}

/// Which events are samples.
#[derive(Debug)]
struct SampleClasses {
    calls: CallClasses,
    /// By [`ClassId`]: the counters' numbers with their fields, if it is a sample.
    counters: Vec<Option<Vec<(usize, String)>>>,
    names: Vec<String>,
    quota: Vec<bool>,
    paused: Vec<bool>,
    budget: Vec<bool>,
}

impl SampleClasses {
    fn new(trace: &Trace) -> SampleClasses {
        let mut names: Vec<String> = Vec::new();
        let ids = || (0..u32::try_from(trace.classes()).unwrap_or(u32::MAX)).map(ClassId);
        let mut counters_of = |id| {
            let (_, class) = trace.class(id)?;
            let members = &class.payload.as_ref()?.members;
            let bare = |name: &str| name.trim_start_matches('_').to_owned();
            let begin = members.iter().position(|member| bare(&member.name) == COUNTED)?;
            members.iter().find(|member| bare(&member.name) == ROUND)?;
            let counters = members.iter().skip(begin + 1);
            let counters = counters.filter(|member| matches!(member.class, FieldClass::Int(_)));
            let numbered = counters.map(|member| {
                let name = bare(&member.name);
                let known = names.iter().position(|known| *known == name);
                let number = known.unwrap_or_else(|| {
                    names.push(name.clone());
                    names.len() - 1
                });
                (number, name)
            });
            Some(numbered.collect())
        };
        let counters = ids().map(&mut counters_of).collect();
        let is = |wanted: &str| {
            ids().map(|id| trace.class(id).is_some_and(|(_, class)| class.name == wanted)).collect()
        };
        SampleClasses {
            calls: CallClasses::new(trace),
            counters,
            names,
            quota: is(QUOTA),
            paused: is(PAUSED),
            budget: is(BUDGET),
        }
    }
}

impl<F: FnMut(&Record<'_>, u64) -> Option<String>> Costs<F> {
    /// None so far of `trace`.
    #[must_use]
    pub fn new(trace: &Trace, named: F) -> Costs<F> {
        let classes = SampleClasses::new(trace);
        let functions = vec![Samples::default(); classes.calls.functions()];
        let mut times = vec![None; functions.len()];
        for id in (0..u32::try_from(trace.classes()).unwrap_or(u32::MAX)).map(ClassId) {
            let function = classes.calls.function_of(id).and_then(|function| times.get_mut(function));
            if let (Some(place), Some(sampled)) = (function, trace.sampled(id)) {
                *place = Some(sampled);
            }
        }
        Costs {
            times,
            classes,
            named,
            places: FxHashMap::default(),
            functions,
            processes: FxHashMap::default(),
            budget: Budget::default(),
            least: Least::default(),
        }
    }

    fn sample(&mut self, record: &Record<'_>, counters: &[(usize, String)]) {
        let (Some(call), Some(event)) = (self.classes.calls.call(record), record.event()) else { return };
        let payload = event.payload();
        let number = |name: &str| payload.integer(name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let caller = self.caller(record, number(CALLER));
        let mut counts = vec![0; self.classes.names.len()];
        for (counter, name) in counters {
            if let Some(count) = counts.get_mut(*counter) {
                *count = number(name);
            }
        }
        let ns = call.duration().saturating_sub(number(OVERHEAD));
        let is_whole = counters.is_empty() || number(COUNTED) == WHOLE;
        let counts = is_whole.then_some(counts.as_slice());
        if let Some(samples) = self.functions.get_mut(call.function) {
            samples.all.add(ns, counts);
            samples.by_caller.entry(caller).or_default().add(ns, counts);
            samples.not_counted += u64::from(!is_whole);
        }
        self.least.take(ns, counts);
        let process = self.processes.entry(process_of(record)).or_default();
        let round = process.rounds.entry(call.function).or_default().entry(number(ROUND)).or_default();
        let since = i64::try_from(number(SINCE)).unwrap_or(i64::MAX);
        round.samples += 1;
        process.first = Some(process.first.map_or(call.begin, |first| first.min(call.begin)));
        round.armed.get_or_insert(call.begin.saturating_sub(since));
    }

    /// The function that an address lies in, if calls of it are recorded.
    fn caller(&mut self, record: &Record<'_>, address: u64) -> Option<usize> {
        let (session, process) = process_of(record);
        *self.places.entry((session, process, address)).or_insert_with(|| {
            let name = (self.named)(record, address)?;
            let calls = &self.classes.calls;
            (0..calls.functions()).find(|function| calls.name(*function) == name)
        })
    }

    /// The quota that an event is about which is not of a call.
    fn round(&mut self, record: &Record<'_>) -> Option<&mut Round> {
        let event = record.event()?;
        let Value::Str(name) = event.payload().value("function")? else { return None };
        let calls = &self.classes.calls;
        let function = (0..calls.functions()).find(|one| calls.name(*one).as_bytes() == name)?;
        let round = u64::try_from(event.payload().integer(ROUND)?).ok()?;
        let process = self.processes.entry(process_of(record)).or_default();
        Some(process.rounds.entry(function).or_default().entry(round).or_default())
    }
}

/// A number among the fields of an event; 0 where it is not there.
fn number(record: &Record<'_>, name: &str) -> u64 {
    let number = record.event().and_then(|event| event.payload().integer(name));
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// A record's session and process.
fn process_of(record: &Record<'_>) -> (usize, u32) {
    (record.origin().session(), record.pid().or(record.tid()).unwrap_or(0))
}

impl<F: FnMut(&Record<'_>, u64) -> Option<String>> Analysis for Costs<F> {
    type Output = CostSums;

    fn event(&mut self, record: &Record<'_>) {
        let class = record.class().0 as usize;
        let is = |classes: &[bool]| classes.get(class) == Some(&true);
        if let Some(Some(counters)) = self.classes.counters.get_mut(class).map(Option::take) {
            self.sample(record, &counters);
            if let Some(place) = self.classes.counters.get_mut(class) {
                *place = Some(counters);
            }
        } else if is(&self.classes.quota) {
            if let Some(round) = self.round(record) {
                round.armed.get_or_insert(record.time());
            }
        } else if is(&self.classes.paused) {
            let [passed, ran, took] = [PASSED, RAN, TOOK].map(|name| number(record, name));
            if let Some(round) = self.round(record) {
                round.paused = Some(record.time());
                round.passed = passed;
                // Threads that sleep meanwhile are not kept from anything: their time counts, too.
                let there = round.armed.map_or(0, |armed| record.time().saturating_sub(armed));
                let all = ran.max(u64::try_from(there).unwrap_or(0));
                round.own_part = 1.0 - share(took, all).clamp(0.0, TAKEN_MAX);
            }
        } else if is(&self.classes.budget) {
            self.budget.ran_ns = self.budget.ran_ns.saturating_add(number(record, RAN));
            self.budget.took_ns = self.budget.took_ns.saturating_add(number(record, TOOK));
        } else {
            return;
        }
        let process = self.processes.entry(process_of(record)).or_default();
        process.last = process.last.max(record.time());
    }

    fn finish(mut self) -> CostSums {
        let least = &self.least;
        for samples in &mut self.functions {
            samples.all.take_off(least);
            samples.by_caller.values_mut().for_each(|sums| sums.take_off(least));
        }
        let mut calls = vec![(0.0, false); self.functions.len()];
        for process in self.processes.values() {
            for (function, rounds) in &process.rounds {
                if let Some((sum, is_estimate)) = calls.get_mut(*function) {
                    let time = (process.first.unwrap_or(i64::MIN), process.last);
                    let times = self.times.get(*function).and_then(Option::as_deref);
                    let (estimated, is_one) = estimate(rounds, time, times);
                    *sum += estimated;
                    *is_estimate |= is_one;
                }
            }
        }
        let width = self.classes.names.len();
        let total = |function: usize| {
            let (Some(samples), Some((calls, _))) = (self.functions.get(function), calls.get(function))
            else {
                return Scaled::default();
            };
            samples.all.scaled(*calls, samples.all.samples, width)
        };
        let mut own: Vec<Scaled> = (0..self.functions.len()).map(total).collect();
        for (samples, (calls, _)) in self.functions.iter().zip(&calls) {
            for (caller, sums) in &samples.by_caller {
                if let Some(own) = caller.and_then(|caller| own.get_mut(caller)) {
                    own.take_away(&sums.scaled(*calls, samples.all.samples, width));
                }
            }
        }
        let cost = |function: usize| {
            let samples = self.functions.get(function).filter(|samples| samples.all.samples > 0)?;
            let (calls, is_estimate) = *calls.get(function)?;
            let callers = samples.by_caller.iter().filter_map(|(caller, sums)| {
                Some(Caller {
                    name: self.classes.calls.name((*caller)?).to_owned(),
                    calls: (calls * share(sums.samples, samples.all.samples)).round() as u64,
                    total: sums.scaled(calls, samples.all.samples, width).cost(),
                })
            });
            let mut callers: Vec<Caller> = callers.collect();
            callers.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
            Some(FunctionCost {
                name: self.classes.calls.name(function).to_owned(),
                samples: samples.all.samples,
                calls: calls.round() as u64,
                is_estimate,
                not_counted: samples.not_counted,
                total: total(function).cost(),
                own: own.get(function)?.cost(),
                callers,
            })
        };
        let mut functions: Vec<FunctionCost> = (0..self.functions.len()).filter_map(cost).collect();
        functions.sort_by(|a, b| b.total.ns.cmp(&a.total.ns).then_with(|| a.name.cmp(&b.name)));
        let Budget { ran_ns, took_ns } = self.budget;
        CostSums { counters: self.classes.names.clone(), functions, ran_ns, took_ns }
    }
}

/// How many calls there were in these rounds from `begin` to `end`, or, where there are `times`, within these; and
/// whether that is an estimate.
fn estimate(
    rounds: &BTreeMap<u64, Round>,
    (begin, end): (i64, i64),
    times: Option<&[Range<i64>]>,
) -> (f64, bool) {
    let within = |from: i64, until: i64| match times {
        None => until.saturating_sub(from).max(0),
        Some(times) => {
            let part = |time: &Range<i64>| time.end.min(until).saturating_sub(time.start.max(from)).max(0);
            times.iter().map(part).sum()
        }
    };
    let (mut there, mut away) = (0.0, 0);
    let (mut calls, mut calls_there) = (0, 0);
    let mut next_armed = end;
    for round in rounds.values().rev() {
        calls += round.samples + round.passed;
        if let (Some(armed), Some(paused)) = (round.armed, round.paused) {
            calls_there += round.samples + round.passed;
            there += round.own_part * paused.saturating_sub(armed.max(begin)).max(1) as f64;
            away += within(paused, next_armed);
        }
        next_armed = round.armed.unwrap_or(next_armed);
    }
    if there == 0.0 {
        return (calls as f64, false);
    }
    (calls as f64 + calls_there as f64 * away as f64 / there, true)
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// A cost that is computed with.
#[derive(Clone, Debug, Default)]
struct Scaled {
    ns: f64,
    counts: Vec<f64>,
}

impl Sums {
    /// What all calls cost of which these are the samples: `calls` for `samples` of them and others.
    fn scaled(&self, calls: f64, samples: u64, width: usize) -> Scaled {
        let each = calls * share(self.samples, samples);
        let mean = |sum: u64, of: u64| share(sum, of) * each;
        let mut counts: Vec<f64> = self.counts.iter().map(|sum| mean(*sum, self.counted)).collect();
        counts.resize(width, 0.0);
        Scaled { ns: mean(self.ns, self.samples), counts }
    }
}

impl Scaled {
    fn take_away(&mut self, other: &Scaled) {
        self.ns -= other.ns;
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count -= other);
    }

    /// Below 0 there is nothing: it is within the error of the estimates.
    fn cost(&self) -> Cost {
        Cost {
            ns: self.ns.round() as u64,
            counts: self.counts.iter().map(|count| count.round() as u64).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(samples: u64, armed: i64, paused: Option<(i64, u64)>) -> Round {
        let passed = paused.map_or(0, |(_, passed)| passed);
        Round { samples, armed: Some(armed), paused: paused.map(|(paused, _)| paused), passed, own_part: 1.0 }
    }

    #[test]
    fn calls_are_counted_where_no_quota_was_spent() {
        let rounds = BTreeMap::from([(1, round(7, 0, None))]);
        assert_eq!(estimate(&rounds, (0, 1000), None), (7.0, false));
        assert_eq!(estimate(&BTreeMap::new(), (0, 1000), None), (0.0, false));
    }

    #[test]
    fn calls_without_a_probe_are_as_many_as_with_it() {
        // 20 calls in 10 ns, 90 ns without; then 20 in 30 ns, and 70 to the end: 40 calls in 40 ns of 200.
        let rounds = BTreeMap::from([(1, round(16, 0, Some((10, 4)))), (2, round(16, 100, Some((130, 4))))]);
        assert_eq!(estimate(&rounds, (0, 200), None), (200.0, true));
        // The probe came back, and nobody called.
        let rounds = BTreeMap::from([(1, round(16, 0, Some((10, 4)))), (2, round(0, 100, None))]);
        assert_eq!(estimate(&rounds, (0, 1_000_000), None), (200.0, true));
        // It was there before the program began.
        let rounds = BTreeMap::from([(1, round(16, 0, Some((1010, 4))))]);
        assert_eq!(estimate(&rounds, (1000, 1100), None), (200.0, true));
    }

    #[test]
    fn calls_are_those_of_the_times_that_were_asked_for() {
        // 20 calls in 10 ns of 50; then the same again, much later.
        let rounds =
            BTreeMap::from([(1, round(16, 0, Some((10, 4)))), (2, round(16, 10_000, Some((10_010, 4))))]);
        let times = [0..50, 10_000..i64::MAX];
        assert_eq!(estimate(&rounds, (0, 10_050), Some(&times)), (200.0, true));
        assert_eq!(estimate(&rounds, (0, 10_050), Some(&[0..50, 10_000..10_030])), (160.0, true));
    }

    #[test]
    fn costs_are_those_of_all_calls() {
        let mut sums = Sums::default();
        sums.add(100, Some(&[3]));
        sums.add(300, None);
        // 8 calls of which these are the samples; in the mean 200 ns, and 3 where it was counted.
        let scaled = sums.scaled(8.0, 2, 1);
        assert_eq!(scaled.cost(), Cost { ns: 1600, counts: vec![24] });
        // A quarter of the samples of 16 calls.
        assert_eq!(sums.scaled(16.0, 8, 1).cost(), Cost { ns: 800, counts: vec![12] });
        let mut own = scaled;
        own.take_away(&Scaled { ns: 2000.0, counts: vec![20.0] });
        assert_eq!(own.cost(), Cost { ns: 0, counts: vec![4] });
    }
}
