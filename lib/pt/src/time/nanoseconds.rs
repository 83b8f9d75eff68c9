//! What a time stamp counter means in nanoseconds.

use super::span::Span;

/// How time stamp counters become nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nanoseconds {
    /// Since the counter was 0: it counts `numerator` / `denominator` times in a second.
    Hertz {
        /// For instance the crystal clock's frequency times EBX of CPUID.15H.
        numerator: u64,
        /// For instance EAX of CPUID.15H. Not 0, or all times are the last one there is.
        denominator: u32,
    },
    /// As perf's clock has them: `time_zero`, `time_shift` and `time_mult` of `struct perf_event_mmap_page`
    /// (`include/uapi/linux/perf_event.h`), or of `PERF_RECORD_TIME_CONV`.
    Perf {
        /// Nanoseconds when the counter was 0.
        zero: u64,
        /// The binary logarithm of the divisor.
        shift: u16,
        /// The factor.
        mult: u32,
    },
}

impl Nanoseconds {
    /// The time at which the counter was `tsc`, rounded down.
    #[must_use]
    pub fn of(&self, tsc: u64) -> u64 {
        match *self {
            Nanoseconds::Hertz { numerator, denominator } => {
                let product = u128::from(tsc) * 1_000_000_000 * u128::from(denominator);
                product.checked_div(numerator.into()).map_or(u64::MAX, super::cycles::saturate)
            }
            Nanoseconds::Perf { zero, shift, mult } => {
                let product = (u128::from(tsc) * u128::from(mult)).checked_shr(shift.into()).unwrap_or(0);
                // The kernel's clock wraps.
                zero.wrapping_add(product as u64)
            }
        }
    }

    /// The bounds in nanoseconds: a span's high one is that of its last tick.
    #[must_use]
    pub fn span(&self, span: Span) -> Span {
        Span { low: span.low.map(|tsc| self.of(tsc)), high: span.high.map(|tsc| self.of(tsc)) }
    }

    /// A duration in nanoseconds: at least, rounded down, and at most, rounded up.
    #[must_use]
    pub fn duration(&self, ticks: Span) -> Span {
        let of = |ticks| match *self {
            Nanoseconds::Perf { shift, mult, .. } => Nanoseconds::Perf { zero: 0, shift, mult }.of(ticks),
            hertz @ Nanoseconds::Hertz { .. } => hertz.of(ticks),
        };
        Span { low: ticks.low.map(of), high: ticks.high.map(|ticks| of(ticks).saturating_add(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_is_a_fraction() {
        let clock = Nanoseconds::Hertz { numerator: 24_000_000 * 200, denominator: 2 };
        assert_eq!(clock.of(2_400_000_000), 1_000_000_000);
        assert_eq!(clock.of(12), 5);
        assert_eq!(clock.of(u64::MAX), 7_686_143_364_045_646_506);
        assert_eq!(Nanoseconds::Hertz { numerator: 0, denominator: 1 }.of(5), u64::MAX);
    }

    /// The kernel computes it in two parts, so that 64 bits suffice; the result is the same.
    #[test]
    fn perf_has_a_factor_and_a_shift() {
        let (zero, shift, mult) = (77_u64, 31_u16, 1_190_123_456_u32);
        let clock = Nanoseconds::Perf { zero, shift, mult };
        for tsc in [0, 1, 0xffff_ffff, 0x1234_5678_9abc, 1 << 55] {
            let (quotient, rest) = (tsc >> shift, tsc & ((1 << shift) - 1));
            let kernel = zero + quotient * u64::from(mult) + ((rest * u64::from(mult)) >> shift);
            assert_eq!(clock.of(tsc), kernel);
        }
        let span = Span { low: Some(0), high: None };
        assert_eq!(clock.span(span), Span { low: Some(77), high: None });
        assert_eq!(
            clock.duration(Span { low: Some(10), high: Some(10) }),
            Span { low: Some(5), high: Some(6) }
        );
    }
}
