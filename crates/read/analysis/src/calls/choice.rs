//! Which calls are looked at: by the function, by the caller, by how long they took.

use super::classes::thread_of;
use super::{Call, CallClasses};
use crate::analysis::Analysis;
use mote_timeline::{Record, Trace};
use rustc_hash::FxHashMap;

/// Moments of begin and end.
type Times = Vec<(i64, i64)>;

/// A choice of calls. What it leaves out by function or caller is as if it had not been recorded.
#[derive(Debug, Default)]
pub struct Choice {
    /// By function; empty if all are chosen.
    functions: Vec<bool>,
    /// When threads were in one of the callers, by session and thread.
    under: Option<FxHashMap<(usize, u32), Times>>,
    /// Calls that took less are not counted, and not shown.
    min_ns: u64,
}

impl Choice {
    /// The same, of functions whose names `fits` likes.
    #[must_use]
    pub fn of_functions(self, classes: &CallClasses, fits: impl Fn(&str) -> bool) -> Choice {
        let functions = (0..classes.functions()).map(|function| fits(classes.name(function))).collect();
        Choice { functions, ..self }
    }

    /// The same, of calls in the calls that `callers` are, those included.
    #[must_use]
    pub fn under(self, callers: Callers) -> Choice {
        Choice { under: Some(callers.finish()), ..self }
    }

    /// The same, of calls that took at least so long.
    #[must_use]
    pub fn of_at_least(self, min_ns: u64) -> Choice {
        Choice { min_ns, ..self }
    }

    /// Whether a call is chosen, as far as its function and its callers matter.
    #[must_use]
    #[inline]
    pub fn takes(&self, record: &Record<'_>, call: &Call) -> bool {
        let is_of = self.functions.is_empty() || self.functions.get(call.function) == Some(&true);
        is_of && self.under.as_ref().is_none_or(|under| is_inside(under.get(&thread_of(record)), call))
    }

    /// Whether a call took long enough.
    #[must_use]
    #[inline]
    pub fn is_long_enough(&self, call: &Call) -> bool {
        call.duration() >= self.min_ns
    }
}

/// Whether a call lies in one of these times, which follow one another.
fn is_inside(times: Option<&Times>, call: &Call) -> bool {
    let Some(times) = times else { return false };
    let place = times.partition_point(|(_, end)| *end < call.end);
    // What ends with it and began earlier is around it.
    let holds = |(begin, end): &(i64, i64)| call.begin >= *begin || (call.end > *begin && call.end < *end);
    times.get(place).is_some_and(holds)
}

/// Notes when threads were in calls of some functions.
///
/// # Cost
/// Memory: 16 bytes for each call of them that is not inside of another one.
#[derive(Debug)]
pub struct Callers {
    classes: CallClasses,
    functions: Vec<bool>,
    threads: FxHashMap<(usize, u32), Times>,
}

impl Callers {
    /// Of the functions of `trace` whose names `fits` likes.
    #[must_use]
    pub fn new(trace: &Trace, fits: impl Fn(&str) -> bool) -> Callers {
        let classes = CallClasses::new(trace);
        let functions = (0..classes.functions()).map(|function| fits(classes.name(function))).collect();
        Callers { classes, functions, threads: FxHashMap::default() }
    }
}

impl Analysis for Callers {
    type Output = FxHashMap<(usize, u32), Times>;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        let Some(call) = self.classes.call(record) else { return };
        if self.functions.get(call.function) != Some(&true) {
            return;
        }
        let times = self.threads.entry(thread_of(record)).or_default();
        if times.last().is_some_and(|(begin, end)| *end == call.end && *begin <= call.begin) {
            return;
        }
        while times.pop_if(|(begin, end)| call.holds(*begin, *end)).is_some() {}
        times.push((call.begin, call.end));
    }

    fn finish(self) -> Self::Output {
        self.threads
    }
}
