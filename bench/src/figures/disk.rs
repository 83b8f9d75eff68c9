//! `disk`: ten million events at full speed from one thread, to disk with the default buffers.
//!
//! `slowdown` is the wall time of the emitting loop while the recorder writes everything to disk, divided by that with a
//! flight recorder of the same buffers, which writes nothing meanwhile.

use super::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, default_buffers, workload};
use anyhow::Context;
use mote_daemon::options::Mode;

/// Measures pairs of runs: to disk and to a flight recorder.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut samples = Samples::default();
    let (events, rounds) = effort.choose((10_000_000, 5), (10_000_000, 9));
    for _ in 0..rounds {
        let (flight, _) = once(&mut lab, Mode::Overwrite, events)?;
        let (disk, lost) = once(&mut lab, Mode::Discard, events)?;
        let per_event = |ns: f64| ns / events as f64;
        samples.add("lost", lost as f64);
        samples.add("slowdown", disk / flight);
        samples.add("disk", per_event(disk));
        samples.add("flight", per_event(flight));
    }
    let figure = |case: &str, unit| Figure::new(case, unit, samples.of(case));
    Ok(vec![figure("lost", "events"), figure("slowdown", "ratio"), figure("disk", "ns"), figure("flight", "ns")])
}

/// Wall time of the loop in nanoseconds, and lost events.
fn once(lab: &mut Lab, mode: Mode, events: u64) -> anyhow::Result<(f64, u64)> {
    let (recorded, text) = lab.record((mode, default_buffers()), workload("emit", &[events])?)?;
    std::fs::remove_dir_all(&recorded.directory).context("cannot remove a recording")?;
    let sum = &recorded.summary;
    let all = sum.total() + sum.total_lost() == events;
    anyhow::ensure!(all || mode == Mode::Overwrite, "of {events} events {} are in the trace and {} lost", sum.total(), sum.total_lost());
    let mut samples = Samples::default();
    samples.read(&text, |case| Some(case.to_owned()))?;
    let ns = samples.median("wall_ns").context("the workload has told no time")?;
    Ok((ns, sum.total_lost()))
}
