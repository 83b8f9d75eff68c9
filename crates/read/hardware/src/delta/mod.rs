//! Delta profiles: instructions and time between two patterns of instructions, and how often patterns were.
//!
//! ```text
//! blocks ─ Marks ─▶ instructions that are steps ─ Finder ─▶ where patterns are ─ Delta ─▶ Case ─▶ Profile
//! ```
//!
//! # The algorithm
//! It is algorithm 1 (Hardware Delta Profiling) of Sharma, "Low-Impact System Performance Analysis Using Hardware
//! Assisted Tracing Techniques", 2017, section 5.4.3: instructions and super-instructions are looked for in the decoded
//! stream, and a flag that the first sets and the second unsets says from where to where time and instructions are
//! counted. Changed are:
//!
//! | algorithm 1 | here | why |
//! |---|---|---|
//! | each instruction is compared as it is executed | each instruction of a block is compared once, when the block is first met; executed blocks without any cost a load | most code is executed again and again |
//! | one set of targets; whichever comes sets or unsets the flag | the first pattern opens an interval, and the second closes it | two `cli` without a `sti` between would be an interval, and all behind it would be turned round |
//! | super-instructions are recognised while decoding, fixed | a language of patterns ([`Pattern`]), with runs and names of one's own | other questions have other patterns |
//! | `popf` is a superSTI | unless it restores what a `pushf` has saved while interrupts were disabled (`popf{if}`) | sections with disabled interrupts are nested |
//! | `sti` and `popf` are all that is a superSTI | `sysret`, and `iret` with the same condition, are, too | the kernel goes back to programs with interrupts disabled, and these have them enabled |
//! | time or instructions, by a mode | both | the worst by one are seldom the worst by the other |
//! | a time is a number | a time has bounds, and is absent where no packet gives any | see `mote_pt::time` |
//! | a database of all deltas | histograms ([`mote_analysis::Histogram`]), sums by places, the worst ones | memory is bounded |
//! | nothing said of loss | code that is missing ends intervals without a number | a sum over a gap is wrong |
//!
//! An interval goes from the last instruction of the first pattern to that at which the second one is complete: of a
//! run, its first. From `cli` to a `sti` directly behind it is 1 instruction.

mod interrupts;
mod marks;
mod names;
mod operands;
mod pattern;
mod profile;
mod sequence;

pub use names::{BadName, Names};
pub use pattern::{BadPattern, Pattern};
pub use profile::{Between, By, Case, Profile, Sums, Who};
pub use sequence::At;

use crate::program::{Program, is_kernel};
use crate::running::Running;
use interrupts::Interrupts;
use marks::{Mark, Marks, Seen};
use mote_capture::Of;
use mote_pt::flow::{Event, Gap, Graph};
use mote_pt::image::Space;
use mote_pt::insn::Block;
use mote_pt::time::{Moment, Nanoseconds, TimedSink};
use profile::nanoseconds;
use sequence::{Finder, Found, Match};

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where intervals begin; without `to`, what is counted.
    pub from: Pattern,
    /// Where they end.
    pub to: Option<Pattern>,
    /// If `from` comes again, the interval begins anew, instead of going on.
    pub restarts: bool,
}

/// What streams have said together.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The intervals.
    pub profile: Profile,
    seen: Seen,
}

impl Answer {
    /// Keeps so many of the worst.
    #[must_use]
    pub fn new(by: By, worst_max: usize) -> Answer {
        Answer { profile: Profile::new(by, worst_max), seen: Seen::default() }
    }

    /// Sentences about patterns that were nowhere, with what is like them.
    #[must_use]
    pub fn missing(&self, question: &Question) -> Vec<String> {
        let patterns = [Some(&question.from), question.to.as_ref()];
        let found = patterns.iter().zip(self.profile.found).enumerate();
        let nowhere =
            found.filter_map(|(which, (pattern, found))| Some((which, (*pattern)?)).filter(|_| found == 0));
        let why = |(which, pattern): (usize, &Pattern)| match self.seen.missing(pattern, which) {
            none if none.is_empty() => {
                vec![format!("`{pattern}`: its instructions were executed, but not as near as that")]
            }
            missing => missing,
        };
        nowhere.flat_map(why).collect()
    }
}

/// A sink for what a stream executes: the intervals from one pattern to another.
///
/// # Cost
/// An executed block without steps of the patterns costs an addition, and a load of a bit; one with some, some tens of
/// nanoseconds. `mote-bench pt_analyses`, case `delta`.
#[derive(Debug)]
pub struct Delta<'p, P> {
    marks: Marks<'p, P>,
    instructions: u64,
    intervals: Intervals<'p>,
}

/// The intervals, by instructions that are steps.
#[derive(Debug)]
struct Intervals<'p> {
    of: Of,
    clock: Option<Nanoseconds>,
    restarts: bool,
    from: Finder<'p>,
    to: Option<Finder<'p>>,
    interrupts: Interrupts,
    /// Packets tell the interrupt flag.
    has_event_trace: bool,
    running: Running,
    /// Where the interval that is open begins; of one pattern alone, where it is.
    open: Option<Match>,
    /// The run that the interval begins with may go on.
    is_run: bool,
    is_untraced: bool,
    /// Tracing was off behind what is known of it.
    was_off: bool,
    profile: Profile,
    seen: Seen,
}

