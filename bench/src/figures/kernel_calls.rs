//! Of `kernel`: what each tracer adds to a system call that does nothing.
//!
//! The same loop of calls is run by itself, under programs that are the floor (`kernel_floor`), under mote, and under
//! its peers, in turns. A figure of a tracer is what it adds; a ratio is that beside what another one adds in the same
//! round. So they can be compared from machine to machine, where what is added cannot: it is above all what the kernel
//! does to call a program (function returns, which are slow where the kernel works around flaws of the CPU) and to read
//! its clock.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::kernel::{Missing, present, run_mote, run_peer};
use super::kernel_floor::Floor;
use super::kernel_peers::{Events, Tracer, leave_tracefs};
use super::session::{Lab, built, workload};
use std::ffi::OsString;

/// The event that is measured, as trace event.
const EVENT: Events<'static> = &["syscalls/sys_enter_getppid"];
/// Calls of a workload.
const CALLS: u64 = 50_000;

/// The loop has the machine for itself, whatever else runs: a real-time process of some hundredths of a second.
const ALONE: [&str; 3] = ["/usr/bin/chrt", "-f", "10"];

/// The loop that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    /// Of a call without arguments.
    Plain,
    /// Of one with an argument.
    Argument,
    /// In a program that carries mote, and so has memory that it shares with the kernel's programs.
    Carrying,
}

impl Loop {
    fn command(self) -> anyhow::Result<Vec<OsString>> {
        let plain = |call: &str| -> anyhow::Result<Vec<OsString>> {
            Ok(vec![built()?.join("mote-bench-calls").into(), call.into(), CALLS.to_string().into()])
        };
        let mut command: Vec<OsString> = ALONE.map(OsString::from).to_vec();
        command.extend(match self {
            Loop::Plain => plain("getppid")?,
            Loop::Argument => plain("getpgid")?,
            Loop::Carrying => workload("getppid", &[CALLS])?,
        });
        Ok(command)
    }

    /// What it takes by itself; a program that carries mote calls as any other.
    fn bare(self) -> &'static str {
        match self {
            Loop::Plain | Loop::Carrying => "syscall",
            Loop::Argument => "syscall/argument",
        }
    }
}

/// How mote is used around a loop.
struct Way {
    case: &'static str,
    loops: Loop,
    arguments: &'static [&'static str],
}

