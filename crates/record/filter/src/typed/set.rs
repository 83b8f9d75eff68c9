//! Sets of numbers: what comparisons with constants come to.

/// Ranges, ascending, with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<(i128, i128)>);

/// Below all numbers.
const LOWEST: i128 = i128::MIN;
/// Above all numbers.
const HIGHEST: i128 = i128::MAX;

impl Set {
    /// From ranges in any order, also ones that overlap; those that end before they begin are empty.
    pub(crate) fn new(mut ranges: Vec<(i128, i128)>) -> Set {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut out: Vec<(i128, i128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match out.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => out.push((first, last)),
            }
        }
        Set(out)
    }

    /// All that compare so with `value`.
    pub(crate) fn compared(order: super::Order, value: i128) -> Set {
        use super::Order;
        match order {
            Order::Eq => Set::new(vec![(value, value)]),
            Order::Ne => Set::compared(Order::Eq, value).complement(),
            Order::Lt => Set::new(vec![(LOWEST, value - 1)]),
            Order::Le => Set::new(vec![(LOWEST, value)]),
            Order::Gt => Set::new(vec![(value + 1, HIGHEST)]),
            Order::Ge => Set::new(vec![(value, HIGHEST)]),
        }
    }

    /// All but these.
    pub(crate) fn complement(&self) -> Set {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(LOWEST);
        for &(first, last) in &self.0 {
            if let Some(from) = next
                && first > from
            {
                out.push((from, first - 1));
            }
            next = last.checked_add(1);
        }
        out.extend(next.map(|from| (from, HIGHEST)));
        Set(out)
    }

    /// The numbers that are in one set or the other.
    pub(crate) fn union(&self, other: &Set) -> Set {
        Set::new(self.0.iter().chain(&other.0).copied().collect())
    }

    /// The numbers that are in both sets.
    pub(crate) fn intersection(&self, other: &Set) -> Set {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::new();
        while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
            let (first, last) = (left.0.max(right.0), left.1.min(right.1));
            if first <= last {
                out.push((first, last));
            }
            if left.1 < right.1 {
                a.next()
            } else {
                b.next()
            };
        }
        Set(out)
    }

    /// Those in a range.
    pub(crate) fn within(&self, min: i128, max: i128) -> Set {
        self.intersection(&Set(vec![(min, max)]))
    }

    pub(crate) fn contains(&self, value: i128) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts of the set, in order; both ends are included.
    pub(crate) fn ranges(&self) -> &[(i128, i128)] {
        &self.0
    }

    /// Whether all from `min` to `max` are in it.
    pub(crate) fn covers(&self, min: i128, max: i128) -> bool {
        self.0.iter().any(|(first, last)| *first <= min && max <= *last)
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{")?;
        for (at, &(first, last)) in self.0.iter().enumerate() {
            write!(f, "{}", if at > 0 { ", " } else { "" })?;
            match (first == LOWEST, last == HIGHEST) {
                _ if first == last => write!(f, "{first}")?,
                (true, true) => write!(f, "..")?,
                (true, false) => write!(f, "..{last}")?,
                (false, true) => write!(f, "{first}..")?,
                (false, false) => write!(f, "{first}..{last}")?,
            }
        }
        write!(f, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_behave_as_lists_of_their_members_do() {
        let sets: Vec<Set> = (0..64u32)
            .map(|bits| Set::new((0..6).filter(|bit| bits >> bit & 1 == 1).map(|bit| (bit, bit)).collect()))
            .collect();
        for a in &sets {
            for b in &sets {
                for value in -1..8 {
                    let (in_a, in_b) = (a.contains(value), b.contains(value));
                    assert_eq!(a.union(b).contains(value), in_a || in_b);
                    assert_eq!(a.intersection(b).contains(value), in_a && in_b);
                    assert_eq!(a.complement().contains(value), !in_a);
                }
            }
            assert_eq!(&a.complement().complement(), a);
        }
        assert!(Set::default().complement().covers(LOWEST, HIGHEST));
        assert_eq!(Set::new(vec![(5, 9), (1, 4), (3, 2)]).to_string(), "{1..9}");
    }
}
