//! Names by what is known of the host: which threads its processors ran, by events of the recording that a capture is
//! in (`sched_switch`, `kvm_*`), or else by the capture's own notes.

use super::input::Input;
use crate::cmd::pt::shown::recording_of;
use mote_capture::{Capture, What};
use mote_clock::{Sample, Timeline};
use mote_ctf::{Fields, Value};
use mote_hardware::vm::{Interval, Names, Schedule, Thread, Votes, Winner};
use mote_timeline::{ClassId, Range, Record, Trace};
use mote_words::grouped;
use std::path::Path;

const NS_PER_S: u64 = 1_000_000_000;

/// A machine of which something is known beside its packets.
pub(super) struct Host {
    schedule: Schedule,
    /// How ticks of the packets are times of the schedule: by readings of both clocks, and how fast the counter is;
    /// nothing where these are ticks, too.
    clocks: Option<(Vec<Sample>, u64)>,
    votes: Votes,
}

/// What an event means here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Other,
    Switch,
    /// Of the hypervisor: its thread runs.
    Hypervisor,
}

impl Host {
    /// What a capture, and the recording that it is in, says of the host; nothing where they say nothing.
    pub(super) fn of(path: &Path, capture: &Capture) -> Option<Host> {
        let samples = capture.samples();
        let recording = recording_of(path).filter(|_| !samples.is_empty());
        let by_events = recording.and_then(|dir| match Trace::open(dir) {
            Ok(trace) => Some(by_events(&trace)).filter(|schedule| !schedule.is_empty()),
            Err(why) => {
                say!("{}: its events cannot be read, and name no vCPU: {why}", dir.display());
                None
            }
        });
        let hz = capture.processor().hz().unwrap_or(NS_PER_S);
        let (schedule, clocks) = match by_events {
            Some(schedule) => (schedule, Some((samples, hz))),
            None => (by_notes(capture), None),
        };
        let (schedule, votes) = (schedule.sorted(), Votes::default());
        (!schedule.is_empty()).then_some(Host { schedule, clocks, votes })
    }
}

/// By events of a recording, in nanoseconds of CLOCK_MONOTONIC.
fn by_events(trace: &Trace) -> Schedule {
    let role = |class| match trace.class(ClassId(class)).map_or("", |(_, class)| class.name.as_str()) {
        "sched_switch" => Role::Switch,
        name if name.starts_with("kvm_") => Role::Hypervisor,
        _ => Role::Other,
    };
    let roles: Vec<Role> = (0..u32::try_from(trace.classes()).unwrap_or(u32::MAX)).map(role).collect();
    let mut schedule = Schedule::default();
    if roles.iter().all(|role| *role == Role::Other) {
        return schedule;
    }
    let mut events = trace.events(Range::default());
    while let Some(entry) = events.next() {
        let mote_timeline::Entry::Event(record) = entry else { continue };
        let role = roles.get(record.class().0 as usize).copied().unwrap_or(Role::Other);
        if role != Role::Other {
            take(&mut schedule, role, &record);
        }
    }
    schedule
}

/// Takes an event.
fn take(schedule: &mut Schedule, role: Role, record: &Record<'_>) {
    let Some((cpu, event)) = record.cpu().zip(record.event()) else { return };
    let payload = event.payload();
    if let Some((named, _)) = record.named()
        && let Some(tid) = record.tid().and_then(|tid| i32::try_from(tid).ok())
    {
        let thread = schedule.thread(tid);
        (thread.pid, thread.name) = (i32::try_from(named.pid).ok(), Some(named.name.clone()));
    }
    let (tid, name) = match role {
        Role::Switch => (tid_of(&payload, "next_tid"), text(&payload, "next_comm")),
        _ => (record.tid().and_then(|tid| i32::try_from(tid).ok()), None),
    };
    let Some(tid) = tid else { return };
    schedule.runs(cpu, record.monotonic(), tid);
    let thread = schedule.thread(tid);
    thread.name = name.or(thread.name.take());
    if role == Role::Hypervisor {
        thread.pid = thread.pid.or(record.pid().and_then(|pid| i32::try_from(pid).ok()));
        let vcpu = payload.integer("vcpu_id").and_then(|vcpu| u64::try_from(vcpu).ok());
        thread.vcpu = vcpu.or(thread.vcpu);
    }
}

fn tid_of(payload: &Fields<'_>, field: &str) -> Option<i32> {
    payload.integer(field).and_then(|tid| i32::try_from(tid).ok())
}

fn text(payload: &Fields<'_>, field: &str) -> Option<String> {
    match payload.value(field)? {
        Value::Str(text) if !text.is_empty() => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// By the notes of a capture, in ticks of the time-stamp counter.
fn by_notes(capture: &Capture) -> Schedule {
    let mut schedule = Schedule::default();
    for note in capture.notes() {
        match (&note.what, note.cpu, note.time.and_then(|time| i64::try_from(time).ok())) {
            (What::Switch, Some(cpu), Some(time)) => {
                schedule.runs(cpu, time, note.tid);
                schedule.thread(note.tid).pid = (note.pid > 0).then_some(note.pid);
            }
            (What::Thread { name }, ..) => {
                *schedule.thread(note.tid) =
                    Thread { pid: Some(note.pid), name: Some(name.clone()), vcpu: None };
            }
            _ => {}
        }
    }
    schedule
}

/// Takes intervals, for which threads they are.
pub(super) struct Poll<'h> {
    hosts: Vec<(&'h Schedule, Option<Timeline<'h>>, &'h mut Votes)>,
}

impl<'h> Poll<'h> {
    pub(super) fn of(hosts: &'h mut [Host]) -> Poll<'h> {
        let host = |host: &'h mut Host| {
            let line = host.clocks.as_ref().and_then(|(samples, hz)| Timeline::new(samples, *hz).ok());
            (&host.schedule, line, &mut host.votes)
        };
        Poll { hosts: hosts.iter_mut().map(host).collect() }
    }

    pub(super) fn add(&mut self, input: &Input, interval: &Interval) {
        let host = input.host.and_then(|host| self.hosts.get_mut(host));
        let Some((schedule, line, votes)) = host else { return };
        let to_ns = |ticks| i64::try_from(line.as_ref().map_or(ticks, |line| line.monotonic_ns(ticks))).ok();
        votes.add(schedule, input.cpu, interval, to_ns);
    }
}

/// Names what has no name yet. Returns what is in doubt, as sentences.
pub(super) fn name(names: &mut Names, hosts: &[Host]) -> Vec<String> {
    let mut doubts = Vec::new();
    for Host { schedule, votes, .. } in hosts {
        for (vmcs, winner) in
            votes.vcpus().filter(|(vmcs, _)| names.vmcs(*vmcs).is_none()).collect::<Vec<_>>()
        {
            let Some(Winner { tid, votes, all }) = winner else {
                doubts.push(format!("vCPU {vmcs} has no name: no thread had the processor for most of it"));
                continue;
            };
            let name = schedule.name_of(tid);
            names.suggest_vmcs(vmcs, &name);
            if (Winner { tid, votes, all }).is_in_doubt() {
                let (votes, all) = (grouped(votes), grouped(all));
                doubts.push(format!(
                    "vCPU {vmcs} may be another thread than {name}: \
                     that had the processor in {votes} of {all} intervals"
                ));
            }
        }
        for (vm, name) in votes.machines(schedule) {
            names.suggest_host(vm, &name);
        }
    }
    doubts
}
