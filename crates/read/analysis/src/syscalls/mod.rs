//! System calls by name, and of each thread: how many, how many failed and with what, how long they took, and which had
//! not returned at the end.

mod classes;

pub use classes::{SyscallClasses, SyscallRole};

use crate::Histogram;
use crate::analysis::Analysis;
use crate::report::{Errors, Interval, OpenCall, SyscallCount, ThreadCall, ThreadCalls};
use mote_timeline::{Record, Trace};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Calls that return twice.
const FORKS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];
/// Calls that never return: their threads end in them.
const ENDS: [&str; 2] = ["exit", "exit_group"];
/// Errors are the negative numbers down to this one (`MAX_ERRNO` of the kernel).
const LOWEST: i128 = -4095;

/// What the calls of a name came to.
#[derive(Debug, Default)]
struct Call {
    returned: u64,
    errors: BTreeMap<i64, u64>,
    total: u64,
    durations: Histogram,
}

/// What the calls of a name and a thread came to.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    returned: u64,
    failed: u64,
    timed: u64,
    total: u64,
    longest: u64,
}

/// Name and process of a thread.
pub(crate) type Identity = (Option<String>, Option<u32>);

/// Adds up the system calls of a trace.
#[derive(Debug)]
pub struct Syscalls {
    classes: SyscallClasses,
    /// By the number of the call.
    calls: Vec<Call>,
    /// By trace and thread: the call that has begun, and when.
    begun: FxHashMap<(usize, u32), (usize, i64)>,
    /// By session, thread and call.
    of_threads: FxHashMap<(usize, u32, usize), Sums>,
}

impl Syscalls {
    /// No call so far of `trace`.
    #[must_use]
    pub fn new(trace: &Trace) -> Syscalls {
        let classes = SyscallClasses::new(trace);
        let calls = (0..classes.calls()).map(|_| Call::default()).collect();
        Syscalls { classes, calls, begun: FxHashMap::default(), of_threads: FxHashMap::default() }
    }

    fn returned(&mut self, record: &Record<'_>, number: usize) {
        let begun = record.tid().and_then(|tid| self.begun.remove(&(record.origin_index(), tid)));
        let (Some(call), Some(event)) = (self.calls.get_mut(number), record.event()) else { return };
        let payload = event.payload();
        // A child begins with the return of a call that it has not made.
        if begun.is_none() && payload.integer("ret") == Some(0) && FORKS.contains(&self.classes.name(number))
        {
            return;
        }
        call.returned += 1;
        let error = payload.integer("ret").filter(|ret| (LOWEST..0).contains(ret));
        if let Some(error) = error {
            *call.errors.entry(error as i64).or_insert(0) += 1;
        }
        // 0 says that the entry was not seen.
        let recorded =
            payload.integer("duration_ns").and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0);
        let between =
            || begun.filter(|(call, _)| *call == number).map(|(_, since)| record.time().abs_diff(since));
        let took = recorded.or_else(between);
        if let Some(ns) = took {
            call.total = call.total.saturating_add(ns);
            call.durations.add(ns);
        }
        if let Some(tid) = record.tid() {
            let sums = self.of_threads.entry((record.origin().session(), tid, number)).or_default();
            sums.returned += 1;
            sums.failed += u64::from(error.is_some());
            sums.timed += u64::from(took.is_some());
            sums.total = sums.total.saturating_add(took.unwrap_or(0));
            sums.longest = sums.longest.max(took.unwrap_or(0));
        }
    }

    /// The calls of each thread, those first that made most; `identity` knows threads by session and id.
    pub(crate) fn of_threads(&self, identity: impl Fn(usize, u32) -> Identity) -> Vec<ThreadCalls> {
        let mut threads: BTreeMap<(usize, u32), Vec<ThreadCall>> = BTreeMap::new();
        for ((session, tid, number), sums) in &self.of_threads {
            threads.entry((*session, *tid)).or_default().push(ThreadCall {
                name: self.classes.name(*number).to_owned(),
                calls: sums.returned,
                failed: sums.failed,
                total_ns: (sums.timed > 0).then_some(sums.total),
                timed: sums.timed,
                max_ns: (sums.timed > 0).then_some(sums.longest),
            });
        }
        let thread = |((session, tid), mut syscalls): ((usize, u32), Vec<ThreadCall>)| {
            syscalls.sort_by(|a, b| {
                (b.total_ns, b.calls).cmp(&(a.total_ns, a.calls)).then_with(|| a.name.cmp(&b.name))
            });
            let (name, pid) = identity(session, tid);
            let calls = syscalls.iter().map(|call| call.calls).sum();
            let failed = syscalls.iter().map(|call| call.failed).sum();
            let total_ns = syscalls.iter().filter_map(|call| call.total_ns).reduce(u64::saturating_add);
            ThreadCalls { name, tid, pid, calls, failed, total_ns, syscalls }
        };
        let mut threads: Vec<ThreadCalls> = threads.into_iter().map(thread).collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.calls), thread.tid));
        threads
    }

    /// The calls that had not returned at `end`, the longest first.
    pub(crate) fn open(&self, end: i64) -> Vec<OpenCall> {
        // Where returns are not recorded, it is not known which calls are open.
        let has_exits = self.classes.has_exits();
        let begun = self.begun.iter().filter(|_| has_exits);
        let call = |(&(_, tid), &(number, since_ns)): (&(usize, u32), &(usize, i64))| {
            let name = self.classes.name(number);
            let open_ns = end.abs_diff(since_ns);
            (!ENDS.contains(&name)).then(|| OpenCall { name: name.to_owned(), tid, since_ns, open_ns })
        };
        let mut open: Vec<OpenCall> = begun.filter_map(call).collect();
        open.sort_by_key(|call| (call.since_ns, call.tid));
        open
    }

    /// The calls that returned, those first that took most of the time.
    pub(crate) fn by_name(self) -> Vec<SyscallCount> {
        let classes = self.classes;
        let count = |(number, call): (usize, Call)| {
            let mut errors: Vec<Errors> =
                call.errors.into_iter().map(|(ret, count)| Errors { error: name(ret), count }).collect();
            errors.sort_by_key(|error| std::cmp::Reverse(error.count));
            SyscallCount {
                name: classes.name(number).to_owned(),
                calls: call.returned,
                failed: errors.iter().map(|error| error.count).sum(),
                errors,
                total_ns: (call.durations.count() > 0).then_some(call.total),
                duration_ns: Interval::of(&call.durations),
            }
        };
        let mut calls: Vec<SyscallCount> =
            self.calls.into_iter().enumerate().filter(|(_, call)| call.returned > 0).map(count).collect();
        calls.sort_by(|a, b| {
            (b.total_ns, b.calls).cmp(&(a.total_ns, a.calls)).then_with(|| a.name.cmp(&b.name))
        });
        calls
    }
}

impl Analysis for Syscalls {
    type Output = Syscalls;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        match self.classes.role(record) {
            SyscallRole::Entry(call) => {
                if let Some(tid) = record.tid() {
                    self.begun.insert((record.origin_index(), tid), (call, record.time()));
                }
            }
            SyscallRole::Exit(call) => self.returned(record, call),
            SyscallRole::None => {}
        }
    }

    fn finish(self) -> Syscalls {
        self
    }
}

/// `ENOENT` for -2.
fn name(ret: i64) -> String {
    let number = ret.checked_neg().and_then(|number| u16::try_from(number).ok());
    number.and_then(mote_layout::errors::name).map_or_else(|| ret.to_string(), str::to_owned)
}
