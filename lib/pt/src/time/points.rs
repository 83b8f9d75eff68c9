//! From packets to the times that they tell, in their order.

use super::bounds::{Bounds, Ticks};
use super::clocks::Clocks;
use super::crystal::{Crystal, Mtc};
use super::cycles::{Anchor, Rate, Segment};
use super::span::Span;
use super::waiting::{By, Ready, Waiting, wait};
use crate::packet::Packet;
use std::ops::RangeInclusive;

/// A TSC that is so much below the last time was written late; beyond, the counter was set.
const BACK_MAX: u64 = 1 << 16;

/// A packet that tells a time: TSC, MTC or CYC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where the packet is, as the packets' source counts; `u64::MAX` for the end of the trace, where that is known.
    pub offset: u64,
    pub(super) bounds: Bounds,
    /// Not 0 if it binds. A word, because points are copied by words.
    pub(super) binding: u64,
}

impl Point {
    /// When that was. What packets before it are about was executed before, at its high bound at the latest; what those
    /// behind it are about then or later.
    #[must_use]
    pub fn span(&self) -> Span {
        self.bounds.span()
    }

    /// It is CYC, and what the packet directly behind it is about happened in the same cycle: of TNT, the first branch.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.binding != 0
    }
}

/// The points of packets. It reads ahead, up to the next packet that tells a time by itself.
///
/// # Cost
/// Linear, and bounded memory: 4 MB at most.
#[derive(Debug)]
pub struct Points<P> {
    packets: P,
    crystal: Crystal,
    clocks: Clocks,
    /// The last point of known time.
    from: Option<Anchor>,
    /// Those since.
    waiting: Vec<Waiting>,
    ready: Ready,
    /// Core cycles up to the last CYC.
    cycles: u64,
    last: Last,
    is_in_psb: bool,
    /// The last point of known time is in the PSB+ that is being read.
    is_fresh: bool,
    /// CBR, and what has held of rates since the last point of known time.
    ratio: Option<u8>,
    rate: Option<Rate>,
    /// CBR was the same all the time.
    is_steady: bool,
    /// No packets were lost since.
    is_whole: bool,
    /// All packets were read.
    has_ended: bool,
    /// The last point of known time was then, or later.
    floor: Option<u64>,
}

/// The last packet, but PAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Cyc,
    Other,
}

impl<P> Points<P> {
    /// The points of `packets`, which come with their offsets; an error is bytes that are no packet.
    pub fn new(packets: P, clocks: Clocks) -> Points<P> {
        Points {
            packets,
            crystal: Crystal::new(&clocks),
            clocks,
            from: None,
            waiting: Vec::new(),
            ready: Ready::default(),
            cycles: 0,
            last: Last::Other,
            is_in_psb: false,
            is_fresh: false,
            ratio: None,
            rate: None,
            is_steady: true,
            is_whole: true,
            has_ended: false,
            floor: None,
        }
    }

    fn read(&mut self, offset: u64, packet: &Packet) {
        let last = std::mem::replace(&mut self.last, Last::Other);
        match *packet {
            Packet::Pad => self.last = last,
            Packet::Cyc(cycles) => return self.cyc(offset, cycles),
            Packet::Tma { ctc, fast } => self.crystal.tma(ctc, fast),
            Packet::Tsc(tsc) => self.tsc(offset, tsc, last),
            Packet::Mtc(value) => self.mtc(offset, value, last),
            Packet::Cbr(ratio) => self.set_ratio(ratio),
            Packet::Psb => (self.is_in_psb, self.is_fresh) = (true, false),
            Packet::PsbEnd => (self.is_in_psb, self.is_fresh) = (false, false),
            Packet::Ovf => self.lose(),
            Packet::TipPge(_) | Packet::TipPgd(_) | Packet::Tnt(_) | Packet::Tip(_) => {
                self.last = last;
                self.branch();
            }
            _ => {}
        }
        if !matches!(packet, Packet::Tsc(_) | Packet::Pad) {
            self.crystal.forget_tsc();
        }
    }

    #[inline]
    fn cyc(&mut self, offset: u64, cycles: u64) {
        self.cycles = self.cycles.saturating_add(cycles);
        wait(&mut self.waiting, offset, self.cycles, By::Cycles);
        self.last = Last::Cyc;
    }

    /// A packet of a branch, which only a CYC before it says something of.
    #[inline]
    fn branch(&mut self) {
        if self.last == Last::Cyc {
            self.waiting.last_mut().into_iter().for_each(|cyc| cyc.binds = true);
            self.last = Last::Other;
        }
    }

    /// The count of cycles here, at least and at most.
    fn cycles_here(&self, last: Last) -> (u64, u64) {
        match (last, self.clocks.cyc) {
            (Last::Cyc, _) => (self.cycles, self.cycles),
            (Last::Other, Some(threshold)) => {
                (self.cycles, self.cycles.saturating_add(threshold.saturating_sub(1)))
            }
            (Last::Other, None) => (self.cycles, u64::MAX),
        }
    }

