//! Bounds of a time, as readers have them.

/// When something happened: the time stamp counter then was at least `low` and at most `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The lower bound, if there is one.
    pub low: Option<u64>,
    /// The upper bound, if there is one.
    pub high: Option<u64>,
}

impl Span {
    /// Nothing is known.
    pub const UNKNOWN: Span = Span { low: None, high: None };

    /// How far the bounds are apart, if there are both.
    #[must_use]
    pub fn width(&self) -> Option<u64> {
        Some(self.high?.saturating_sub(self.low?))
    }

    /// Whether a time may have been then.
    #[must_use]
    pub fn contains(&self, time: u64) -> bool {
        self.low.is_none_or(|low| low <= time) && self.high.is_none_or(|high| time <= high)
    }

    /// How much time has passed from `begin` to this, at least and at most.
    #[must_use]
    pub fn since(&self, begin: Span) -> Span {
        let least = self.low.zip(begin.high).map(|(end, begin)| end.saturating_sub(begin));
        let most = self.high.zip(begin.low).map(|(end, begin)| end.saturating_sub(begin));
        // Time does not run backwards: where one bound is known, so is 0.
        Span { low: least.or(most.map(|_| 0)), high: most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_bounds() {
        let span = |low, high| Span { low, high };
        let begin = span(Some(100), Some(110));
        assert_eq!(span(Some(150), Some(170)).since(begin), span(Some(40), Some(70)));
        assert_eq!(span(Some(105), Some(170)).since(begin), span(Some(0), Some(70)));
        assert_eq!(span(Some(150), None).since(begin), span(Some(40), None));
        assert_eq!(span(None, Some(170)).since(begin), span(Some(0), Some(70)));
        assert_eq!(span(None, None).since(begin), Span::UNKNOWN);
        assert_eq!(span(Some(150), Some(170)).since(Span::UNKNOWN), Span::UNKNOWN);
    }
}