const fn way(case: &'static str, loops: Loop, arguments: &'static [&'static str]) -> Way {
    Way { case, loops, arguments }
}

const EVENT_BY: &str = "syscalls:syscall_entry_getppid";
const ARGUMENT_BY: &str = "syscalls:syscall_entry_getpgid";
const WAYS: [Way; 9] = [
    way("event", Loop::Plain, &["record", "-q", "--mode", "overwrite", "-k", EVENT_BY]),
    way("event/stack", Loop::Plain, &["record", "-q", "--mode", "overwrite", "-k", EVENT_BY, "--stack=user"]),
    way(
        "event/stack/frame-pointers",
        Loop::Plain,
        &["record", "-q", "--mode", "overwrite", "-k", EVENT_BY, "--stack=user", "--frame-pointers"],
    ),
    way(
        "event_filtered",
        Loop::Plain,
        &["record", "-q", "--mode", "overwrite", "-k", EVENT_BY, "--filter", "$tid == 1"],
    ),
    way(
        "event_filtered/argument",
        Loop::Argument,
        &["record", "-q", "--mode", "overwrite", "-k", ARGUMENT_BY, "--filter", "pid == 12345"],
    ),
    way("latency_below", Loop::Plain, &["latency", "--threshold", "*=1s"]),
    way("latency_below/1ms", Loop::Plain, &["latency", "--threshold", "*=1ms"]),
    way("latency_below/carrying", Loop::Carrying, &["latency", "--threshold", "*=1s"]),
    way("latency_below/carrying/1ms", Loop::Carrying, &["latency", "--threshold", "*=1ms"]),
];
const FLOORS: [Floor; 5] = [Floor::Empty, Floor::EmptyBoth, Floor::Clock, Floor::WhoRuns, Floor::RingBuffer];
const PEERS: [Tracer; 3] = [Tracer::Ftrace, Tracer::PerfRecord, Tracer::BpftraceCount];
/// Ratios that there are aims for: a case, and who it is beside.
const RATIOS: [(&str, &str); 9] = [
    ("event", "ftrace"),
    ("event", "bpf-ringbuf"),
    ("event", "clock"),
    ("event_filtered", "empty"),
    ("event_filtered/argument", "empty"),
    ("latency_below", "empty-both"),
    ("latency_below/1ms", "empty-both"),
    ("latency_below/carrying", "empty-both"),
    ("latency_below/carrying/1ms", "empty-both"),
];

/// Measures this part of `kernel` alone.
pub(super) fn alone(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let figures = run(&mut lab, effort);
    leave_tracefs(lab.path());
    figures
}

/// Measures what tracers add to a system call, each in turns with the bare call.
pub(super) fn run(lab: &mut Lab, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Samples::default();
    let mut missing = Missing::default();
    for _ in 0..effort.choose(5, 25) {
        round(lab, &mut samples, &mut missing)?;
    }
    let bares =
        [Loop::Plain, Loop::Argument].map(|it| Figure::new(it.bare(), "ns", &lower(&samples, it.bare())));
    let mut figures = bares.to_vec();
    for Way { case, loops, .. } in &WAYS {
        figures.push(present(case, "ns", &added_to(&samples, case, *loops), missing.why(case)));
    }
    for name in FLOORS.map(Floor::name).into_iter().chain(PEERS.map(Tracer::name)) {
        let values = added(&samples, name);
        figures.push(present("event", "ns", &values, missing.why(name)).of_peer(name));
    }
    for (case, beside) in RATIOS {
        let loops = WAYS.iter().find(|way| way.case == case).map_or(Loop::Plain, |way| way.loops);
        let theirs = added(&samples, beside);
        let ratios: Vec<f64> =
            added_to(&samples, case, loops).iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        figures.push(present(&format!("{case}/ratio"), "x", &ratios, missing.why(beside)).of_peer(beside));
    }
    Ok(figures)
}

/// The lower half of what was measured of a case, in order: whoever else attaches programs to system calls meanwhile
/// makes them slower, never quicker.
fn lower(samples: &Samples, case: &str) -> Vec<f64> {
    let mut values = samples.of(case).to_vec();
    values.sort_by(f64::total_cmp);
    values.truncate(values.len().div_ceil(2));
    values
}

/// What a case adds to the plain loop, by those.
pub(super) fn added(samples: &Samples, case: &str) -> Vec<f64> {
    added_to(samples, case, Loop::Plain)
}

/// What a case adds to its loop, by those.
fn added_to(samples: &Samples, case: &str, loops: Loop) -> Vec<f64> {
    let bare = lower(samples, loops.bare());
    lower(samples, case).iter().zip(&bare).map(|(ns, bare)| ns - bare).collect()
}

fn round(lab: &mut Lab, samples: &mut Samples, missing: &mut Missing) -> anyhow::Result<()> {
    for it in [Loop::Plain, Loop::Argument] {
        samples.add(it.bare(), by(lab, Tracer::Bare, it)?);
    }
    for floor in FLOORS {
        match floor.attach().and_then(|_attached| by(lab, Tracer::Bare, Loop::Plain)) {
            Ok(ns) => samples.add(floor.name(), ns),
            Err(why) => missing.note(floor.name(), &why),
        }
    }
    for Way { case, loops, arguments } in &WAYS {
        match run_mote(lab, arguments, loops.command()?) {
            Ok(ns) => samples.add(case, ns),
            Err(why) => missing.note(case, &why),
        }
    }
    for peer in PEERS {
        match by(lab, peer, Loop::Plain) {
            Ok(ns) => samples.add(peer.name(), ns),
            Err(why) => missing.note(peer.name(), &why),
        }
    }
    Ok(())
}

/// Runs the plain loop and adds what it takes to the samples of `case`: of itself, when nothing is attached.
pub(super) fn lone(lab: &mut Lab, samples: &mut Samples, case: Option<&str>) -> anyhow::Result<()> {
    let ns = by(lab, Tracer::Bare, Loop::Plain)?;
    samples.add(case.unwrap_or(Loop::Plain.bare()), ns);
    Ok(())
}

/// Nanoseconds of a call in a loop under a tracer that is not ours.
fn by(lab: &mut Lab, tracer: Tracer, it: Loop) -> anyhow::Result<f64> {
    let mut samples = Samples::default();
    run_peer(lab, tracer, EVENT, it.command()?, &mut samples)?;
    Ok(samples.median(tracer.name()).unwrap_or_default())
}
