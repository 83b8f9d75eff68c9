//! The clocks of the tests' processor: time stamp counter, crystal clock, core cycles, and what packets say of them.
#![allow(dead_code, reason = "not all tests have clocks")]

use super::random::Random;
use mote_pt::packet::Packet;
use mote_pt::time::Clocks;

/// Units of time in a tick of the time stamp counter.
const UNIT: u64 = 1 << 16;
/// TSC ticks of a tick of the bus clock.
const BUS: u64 = 24;

/// What a processor writes of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) tsc_per_art: (u32, u32),
    pub(crate) mtc: Option<u8>,
    /// An MTC is missing: once in so many.
    pub(crate) drops: usize,
    pub(crate) cyc: Option<u64>,
    /// Where the counter of cycles wraps.
    pub(crate) wrap: u64,
    /// FUP has a CYC, too.
    pub(crate) has_cyc_before_fup: bool,
    /// TSC packets are written so many ticks late.
    pub(crate) slip: u64,
    /// Once in so many instructions.
    pub(crate) ratio_changes: usize,
    pub(crate) sleeps: usize,
    pub(crate) pauses: bool,
    /// Most ticks that an instruction takes.
    pub(crate) ticks: u64,
    pub(crate) start: u64,
}

impl Timing {
    pub(crate) fn random(random: &mut Random) -> Timing {
        let mtc = random.pick(&[None, Some(0), Some(0), Some(3), Some(9), Some(12)]);
        Timing {
            mtc,
            // Not very many MTC for an instruction.
            ticks: random.pick(&[1, 40, if mtc == Some(0) { 200 } else { 3000 }]),
            tsc_per_art: random.pick(&[(4, 1), (200, 2), (25, 2), (7, 3)]),
            drops: [0, 5][random.below(2)],
            cyc: [None, Some(0), Some(0), Some(16), Some(200)][random.below(5)],
            wrap: [1 << 40, 1 << 12][random.below(2)],
            has_cyc_before_fup: random.once_in(2),
            slip: [0, 100][random.below(2)],
            ratio_changes: [0, 40][random.below(2)],
            sleeps: [0, 60][random.below(2)],
            pauses: random.once_in(2),
            start: [0, 1 << 30, (3 << 56) - 5000, (1 << 56) + 7][random.below(4)],
        }
    }

    /// What a reader may be told of it.
    pub(crate) fn told(&self, random: &mut Random) -> Clocks {
        let mut told = |is_told: bool| is_told && !random.once_in(4);
        let clocks = Clocks {
            tsc_per_art: Some(self.tsc_per_art).filter(|_| told(true)),
            mtc: self.mtc.filter(|_| told(true)),
            cyc: self.cyc.filter(|_| told(true)),
            has_no_pauses: told(!self.pauses),
            begin: self.start.saturating_add(1 << 54),
            slip: self.slip,
            ..Clocks::default()
        };
        if told(true) { clocks.with_bus((BUS * 100_000_000, 1), 100_000_000..=100_000_000) } else { clocks }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) timing: Timing,
    now: u64,
    /// Cycles since the begin, times `UNIT * BUS`.
    core: u128,
    ratio: u8,
    at_cyc: u64,
    at_first_bit: u64,
    first_bit: u64,
    /// When the events were that CYC packets are of, with the packets behind those.
    pub(crate) told: Vec<(u64, Packet)>,
    /// A CYC that stood alone: the next packet needs its own.
    needs_cyc: bool,
    next_tick: u64,
    /// No packets are written.
    pub(crate) is_silent: bool,
}

impl Clock {
    pub(crate) fn new(timing: Timing) -> Clock {
        let mut clock = Clock {
            timing,
            now: 123 * UNIT,
            core: 0,
            ratio: 20,
            at_cyc: 0,
            at_first_bit: 0,
            first_bit: 0,
            told: Vec::new(),
            needs_cyc: false,
            next_tick: 0,
            is_silent: false,
        };
        clock.next_tick = clock.following_tick();
        clock
    }

    pub(crate) fn tsc(&self) -> u64 {
        self.timing.start + self.now / UNIT
    }

    fn cycles(&self) -> u64 {
        (self.core / u128::from(UNIT * BUS)) as u64
    }

    /// The crystal clock's count at a time, and when a count begins.
    fn art(&self, now: u64) -> u64 {
        let (numerator, denominator) = self.timing.tsc_per_art;
        (u128::from(now) * u128::from(denominator) / (u128::from(numerator) * u128::from(UNIT))) as u64
    }

    fn when(&self, art: u64) -> u64 {
        let (numerator, denominator) = self.timing.tsc_per_art;
        (u128::from(art) * u128::from(numerator) * u128::from(UNIT)).div_ceil(denominator.into()) as u64
    }