    fn tsc(&mut self, offset: u64, tsc: u64, last: Last) {
        let tsc = self.crystal.tsc(tsc);
        let at = Ticks { low: tsc, high: tsc.saturating_add(self.clocks.slip) };
        if self.floor.is_some_and(|floor| floor.saturating_sub(tsc) > BACK_MAX) {
            let begin = Point { offset, bounds: Bounds::new(at.low, at.high), binding: 0 };
            self.resolve(None, Some(begin));
            return self.begin(at, last);
        }
        // Outside of PSB+ it says that clocks were stopped (33.4.2.11).
        let goes_on = self.is_in_psb && self.clocks.has_no_pauses && !self.clocks.loses_cyc;
        if let Some(cyc) = self.waiting.last_mut().filter(|_| last == Last::Cyc && !goes_on) {
            (cyc.by, cyc.value) = (By::NotBefore, 0);
        }
        self.anchor(offset, at, last, goes_on);
    }

    fn mtc(&mut self, offset: u64, value: u8, last: Last) {
        match self.crystal.mtc(value) {
            Some(Mtc::At(at)) => self.anchor(offset, at, last, true),
            Some(Mtc::NotBefore(low)) => wait(&mut self.waiting, offset, low, By::NotBefore),
            None => {}
        }
    }

    /// A point of known time: those that have waited are known, too.
    fn anchor(&mut self, offset: u64, at: Ticks, last: Last, goes_on: bool) {
        let low = self.floor.map_or(at.low, |floor| floor.max(at.low));
        let at = Ticks { low, high: at.high.max(low) };
        let cycles = goes_on.then(|| self.cycles_here(last));
        let then = Point { offset, bounds: Bounds::new(at.low, at.high), binding: 0 };
        self.resolve(Some(Anchor { at, cycles }), Some(then));
        self.begin(at, last);
    }

    /// What comes is behind a point of known time.
    fn begin(&mut self, at: Ticks, last: Last) {
        self.from = Some(Anchor { at, cycles: Some(self.cycles_here(last)) });
        (self.is_whole, self.is_steady, self.is_fresh) = (true, true, self.is_in_psb);
        (self.rate, self.floor) = (self.rate_now(), Some(at.low));
    }

    /// The trace ends, and when is perhaps known.
    fn end(&mut self) {
        self.has_ended = true;
        let end = self.clocks.end.filter(|end| self.floor.is_none_or(|floor| floor <= *end));
        let to = end.map(|end| Anchor { at: Ticks { low: end, high: end }, cycles: None });
        let bounds = Span { low: self.floor, high: end }.into();
        let then = end.map(|_| Point { offset: u64::MAX, bounds, binding: 0 });
        self.resolve(to, then);
    }

    /// What is known up to a point of known time, or the trace's end.
    fn resolve(&mut self, to: Option<Anchor>, then: Option<Point>) {
        let mut segment = Segment { from: self.from, to, rate: self.rate };
        if !self.is_whole {
            segment.rate = None;
        } else if self.is_steady {
            segment = segment.calibrated();
        }
        self.ready.put(&mut self.waiting, segment, then);
    }

    fn rate_now(&self) -> Option<Rate> {
        let bus: &RangeInclusive<u64> = self.clocks.bus.as_ref()?;
        Rate::of_ratio(*bus.start(), *bus.end(), self.ratio?)
    }

    fn set_ratio(&mut self, ratio: u8) {
        if self.ratio == Some(ratio) {
            return;
        }
        let had_ratio = self.ratio.replace(ratio).is_some();
        let now = self.rate_now();
        if !had_ratio && self.is_fresh && self.waiting.is_empty() {
            // PSB+ tells what was at its TSC already (33.3.7).
            self.rate = now;
        } else {
            self.is_steady = false;
            self.rate = self.rate.zip(now).map(|(before, now)| before.or(now));
        }
    }

    /// Packets are missing: of time and of ratios, too.
    fn lose(&mut self) {
        self.crystal.lose();
        (self.is_whole, self.is_in_psb, self.is_fresh, self.ratio) = (false, false, false, None);
    }
}

impl<P, D> Iterator for Points<P>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
{
    type Item = Point;

    #[inline]
    fn next(&mut self) -> Option<Point> {
        loop {
            if let Some(point) = self.ready.take() {
                return Some(point);
            }
            match self.packets.next() {
                // Most packets are of branches, and say nothing here.
                Some((_, Ok(Packet::Tnt(_) | Packet::Tip(_)))) => self.branch(),
                Some((offset, Ok(Packet::Cyc(cycles)))) => self.cyc(offset, cycles),
                Some((offset, Ok(packet))) => self.read(offset, &packet),
                Some((_, Err(_))) => {
                    self.last = Last::Other;
                    self.lose();
                }
                None if self.has_ended => return None,
                None => self.end(),
            }
        }
    }
}
