//! The state machine's time: what packets of time say, in the host, in a guest, and where others are missing.

use super::{Machine, Mode, Power, To};
use crate::vm::clock::Passed;
use crate::vm::interval::{Doing, Edge, Rest, Unknown, Vmcs};
use crate::vm::status::Status;

/// Most vCPUs of which it is remembered what their counters have more than the host's.
const OFFSETS_MAX: usize = 4096;

impl Machine {
    /// A packet has told the time.
    #[inline]
    pub(super) fn timed(&mut self) {
        if let (Some(late), Some(now)) = (self.late, self.clock.now()) {
            let mut ticks = now.saturating_sub(late);
            if self.power == Power::Stopped {
                // Its clocks have run up to a period, and then rested.
                ticks = ticks.min(self.clock.period().unwrap_or(ticks));
            }
            self.counts.late_max = self.counts.late_max.max(ticks);
            self.late = None;
        }
    }

    pub(super) fn tsc(&mut self, offset: u64, tsc: u64, to: To<'_>) {
        if let Some(status) = &mut self.status {
            status.tsc = Some(tsc);
            return;
        }
        match (self.mode, self.off) {
            (Some(Mode::Root(_)), None) => {
                let before = self.clock.now();
                let rest = Doing::Idle { by: Rest::Silence, vmcs: None };
                let passed = self.clock.tsc(tsc);
                self.passed(offset, passed, (before, rest), to);
                self.timed();
            }
            (Some(Mode::Root(_)), Some(since)) => self.traced_again(offset, tsc, since, to),
            // Tracing was switched off in a guest, and on somewhere.
            (Some(Mode::Guest { .. }), Some(since)) => self.lose_at(offset, since, Unknown::Untraced, to),
            (Some(Mode::Guest { .. }), None) => self.guest_tsc = Some(tsc),
            // Whose it is, is not known.
            (None, _) => {}
        }
    }

    /// A TSC packet while tracing is off: software has switched it off and on (33.4.2.11), in root operation.
    fn traced_again(&mut self, offset: u64, tsc: u64, since: Option<u64>, to: To<'_>) {
        self.close(since, Edge::Cut, to);
        self.open(offset, Doing::Unknown(Unknown::Untraced), since, Edge::Cut);
        if self.clock.tsc(tsc) == Passed::Back {
            self.counts.clock_steps += 1;
            self.open.begin = None;
        }
        self.late = None;
        self.is_assumed = true;
        self.vmcs = None;
        self.close(self.clock.now(), Edge::Cut, to);
        self.open(offset, self.doing(), self.clock.now(), Edge::Cut);
        self.open.is_untraced = true;
        self.off = Some(self.clock.now());
    }

    pub(super) fn tma(&mut self, offset: u64, (ctc, fast): (u16, u16), to: To<'_>) {
        if let Some(status) = &mut self.status {
            status.tma = Some((ctc, fast));
            return;
        }
        match self.guest_tsc.take() {
            Some(tsc) => self.guest_time(offset, tsc, (ctc, fast), self.vmcs, to),
            None => self.host_tma(ctc, fast),
        }
    }

    fn host_tma(&mut self, ctc: u16, fast: u16) {
        let ahead = self.clock.tma(ctc, fast);
        if let (Some(vmcs), Some(ahead)) = (self.foreign.take(), ahead) {
            self.learn(vmcs, ahead);
        }
    }

    fn learn(&mut self, vmcs: Vmcs, ahead: u64) {
        if self.offsets.len() < OFFSETS_MAX || self.offsets.contains_key(&vmcs) {
            self.offsets.insert(vmcs, ahead);
        }
    }

    /// TSC and TMA of a guest.
    fn guest_time(&mut self, offset: u64, tsc: u64, tma: (u16, u16), vmcs: Option<Vmcs>, to: To<'_>) {
        let before = self.clock.now();
        let mut ahead = vmcs.and_then(|vmcs| self.offsets.get(&vmcs).copied());
        let passed = self.clock.guest(&mut ahead, tsc, tma);
        if let (Some(vmcs), Some(ahead)) = (vmcs, ahead) {
            self.learn(vmcs, ahead);
        }
        match passed {
            Passed::All => {}
            _ if ahead.is_some() => {
                self.passed(offset, passed, (before, Doing::Unknown(Unknown::Silence)), to);
            }
            // How long it was cannot be told: TMA counts to 65,535.
            _ if self.power == Power::Stopped => {
                self.late = None;
                self.clock.lose_to(tsc, tma);
                self.foreign = vmcs;
            }
            _ => self.lose(offset, Unknown::Silence, to),
        }
        self.timed();
    }

    /// What was between the packet of time before, at `before`, and this one.
    fn passed(&mut self, offset: u64, passed: Passed, (before, silent): (Option<u64>, Doing), to: To<'_>) {
        let (missing, begin) = match passed {
            Passed::All => return,
            Passed::Silence if self.power == Power::Stopped => return,
            Passed::Silence => (silent, before),
            Passed::Back => {
                self.counts.clock_steps += 1;
                (Doing::Unknown(Unknown::Contradiction), None)
            }
        };
        self.late = None;
        if let Some(period) = self.clock.period() {
            self.counts.late_max = self.counts.late_max.max(period);
        }
        self.close(before, Edge::Cut, to);
        self.open(offset, missing, begin, Edge::Cut);
        self.close(self.clock.now(), Edge::Cut, to);
        self.open(offset, self.doing(), self.clock.now(), Edge::Cut);
    }

    pub(super) fn apply_time(&mut self, offset: u64, status: Status, to: To<'_>) {
        let is_guest = match (status.pip, self.mode) {
            (Some((_, is_guest)), _) => is_guest,
            (None, Some(mode)) => matches!(mode, Mode::Guest { .. }),
            (None, None) => return,
        };
        if is_guest {
            if let (Some(tsc), Some(tma)) = (status.tsc, status.tma) {
                let vmcs = status.vmcs.map_or(self.vmcs, Vmcs::of);
                self.guest_time(offset, tsc, tma, vmcs, to);
            }
            return;
        }
        if let Some(tsc) = status.tsc {
            let before = self.clock.now();
            let passed = self.clock.tsc(tsc);
            if let Some((ctc, fast)) = status.tma {
                self.host_tma(ctc, fast);
            }
            self.passed(offset, passed, (before, Doing::Unknown(Unknown::Silence)), to);
            self.timed();
        }
    }
}
