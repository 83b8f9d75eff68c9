//! `pt`, its third part: times of instructions.
//!
//! `timed_instructions` and `timed_calls`: as `instructions` and `calls`, with the bounds of their times. `micro/...`:
//! the micro-benchmarks of Sharma 2017, section 5.5.2, as small C programs: bytes and packets for 1,000 instructions,
//! where table 5.1 has bandwidth. `trf/...`: the temporal resolution factor by the periods of CYC, MTC and PSB, as
//! figures 5.6 to 5.8 have it; what was found has to be what the simulated clock says.

use super::effort::Effort;
use super::figure::Figure;
use super::native;
use super::pt_flow::make;
use super::session::Lab;
use super::stopwatch::thread_ns;
use anyhow::Context;
use mote_capture::{Capture, Stats, Stream, follow, follow_timed};
use mote_pt::digest::Digest;
use mote_pt::flow::calls::Call;
use mote_pt::flow::{Block, Event, Gap, Graph, Sink};
use mote_pt::time::calls::TimedCalls;
use mote_pt::time::{Moment, Resolution, Span, TimedSink};
use mote_synth::{Options, qemu};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("programs/micro.c");
const DENSITY: &str = "per 1000 instructions";

/// The micro-benchmarks, and how often each is repeated where time is short.
const MICRO: [(&str, u64); 9] = [
    ("TailFact", 5000),
    ("Fib", 50),
    ("ParseInt", 1000),
    ("PiSum", 20),
    ("Sort", 3),
    ("RandMatMul", 3),
    ("Canny", 3),
    ("Omega", 200_000),
    ("Epsilon", 200_000),
];

/// What instructions and calls cost with times.
pub(super) fn speed(
    name: &str,
    capture: &Capture,
    stream: &Stream,
    rounds: usize,
) -> anyhow::Result<[Figure; 2]> {
    let (code, clocks) = (capture.code(stream), capture.clocks(stream));
    let (mut instructions, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begin = thread_ns();
        let mut found = Found::default();
        follow_timed(&stream.bytes, &code, &clocks, &mut found, |_| true)?;
        instructions.push(found.digest.count as f64 / (thread_ns() - begin) as f64 * 1e9);
        anyhow::ensure!(found.low > 0, "no instruction has a time");

        let begin = thread_ns();
        let mut ends = 0_u64;
        let mut sink = TimedCalls::new(|call, when: Span| {
            ends += u64::from(matches!(call, Call::End { .. }) && when.low.is_some());
        });
        follow_timed(&stream.bytes, &code, &clocks, &mut sink, |_| true)?;
        let count = sink.instructions();
        calls.push(count as f64 / (thread_ns() - begin) as f64 * 1e9);
        anyhow::ensure!(ends > 0, "no call has ended");
    }
    let figure = |case, values: &[f64]| Figure::new(&format!("{case}/{name}"), "1/s", values);
    Ok([figure("timed_instructions", &instructions), figure("timed_calls", &calls)])
}

/// Each instruction with its time.
#[derive(Default)]
struct Found {
    digest: Digest,
    low: u64,
}

impl TimedSink for Found {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        let mut address = block.start;
        for length in graph.lengths(block) {
            self.digest.push(address);
            address = address.wrapping_add(u64::from(*length));
        }
        self.low = self.low.wrapping_add(moment.last().low.unwrap_or(0));
    }

    fn event(&mut self, _: u64, _: Event, _: &Moment) {}

    fn gap(&mut self, _: Gap, _: &Moment) {}
}

/// Measures the micro-benchmarks and the resolution.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    if let Err(why) = qemu::check() {
        return Ok(vec![
            Figure::absent("micro", DENSITY, &why.to_string()),
            Figure::absent("trf", "0 to 100", &why.to_string()),
        ]);
    }
    let mut lab = Lab::new()?;
    let program = build(&lab)?;
    let mut figures = Vec::new();
    for (name, count) in MICRO {
        let (stats, _) =
            stats(&mut lab, &words(&program, name, count * effort.choose(1, 10)), Options::default())?;
        let density = |count: u64| count as f64 * 1000.0 / stats.instructions.max(1) as f64;
        figures.push(Figure::new(&format!("micro/{name}/bytes"), DENSITY, &[density(stats.bytes)]));
        for kind in ["TNT", "TIP", "MTC"] {
            let packets = stats.kinds.get(kind).map_or(0, |kind| kind.packets);
            figures.push(Figure::new(&format!("micro/{name}/{kind}"), DENSITY, &[density(packets)]));
        }
    }
    figures.extend(resolution(&mut lab, &program, effort)?);
    Ok(figures)
}

/// What the resolution depends on: one of three periods, the others switched off or as they are by default.
#[derive(Clone, Copy, Debug)]
enum Period {
    Cyc(u64),
    Mtc(u8),
    Psb(u64),
}

