//! A [`Span`] in two words: blocks have one each, and there are very many.

use super::span::Span;

/// Bounds, either of which may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The lower one and 1; or 0.
    low: u64,
    /// The upper one; or the largest number.
    high: u64,
}

impl Bounds {
    pub(super) const UNKNOWN: Bounds = Bounds { low: 0, high: u64::MAX };

    #[inline]
    pub(super) fn new(low: u64, high: u64) -> Bounds {
        Bounds { low: low.saturating_add(1), high }
    }

    #[inline]
    pub(super) fn span(self) -> Span {
        Span { low: self.low(), high: Some(self.high).filter(|high| *high != u64::MAX) }
    }

    #[inline]
    pub(super) fn low(self) -> Option<u64> {
        self.low.checked_sub(1)
    }

    #[inline]
    pub(super) fn is_unknown(self) -> bool {
        self == Bounds::UNKNOWN
    }

    /// This upper bound, and the higher of both lower ones.
    #[inline]
    pub(super) fn raised(self, other: Bounds) -> Bounds {
        Bounds { low: self.low.max(other.low), high: self.high }
    }

    /// This lower bound, and the lower of both upper ones.
    #[inline]
    pub(super) fn lowered(self, other: Bounds) -> Bounds {
        Bounds { low: self.low, high: self.high.min(other.high) }
    }

    /// What holds where both do, which contradict one another perhaps.
    #[inline]
    pub(super) fn and(self, other: Bounds) -> Bounds {
        self.raised(other).lowered(other)
    }

    /// Whether something can have been then.
    #[inline]
    pub(super) fn is_possible(self) -> bool {
        self.low <= self.high.saturating_add(1)
    }

    /// The lower bound alone.
    #[inline]
    pub(super) fn without_high(self) -> Bounds {
        Bounds { high: u64::MAX, ..self }
    }

    /// The upper bound is not below the lower one.
    #[inline]
    pub(super) fn in_order(self) -> Bounds {
        Bounds { high: self.high.max(self.low.saturating_sub(1)), ..self }
    }
}

/// A value of the time stamp counter, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl From<Span> for Bounds {
    fn from(span: Span) -> Bounds {
        let low = span.low.map_or(0, |low| low.saturating_add(1));
        Bounds { low, high: span.high.unwrap_or(u64::MAX) }
    }
}

impl std::fmt::Debug for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.span().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_spans() {
        let spans = [(None, None), (Some(0), None), (Some(7), Some(9)), (None, Some(0)), (Some(0), Some(0))];
        for (low, high) in spans {
            let span = Span { low, high };
            assert_eq!(Bounds::from(span).span(), span);
            assert!(Bounds::from(span).is_possible());
        }
        assert_eq!(Bounds::UNKNOWN.span(), Span::UNKNOWN);
        assert!(!Bounds::new(5, 4).is_possible() && Bounds::new(5, 4).in_order() == Bounds::new(5, 5));
        assert_eq!(Bounds::new(5, 9).and(Bounds::new(6, 7)), Bounds::new(6, 7));
        assert_eq!(Bounds::new(5, 9).and(Bounds::UNKNOWN), Bounds::new(5, 9));
    }
}
