//! `pt_analyses`: how fast the analyses of Intel PT are.
//!
//! `vm`: which virtual machine had a processor, from bare packets, with the summary that `mote pt vm` shows. The
//! packets are those of a random schedule of four vCPUs, with a packet of branches each 20 ns, about as dense as real
//! programs'.
//! `vm/cyc` has cycles besides, `vm/no_branches` hardly more than what the analysis needs.
//!
//! `delta/...`: the CPU time of a delta profile of a real program through that of decoding it alone, with times, in
//! turns: of locked instructions (of which there are few), of intervals from one function to another, and of all calls
//! up to the next return (which many blocks end with). `vm/decoding`: the same of who looks for virtual machines in the
//! packets, too, before they are decoded with times.

use super::effort::Effort;
use super::figure::Figure;
use super::pt_flow::{compiler, make};
use super::session::Lab;
use super::stopwatch::thread_ns;
use anyhow::{Context, ensure};
use mote_capture::{Capture, Code, Stream, follow_timed};
use mote_hardware::Running;
use mote_hardware::delta::{Answer, By, Delta, Names as Patterns, Pattern, Question};
use mote_hardware::vm::{Machine, Names, Rates, Summary};
use mote_pt::flow::{Event, Gap, Graph};
use mote_pt::insn::Block;
use mote_pt::time::{Moment, TimedSink};
use mote_synth::vm::{Random, Script, play, random};
use mote_synth::{Options, qemu};

const UNIT: &str = "bytes/s";
const RATIO: &str = "ratio";
/// Looking for virtual machines beside decoding.
const BOTH: &str = "vm/decoding";

/// The delta profiles that are measured.
const DELTAS: [(&str, &str, Option<&str>); 3] = [
    ("delta/locked", "lock:*", None),
    ("delta/functions", "@malloc", Some("@free")),
    ("delta/calls", "call", Some("ret")),
];

/// Measures each stream.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut figures = machines(effort)?;
    figures.extend(deltas(effort)?);
    Ok(figures)
}

/// Of a compiler with a CYC for each branch packet.
fn deltas(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    if let Err(why) = qemu::check() {
        let cases = DELTAS.iter().map(|(case, ..)| *case).chain([BOTH]);
        return Ok(cases.map(|case| Figure::absent(case, RATIO, &why.to_string())).collect());
    }
    let (functions, rounds) = effort.choose((3, 5), (10, 9));
    let mut lab = Lab::new()?;
    let words = compiler(&lab, functions)?;
    let (folder, _) = make(&mut lab, &words, Options { cyc: Some(0), ..Options::default() })?;
    let capture = Capture::open(&folder)?;
    let stream = capture.streams().max_by_key(|stream| stream.bytes.len()).context("there are no packets")?;
    let code = capture.code(stream);
    let mut figures = Vec::new();
    for (case, from, to) in DELTAS {
        let names = Patterns::default();
        let to = to.map(|to| Pattern::parse(to, &names)).transpose()?;
        let question = Question { from: Pattern::parse(from, &names)?, to, restarts: false };
        let mut ratios = Vec::new();
        for round in 0..=rounds {
            let alone = decode((&capture, stream, &code), &mut Nothing)?;
            let running = Running::of(capture.notes(), stream.of);
            let clock = capture.processor().nanoseconds();
            let mut delta =
                Delta::new(&question, &code, (stream.of, running), clock, Answer::new(By::Time, 5));
            let with = decode((&capture, stream, &code), &mut delta)?;
            let found = delta.finish().profile.found[0];
            ensure!(found > 100, "{case}: only {found} were found");
            if round > 0 {
                ratios.push(with as f64 / alone.max(1) as f64);
            }
        }
        figures.push(Figure::new(case, RATIO, &ratios));
    }
    figures.push(both((&capture, stream, &code), rounds)?);
    Ok(figures)
}

