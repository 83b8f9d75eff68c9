//! Points between two whose time is known: they wait for the second one, and then have their own.

use super::bounds::Bounds;
use super::cycles::Segment;
use super::points::Point;

/// Most of them. Where there are more, every second one is left out, and the bounds of what is around it are wider.
const MAX: usize = 1 << 16;

/// A point whose time is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) offset: u64,
    /// A count of cycles, or a lower bound.
    pub(super) value: u64,
    pub(super) by: By,
    /// What stands behind it is of the same cycle.
    pub(super) binds: bool,
}

/// What is known of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Cycles,
    NotBefore,
}

/// Adds one to those that wait.
#[inline]
pub(super) fn wait(all: &mut Vec<Waiting>, offset: u64, value: u64, by: By) {
    if all.len() == MAX {
        leave_out(all);
    }
    all.push(Waiting { offset, value, by, binds: false });
}

#[cold]
fn leave_out(all: &mut Vec<Waiting>) {
    let mut is_dropped = false;
    all.retain(|_| {
        is_dropped = !is_dropped;
        !is_dropped
    });
}

/// Points whose time is known, in their order.
#[derive(Debug)]
pub(super) struct Ready {
    waited: Vec<Waiting>,
    next: usize,
    segment: Segment,
    hard: Bounds,
    /// The point that they have waited for.
    then: Option<Point>,
    /// The last lower bound: time does not run backwards.
    floor: Bounds,
}

impl Default for Ready {
    fn default() -> Ready {
        let segment = Segment { from: None, to: None, rate: None };
        let (hard, floor) = (Bounds::UNKNOWN, Bounds::UNKNOWN);
        Ready { waited: Vec::new(), next: 0, segment, hard, then: None, floor }
    }
}

impl Ready {
    /// Those that have waited are known, and so is the point behind them, if there is one. All before were taken.
    pub(super) fn put(&mut self, waiting: &mut Vec<Waiting>, segment: Segment, then: Option<Point>) {
        self.waited.clear();
        std::mem::swap(&mut self.waited, waiting);
        (self.next, self.hard, self.segment, self.then) = (0, segment.hard(), segment, then);
    }

    /// Takes the next one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Point> {
        while let Some(&Waiting { offset, value, by, binds }) = self.waited.get(self.next) {
            self.next += 1;
            let bounds = match by {
                By::Cycles => self.segment.at(value),
                By::NotBefore => self.hard.raised(Bounds::new(value, u64::MAX)),
            };
            let bounds = bounds.raised(self.floor).in_order();
            self.floor = bounds.without_high();
            if !bounds.is_unknown() {
                return Some(Point { offset, bounds, binding: binds.into() });
            }
        }
        let then = self.then.take()?;
        // A counter that was set begins anew.
        self.floor = then.bounds.without_high();
        Some(then)
    }
}
