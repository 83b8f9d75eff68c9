//! Calls of functions: how many, how long, and how much of that was in no function that they called.
//!
//! A call is an event when it returns ([`CallClasses`]). Which calls were inside of which follows from their times: of
//! a thread, one that returned earlier and began later is inside. Of several that returned at the same moment, the one
//! that took longest is the outermost; of those that took the same, the last. Calls that were not recorded are missing,
//! and nothing else is: what they called counts as called by the next one around them. A function that had not
//! returned when the recording ended is in no sum, and neither is one that was called before it began.
//!
//! A function's own time is that of its calls less that of the calls in them. Its total is that of its calls that are
//! in no other call of the same function: a recursive one takes no longer than its outermost call.
//!
//! # Cost
//! Memory: of each function 15 KiB; of each thread 32 bytes for each call whose caller has not returned, of which
//! [`PENDING_MAX`] are kept at most, and [`SAME_MAX`] of each function. Older ones are put together: see `pending`.

mod choice;
mod classes;
mod pending;

pub use choice::{Callers, Choice};
pub use classes::{Call, CallClasses, is_duration, thread_of};
pub use pending::{Inside, Merge, Pending, Returns};

use crate::Histogram;
use crate::analysis::Analysis;
use crate::report::{FunctionCount, Interval};
use mote_timeline::{Record, Trace};
use rustc_hash::FxHashMap;

/// Most calls of a thread that are kept apart while their callers have not returned.
pub const PENDING_MAX: usize = 1 << 16;
/// The same of calls of one function.
const SAME_MAX: usize = 128;

/// What the calls of a function came to.
#[derive(Clone, Debug, Default)]
struct Sums {
    durations: Histogram,
    total_ns: u64,
    self_ns: u64,
}

/// What a thread has done that may still turn out to be inside of a call.
#[derive(Debug, Default)]
struct Thread {
    last: Returns,
    all: Pending<()>,
    /// By function: of those the calls that are not inside of another one.
    same: FxHashMap<usize, Pending<()>>,
}

/// Sums up the calls of a trace.
#[derive(Debug)]
pub struct Calls {
    classes: CallClasses,
    choice: Choice,
    functions: Vec<Sums>,
    /// By session and thread.
    threads: FxHashMap<(usize, u32), Thread>,
    estimates: u64,
    limits: (usize, usize),
}

/// What the calls of a trace came to.
#[derive(Clone, Debug, Default)]
pub struct CallSums {
    /// By function, those first that took most of the time, with all their durations.
    pub functions: Vec<(FunctionCount, Histogram)>,
    /// Calls of which it is only about known what was inside: there were too many in their thread.
    pub estimates: u64,
}

impl Calls {
    /// No call so far of `trace`.
    #[must_use]
    pub fn new(trace: &Trace) -> Calls {
        let classes = CallClasses::new(trace);
        let functions = vec![Sums::default(); classes.functions()];
        Calls {
            classes,
            choice: Choice::default(),
            functions,
            threads: FxHashMap::default(),
            estimates: 0,
            limits: (PENDING_MAX, SAME_MAX),
        }
    }

    /// The same of the calls that `choice` takes. What is too short for it still counts as inside of its caller.
    #[must_use]
    pub fn with_choice(self, choice: Choice) -> Calls {
        Calls { choice, ..self }
    }

    /// The same with other numbers of calls that are kept apart: of a thread, and of a function there.
    #[must_use]
    pub fn with_limits(self, thread: usize, function: usize) -> Calls {
        Calls { limits: (thread, function), ..self }
    }
}

impl Thread {
    /// Adds the calls to the sums that returned before `now`. Returns of how many it is only about known what they came
    /// to.
    fn settle(
        &mut self,
        now: Option<i64>,
        functions: &mut [Sums],
        choice: &Choice,
        limits: (usize, usize),
    ) -> u64 {
        let mut estimates = 0;
        for call in self.last.settled(now) {
            let inside = self.all.put(&call, limits.0, |(), _| ());
            let Some(sums) = functions.get_mut(call.function).filter(|_| choice.is_long_enough(&call)) else {
                continue;
            };
            let same = self.same.entry(call.function).or_default().put(&call, limits.1, |(), _| ());
            let duration = call.duration();
            sums.durations.add(duration);
            sums.self_ns = sums.self_ns.saturating_add(duration.saturating_sub(inside.ns));
            sums.total_ns = sums.total_ns.saturating_add(duration).saturating_sub(same.ns);
            estimates += u64::from(inside.is_estimate || same.is_estimate);
        }
        estimates
    }
}

impl Analysis for Calls {
    type Output = CallSums;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        let Some(call) = self.classes.call(record) else { return };
        if !self.choice.takes(record, &call) {
            return;
        }
        let thread = self.threads.entry(thread_of(record)).or_default();
        self.estimates += thread.settle(Some(call.end), &mut self.functions, &self.choice, self.limits);
        thread.last.push(call);
    }

    fn finish(mut self) -> CallSums {
        for thread in self.threads.values_mut() {
            self.estimates += thread.settle(None, &mut self.functions, &self.choice, self.limits);
        }
        let classes = &self.classes;
        let count = |(number, sums): (usize, Sums)| {
            let count = FunctionCount {
                name: classes.name(number).to_owned(),
                calls: sums.durations.count(),
                total_ns: sums.total_ns,
                total_self_ns: sums.self_ns,
                duration_ns: Interval::of(&sums.durations)?,
            };
            Some((count, sums.durations))
        };
        let mut functions: Vec<_> = self.functions.into_iter().enumerate().filter_map(count).collect();
        functions.sort_by(|(a, _), (b, _)| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        CallSums { functions, estimates: self.estimates }
    }
}
