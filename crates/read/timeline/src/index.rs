//! An index by time of one data stream: from which packets on reading can be resumed.
//!
//! It is made of what packet headers say, on the way: the first reader that comes past a packet notes it, so nothing is
//! read for the index alone, and nothing is kept beside the recording. Finding a moment for the first time costs one
//! small read for each packet before it; after that, a step back or forward starts at the last mark before the moment.
//!
//! # What a mark promises
//! Every event before it is earlier than [`Mark::latest`], however disordered the packets are, because that is the
//! latest time of all of them, not of the last. And the reader that resumes there is in the state in which it would
//! have come there: the loss counters are those of the packet before, and the clock needs no state, because only
//! packets that begin with a whole time stamp (64 bits) are marked. A stream without any (one packet is the whole file,
//! or packets carry no time) has no mark but its beginning, so that reading starts over there: slower, never short.
//!
//! # Cost
//! At most [`MARKS`] marks a stream, 64 to 200 bytes each: when there are more packets, every second, fourth, eighth
//! ... is marked.

use crate::loss::Counters;

/// Most marks of a stream.
const MARKS: usize = 1024;

/// A place to resume at.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// Where the packet begins, in bytes.
    pub(crate) at: u64,
    /// Latest time of all events before it, in nanoseconds since 1970; `i64::MIN` when there are none.
    pub(crate) latest: i64,
    /// When the packet before it begins.
    pub(crate) begun: i64,
    /// Loss counters as of the packet before.
    pub(crate) counters: Counters,
}

/// The marks of a stream, by position.
#[derive(Debug)]
pub(crate) struct Index {
    marks: Vec<Mark>,
    /// Packets that can be marked behind `farthest` are marked every so many.
    every: u64,
    /// How many packets were offered.
    offered: u64,
    /// Position of the last packet that was offered.
    farthest: Option<u64>,
    most: usize,
}

impl Default for Index {
    fn default() -> Index {
        Index::with_most(MARKS)
    }
}

impl Index {
    fn with_most(most: usize) -> Index {
        Index { marks: Vec::new(), every: 1, offered: 0, farthest: None, most: most.max(2) }
    }

    /// Offers the packet at `at`; `mark` makes its mark if it is kept.
    pub(crate) fn offer(&mut self, at: u64, mark: impl FnOnce() -> Mark) {
        if self.farthest.is_some_and(|farthest| at <= farthest) {
            return;
        }
        self.farthest = Some(at);
        if self.offered.is_multiple_of(self.every) {
            if self.marks.len() >= self.most {
                self.thin();
            }
            if self.offered.is_multiple_of(self.every) {
                self.marks.push(mark());
            }
        }
        self.offered += 1;
    }

    /// Keeps every second mark.
    fn thin(&mut self) {
        let mut number = 0_u32;
        self.marks.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.every *= 2;
    }

    /// The last mark with all events before it earlier than `time`; `None`: start at the beginning.
    pub(crate) fn before(&self, time: i64) -> Option<&Mark> {
        // The latest time of all events before a mark never decreases from one mark to the next.
        let behind = self.marks.partition_point(|mark| mark.latest < time);
        self.marks.get(behind.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at: u64, latest: i64) -> Mark {
        Mark { at, latest, begun: latest, counters: Counters::default() }
    }

    #[test]
    fn the_last_mark_before_a_moment_is_found() {
        let mut index = Index::default();
        assert!(index.before(5).is_none());
        for (at, latest) in [(0, i64::MIN), (10, 100), (20, 200), (30, 200), (40, 300)] {
            index.offer(at, || mark(at, latest));
        }
        let found = |time| index.before(time).map(|mark| mark.at);
        let times = [i64::MIN, 0, 100, 101, 200, 201, 300, 301];
        let marks = [None, Some(0), Some(0), Some(10), Some(10), Some(30), Some(30), Some(40)];
        assert_eq!(times.map(found), marks);
    }

    #[test]
    fn many_packets_take_no_more_memory() {
        let mut index = Index::with_most(8);
        for at in 0..1000 {
            index.offer(at, || mark(at, at.cast_signed()));
            // Coming past a packet again changes nothing.
            index.offer(at / 2, || unreachable!("it was offered already"));
            assert!(index.marks.len() <= 8 && index.marks.is_sorted_by_key(|mark| mark.at));
        }
        assert!(index.marks.len() >= 4 && index.every == 128, "{index:?}");
        assert!(index.marks.iter().all(|mark| mark.at.is_multiple_of(index.every)));
        assert_eq!(index.before(700).map(|mark| mark.at), Some(640));
    }
}
