//! What is known of a processor's clocks beside its packets.

use super::cycles;
use std::ops::RangeInclusive;

/// What is known of a processor's clocks. Whatever is absent makes bounds wider, and never wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// TSC ticks per tick of the crystal clock, as numerator and denominator: CPUID.15H, EBX and EAX. Without it MTC
    /// says nothing.
    pub tsc_per_art: Option<(u32, u32)>,
    /// MTCFreq: the lowest bit of the crystal clock's count that MTC has. Without it MTC says nothing.
    pub mtc: Option<u8>,
    /// CycThresh, as cycles: a packet without CYC is fewer cycles behind the last CYC. 0 and 1 are no threshold.
    pub cyc: Option<u64>,
    /// TSC ticks per tick of the bus clock, which CBR multiplies, times 2^32: at least and at most.
    pub bus: Option<RangeInclusive<u64>>,
    /// A time stamp counter of about when the trace begins, for the 8 bits that packets leave out.
    pub begin: u64,
    /// When the trace ended, where that is known beside its packets: what they are about was executed before.
    pub end: Option<u64>,
    /// The cycles between two TSC packets were all counted: tracing was not switched off in between, where the counter
    /// does not run (33.3.6.1), as it is when the kernel switches threads. Without this only MTC measures cycles, as in
    /// perf.
    pub has_no_pauses: bool,
    /// A CYC before a PSB may be missing ([`crate::errata::Errata::skl168`]): cycles up to the TSC of PSB+ were not all
    /// counted.
    pub loses_cyc: bool,
    /// By how many ticks a TSC packet may have been written too late: what is before it may be so much later.
    pub slip: u64,
}

impl Clocks {
    /// How late processors write TSC packets, at most, by what perf takes for possible (`tsc_slip`). By the manual they
    /// do not.
    pub const SLIP: u64 = 0x100;

    /// Says how fast the bus clock is, in Hz, at least and at most, beside a TSC of a frequency that is a fraction.
    #[must_use]
    pub fn with_bus(mut self, tsc_hz: (u64, u32), bus_hz: RangeInclusive<u64>) -> Clocks {
        let (numerator, denominator) = (u128::from(tsc_hz.0), u128::from(tsc_hz.1));
        let ticks = |hz: u64| (numerator << cycles::BITS).checked_div(u128::from(hz) * denominator);
        let bus = ticks(*bus_hz.end())
            .zip(ticks(*bus_hz.start()))
            .map(|(least, most)| cycles::saturate(least)..=cycles::saturate(most.saturating_add(1)));
        self.bus = bus;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_without_a_frequency_is_not_known() {
        assert_eq!(Clocks::default().with_bus((1 << 40, 1), 0..=0).bus, None);
        let bus = Clocks::default().with_bus((4_800_000_000, 2), 100_000_000..=100_000_000).bus;
        assert_eq!(bus, Some(24 << 32..=(24 << 32) + 1));
    }
}
