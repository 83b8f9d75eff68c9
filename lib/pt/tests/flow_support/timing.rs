//! Time passes on the processor of the tests, and packets tell of it.
#![allow(dead_code, reason = "not all tests have clocks")]

use super::clock::{Clock, Timing};
use super::machine::{Machine, Truth};
use mote_pt::packet::Packet;

/// What is to be known of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A packet of this time: so many instructions are told by packets before it.
    Time { tsc: u64, told: usize },
    /// A packet tells where the flow is: at the instruction of this number, or before it.
    There { instruction: usize },
}

impl Machine<'_> {
    /// With clocks, and packets of them.
    pub(crate) fn with_clock(mut self, timing: Timing) -> Self {
        self.writer.clock = Some(Clock::new(timing));
        self
    }

    pub(super) fn clock(&mut self) -> Option<&mut Clock> {
        self.writer.clock.as_mut()
    }

    /// An instruction takes its time, in which packets of time are written.
    pub(super) fn pass(&mut self) {
        let Some(clock) = &self.writer.clock else { return };
        let until = clock.now() + clock.duration(&mut self.random);
        let drops = clock.timing.drops;
        while let Some((clock, at)) =
            self.clock().and_then(|clock| Some((clock.due(until)?, clock)).map(|(at, c)| (c, at)))
        {
            clock.set(at);
            let (packet, is_silent) = (clock.mtc(), clock.is_silent);
            if !is_silent && !self.random.once_in(drops) {
                self.flush();
                self.put(packet);
                self.note_time();
            }
        }
        self.clock().into_iter().for_each(|clock| clock.set(until));
        if self.clock().is_some_and(|clock| clock.wraps()) {
            self.flush();
            if let Some(packet) = self.clock().map(Clock::lone) {
                self.put(packet);
            }
        }
    }

    /// CYC packets were written.
    pub(super) fn note_cycles(&mut self) {
        let told = self.clock().map(|clock| std::mem::take(&mut clock.told)).unwrap_or_default();
        for (tsc, packet) in told {
            match (packet, self.first_bit) {
                // It stands before the packet of these bits.
                (Packet::Tnt(_), Some((at, instruction))) => {
                    self.log.insert(at, Known::Time { tsc, told: instruction + 1 });
                }
                (Packet::Tip(_) | Packet::TipPgd(_), _) => {
                    self.log.push(Known::Time { tsc, told: self.times.len() });
                }
                _ => {}
            }
        }
        if !self.writer.has_bits() {
            self.first_bit = None;
        }
    }

    /// A packet of time was written.
    pub(super) fn note_time(&mut self) {
        let told = self.truth[..self.known].iter().filter(|one| matches!(one, Truth::Insn { .. })).count();
        if let Some(clock) = &self.writer.clock {
            self.log.push(Known::Time { tsc: clock.tsc(), told });
        }
    }

    /// TSC, TMA and CBR, in PSB+ or elsewhere.
    pub(super) fn put_clocks(&mut self) {
        let Some(clock) = &self.writer.clock else { return };
        for packet in clock.status(&mut self.random) {
            self.put(packet);
        }
        self.note_time();
    }

    /// The frequency changes, or clocks stand still.
    pub(super) fn disturb(&mut self) {
        let Some(Timing { ratio_changes, sleeps, ticks, .. }) =
            self.writer.clock.as_ref().map(|clock| clock.timing)
        else {
            return;
        };
        if self.random.once_in(ratio_changes) {
            self.flush();
            let random = &mut self.random;
            self.writer.clock.iter_mut().for_each(|clock| clock.change_ratio(random));
            self.put_ratio();
        }
        if self.random.once_in(sleeps) {
            self.flush();
            let asleep = self.random.next() % (ticks * 1000);
            self.clock().into_iter().for_each(|clock| clock.skip(asleep));
            self.put_clocks();
        }
    }

    fn put_ratio(&mut self) {
        let Some(clock) = &self.writer.clock else { return };
        let ratio = clock.status(&mut self.random).pop();
        ratio.into_iter().for_each(|packet| self.put(packet));
    }

    /// Tracing is switched off for some time, and begins with a PSB.
    pub(super) fn pause(&mut self) {
        let Some(clock) = self.writer.clock.as_mut().filter(|clock| clock.timing.pauses) else { return };
        clock.skip(self.random.next() % (clock.timing.ticks * 1000));
        clock.reset_cycles();
        self.writer.reset_ip();
        self.writer.forget_calls();
        self.put(Packet::Psb);
        self.put_clocks();
        self.put(Packet::PsbEnd);
    }

    /// No packets are written, of time neither; that may take long, and the frequency may change.
    pub(super) fn silence(&mut self, is_silent: bool) {
        let (random, taken) = (&mut self.random, self.writer.clock.take());
        self.writer.clock = taken.map(|mut clock| {
            clock.is_silent = is_silent;
            if !is_silent && random.once_in(2) {
                let now = clock.now() + clock.duration(random) * 5000;
                clock.change_ratio(random);
                clock.set(now);
                clock.skip(0);
            }
            clock
        });
    }
}
