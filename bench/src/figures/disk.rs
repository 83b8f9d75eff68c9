//! `disk`: ten million events at full speed from one thread, to disk with the default buffers.
//!
//! `slowdown` is the wall time of the emitting loop while the recorder writes everything to disk, divided by that with
//! a flight recorder of the same buffers, which writes nothing meanwhile.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, default_buffers, workload};
use anyhow::Context;
use mote_daemon::options::Mode;

/// Measures pairs of runs: to disk and to a flight recorder.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut samples = Samples::default();
    for _ in 0..effort.choose(5, 11) {
        let flight = once(&mut lab, Mode::Overwrite)?;
        let disk = once(&mut lab, Mode::Discard)?;
        samples.add("lost", disk.lost as f64);
        samples.add("slowdown", disk.wall / flight.wall);
        samples.add("disk", disk.wall);
        samples.add("disk/thread", disk.thread);
        samples.add("flight", flight.wall);
        samples.add("flight/thread", flight.thread);
    }
    let figure = |(case, unit)| Figure::new(case, unit, samples.of(case));
    let cases = [("disk", "ns"), ("disk/thread", "ns"), ("flight", "ns"), ("flight/thread", "ns")];
    Ok([("lost", "events"), ("slowdown", "ratio")].into_iter().chain(cases).map(figure).collect())
}

/// Events of a run.
const EVENTS: u64 = 10_000_000;

/// What a run came to: nanoseconds of an event, as time went by and as the thread ran, and lost events.
struct Run {
    wall: f64,
    thread: f64,
    lost: u64,
}

fn once(lab: &mut Lab, mode: Mode) -> anyhow::Result<Run> {
    let (recorded, text) = lab.record((mode, default_buffers()), workload("emit", &[EVENTS])?)?;
    std::fs::remove_dir_all(&recorded.directory).context("cannot remove a recording")?;
    let (read, lost) = (recorded.summary.total(), recorded.summary.total_lost());
    let whole = mode == Mode::Overwrite || read + lost == EVENTS;
    anyhow::ensure!(whole, "of {EVENTS} events {read} are in the trace, and {lost} were counted as lost");
    let mut samples = Samples::default();
    samples.read(&text, |case| Some(case.to_owned()))?;
    let per_event =
        |case| samples.median(case).map(|ns| ns / EVENTS as f64).context("the workload has told no time");
    Ok(Run { wall: per_event("wall_ns")?, thread: per_event("thread_ns")?, lost })
}
