//! `view`: how fast a recording of ten million events is read, as text and decoded only, on one core.

use super::effort::Effort;
use super::figure::Figure;
use super::session::{Lab, default_buffers, workload};
use super::stopwatch::{children_seconds, thread_ns};
use anyhow::Context;
use mote_daemon::options::Mode;
use mote_timeline::{Range, Trace};
use mote_view::{Format, Null, Selection, Text, TimeStyle, pump};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UNIT: &str = "events/s";
const PEER: &str = "babeltrace2";
/// babeltrace2 reads a shorter recording: it needs some 15 s for ten million events.
const PEER_PART: u64 = 20;

/// Measures text and decoding in turns, then the peer.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let (events, rounds) = effort.choose((4_000_000, 5), (10_000_000, 7));
    let long = recording(&mut lab, events)?;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let trace = Trace::open(&long)?;
        let speeds = [
            speed(&trace, events, &mut Text::new(&trace, TimeStyle::Absolute, false))?,
            speed(&trace, events, &mut Null)?,
        ];
        if round > 0 {
            rates.iter_mut().zip(speeds).for_each(|(rates, speed)| rates.push(speed));
        }
    }
    let [text, null] = rates;
    let mut figures = vec![Figure::new("text", UNIT, &text), Figure::new("null", UNIT, &null)];
    let short = recording(&mut lab, events / PEER_PART)?;
    for (case, format) in [("text", "text"), ("null", "dummy")] {
        figures.push(peer(&short, case, format, events / PEER_PART, rounds).of_peer(PEER));
    }
    Ok(figures)
}

/// A recording of so many events from one thread, without a loss.
fn recording(lab: &mut Lab, events: u64) -> anyhow::Result<PathBuf> {
    let (recorded, _) = lab.record((Mode::Discard, default_buffers()), workload("emit", &[events])?)?;
    let lost = recorded.summary.total_lost();
    anyhow::ensure!(lost == 0, "{lost} events of the recording were lost; is the machine busy?");
    Ok(recorded.directory)
}

/// Events in a second of this thread's time.
fn speed<F: Format>(trace: &Trace, expect: u64, format: &mut F) -> anyhow::Result<f64> {
    let mut sink = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    let selection = Selection::new(trace, &[], &[], &[]);
    let begin = thread_ns();
    let outcome = pump(&mut trace.events(Range::ALL), &selection, None, format, &mut sink)?;
    let seconds = (thread_ns() - begin) as f64 / 1e9;
    anyhow::ensure!(outcome.shown == expect, "{} of {expect} events were shown", outcome.shown);
    Ok(outcome.shown as f64 / seconds)
}

fn peer(dir: &Path, case: &str, format: &str, events: u64, rounds: u64) -> Figure {
    let once = || -> anyhow::Result<f64> {
        let before = children_seconds();
        let mut command = Command::new("babeltrace2");
        let command = command.arg("convert").arg(dir).arg("-o").arg(format);
        let status = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("babeltrace2 is not installed")?;
        anyhow::ensure!(status.success(), "babeltrace2 cannot read the recording");
        Ok(events as f64 / (children_seconds() - before))
    };
    let rates: anyhow::Result<Vec<f64>> = (0..rounds).map(|_| once()).collect();
    match rates {
        Ok(rates) => Figure::new(case, UNIT, &rates),
        Err(why) => Figure::absent(case, UNIT, &format!("{why:#}")),
    }
}
