//! From a program to packets with the clocks of a simulated processor, and back: each instruction was executed within
//! the bounds that readers give it.

mod support;

use mote_capture::{Capture, Of, Stats, follow_timed};
use mote_pt::flow::{Block, Event, Gap, Graph};
use mote_pt::time::{Moment, Span, TimedSink};
use mote_synth::trace::{Detail, Trace};
use mote_synth::{Clock, Error, Exit, Fact, Files, Note, Observer, Options, qemu};
use std::collections::BTreeMap;
use std::path::Path;
use support::Program;

/// Keeps when each instruction of each thread was executed, by the definition of [`Clock`].
struct Watched {
    trace: Trace<Files>,
    options: Options,
    threads: BTreeMap<i32, Thread>,
}

struct Thread {
    ps: u64,
    is_enabled: bool,
    next_interrupt: u64,
    times: Vec<u64>,
}

impl Thread {
    fn new(options: &Options) -> Thread {
        let next_interrupt = options.interrupt_every.unwrap_or(u64::MAX);
        Thread { ps: options.clock.start_ps, is_enabled: false, next_interrupt, times: Vec::new() }
    }

    fn fact(&mut self, fact: &Fact<'_>, options: &Options) {
        let clock = &options.clock;
        match fact {
            Fact::Run(run) => {
                for _ in 0..run.count() {
                    self.ps += clock.tick_ps;
                    self.times.push(tsc(clock, self.ps));
                }
                self.is_enabled = run.exit != Exit::System;
                let executed = self.times.len() as u64;
                if self.is_enabled && executed >= self.next_interrupt {
                    self.next_interrupt = executed + options.interrupt_every.unwrap_or(u64::MAX / 2);
                    self.ps += clock.kernel_ps;
                }
            }
            Fact::Enter(_) => {
                self.ps += if self.is_enabled { 0 } else { clock.kernel_ps };
                self.is_enabled = true;
            }
            Fact::Interrupt(_) => self.is_enabled = false,
            Fact::Data { .. } | Fact::Space(_) | Fact::End => {}
        }
    }
}

fn tsc(clock: &Clock, ps: u64) -> u64 {
    let (numerator, denominator) = clock.tsc_per_art;
    let ticks = u128::from(ps) * u128::from(clock.art_hz) * u128::from(numerator);
    (ticks / u128::from(denominator) / 1_000_000_000_000) as u64
}

impl Observer for Watched {
    fn fact(&mut self, tid: i32, fact: &Fact<'_>) -> Result<(), Error> {
        let thread = self.threads.entry(tid).or_insert_with(|| Thread::new(&self.options));
        thread.fact(fact, &self.options);
        self.trace.fact(tid, fact)
    }

    fn note(&mut self, tid: i32, note: &Note) -> Result<(), Error> {
        self.trace.note(tid, note)
    }
}

/// The bounds of each instruction.
#[derive(Default)]
struct Spans(Vec<Span>);

impl TimedSink for Spans {
    fn block(&mut self, block: &Block, _: &Graph, moment: &Moment) {
        self.0.extend((1..block.instructions).map(|_| moment.span()));
        self.0.push(moment.last());
    }

    fn event(&mut self, _: u64, _: Event, _: &Moment) {}

    fn gap(&mut self, gap: Gap, _: &Moment) {
        panic!("{gap}");
    }
}

fn spans(folder: &Path, tid: i32) -> Vec<Span> {
    let capture = Capture::open(folder).expect("a capture");
    let stream = capture.chosen(&[tid], &[]).expect("the thread")[0];
    let mut spans = Spans::default();
    // Several parts, too.
    let bytes = stream.bytes.clone().in_parts_of(3000);
    follow_timed(&bytes, &capture.code(stream), &capture.clocks(stream), &mut spans, |_| true)
        .expect("packets");
    spans.0
}

/// Half of the bounds are not wider than so many ticks.
#[track_caller]
fn check(program: &Program, options: &Options, median: u64) {
    let folder = tempfile::tempdir().expect("a directory");
    let trace = Trace::new(options.clone(), folder.path(), Detail::Digest, Files::new(folder.path()));
    let mut watched =
        Watched { trace: trace.expect("files"), options: options.clone(), threads: BTreeMap::new() };
    qemu::run(&program.words(), qemu::Code::Executed, &mut watched).expect("a run");
    watched.trace.finish().expect("written");
    let truth = Capture::open(folder.path()).and_then(|capture| capture.truth()).expect("a truth");
    for (tid, thread) in watched.threads {
        let lost = &truth[&Of::Thread(tid)].lost;
        let is_lost = |at: u64| lost.iter().any(|(begin, end)| (*begin..*end).contains(&at));
        let times = thread.times.iter().zip(0..).filter(|(_, at)| !is_lost(*at)).map(|(time, _)| *time);
        let (spans, times) = (spans(folder.path(), tid), times.collect::<Vec<_>>());
        assert_eq!(spans.len(), times.len(), "{options:?}");
        for (at, (span, time)) in spans.iter().zip(times).enumerate() {
            assert!(span.contains(time), "{tid}, {at}: {time} is not in {span:?}, {options:?}");
        }
        let mut widths: Vec<u64> = spans.iter().map(|span| span.width().unwrap_or(u64::MAX)).collect();
        widths.sort_unstable();
        let found = widths[widths.len() / 2];
        assert!(found <= median, "{tid}: bounds are {found} ticks apart, {options:?}");
    }
}