/// The CPU time of decoding with times, and of looking for virtual machines before, through that of decoding alone.
fn both(of: (&Capture, &Stream, &Code), rounds: usize) -> anyhow::Result<Figure> {
    let (capture, stream, _) = of;
    let processor = capture.processor();
    let (tsc_per_art, tsc_hz) = (processor.tsc_per_art, processor.tsc_hz);
    let rates = processor.mtc.map(|mtc| Rates { mtc, tsc_per_art, tsc_hz });
    let mut ratios = Vec::new();
    for round in 0..=rounds {
        let alone = decode(of, &mut Nothing)?;
        let begin = thread_ns();
        let (mut machine, mut summary) = (Machine::new(rates), Summary::new(Names::default()));
        let mut parts = stream.bytes.parts_of_all();
        while let Some(part) = parts.next_part()? {
            let own = part.bytes.get(..part.own).unwrap_or_default();
            machine.feed(own, part.offset, |interval| summary.add(0, &interval));
        }
        let counts = machine.finish(|interval| summary.add(0, &interval));
        let vm = thread_ns() - begin;
        ensure!(counts.bytes == stream.bytes.len() && counts.damaged == 0, "{BOTH}: {counts:?}");
        std::hint::black_box(summary.finish());
        if round > 0 {
            ratios.push((alone + vm) as f64 / alone.max(1) as f64);
        }
    }
    Ok(Figure::new(BOTH, RATIO, &ratios))
}

/// Nanoseconds to give all of a stream to a sink.
fn decode<S: TimedSink>(of: (&Capture, &Stream, &Code), sink: &mut S) -> anyhow::Result<u64> {
    let (capture, stream, code) = of;
    let begin = thread_ns();
    follow_timed(&stream.bytes, code, &capture.clocks(stream), sink, |_| true)?;
    Ok(thread_ns() - begin)
}

/// Decoding alone.
struct Nothing;

impl TimedSink for Nothing {
    #[inline]
    fn block(&mut self, block: &Block, _: &Graph, moment: &Moment) {
        std::hint::black_box((block, moment));
    }

    fn event(&mut self, _: u64, _: Event, _: &Moment) {}

    fn gap(&mut self, _: Gap, _: &Moment) {}
}

fn machines(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let (bytes, rounds) = effort.choose((8 << 20, 5), (32 << 20, 9));
    let mut figures = Vec::new();
    for (case, branch_ns, cyc) in
        [("vm", 20, false), ("vm/cyc", 20, true), ("vm/no_branches", 1_000_000, false)]
    {
        let (script, stream) = stream(branch_ns, cyc, bytes)?;
        let mut rates = Vec::new();
        for round in 0..=rounds {
            let begin = thread_ns();
            let exits = analyse(&script, &stream);
            let ns = thread_ns() - begin;
            ensure!(exits > 100, "{case}: only {exits} exits were found");
            if round > 0 {
                rates.push(stream.len() as f64 / ns.max(1) as f64 * 1e9);
            }
        }
        figures.push(Figure::new(case, UNIT, &rates));
    }
    Ok(figures)
}

/// The packets of a processor, about so many bytes.
fn stream(branch_ns: u64, cyc: bool, bytes: usize) -> anyhow::Result<(Script, Vec<u8>)> {
    let schedule = |length_ns| {
        let options = Random {
            seed: 17,
            cpus: 1,
            machines: 2,
            vcpus: 2,
            moves: 0,
            length_ns,
            is_lossy: false,
            is_silent: false,
        };
        let mut script = random(&options);
        (script.timing.branch_ns, script.timing.cyc) = (branch_ns, cyc);
        play(&script).map(|played| (script, played.streams.concat()))
    };
    const SAMPLE_NS: u64 = 20_000_000;
    let (_, sample) = schedule(SAMPLE_NS)?;
    Ok(schedule(SAMPLE_NS * bytes as u64 / sample.len().max(1) as u64)?)
}

/// Exits that are found.
fn analyse(script: &Script, stream: &[u8]) -> u64 {
    let timing = &script.timing;
    let (tsc_per_art, tsc_hz) = (timing.tsc_per_art, Some(timing.tsc_hz()));
    let mut machine = Machine::new(timing.mtc.map(|mtc| Rates { mtc, tsc_per_art, tsc_hz }));
    let mut summary = Summary::new(Names::default());
    machine.feed(stream, 0, |interval| summary.add(0, &interval));
    machine.finish(|interval| summary.add(0, &interval));
    summary.finish().vcpus().values().map(|vcpu| vcpu.exits).sum()
}
