//! Random programs on a processor of the tests that has clocks: each instruction was executed within the bounds that
//! packets give, and these are as narrow as the packets allow. `MOTE_RANDOM=10` runs ten times as many.

mod flow_support;

use flow_support::clock::Timing;
use flow_support::machine::{Chances, Machine, Truth};
use flow_support::program::{Mix, Program};
use flow_support::random::Random;
use flow_support::timing::Known;
use flow_support::writer::Habits;
use mote_pt::errata::Errata;
use mote_pt::flow::{Block, Event, Flow, Gap, Graph};
use mote_pt::image::{Memory, Space};
use mote_pt::packet::Packet;
use mote_pt::time::{Clocks, Moment, Points, Span, Timed, TimedSink};

/// A case: all that is random in it comes from its number.
struct Case {
    program: Program,
    packets: Vec<Packet>,
    truth: Vec<Truth>,
    times: Vec<u64>,
    log: Vec<Known>,
    timing: Timing,
    clocks: Clocks,
}

impl Case {
    fn new(number: u64) -> Case {
        let mut random = Random(number);
        let timing = Timing::random(&mut random);
        let clocks = timing.told(&mut random);
        let mut case = Case::with(number, timing, clocks);
        // What was executed last is the last of all.
        case.clocks.end = case.times.last().copied().filter(|_| random.once_in(2));
        case
    }

    fn with(number: u64, timing: Timing, clocks: Clocks) -> Case {
        let mut random = Random(!number);
        let mut is = |n| random.once_in(n);
        let mix = Mix { far: is(2), ptwrite: is(3), cr3: is(4), filter: is(4), is_calm: is(2) };
        let habits = Habits {
            bits_max: if is(2) { 6 } else { 47 },
            defers: is(4),
            compresses_returns: !is(3),
            forgets_calls: is(2),
            noise: 0,
            partial: if is(2) { 9 } else { 0 },
        };
        let mut rarely = |n| if random.once_in(2) { n } else { 0 };
        let chances = Chances {
            psb: rarely(50),
            interrupt: rarely(30),
            leave: rarely(70),
            overflow: rarely(100),
            tsx: rarely(40),
            power: rarely(40),
            modes: false,
            bias: if random.once_in(3) { 20 } else { 0 },
            fup_on_ptw: random.once_in(2),
            pgd_has_ip: mix.cr3 || random.once_in(2),
            user_only: !mix.cr3 && random.once_in(2),
        };
        let program = Program::random(&mut random, 0x40_0000, mix);
        let mut machine = Machine::new(&program, random, habits, chances).with_clock(timing);
        machine.run(400);
        let Machine { truth, times, log, writer, .. } = machine;
        Case { packets: writer.packets, program, truth, times, log, timing, clocks }
    }

    /// The bounds of each instruction.
    fn spans(&self) -> Vec<Span> {
        let mut image = Memory::new();
        image.add(Space::ANY, self.program.base, &self.program.bytes[..]).unwrap();
        let packets =
            || self.packets.iter().enumerate().map(|(at, packet)| (at as u64, Ok::<_, ()>(*packet)));
        let end = self.program.traced_end;
        let filter = (end != u64::MAX).then(|| self.program.base..=end - 1);
        let mut timed = Timed::new(Spans::default(), Points::new(packets(), self.clocks.clone()));
        // Some of the processors leave addresses out of TIP.PGD.
        let errata = Errata { skl014: true, ..Errata::default() };
        Flow::new(packets(), image).with_filter(filter).with_errata(errata).run(&mut timed);
        let Spans { spans, gaps } = timed.into_sink();
        assert_eq!(gaps, 0);
        let executed = self.truth.iter().filter(|one| matches!(one, Truth::Insn { .. })).count();
        assert_eq!((spans.len(), self.times.len()), (executed, executed));
        spans
    }
}

#[derive(Default)]
struct Spans {
    spans: Vec<Span>,
    gaps: usize,
}

impl TimedSink for Spans {
    fn block(&mut self, block: &Block, _: &Graph, moment: &Moment) {
        self.spans.extend((1..block.instructions).map(|_| moment.span()));
        self.spans.push(moment.last());
    }

    fn event(&mut self, _: u64, _: Event, _: &Moment) {}

    fn gap(&mut self, _: Gap, _: &Moment) {
        self.gaps += 1;
    }
}

