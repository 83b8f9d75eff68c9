//! Nanoseconds of a system call that does nothing, made in a loop: by a program that carries mote, and by one that does
//! not.
//!
//! The calls are made in short batches, and the lowest tenth of the batches is answered. For these milliseconds the
//! machine stands still: the other CPUs are held by threads that wait, because two CPUs may be one core. For that it
//! must be run with real-time priority (`chrt -f 10`).

use anyhow::Context;
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Calls of a batch: some 50 microseconds.
const BATCH: u64 = 250;
/// Of so many batches one is quicker than what is answered.
const QUICKEST: usize = 10;

/// A system call and what makes it, directly: some C libraries remember process ids.
type Call = (&'static str, fn());
const CALLS: [Call; 2] = [
    ("getppid", || {
        mote_sys::process::parent();
    }),
    // The one with an argument.
    ("getpgid", || {
        std::hint::black_box(nix::unistd::getpgid(None).is_ok());
    }),
];

/// Makes the call that `name` names `count` times, on one CPU: a line of its name and the nanoseconds that it takes.
///
/// # Errors
/// There is no such call, or no CPU to be had.
pub(crate) fn run(name: &str, count: u64) -> anyhow::Result<String> {
    let known = CALLS.iter().find(|(known, _)| *known == name);
    let (_, call) = known.with_context(|| format!("'{name}' is not one of the calls that are measured"))?;
    let cpus = thread::available_parallelism()?.get();
    let own = sched_getcpu()?;
    pin(own)?;
    let others: Vec<usize> = (0..cpus).filter(|cpu| *cpu != own).collect();
    let (ready, done) = (Barrier::new(others.len() + 1), AtomicBool::new(false));
    let mut times: Vec<f64> = thread::scope(|scope| {
        for cpu in others {
            let (ready, done) = (&ready, &done);
            scope.spawn(move || hold(cpu, ready, done));
        }
        ready.wait();
        batch(*call);
        let times = (0..count.div_ceil(BATCH)).map(|_| batch(*call)).collect();
        done.store(true, Ordering::Relaxed);
        times
    });
    times.sort_by(f64::total_cmp);
    let time = times.get(times.len() / QUICKEST).context("no calls were made")?;
    Ok(format!("{name} {time}\n"))
}

/// Keeps a CPU from doing anything until `done`.
fn hold(cpu: usize, ready: &Barrier, done: &AtomicBool) {
    let held = pin(cpu).is_ok();
    ready.wait();
    while held && !done.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn pin(cpu: usize) -> nix::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &cpus)
}

/// Nanoseconds of one call, of [`BATCH`].
fn batch(call: fn()) -> f64 {
    let begin = Instant::now();
    for _ in 0..BATCH {
        call();
    }
    begin.elapsed().as_nanos() as f64 / BATCH as f64
}
