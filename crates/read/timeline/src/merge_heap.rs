//! A binary heap of streams by the time of their next entry.
//!
//! `std`'s heap would do, but the one operation that counts here, replacing the top, is `peek_mut` there, which moves
//! keys about as 16-byte vectors right after they were stored as words: a store-forwarding stall per event.

/// A stream that waits for its turn; at the same time the first stream goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    time: i64,
    reader: u32,
}

/// The streams that wait. No waiter is earlier than the one at half its (one-based) index.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<Waiter>);

impl Waiting {
    /// Whether an entry of `reader` at `time` has to wait for one of these.
    #[inline]
    pub(crate) fn go_before(&self, time: i64, reader: usize) -> bool {
        match self.0.first() {
            Some(first) => first.time < time || (first.time == time && (first.reader as usize) < reader),
            None => false,
        }
    }

    /// Adds a stream.
    pub(crate) fn push(&mut self, time: i64, reader: usize) {
        let mut at = self.0.len();
        self.0.push(Waiter { time, reader: u32::try_from(reader).unwrap_or(u32::MAX) });
        while at > 0 && self.0[(at - 1) / 2] > self.0[at] {
            self.0.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Takes the earliest.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let last = self.0.pop()?;
        Some(match self.0.first() {
            Some(_) => self.replace(last.time, last.reader as usize),
            None => last.reader as usize,
        })
    }

    /// Takes the earliest and adds another; if no stream waits, returns that other.
    #[inline]
    pub(crate) fn replace(&mut self, time: i64, reader: usize) -> usize {
        let Some(first) = self.0.first_mut() else { return reader };
        let earliest = first.reader as usize;
        first.time = time;
        first.reader = reader as u32;
        if self.0.len() > 1 {
            self.sink();
        }
        earliest
    }

    /// Puts the first where it belongs.
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            let earlier = |a: usize, b: usize| match (self.0.get(a), self.0.get(b)) {
                (Some(first), Some(second)) => first <= second,
                (first, _) => first.is_some(),
            };
            let child = if earlier(left, left + 1) { left } else { left + 1 };
            if child >= self.0.len() || self.0[at] <= self.0[child] {
                return;
            }
            self.0.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_keeps_the_earliest_on_top() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40).cast_signed() % 100
        };
        for count in 1..40_usize {
            let mut waiting = Waiting::default();
            let mut times: Vec<i64> = (0..count).map(|_| random()).collect();
            times.iter().enumerate().for_each(|(reader, time)| waiting.push(*time, reader));
            for _ in 0..100 {
                // The stream that is taken comes back with a new time.
                let taken = waiting.pop().expect("as many as went in");
                let first = (0..count).min_by_key(|reader| (times[*reader], *reader));
                assert_eq!(Some(taken), first);
                times[taken] = random();
                if waiting.go_before(times[taken], taken) {
                    let next = waiting.replace(times[taken], taken);
                    let first = (0..count).min_by_key(|reader| (times[*reader], *reader));
                    assert_eq!(Some(next), first);
                    waiting.push(times[next], next);
                } else {
                    waiting.push(times[taken], taken);
                }
            }
        }
    }

    #[test]
    fn popping_sorts() {
        let mut waiting = Waiting::default();
        let times = [5, 3, 9, 3, 1, 7, 7, 0];
        times.iter().enumerate().for_each(|(reader, time)| waiting.push(*time, reader));
        let out: Vec<usize> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(out, [7, 4, 1, 3, 0, 5, 6, 2]);
        assert_eq!((waiting.go_before(i64::MAX, 9), waiting.replace(4, 2)), (false, 2));
    }
}
