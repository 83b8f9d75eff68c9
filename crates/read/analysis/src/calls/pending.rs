//! What a thread has done and what may still turn out to be inside of a call: callers return after those that they
//! called.
//!
//! # Cost
//! Memory is bounded. Where a thread has more parts than it may, neighbours among the oldest half of them are put
//! together, those first that are nearest to each other: they are likely to have the same caller. A caller that began
//! outside of such a part takes all of it or nothing, which is exact.

use super::Call;

/// What is kept of calls, besides their times.
pub trait Merge: Default {
    /// Adds the same of calls that follow.
    fn merge(&mut self, next: Self);
}

impl Merge for () {
    fn merge(&mut self, (): ()) {}
}

/// A call, or several that follow one another.
#[derive(Debug)]
struct Part<T> {
    begin: i64,
    end: i64,
    /// What they took together.
    ns: u64,
    /// It is one call.
    is_one: bool,
    /// A caller has begun in the middle of it, so that `ns` is not exact.
    is_estimate: bool,
    what: T,
}

impl<T: Merge> Part<T> {
    /// Both parts merged, the later one last.
    fn and(mut self, next: Part<T>) -> Part<T> {
        self.what.merge(next.what);
        let (ns, is_estimate) = (self.ns.saturating_add(next.ns), self.is_estimate || next.is_estimate);
        Part { end: next.end, ns, is_one: false, is_estimate, ..self }
    }

    /// From its beginning to the end of the next one.
    fn until(&self, next: &Part<T>) -> u64 {
        next.end.abs_diff(self.begin)
    }
}

/// The same in fewer parts: of the pairs of neighbours the shorter half, as far as they do not share a part.
fn fewer<T: Merge>(parts: Vec<Part<T>>) -> Vec<Part<T>> {
    let pairs = parts.iter().zip(parts.iter().skip(1));
    let mut lengths: Vec<u64> = pairs.map(|(part, next)| part.until(next)).collect();
    let middle = lengths.len() / 2;
    let most = if lengths.is_empty() { 0 } else { *lengths.select_nth_unstable(middle).1 };
    let mut fewer = Vec::with_capacity(parts.len());
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        fewer.push(match parts.next_if(|next| part.until(next) <= most) {
            Some(next) => part.and(next),
            None => part,
        });
    }
    fewer
}

/// What was inside of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// What it took together, in nanoseconds.
    pub ns: u64,
    /// A caller began in the middle of a part: `ns` is not exact.
    pub is_estimate: bool,
}

/// Calls of a thread that have returned, in the order in which they did, and whose caller has not.
#[derive(Debug)]
pub struct Pending<T> {
    parts: Vec<Part<T>>,
}

impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        Pending { parts: Vec::new() }
    }
}

impl<T: Merge> Pending<T> {
    /// Takes away what is inside of `call`, and puts `call` in its place, with what `with` makes of what was kept of
    /// that. Keeps at most `limit` parts.
    pub fn put(&mut self, call: &Call, limit: usize, with: impl FnOnce(T, Inside) -> T) -> Inside {
        let (mut inside, mut what) = (Inside { ns: 0, is_estimate: false }, T::default());
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
            if let Some(part) = self.parts.pop() {
                what.merge(part.what);
            }
        }
        let Call { begin, end, .. } = *call;
        let what = with(what, inside);
        self.parts.push(Part { begin, end, ns: call.duration(), is_one: true, is_estimate: false, what });
        if self.parts.len() > limit.max(4) {
            let late = self.parts.split_off(self.parts.len() / 2);
            self.parts = fewer(std::mem::take(&mut self.parts)).into_iter().chain(late).collect();
        }
        inside
    }

    /// What is kept of all calls without a caller.
    #[must_use]
    pub fn finish(self) -> T {
        self.parts.into_iter().fold(T::default(), |mut all, part| {
            all.merge(part.what);
            all
        })
    }
}

/// Puts the calls of a thread in order that returned at the same moment.
#[derive(Debug, Default)]
pub struct Returns {
    last: Vec<Call>,
}

impl Returns {
    /// Takes a call, after [`Returns::settled`].
    pub fn push(&mut self, call: Call) {
        self.last.push(call);
    }

    /// Those that returned before `now` and have not been handed out, the inner ones first; at the end all.
    pub fn settled(&mut self, now: Option<i64>) -> impl Iterator<Item = Call> {
        let is_over = self.last.first().is_some_and(|last| Some(last.end) != now);
        if is_over {
            // Stable: of equal ones the later stays the outer.
            self.last.sort_by_key(Call::duration);
        }
        let count = if is_over { self.last.len() } else { 0 };
        self.last.drain(..count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begin: i64, end: i64) -> Call {
        Call { function: 0, begin, end }
    }

    fn inside(pending: &mut Pending<()>, call: Call) -> (u64, bool) {
        let Inside { ns, is_estimate } = pending.put(&call, 8, |(), _| ());
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