#[test]
fn instructions_were_executed_within_their_bounds() {
    if let Err(why) = qemu::check() {
        return mote_skip::skip(why);
    }
    let Some(program) = Program::compile("loops") else { return };
    let plain = Options::default;
    let clock =
        |tick_ps, tsc_per_art, core_ratio| Clock { tick_ps, tsc_per_art, core_ratio, ..Clock::default() };
    // An MTC each 8 ticks of 100.
    check(&program, &plain(), 810);
    check(&program, &Options { mtc: Some(0), ..plain() }, 110);
    // 2 KiB are some 10,000 branches, and these some 40,000 ticks.
    check(&program, &Options { mtc: None, ..plain() }, 1_000_000);
    // Up to 6 branches between two CYC, whether there are MTC or not.
    check(&program, &Options { cyc: Some(0), ..plain() }, 100);
    check(&program, &Options { cyc: Some(0), mtc: None, ..plain() }, 100);
    check(&program, &Options { cyc: Some(64), mtc: Some(6), psb_bytes: 512, ..plain() }, 400);
    let slow =
        Options { cyc: Some(0), interrupt_every: Some(777), clock: clock(3700, (25, 2), 9), ..plain() };
    check(&program, &slow, 200);
    let lost = Options {
        cyc: Some(0),
        overflows: vec![3000..5000, 20_000..20_001],
        psb_bytes: 512,
        clock: clock(333, (100, 1), 31),
        ..plain()
    };
    check(&program, &lost, 100);
    check(&program, &Options { tsc: false, mtc: None, ..plain() }, u64::MAX);
}

#[test]
fn threads_and_signals_have_their_times() {
    if let Err(why) = qemu::check() {
        return mote_skip::skip(why);
    }
    for name in ["signals", "threads"] {
        let Some(program) = Program::compile(name) else { return };
        check(&program, &Options { cyc: Some(0), ..Options::default() }, 2500);
    }
}

/// Instructions and TSC ticks between two packets of time, in the median.
fn resolution(program: &Program, options: &Options) -> (u64, u64) {
    let folder = tempfile::tempdir().expect("a directory");
    let trace = Trace::new(options.clone(), folder.path(), Detail::Digest, Files::new(folder.path()));
    let mut trace = trace.expect("files");
    qemu::run(&program.words(), qemu::Code::Executed, &mut trace).expect("a run");
    trace.finish().expect("written");
    let capture = Capture::open(folder.path()).expect("a capture");
    let stream = capture.streams().next().expect("a thread");
    let stats = Stats::of(&stream.bytes, &capture.code(stream), &capture.clocks(stream));
    let resolution = stats.expect("packets").resolution;
    (resolution.instructions().expect("times"), resolution.ticks().expect("times"))
}

/// Branches 9 instructions apart, 6 of them in a packet, an instruction in a nanosecond, of 2.4 cycles and ticks: it
/// follows how far apart times are (Sharma 2017, section 5.5.2, asks for such code).
#[test]
fn the_resolution_is_what_the_clock_says() {
    if let Err(why) = qemu::check() {
        return mote_skip::skip(why);
    }
    let Some(program) = Program::compile_with("even", &["-nostdlib"]) else { return };
    let plain = Options { mtc: None, ..Options::default() };
    // A CYC each packet, each second one, and so on: 54 instructions are 129.6 cycles.
    for (threshold, packets) in [(0, 1), (200, 2), (1000, 8)] {
        let (instructions, ticks) = resolution(&program, &Options { cyc: Some(threshold), ..plain.clone() });
        assert_eq!(instructions, 54 * packets, "{threshold}");
        assert!(ticks.abs_diff(54 * packets * 24 / 10) <= 2, "{threshold}: {ticks}");
    }
    // MTC: 100 ticks of TSC for one of the crystal clock; between branches.
    for bit in [0, 6] {
        let (instructions, ticks) = resolution(&program, &Options { mtc: Some(bit), ..plain.clone() });
        assert_eq!(ticks, 100 << bit);
        assert!(instructions.abs_diff((1000 << bit) / 24) <= 9, "{bit}: {instructions}");
    }
    // PSB: a byte of TNT for 54 instructions, and 23 of PSB+ behind the PSB itself.
    for bytes in [512, 2048] {
        let (instructions, ticks) = resolution(&program, &Options { psb_bytes: bytes, ..plain.clone() });
        let expected = 54 * (bytes - 23);
        assert!(instructions.abs_diff(expected) <= expected >> 11, "{bytes}: {instructions}");
        assert!(ticks.abs_diff(expected * 24 / 10) <= expected >> 9, "{bytes}: {ticks}");
    }
}
