//! Times of what a flow says: blocks and events between the points that bound them.

use super::bounds::Bounds;
use super::points::Point;
use super::span::Span;
use crate::flow::{Event, Gap, Sink};
use crate::image::Space;
use crate::insn::{Block, Graph};
use crate::packet::Packet;

/// When a block was executed, or an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub(super) bounds: Bounds,
    pub(super) last: Bounds,
}

impl Moment {
    fn of(bounds: Bounds) -> Moment {
        Moment { bounds, last: bounds }
    }

    /// When each instruction of a block was executed; when an event happened.
    #[inline]
    #[must_use]
    pub fn span(&self) -> Span {
        self.bounds.span()
    }

    /// When a block's last instruction was: a branch may be known better.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Span {
        self.last.span()
    }
}

/// A receiver of what was executed, and when.
pub trait TimedSink {
    /// As [`Sink::block`].
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment);

    /// As [`Sink::event`].
    fn event(&mut self, offset: u64, event: Event, moment: &Moment);

    /// As [`Sink::gap`].
    fn gap(&mut self, gap: Gap, moment: &Moment);

    /// As [`Sink::space`].
    fn space(&mut self, space: Space) {
        let _ = space;
    }

    /// As [`Sink::thread`].
    fn thread(&mut self, tid: i32) {
        let _ = tid;
    }
}

impl<S: TimedSink> TimedSink for &mut S {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        (**self).block(block, graph, moment);
    }

    fn event(&mut self, offset: u64, event: Event, moment: &Moment) {
        (**self).event(offset, event, moment);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        (**self).gap(gap, moment);
    }

    fn space(&mut self, space: Space) {
        (**self).space(space);
    }

    fn thread(&mut self, tid: i32) {
        (**self).thread(tid);
    }
}

/// A sink for a flow, which gives all of it on with its times.
///
/// Its points are of the same packets, with the same offsets.
#[derive(Debug)]
pub struct Timed<S, Q> {
    sink: S,
    points: Q,
    /// The first point behind what is executed now.
    next: Point,
    /// A lower bound of what is executed now.
    floor: Bounds,
    /// The last point that was passed, if no branch behind it was executed yet: code up to that branch began before it.
    passed: Option<Point>,
    /// Code is missing here, perhaps that which the last point binds to.
    is_lost: bool,
    /// When what is executed now is.
    now: Moment,
    /// When a block is that ends with the branch of the packet behind the last point. Both are kept, not copied for
    /// each block: what was just written by halves is slow to read as a whole.
    branch: Moment,
}

impl<S: TimedSink, Q: Iterator<Item = Point>> Timed<S, Q> {
    /// All is given to `sink`, with times by `points`.
    pub fn new(sink: S, mut points: Q) -> Timed<S, Q> {
        let next = points.next().unwrap_or(NEVER);
        let moment = Moment::of(Bounds::UNKNOWN);
        let mut timed = Timed {
            sink,
            points,
            next,
            floor: Bounds::UNKNOWN,
            passed: None,
            is_lost: false,
            now: moment,
            branch: moment,
        };
        timed.look();
        timed
    }

    /// Goes on behind a flow whose last lower bound this was.
    #[must_use]
    pub fn resumed(mut self, floor: Option<u64>) -> Timed<S, Q> {
        self.floor = Span { low: floor, high: None }.into();
        self.look();
        self
    }

    /// The last lower bound.
    pub fn floor(&self) -> Option<u64> {
        self.floor.low()
    }

    /// Where all is given to.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Where all was given to.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// A packet of time was read: all that packets before it are about was executed.
    fn pass(&mut self, offset: u64) {
        while self.next.offset <= offset.min(u64::MAX - 1) {
            // The last one is the latest.
            self.passed = Some(self.next);
            self.next = self.points.next().unwrap_or(NEVER);
        }
        self.look();
    }

    /// What the packet behind the last point is about was executed.
    #[inline]
    fn settle(&mut self) {
        if let Some(point) = self.passed.take() {
            self.floor = self.floor.raised(point.bounds);
            self.now = Moment::of(self.floor.lowered(self.next.bounds));
        }
    }

    /// The bounds of what is executed now.
    #[inline]
    fn look(&mut self) {
        let mut bounds = self.floor.lowered(self.next.bounds);
        let mut last = bounds;
        if let Some(passed) = self.passed {
            if passed.binds() && !self.is_lost {
                bounds = bounds.lowered(passed.bounds);
            }
            last = bounds.raised(passed.bounds);
        }
        (self.now, self.branch) = (Moment::of(bounds), Moment { bounds, last });
    }
}

impl<S: TimedSink, Q: Iterator<Item = Point>> Sink for Timed<S, Q> {
    #[inline(always)]
    fn block(&mut self, block: &Block, graph: &Graph) {
        // Where a packet says where the block's branch has led to, it is the one behind the last point.
        let is_branch = self.passed.is_some() && block.class.has_packet();
        self.sink.block(block, graph, if is_branch { &self.branch } else { &self.now });
        if is_branch {
            self.settle();
        }
    }

    #[inline]
    fn event(&mut self, offset: u64, event: Event) {
        if let Event::Packet { packet: Packet::Tsc(_) | Packet::Mtc(_) | Packet::Cyc(_), .. } = event {
            self.pass(offset);
            let moment = self.passed.map_or(self.now, |point| Moment::of(point.bounds));
            return self.sink.event(offset, event, &moment);
        }
        self.happen(offset, event);
    }