    fn following_tick(&self) -> u64 {
        let shift = self.timing.mtc.unwrap_or(0);
        ((self.art(self.now) >> shift) + 1) << shift
    }

    /// A time that an instruction takes.
    pub(crate) fn duration(&self, random: &mut Random) -> u64 {
        1 + random.next() % (self.timing.ticks * UNIT)
    }

    /// When the next MTC is due, if it is by then.
    pub(crate) fn due(&self, until: u64) -> Option<u64> {
        self.timing.mtc?;
        Some(self.when(self.next_tick)).filter(|at| *at <= until)
    }

    /// The MTC that is due now.
    pub(crate) fn mtc(&mut self) -> Packet {
        let value = (self.next_tick >> self.timing.mtc.unwrap_or(0)) as u8;
        self.next_tick = self.following_tick();
        Packet::Mtc(value)
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Time passes.
    pub(crate) fn set(&mut self, now: u64) {
        self.core += u128::from(now - self.now) * u128::from(self.ratio);
        self.now = now;
    }

    /// Time passes, and nothing counts it but TSC.
    pub(crate) fn skip(&mut self, ticks: u64) {
        self.now += ticks * UNIT;
        self.next_tick = self.following_tick();
    }

    /// The counter of cycles begins anew.
    pub(crate) fn reset_cycles(&mut self) {
        (self.at_cyc, self.needs_cyc) = (self.cycles(), false);
    }

    pub(crate) fn change_ratio(&mut self, random: &mut Random) {
        self.ratio = 8 + random.below(40) as u8;
    }

    /// TSC, TMA and CBR.
    pub(crate) fn status(&self, random: &mut Random) -> Vec<Packet> {
        let late = random.next() % (self.timing.slip * UNIT + 1);
        let then = self.now.saturating_sub(late);
        let tsc = self.timing.start + then / UNIT;
        let mut packets = vec![Packet::Tsc(tsc & 0xff_ffff_ffff_ffff)];
        if self.timing.mtc.is_some() {
            let art = self.art(then);
            let (numerator, denominator) = self.timing.tsc_per_art;
            let begin = art * u64::from(numerator) / u64::from(denominator);
            packets.push(Packet::Tma { ctc: art as u16, fast: (then / UNIT - begin) as u16 });
        }
        packets.push(Packet::Cbr(self.ratio));
        packets
    }

    pub(crate) fn note_first_bit(&mut self) {
        (self.at_first_bit, self.first_bit) = (self.cycles(), self.tsc());
    }

    /// The CYC packets before a packet (33.3.6).
    pub(crate) fn before(&mut self, packet: &Packet) -> Vec<Packet> {
        let Some(threshold) = self.timing.cyc else { return Vec::new() };
        let now = match packet {
            Packet::Tnt(_) => self.at_first_bit,
            Packet::Tip(_) | Packet::TipPge(_) | Packet::TipPgd(_) | Packet::Pip { .. } => self.cycles(),
            Packet::ModeExec { .. } | Packet::ModeTsx { .. } | Packet::Mtc(_) | Packet::Tsc(_) => {
                self.cycles()
            }
            Packet::Ptw { .. } | Packet::Exstop { .. } | Packet::Ovf => self.cycles(),
            Packet::Fup(_) if self.timing.has_cyc_before_fup => self.cycles(),
            _ => return Vec::new(),
        };
        let mut packets = Vec::new();
        // The first bit's cycle may be before one that was written.
        let passed = now.saturating_sub(self.at_cyc);
        if *packet == Packet::Ovf {
            packets.push(Packet::Cyc(passed % self.timing.wrap));
        } else if self.needs_cyc || passed >= threshold.max(1) {
            packets.push(Packet::Cyc(passed));
        }
        if !packets.is_empty() {
            (self.at_cyc, self.needs_cyc) = (self.at_cyc.max(now), false);
            let is_tnt = matches!(packet, Packet::Tnt(_));
            self.told.push((if is_tnt { self.first_bit } else { self.tsc() }, *packet));
        }
        packets
    }

    /// The counter of cycles would wrap.
    pub(crate) fn wraps(&self) -> bool {
        let passed = self.cycles() - self.at_cyc;
        !self.is_silent && self.timing.cyc.is_some() && passed >= self.timing.wrap / 2
    }

    /// A CYC that stands alone.
    pub(crate) fn lone(&mut self) -> Packet {
        let passed = self.cycles() - self.at_cyc;
        (self.at_cyc, self.needs_cyc) = (self.cycles(), true);
        Packet::Cyc(passed)
    }
}
