//! Times and durations as the verbs of `mote pt` show them: always with their bounds.

use crate::units;
use mote_capture::Processor;
use mote_pt::time::{Nanoseconds, Resolution, Span};
use serde_json::{Value, json};

/// How times of a capture are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    clock: Option<Nanoseconds>,
    /// There are packets of time.
    pub(super) are_known: bool,
}

impl Times {
    pub(super) fn new(processor: &Processor) -> Times {
        let clock = processor.nanoseconds();
        Times { clock, are_known: processor.tsc && clock.is_some() }
    }

    /// The bounds in nanoseconds.
    pub(super) fn ns(&self, ticks: Span) -> Span {
        let clock = self.clock.filter(|_| self.are_known);
        clock.map_or(Span::UNKNOWN, |clock| clock.span(ticks))
    }

    /// The median nanoseconds between two packets of time, and the factor.
    pub(super) fn resolution(&self, resolution: &Resolution) -> Option<(u64, f64)> {
        let ticks = resolution.ticks();
        let ns = self.duration_ns(Span { low: ticks, high: ticks }).low?;
        Some((ns, resolution.factor(&self.clock?)?))
    }

    /// A duration in nanoseconds, where there are packets of time.
    pub(super) fn ns_of(&self, ticks: Span) -> Span {
        if self.are_known { self.duration_ns(ticks) } else { Span::UNKNOWN }
    }

    /// A duration in nanoseconds.
    pub(super) fn duration_ns(&self, ticks: Span) -> Span {
        self.clock.map_or(Span::UNKNOWN, |clock| clock.duration(ticks))
    }
}

/// `1.000000123+40`.
pub(super) fn text(ns: Span) -> String {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    match (ns.low, ns.high) {
        (Some(low), Some(high)) => format!("{}+{}", seconds(low), high.saturating_sub(low)),
        (Some(low), None) => format!("{}+?", seconds(low)),
        (None, Some(high)) => format!("?..{}", seconds(high)),
        (None, None) => "?".to_owned(),
    }
}

/// `[123,163]`, with null for a bound that is not known.
pub(super) fn object(ns: Span) -> Value {
    json!([ns.low, ns.high])
}

/// `40..70 ns`: a duration in a unit that fits it.
pub(super) fn duration(ns: Span) -> String {
    const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let Some(size) = ns.high.or(ns.low) else { return "?".to_owned() };
    let (unit, factor) = UNITS.into_iter().find(|(_, factor)| size >= *factor).unwrap_or(("ns", 1));
    // Three digits behind the point, rounded outwards.
    let thousandth = factor.div_ceil(1000);
    let shown = |ns: u64| match factor {
        1 => ns.to_string(),
        _ => format!("{}.{:03}", ns / factor, ns % factor / thousandth),
    };
    let low = ns.low.map(shown);
    let high = ns.high.map(|high| shown(high.div_ceil(thousandth).saturating_mul(thousandth)));
    match (low, high) {
        (Some(low), Some(high)) if low == high => format!("{low} {unit}"),
        (Some(low), Some(high)) => format!("{low}..{high} {unit}"),
        (Some(low), None) => format!("{low}..? {unit}"),
        (None, high) => format!("?..{} {unit}", high.unwrap_or_default()),
    }
}

/// A moment that a person gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Nanoseconds of the clock.
    Clock(u64),
    /// Nanoseconds behind the first time of a stream.
    After(u64),
}

impl At {
    /// Reads one: seconds as they are shown, or `+` and a time.
    ///
    /// # Errors
    /// What would be right.
    pub(super) fn parse(text: &str) -> Result<At, String> {
        if let Some(after) = text.strip_prefix('+') {
            return units::time(after).map(At::After);
        }
        units::scaled(text, 1_000_000_000).map(At::Clock).ok_or_else(|| {
            "give seconds as they are shown, as in 1.000000123, or +TIME after the thread's first time, as in +250us"
                .to_owned()
        })
    }

    /// The same in nanoseconds of the clock, in a stream whose first time is that, if one has come.
    pub(super) fn resolve(self, first: Option<u64>) -> Option<u64> {
        match self {
            At::Clock(ns) => Some(ns),
            At::After(ns) => Some(first?.saturating_add(ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(low: impl Into<Option<u64>>, high: impl Into<Option<u64>>) -> Span {
        Span { low: low.into(), high: high.into() }
    }

    #[test]
    fn times_have_their_bounds() {
        assert_eq!(text(span(1_000_000_123, 1_000_000_163)), "1.000000123+40");
        assert_eq!(text(span(5, None)), "0.000000005+?");
        assert_eq!(text(span(None, 5)), "?..0.000000005");
        assert_eq!(text(Span::UNKNOWN), "?");
        assert_eq!(object(span(5, None)).to_string(), "[5,null]");
    }

    #[test]
    fn durations_are_rounded_outwards() {
        assert_eq!(duration(span(40, 70)), "40..70 ns");
        assert_eq!(duration(span(70, 70)), "70 ns");
        assert_eq!(duration(span(1_999, 2_001)), "1.999..2.001 us");
        assert_eq!(duration(span(1_234_567, 1_234_567)), "1.234..1.235 ms");
        assert_eq!(duration(span(999_999, 1_000_000)), "0.999..1.000 ms");
        assert_eq!(duration(span(12, None)), "12..? ns");
        assert_eq!(duration(Span::UNKNOWN), "?");
        assert_eq!(duration(span(3_000_000_000, 61_000_000_001)), "3.000..61.001 s");
    }

    #[test]
    fn moments_are_as_they_are_shown() {
        assert_eq!(At::parse("1.000000123"), Ok(At::Clock(1_000_000_123)));
        assert_eq!(At::parse("+1.5us").map(|at| at.resolve(Some(100))), Ok(Some(1600)));
        assert!(At::parse("5ms").is_err() && At::parse("+5").is_err() && At::parse("").is_err());
    }
}