/// The numbers of so many cases, or a multiple of them.
fn cases(count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("MOTE_RANDOM").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    0..count * times
}

#[test]
fn instructions_were_executed_within_their_bounds() {
    let (mut all, mut bounded) = (0, 0);
    for number in cases(1000) {
        let case = Case::new(number);
        for (at, (span, time)) in case.spans().iter().zip(&case.times).enumerate() {
            assert!(
                span.contains(*time),
                "case {number}: instruction {at} at {time:#x} is not in {:#x?}\n{:?}\n{:?}",
                span,
                case.timing,
                case.clocks,
            );
            all += 1;
            bounded += usize::from(span.width().is_some());
        }
    }
    assert!(bounded * 2 > all, "{bounded} of {all}");
}

/// Without cycles it is known which packets of time are around each instruction.
#[test]
fn bounds_are_those_of_the_packets_around() {
    let mut compared = 0;
    for number in cases(400) {
        let mut random = Random(number);
        let mtc = [None, Some(0), Some(3), Some(9)][random.below(4)];
        let timing = Timing {
            tsc_per_art: (8, 2),
            mtc,
            cyc: None,
            slip: 0,
            drops: 0,
            start: 1 << 40,
            ..Timing::random(&mut random)
        };
        let clocks = Clocks { tsc_per_art: Some((8, 2)), mtc, ..Clocks::default() };
        let case = Case::with(number, timing, clocks);
        if case.packets.contains(&Packet::Ovf) {
            continue;
        }
        for (at, (found, packets)) in case.spans().iter().zip(around(&case)).enumerate() {
            let is_narrow = packets.low.is_none_or(|low| found.low >= Some(low))
                && packets.high.is_none_or(|high| found.high.is_some_and(|found| found <= high));
            assert!(is_narrow, "case {number}: instruction {at}: {found:#x?}, packets say {packets:#x?}");
            compared += 1;
        }
    }
    assert!(compared > 40_000, "{compared}");
}

/// Between which packets of time each instruction is.
fn around(case: &Case) -> Vec<Span> {
    let mut spans = vec![Span::UNKNOWN; case.times.len()];
    let (mut bounded, mut last, mut from) = (0, None, Vec::new());
    for known in &case.log {
        match *known {
            Known::Time { tsc, told } => {
                spans.iter_mut().take(told).skip(bounded).for_each(|span| span.high = Some(tsc));
                (bounded, last) = (bounded.max(told), Some(tsc));
            }
            Known::There { instruction } => from.extend(last.map(|tsc| (instruction, tsc))),
        }
    }
    for (instruction, tsc) in from {
        spans.iter_mut().skip(instruction).for_each(|span| span.low = span.low.max(Some(tsc)));
    }
    spans
}

/// With cycles before each packet, and clocks that are known, these are packets of time, too: to a cycle or two.
#[test]
fn cycles_make_bounds_narrow() {
    let mut compared = 0;
    for number in cases(300) {
        let mut random = Random(number);
        let timing = Timing {
            tsc_per_art: (24, 1),
            mtc: [None, Some(3)][random.below(2)],
            cyc: Some(0),
            wrap: 1 << 40,
            slip: 0,
            sleeps: 0,
            pauses: false,
            ticks: 40,
            start: 1 << 40,
            ..Timing::random(&mut random)
        };
        let clocks = Clocks {
            tsc_per_art: Some((24, 1)),
            mtc: timing.mtc,
            cyc: timing.cyc,
            has_no_pauses: true,
            ..Clocks::default()
        };
        let clocks = clocks.with_bus((2_400_000_000, 1), 100_000_000..=100_000_000);
        let case = Case::with(number, timing, clocks);
        if case.packets.contains(&Packet::Ovf) || timing.ratio_changes > 0 {
            continue;
        }
        for (at, (found, packets)) in case.spans().iter().zip(around(&case)).enumerate() {
            // Two cycles of 24 / 20 ticks, and a tick at both ends.
            let is_narrow = packets.low.is_none_or(|low| found.low.is_some_and(|found| found + 4 >= low))
                && packets.high.is_none_or(|high| found.high.is_some_and(|found| found <= high + 4));
            assert!(is_narrow, "case {number}: instruction {at}: {found:x?}, packets say {packets:x?}");
            compared += 1;
        }
    }
    assert!(compared > 20_000, "{compared}");
}
