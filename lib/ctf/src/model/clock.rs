//! Clock classes and the conversion of their cycles to nanoseconds.

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// A clock class: how to read the timestamps of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockClass {
    /// Name; CTF 1.8 refers to the clock by it (`clock.NAME.value`).
    pub name: String,
    /// Identifier of the clock: the UUID in CTF 1.8, the `uid` in CTF 2.
    pub uid: Option<String>,
    /// Namespace of `name` and `uid` (CTF 2).
    pub namespace: Option<String>,
    /// What the clock is, as a sentence for people.
    pub description: Option<String>,
    /// Cycles in a second; never 0 in a checked schema.
    pub frequency: u64,
    /// How far a value may be off, in cycles.
    pub precision: Option<u64>,
    /// Accuracy, in cycles (CTF 2).
    pub accuracy: Option<u64>,
    /// Offset of cycle 0 from the origin, whole seconds.
    pub offset_seconds: i64,
    /// Offset of cycle 0 from the origin, cycles added to the seconds.
    pub offset_cycles: u64,
    /// What the offset counts from.
    pub origin: Origin,
}

/// The origin of a clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// 1970-01-01T00:00:00Z. LTTng's CTF 1.8 clocks are read so, though their metadata does not say it.
    #[default]
    UnixEpoch,
    /// Not known: times of two such clocks cannot be compared.
    Unknown,
    /// A named origin (CTF 2).
    Custom {
        /// Namespace of the origin.
        namespace: Option<String>,
        /// Name of the origin.
        name: String,
        /// Unique identifier of the origin.
        uid: String,
    },
}

impl Default for ClockClass {
    fn default() -> Self {
        ClockClass {
            name: "default".to_owned(),
            uid: None,
            namespace: None,
            description: None,
            frequency: NANOS,
            precision: None,
            accuracy: None,
            offset_seconds: 0,
            offset_cycles: 0,
            origin: Origin::UnixEpoch,
        }
    }
}

impl ClockClass {
    /// Nanoseconds from the clock's origin to `cycles`, rounded down, computed exactly.
    ///
    /// # Cost
    /// A 128-bit division; use [`ClockClass::scale`] where it is called for each event.
    #[must_use]
    pub fn to_nanos(&self, cycles: u64) -> i128 {
        let total = i128::from(cycles) + i128::from(self.offset_cycles);
        let frequency = i128::from(self.frequency.max(1));
        i128::from(self.offset_seconds) * i128::from(NANOS) + total * i128::from(NANOS) / frequency
    }

    /// The precomputed form of [`ClockClass::to_nanos`].
    #[must_use]
    pub fn scale(&self) -> ClockScale {
        ClockScale::new(self)
    }
}

/// Converts cycles to nanoseconds with one wide multiplication, exactly.
///
/// `q = cycles * mult >> shift` is at most 1 below the quotient; the remainder, computed modulo 2^64, tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockScale {
    base_ns: i128,
    extra_cycles: u64,
    frequency: u64,
    mult: u64,
    shift: u32,
}

impl ClockScale {
    fn new(clock: &ClockClass) -> ClockScale {
        let frequency = clock.frequency.max(1);
        let whole = clock.offset_cycles / frequency;
        let mut shift = 64;
        while shift > 0 && (u128::from(NANOS) << shift) / u128::from(frequency) > u128::from(u64::MAX) {
            shift -= 1;
        }
        let mult = (u128::from(NANOS) << shift) / u128::from(frequency);
        ClockScale {
            base_ns: (i128::from(clock.offset_seconds) + i128::from(whole)) * i128::from(NANOS),
            extra_cycles: clock.offset_cycles % frequency,
            frequency,
            mult: u64::try_from(mult).unwrap_or(u64::MAX),
            shift,
        }
    }

    /// The last cycle that [`ClockScale::to_nanos`] can tell: later ones saturate.
    #[must_use]
    pub fn last_cycle(&self) -> u64 {
        let ns = i128::from(i64::MAX) - self.base_ns;
        // Rounded down, so that the last cycle is surely told.
        let cycles = (ns.max(0) / i128::from(NANOS)).saturating_mul(self.frequency.into())
            + (ns.max(0) % i128::from(NANOS)).saturating_mul(self.frequency.into()) / i128::from(NANOS);
        u64::try_from((cycles - i128::from(self.extra_cycles)).max(0)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds from the clock's origin to `cycles`, rounded down; saturates at the ends of `i64` (the
    /// year 2262).
    ///
    /// # Cost
    /// About two nanoseconds.
    #[must_use]
    #[inline]
    pub fn to_nanos(&self, cycles: u64) -> i64 {
        let ns = match cycles.checked_add(self.extra_cycles) {
            Some(n) if self.frequency == NANOS => self.base_ns + i128::from(n),
            Some(n) => self.base_ns + self.quotient(n),
            None => {
                let n = u128::from(cycles) + u128::from(self.extra_cycles);
                let ns = n * u128::from(NANOS) / u128::from(self.frequency);
                self.base_ns.saturating_add(i128::try_from(ns).unwrap_or(i128::MAX))
            }
        };
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// `n * 10^9 / frequency`, rounded down.
    #[inline]
    fn quotient(&self, n: u64) -> i128 {
        // With n < 2^shift the estimate is at most 1 too small; n is larger only for slow clocks far from
        // their zero.
        if (self.shift < 64 && n >> self.shift != 0) || self.frequency >> 62 != 0 {
            return i128::from(n) * i128::from(NANOS) / i128::from(self.frequency);
        }
        let product = (u128::from(n) * u128::from(self.mult)) >> self.shift;
        let quotient = product as u64;
        let rest = n.wrapping_mul(NANOS).wrapping_sub(quotient.wrapping_mul(self.frequency));
        i128::from(quotient) + i128::from(rest >= self.frequency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cycle_is_told_and_the_one_behind_is_not() {
        for (frequency, seconds, cycles) in [
            (NANOS, 0, 0),
            (1, 0, 0),
            (NANOS, 9_223_372_036, 7),
            (2_400_000_123, 1_700_000_000, 5),
            (3, -5, 2),
        ] {
            let clock = ClockClass {
                frequency,
                offset_seconds: seconds,
                offset_cycles: cycles,
                ..ClockClass::default()
            };
            let last = clock.scale().last_cycle();
            let exact = clock.to_nanos(last);
            assert!(exact <= i64::MAX.into(), "{frequency} {seconds}");
            assert_eq!(i128::from(clock.scale().to_nanos(last)), exact);
            if let Some(next) = last.checked_add(frequency / NANOS + 2) {
                assert!(clock.to_nanos(next) > i64::MAX.into(), "{frequency} {seconds}");
            }
        }
    }

    #[test]
    fn both_conversions_agree_for_all_kinds_of_frequencies() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for frequency in [1, 3, 999, 32_768, 2_400_000_123, NANOS, NANOS + 1, u64::MAX / 3, u64::MAX] {
            for offset in [0, 1, 12_345_678_901, u64::MAX] {
                let clock = ClockClass {
                    frequency,
                    offset_seconds: -7,
                    offset_cycles: offset,
                    ..ClockClass::default()
                };
                let scale = clock.scale();
                for i in 0..2000 {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    let cycles = if i == 0 { u64::MAX } else { seed >> (i % 64) };
                    let exact = clock.to_nanos(cycles);
                    let clamped = i64::try_from(exact).unwrap_or(i64::MAX);
                    assert_eq!(
                        scale.to_nanos(cycles),
                        clamped,
                        "{cycles} at {frequency} Hz, offset {offset}"
                    );
                }
            }
        }
    }
}
