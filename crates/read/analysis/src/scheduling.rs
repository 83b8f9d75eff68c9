//! Threads and the CPUs: how long each one ran, how often it was taken off, how long it could have run and had no CPU.
//!
//! Where only some threads are recorded, others are seen when a CPU goes from one of these to them or back. Those are
//! left out: what is shown of a thread is complete. That a thread is recorded is said by the journal of a recording of
//! the whole system; else it is seen from other events that it has, or from a switch between it and a CPU's idle task.

use crate::Histogram;
use crate::analysis::Analysis;
use crate::report::{Interval, ThreadTime};
use mote_ctf::{Fields, Value};
use mote_timeline::{ClassId, Origin, Record, Trace};
use rustc_hash::FxHashMap;

/// `prev_state` of a thread that would have gone on: 0, or `TASK_REPORT_MAX`.
const RUNNABLE: [i128; 2] = [0, 0x100];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Other,
    Switch,
    Wake,
    /// Not of the scheduler, but beside its events: its thread is recorded.
    Own,
}

#[derive(Debug, Default)]
struct Thread {
    name: Vec<u8>,
    /// Since when it could run.
    runnable: Option<i64>,
    running: u64,
    switches: u64,
    preemptions: u64,
    is_recorded: bool,
    delays: Histogram,
}

/// Adds up the scheduler's events.
#[derive(Debug)]
pub struct Scheduling {
    roles: Vec<Role>,
    /// Of each trace: all threads are recorded.
    whole: Vec<bool>,
    threads: FxHashMap<(usize, u32), Thread>,
    /// By trace and CPU: the thread that came last, and when.
    cpus: FxHashMap<(usize, u32), (u32, i64)>,
}

impl Scheduling {
    /// No switch so far of `trace`.
    #[must_use]
    pub fn new(trace: &Trace) -> Scheduling {
        let role = |id| match trace.class(ClassId(id)).map_or("", |(_, class)| class.name.as_str()) {
            "sched_switch" => Role::Switch,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Role::Wake,
            // A state dump's events are of the thread that writes it.
            name if name.starts_with("sched_") || name.starts_with("lttng_statedump_") => Role::Other,
            _ => Role::Own,
        };
        let mut roles: Vec<Role> =
            (0..u32::try_from(trace.classes()).unwrap_or(u32::MAX)).map(role).collect();
        if !roles.contains(&Role::Switch) {
            roles.clear();
        }
        let is_whole = |origin: &Origin| {
            let session = origin.facts.as_ref().and_then(|facts| facts.session.as_ref());
            session.is_some_and(|session| session.whole_system)
        };
        let whole = trace.origins().iter().map(is_whole).collect();
        Scheduling { roles, whole, threads: FxHashMap::default(), cpus: FxHashMap::default() }
    }

    fn thread(&mut self, origin: usize, tid: u32) -> &mut Thread {
        self.threads.entry((origin, tid)).or_default()
    }

    fn woken(&mut self, record: &Record<'_>, payload: &Fields<'_>) {
        let Some(tid) = id(payload, "tid") else { return };
        let origin = record.origin_index();
        let runs = self.cpus.iter().any(|((trace, _), (running, _))| *trace == origin && *running == tid);
        if !runs {
            self.thread(origin, tid).runnable.get_or_insert(record.time());
        }
    }

    fn switched(&mut self, record: &Record<'_>, payload: &Fields<'_>) {
        let (origin, now) = (record.origin_index(), record.time());
        let (Some(prev), Some(next), Some(cpu)) =
            (id(payload, "prev_tid"), id(payload, "next_tid"), record.cpu())
        else {
            return;
        };
        let before = self.cpus.insert((origin, cpu), (next, now));
        let goes_on = payload.integer("prev_state").is_some_and(|state| RUNNABLE.contains(&state));
        let thread = self.thread(origin, prev);
        thread.switches += 1;
        thread.preemptions += u64::from(goes_on);
        thread.is_recorded |= next == 0;
        thread.runnable = goes_on.then_some(now);
        if let Some((tid, since)) = before
            && tid == prev
        {
            thread.running += now.abs_diff(since);
        }
        let thread = self.thread(origin, next);
        thread.is_recorded |= prev == 0;
        if let Some(since) = thread.runnable.take() {
            thread.delays.add(now.abs_diff(since));
        }
        if let Some(Value::Str(name)) = payload.value("next_comm")
            && thread.name != name
        {
            thread.name = name.to_vec();
        }
    }
}

impl Analysis for Scheduling {
    /// The threads, those first that ran longest.
    type Output = Vec<ThreadTime>;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        let role = self.roles.get(record.class().0 as usize).copied().unwrap_or(Role::Other);
        match role {
            Role::Switch => {
                if let Some(event) = record.event() {
                    self.switched(record, &event.payload());
                }
            }
            Role::Wake => {
                if let Some(event) = record.event() {
                    self.woken(record, &event.payload());
                }
            }
            Role::Own => {
                if let Some(tid) = record.tid() {
                    self.thread(record.origin_index(), tid).is_recorded = true;
                }
            }
            Role::Other => {}
        }
    }

    fn finish(self) -> Vec<ThreadTime> {
        let has_all = |origin: usize| self.whole.get(origin).is_some_and(|whole| *whole);
        let threads = self.threads.into_iter().filter(|((origin, tid), thread)| {
            *tid != 0 && thread.running > 0 && (thread.is_recorded || has_all(*origin))
        });
        let mut times: Vec<ThreadTime> = threads
            .map(|((_, tid), thread)| ThreadTime {
                name: String::from_utf8_lossy(&thread.name).into_owned(),
                tid,
                running_ns: thread.running,
                switches: thread.switches,
                preemptions: thread.preemptions,
                queued_ns: Interval::of(&thread.delays),
            })
            .collect();
        times.sort_by_key(|time| (std::cmp::Reverse(time.running_ns), time.tid));
        times
    }
}

fn id(payload: &Fields<'_>, name: &str) -> Option<u32> {
    payload.integer(name).and_then(|id| u32::try_from(id).ok())
}
