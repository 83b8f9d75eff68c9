//! What a thread has done and what may still turn out to be inside of a call: callers return after those that they
//! called.
//!
//! # Cost
//! Memory is bounded. Where a thread has more parts than it may, neighbours among the oldest half of them are put
//! together, those first that are nearest to each other: they are likely to have the same caller. A caller that began
//! outside of such a part takes all of it or nothing, which is exact.

use super::Call;

/// A call, or several that follow one another.
#[derive(Clone, Copy, Debug)]
struct Part {
    begin: i64,
    end: i64,
    /// What they took together.
    ns: u64,
    /// It is one call.
    is_one: bool,
    /// A caller has begun in the middle of it, so that `ns` is not exact.
    is_estimate: bool,
}

impl Part {
    /// Both as one.
    fn and(self, next: Part) -> Part {
        let (ns, is_estimate) = (self.ns.saturating_add(next.ns), self.is_estimate || next.is_estimate);
        Part { begin: self.begin, end: next.end, ns, is_one: false, is_estimate }
    }

    /// From its beginning to the end of the next one.
    fn until(&self, next: &Part) -> u64 {
        next.end.abs_diff(self.begin)
    }
}

/// The same in fewer parts: of the pairs of neighbours the shorter half, as far as they do not share a part.
fn fewer(parts: &[Part]) -> Vec<Part> {
    let pairs = || parts.iter().zip(parts.iter().skip(1));
    let mut lengths: Vec<u64> = pairs().map(|(part, next)| part.until(next)).collect();
    let middle = lengths.len() / 2;
    let Some((_, &mut most, _)) = (!lengths.is_empty()).then(|| lengths.select_nth_unstable(middle)) else {
        return parts.to_vec();
    };
    let mut fewer = Vec::with_capacity(parts.len());
    let mut parts = parts.iter().peekable();
    while let Some(part) = parts.next() {
        let next = parts.next_if(|next| part.until(next) <= most);
        fewer.push(next.map_or(*part, |next| part.and(*next)));
    }
    fewer
}

/// What was inside of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    /// What it took together.
    pub(super) ns: u64,
    /// A caller began in the middle of a part: `ns` is not exact.
    pub(super) is_estimate: bool,
}

/// Calls that have returned, in the order in which they did, and whose caller has not.
#[derive(Debug, Default)]
pub(super) struct Pending {
    parts: Vec<Part>,
}

impl Pending {
    /// Takes away what is inside of `call`, and puts `call` in its place. Keeps at most `limit` parts.
    pub(super) fn put(&mut self, call: &Call, limit: usize) -> Inside {
        let mut inside = Inside { ns: 0, is_estimate: false };
        while let Some(part) = self.parts.last_mut()
            && call.holds(part.begin, part.end)
        {
            let is_cut = part.begin < call.begin && !part.is_one;
            let ns = if is_cut { part.ns.min(part.end.abs_diff(call.begin)) } else { part.ns };
            inside.ns = inside.ns.saturating_add(ns);
            inside.is_estimate |= is_cut || part.is_estimate;
            if is_cut {
                (part.ns, part.end, part.is_estimate) = (part.ns - ns, call.begin, true);
                break;
            }
            self.parts.pop();
        }
        let Call { begin, end, .. } = *call;
        self.parts.push(Part { begin, end, ns: call.duration(), is_one: true, is_estimate: false });
        if self.parts.len() > limit.max(4) {
            let late = self.parts.split_off(self.parts.len() / 2);
            self.parts = fewer(&self.parts).into_iter().chain(late).collect();
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begin: i64, end: i64) -> Call {
        Call { function: 0, begin, end }
    }

    fn inside(pending: &mut Pending, call: Call) -> (u64, bool) {
        let Inside { ns, is_estimate } = pending.put(&call, 8);
        (ns, is_estimate)
    }

    #[test]
    fn a_caller_takes_what_is_inside_of_it() {
        let mut pending = Pending::default();
        for (call, ns) in [
            (call(0, 10), 0),
            (call(12, 15), 0),
            (call(16, 17), 0),
            // Those from 12 on, and then both.
            (call(11, 20), 4),
            (call(0, 30), 19),
            // One that began a little before its caller, as durations are not exact; one that ended when it began.
            (call(40, 50), 0),
            (call(41, 60), 10),
            (call(60, 70), 0),
        ] {
            assert_eq!(inside(&mut pending, call), (ns, false), "{call:?}");
        }
    }

    #[test]
    fn many_are_put_together_and_still_add_up() {
        let mut pending = Pending::default();
        for number in 0..1000 {
            assert_eq!(inside(&mut pending, call(10 * number, 10 * number + 5)), (0, false));
            assert!(pending.parts.len() <= 8);
        }
        // Nearly the newest only, and all of them.
        assert_eq!(inside(&mut pending, call(9975, 10_000)), (10, false));
        assert_eq!(inside(&mut pending, call(0, 20_000)), (998 * 5 + 25, false));
    }

    #[test]
    fn what_is_cut_through_is_estimated_and_never_lost() {
        let mut pending = Pending::default();
        for number in 0..1000 {
            inside(&mut pending, call(10 * number, 10 * number + 5));
        }
        let (ns, is_estimate) = inside(&mut pending, call(1000, 10_000));
        assert!(is_estimate && ns <= 9000, "{ns}");
        let (all, is_estimate) = inside(&mut pending, call(0, 20_000));
        assert_eq!((all, is_estimate), (5000 - ns + 9000, true));
    }
}