impl<'p, P: Program> Delta<'p, P> {
    /// For a stream, whose code is `program`, and whose time stamp counter means what `clock` says; adds to what others
    /// have said.
    pub fn new(
        question: &'p Question,
        program: &'p P,
        (of, running): (Of, Running),
        clock: Option<Nanoseconds>,
        Answer { profile, seen }: Answer,
    ) -> Delta<'p, P> {
        let intervals = Intervals {
            of,
            clock,
            restarts: question.restarts,
            from: Finder::new(&question.from),
            to: question.to.as_ref().map(Finder::new),
            interrupts: Interrupts::default(),
            has_event_trace: false,
            running,
            open: None,
            is_run: false,
            is_untraced: false,
            was_off: false,
            profile,
            seen,
        };
        Delta {
            marks: Marks::new(program, [Some(&question.from), question.to.as_ref()]),
            instructions: 0,
            intervals,
        }
    }

    /// What was found, with what others had said.
    #[must_use]
    pub fn finish(self) -> Answer {
        let Delta { marks, mut intervals, .. } = self;
        intervals.cut();
        let Intervals { mut profile, mut seen, .. } = intervals;
        let program = marks.program();
        profile.settle(|(space, address)| match program.function(space, address) {
            Some(function) => function.name,
            None => program.unnamed(space, address),
        });
        seen.join(marks.into_seen());
        Answer { profile, seen }
    }

    /// Instructions of a block may be steps.
    ///
    /// Not inlined, so that what is done of all other blocks is: by then it is some ten instructions.
    #[inline(never)]
    fn look(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        let (space, last) = (self.marks.space(), block.instructions.saturating_sub(1));
        for mark in self.marks.of(block, graph) {
            let when = if mark.index == last { moment.last() } else { moment.span() };
            let number = self.instructions + u64::from(mark.index);
            self.intervals.step(mark, At { number, space, address: mark.address, when });
        }
    }
}

impl Intervals<'_> {
    fn step(&mut self, mark: &Mark, at: At) {
        let may_be_enabled = mark.switching.is_none_or(|switching| self.interrupts.take(switching));
        let steps =
            |which: usize| mark.steps[which] | if may_be_enabled { mark.conditional[which] } else { 0 };
        let closes = self.to.as_mut().and_then(|to| to.take(steps(1), at));
        if let Some(Found::Match(found)) = closes {
            self.profile.found[1] += 1;
            self.close(found);
        }
        match self.from.take(steps(0), at) {
            Some(Found::Match(found)) => self.begin(found),
            Some(Found::Longer(last)) if self.is_run => self.go_on(last),
            Some(Found::Longer(_)) | None => {}
        }
    }

    /// The first pattern was there.
    fn begin(&mut self, found: Match) {
        self.profile.found[0] += 1;
        if self.to.is_none() {
            self.end_alone();
        } else if self.open.is_some() {
            self.profile.again += 1;
        }
        self.is_run = self.open.is_none() || self.restarts;
        if self.is_run {
            self.open = Some(found);
            (self.is_untraced, self.was_off) = (false, false);
        }
    }

    /// The run that is open has another instruction.
    fn go_on(&mut self, last: At) {
        self.open.iter_mut().for_each(|open| open.last = last);
        // An interval begins behind the run.
        self.is_untraced |= self.was_off && self.to.is_none();
        self.was_off = false;
    }

    /// The second one was.
    fn close(&mut self, found: Match) {
        match self.open.take() {
            Some(open) => {
                let instructions = found.last.number.saturating_sub(open.last.number);
                self.is_untraced = self.was_off;
                self.add(open.last, found.last, instructions);
            }
            None => self.profile.alone += 1,
        }
    }

    /// Of one pattern alone: where it was is known as a whole now.
    fn end_alone(&mut self) {
        if let Some(open) = self.open.take() {
            self.add(open.first, open.last, open.last.number - open.first.number + 1);
        }
    }

    fn add(&mut self, from: At, to: At, instructions: u64) {
        let who = Who { of: self.of, tid: self.running.at(to.number, to.when) };
        // From an instruction to itself there is no time.
        let clock = self.clock.filter(|_| from.number != to.number);
        let ns = nanoseconds(clock, &from, &to);
        let is_untraced = std::mem::take(&mut self.is_untraced);
        self.profile.add(Case { who, from, to, instructions, ns, is_untraced });
    }

    /// Something was between two instructions.
    #[inline(never)]
    fn happen(&mut self, event: Event) {
        match event {
            Event::Overflow | Event::Cut => self.cut(),
            Event::Disabled { .. } => self.was_off = true,
            Event::AsyncBranch { from, .. } => self.interrupts.interrupt(is_kernel(from)),
            // Without event trace the flag is never set.
            Event::Mode { interrupts, .. } => {
                self.has_event_trace |= interrupts;
                if self.has_event_trace {
                    self.interrupts.set(interrupts);
                }
            }
            _ => {}
        }
    }

    /// Code is missing, or ends.
    fn cut(&mut self) {
        if self.to.is_none() {
            self.end_alone();
        }
        self.profile.cut += u64::from(self.open.take().is_some());
        self.from.cut();
        self.to.iter_mut().for_each(Finder::cut);
        self.interrupts.forget();
    }
}

impl<P: Program> TimedSink for Delta<'_, P> {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        if !self.marks.is_plain(block, graph) {
            self.look(block, graph, moment);
        }
        self.instructions += u64::from(block.instructions);
    }

    #[inline]
    fn event(&mut self, _: u64, event: Event, _: &Moment) {
        // Most are packets of time.
        if !matches!(event, Event::Packet { .. }) {
            self.intervals.happen(event);
        }
    }

    fn gap(&mut self, _: Gap, _: &Moment) {
        self.intervals.cut();
    }

    fn space(&mut self, space: Space) {
        self.marks.set_space(space);
    }
}