    fn gap(&mut self, gap: Gap) {
        self.sink.gap(gap, &self.now);
        self.is_lost = true;
        self.look();
    }

    fn space(&mut self, space: Space) {
        self.sink.space(space);
    }

    fn thread(&mut self, tid: i32) {
        self.sink.thread(tid);
    }
}

impl<S: TimedSink, Q: Iterator<Item = Point>> Timed<S, Q> {
    /// An event that is none of time.
    fn happen(&mut self, offset: u64, event: Event) {
        if matches!(event, Event::Overflow | Event::Cut) {
            self.is_lost = true;
            self.look();
        }
        // Where the flow begins, is interrupted or ends, it is at what the packet says.
        let is_there =
            matches!(event, Event::Enabled { .. } | Event::Disabled { .. } | Event::AsyncBranch { .. });
        let bounds = if is_there && self.passed.is_some() { self.branch.last } else { self.now.bounds };
        self.sink.event(offset, event, &Moment::of(bounds));
        if is_there {
            self.is_lost = false;
            self.settle();
        }
    }
}

/// Behind the last point.
const NEVER: Point = Point { offset: u64::MAX, bounds: Bounds::UNKNOWN, binding: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Cause;
    use crate::insn::Class;

    /// The moments of all that a flow says, as text.
    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Seen {
        fn push(&mut self, moment: &Moment) {
            let shown = |bound: Option<u64>| bound.map_or("?".to_owned(), |bound| bound.to_string());
            let shown = |span: Span| format!("{}..{}", shown(span.low), shown(span.high));
            self.0.push(format!("{} {}", shown(moment.span()), shown(moment.last())));
        }
    }

    impl TimedSink for Seen {
        fn block(&mut self, _: &Block, _: &Graph, moment: &Moment) {
            self.push(moment);
        }

        fn event(&mut self, _: u64, _: Event, moment: &Moment) {
            self.push(moment);
        }

        fn gap(&mut self, _: Gap, moment: &Moment) {
            self.push(moment);
        }
    }

    enum Say {
        Block(Class),
        Cyc(u64),
        Event(Event),
        Gap,
    }

    /// CYC packets with a branch directly behind them, at offsets 1, 2, .. of times 100, 200, ..
    fn check(said: &[Say], expected: &[&str]) {
        let point =
            |offset| Point { offset, bounds: Bounds::new(100 * offset, 100 * offset + 9), binding: 1 };
        let mut timed = Timed::new(Seen::default(), (1..=4).map(point));
        let graph = Graph::new(0);
        for say in said {
            match say {
                Say::Block(class) => timed.block(&Block { class: *class, ..Block::default() }, &graph),
                Say::Cyc(offset) => {
                    timed.event(*offset, Event::Packet { packet: Packet::Cyc(7), address: None });
                }
                Say::Event(event) => timed.event(0, *event),
                Say::Gap => timed.gap(Gap { offset: 0, cause: Cause::Damage, is_guest: false }),
            }
        }
        assert_eq!(timed.into_sink().0, expected);
    }

    #[test]
    fn code_up_to_a_branch_is_between_two_points() {
        use Class::{Call, Conditional, Sequential};
        check(
            &[
                Say::Block(Sequential),
                Say::Cyc(1),
                Say::Block(Call),
                Say::Block(Conditional),
                Say::Block(Conditional),
                Say::Cyc(2),
                Say::Cyc(3),
                Say::Block(Conditional),
                Say::Block(Sequential),
                Say::Cyc(4),
                Say::Block(Conditional),
                Say::Block(Sequential),
            ],
            &[
                "?..109 ?..109",
                "100..109 100..109",
                "?..109 ?..109",
                "?..109 100..109",
                "100..209 100..209",
                "200..209 200..209",
                "300..309 300..309",
                "100..309 300..309",
                "300..409 300..409",
                "400..409 400..409",
                "300..409 400..409",
                "400..? 400..?",
            ],
        );
    }

    #[test]
    fn the_flow_is_at_what_begins_or_ends_it() {
        let enabled = Event::Enabled { address: 0, by: crate::flow::Start::Pge };
        let mode = Event::Mode { mode: crate::insn::Mode::Bits32, interrupts: true };
        check(
            &[Say::Cyc(1), Say::Event(mode), Say::Event(enabled), Say::Block(Class::Call)],
            &["100..109 100..109", "?..109 ?..109", "100..109 100..109", "100..209 100..209"],
        );
    }

    /// Where code is missing, the branch of the last point may be, too.
    #[test]
    fn code_behind_a_gap_is_not_bound_by_a_branch() {
        let lost = [
            Say::Cyc(1),
            Say::Gap,
            Say::Block(Class::Call),
            Say::Block(Class::Conditional),
            Say::Block(Class::Call),
        ];
        check(
            &lost,
            &["100..109 100..109", "?..109 ?..109", "?..209 ?..209", "?..209 100..209", "100..209 100..209"],
        );
        let lost = [Say::Cyc(1), Say::Event(Event::Overflow), Say::Block(Class::Call)];
        check(&lost, &["100..109 100..109", "?..209 ?..209", "?..209 ?..209"]);
    }
}
