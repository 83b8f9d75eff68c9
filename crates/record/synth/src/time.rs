//! The simulated clocks: time stamp counter, crystal clock, core cycles, all of them from one count of picoseconds.

use crate::options::Clock;

const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// Of the bus clock of 100 MHz.
const PS_PER_BUS_TICK: u128 = 10_000;

/// The time of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    clock: Clock,
    ps: u64,
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Time {
        Time { clock, ps: clock.start_ps }
    }

    /// The time.
    pub(crate) fn now(&self) -> u64 {
        self.ps
    }

    /// Sets the time: never back.
    pub(crate) fn set(&mut self, ps: u64) {
        self.ps = self.ps.max(ps);
    }

    /// When so many instructions more have been executed.
    pub(crate) fn after(&self, instructions: u64) -> u64 {
        self.ps.saturating_add(instructions.saturating_mul(self.clock.tick_ps))
    }

    /// When the kernel returns that is entered now.
    pub(crate) fn after_kernel(&self) -> u64 {
        self.ps.saturating_add(self.clock.kernel_ps)
    }

    /// The crystal clock's count.
    pub(crate) fn art(&self) -> u64 {
        (u128::from(self.ps) * u128::from(self.clock.art_hz) / PS_PER_SECOND) as u64
    }

    /// The first picosecond at which the crystal clock's count is `art`.
    pub(crate) fn when(&self, art: u64) -> u64 {
        let ps = (u128::from(art) * PS_PER_SECOND).div_ceil(u128::from(self.clock.art_hz));
        u64::try_from(ps).unwrap_or(u64::MAX)
    }

    /// The time stamp counter.
    pub(crate) fn tsc(&self) -> u64 {
        let (numerator, denominator) = self.clock.tsc_per_art;
        let hz = u128::from(self.clock.art_hz) * u128::from(numerator);
        // The product may need more than 128 bits: whole seconds first.
        let (seconds, rest) = (u128::from(self.ps) / PS_PER_SECOND, u128::from(self.ps) % PS_PER_SECOND);
        let ticks = (seconds * hz + rest * hz / PS_PER_SECOND) / u128::from(denominator);
        ticks as u64
    }

    /// TSC ticks since the crystal clock's last tick (FastCounter of TMA, SDM 3C, 33.8.3.2).
    pub(crate) fn fast(&self) -> u64 {
        let (numerator, denominator) = self.clock.tsc_per_art;
        let at_tick = u128::from(self.art()) * u128::from(numerator) / u128::from(denominator);
        u128::from(self.tsc()).saturating_sub(at_tick) as u64
    }

    /// Core cycles since the clocks were 0.
    pub(crate) fn cycles(&self) -> u64 {
        (u128::from(self.ps) * u128::from(self.clock.core_ratio) / PS_PER_BUS_TICK) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree() {
        // 10 microseconds and 100 nanoseconds: 242.4 ticks of 24 MHz, 24240 of 2.4 GHz.
        let time = Time::new(Clock { start_ps: 10_100_000, ..Clock::default() });
        assert_eq!((time.art(), time.tsc(), time.cycles(), time.fast()), (242, 24_240, 24_240, 40));
    }

    #[test]
    fn a_tick_begins_when_it_is_said_to() {
        let mut time = Time::new(Clock { start_ps: 0, ..Clock::default() });
        for art in [1, 2, 3, 1000, 1 << 40] {
            time.set(time.when(art) - 1);
            assert_eq!(time.art(), art - 1);
            time.set(time.when(art));
            assert_eq!(time.art(), art);
        }
    }
}