impl Period {
    fn options(self) -> Options {
        let plain = Options { mtc: None, ..Options::default() };
        match self {
            Period::Cyc(cycles) => Options { cyc: Some(cycles), ..plain },
            Period::Mtc(bit) => Options { mtc: Some(bit), ..plain },
            Period::Psb(bytes) => Options { psb_bytes: bytes, ..plain },
        }
    }

    fn name(self) -> String {
        match self {
            Period::Cyc(cycles) => format!("cyc/{cycles}"),
            Period::Mtc(bit) => format!("mtc/{bit}"),
            Period::Psb(bytes) => format!("psb/{bytes}"),
        }
    }

    /// Instructions between two times, of branches that are `every` instructions apart: 6 branches are a TNT packet, an
    /// instruction takes a nanosecond, of 2.4 core cycles.
    fn expected(self, every: u64) -> u64 {
        let packet = 6 * every;
        match self {
            Period::Cyc(cycles) => packet * (cycles * 10).div_ceil(packet * 24),
            // A tick of 24 MHz.
            Period::Mtc(bit) => (1_000_000_000 << bit) / 24_000_000,
            // PSB+ behind PSB: TSC, CBR, MODE.TSX, MODE.Exec, FUP with 4 bytes, PSBEND.
            Period::Psb(bytes) => packet * (bytes - (8 + 4 + 2 + 2 + 5 + 2)),
        }
    }
}

/// PiSum, with each period.
fn resolution(lab: &mut Lab, program: &Path, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let words = words(program, "PiSum", effort.choose(50, 400));
    let periods = [64, 256, 1024, 4096].map(Period::Cyc);
    let periods = periods.into_iter().chain([0, 3, 6, 9].map(Period::Mtc));
    let longest = effort.choose(3, 6);
    let periods = periods.chain((0..=longest).map(|power| Period::Psb(2048 << power)));
    let mut found = Vec::new();
    for period in periods {
        let (stats, every) = stats(lab, &words, period.options())?;
        let (instructions, ticks) = stats
            .resolution
            .instructions()
            .zip(stats.resolution.ticks())
            .with_context(|| format!("{period:?} has no times"))?;
        // The distance of times is that of instructions. Of large numbers 12 bits are kept; MTC come between branches.
        let expected = period.expected(every);
        let slack = if matches!(period, Period::Mtc(_)) { every } else { expected >> 11 };
        let is_as_expected =
            instructions.abs_diff(expected) <= slack && ticks.abs_diff(expected * 24 / 10) <= 3 * slack + 4;
        anyhow::ensure!(
            is_as_expected,
            "{period:?}: {instructions} instructions and {ticks} ticks apart, and {expected} of each by the clock"
        );
        let ns = ticks as f64 / 2.4;
        found.push((period, instructions as f64 * ns, ns, stats.bytes));
    }
    let factors: Vec<f64> = found.iter().map(|(_, factor, ..)| *factor).collect();
    let mut figures = Vec::new();
    for ((period, _, ns, bytes), factor) in found.into_iter().zip(Resolution::scaled(&factors)) {
        let name = period.name();
        figures.push(Figure::new(&format!("trf/{name}"), "0 to 100", &[factor]));
        figures.push(Figure::new(&format!("trf/{name}/ns"), "ns", &[ns]));
        figures.push(Figure::new(&format!("trf/{name}/size"), "bytes", &[bytes as f64]));
    }
    Ok(figures)
}

/// What a run's packets are, and how many instructions its most frequent block has.
fn stats(lab: &mut Lab, words: &[OsString], options: Options) -> anyhow::Result<(Stats, u64)> {
    let (folder, _) = make(lab, words, options)?;
    let capture = Capture::open(&folder)?;
    let stream = capture.streams().max_by_key(|stream| stream.bytes.len());
    let stream = stream.context("the capture has no packets")?;
    let code = capture.code(stream);
    let mut blocks = Blocks::default();
    follow(&stream.bytes, &code, &mut blocks, |_| true)?;
    let most = blocks.0.values().max_by_key(|(count, _)| *count).map_or(0, |(_, instructions)| *instructions);
    Ok((Stats::of(&stream.bytes, &code, &capture.clocks(stream))?, most.into()))
}

/// How often blocks were executed, and how many instructions they have.
#[derive(Default)]
struct Blocks(HashMap<u64, (u64, u32)>);

impl Sink for Blocks {
    const NEEDS_TIME: bool = false;

    fn block(&mut self, block: &Block, _: &Graph) {
        self.0.entry(block.start).or_insert((0, block.instructions)).0 += 1;
    }

    fn event(&mut self, _: u64, _: Event) {}

    fn gap(&mut self, _: Gap) {}
}

fn words(program: &Path, name: &str, count: u64) -> Vec<OsString> {
    vec![program.into(), name.into(), count.to_string().into()]
}

fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("micro.c"), lab.path().join("micro"));
    std::fs::write(&source, SOURCE).context("cannot write the micro-benchmarks")?;
    native::compile(Command::new("cc").args(["-O2", "-static"]).arg("-o").arg(&program).arg(&source))?;
    Ok(program)
}
