//! Calls and returns, from blocks: which function calls which, how deep, and for how many instructions.
//!
//! A return belongs to the youngest call whose next instruction it leads to. Calls above that one have ended without a
//! return (`longjmp`, exceptions of languages), and a return that belongs to no call ends none: code that returns to
//! something else than its caller (retpolines, coroutines) keeps the calls around it. An interrupt is a call, too: it
//! ends where the code that it has interrupted goes on.
//!
//! Where tracing begins with a function's first instruction, what is not traced has called it: code outside of a
//! filter, or the kernel, which begins programs and handlers of signals. Such a call ends with a return that belongs
//! to no other, with one that leaves what is traced, or where the code goes on that was interrupted for it.

use super::{Event, Gap, Sink, Start};
use crate::image::Space;
use crate::insn::{Block, Class, Graph};

/// Most calls that are known at once. Beyond that, the oldest are forgotten: no program's stack is so deep, but that of
/// hostile traces.
const DEPTH_MAX: usize = 1 << 16;
/// How far below the youngest a call is looked for that a return belongs to.
const SEARCH_MAX: usize = 64;

/// Something that a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It begins.
    Begin {
        /// The first instruction of the function.
        function: u64,
        /// The instruction that it returns to; nothing where what has called it was not traced.
        returns_to: Option<u64>,
        /// How many calls are around it.
        depth: usize,
    },
    /// It has ended.
    End {
        /// The first instruction of the function.
        function: u64,
        /// How many calls are around it.
        depth: usize,
        /// Instructions since its begin, those of calls in it included.
        instructions: u64,
        /// How it has ended.
        by: End,
    },
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has returned.
    Return,
    /// A call around it has returned.
    Outer,
    /// Code is missing.
    Gap,
}

/// Something of a part of a flow that only the calls before it can say the meaning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// A call that has begun in the part, and that what comes may end from outside.
    Begin {
        /// The first instruction of the function.
        function: u64,
        /// The instruction that it returns to, where that is known.
        returns_to: Option<u64>,
        /// What has called it was not traced.
        is_entered: bool,
        /// How many instructions the part had before it.
        at: u64,
    },
    /// A return that belongs to no call of the part.
    Return {
        /// Where it leads to.
        address: u64,
        /// It leaves what is traced.
        leaves: bool,
        /// How many instructions the part had before.
        at: u64,
    },
    /// Tracing begins.
    Enabled {
        /// The first instruction.
        address: u64,
        /// Why it was off; nothing if it is off since before the part.
        off: Option<Off>,
        /// How many instructions the part had before.
        at: u64,
    },
    /// Code is missing.
    Cut {
        /// How many instructions the part had before.
        at: u64,
    },
    /// The part ends.
    End {
        /// How many instructions it has.
        at: u64,
        /// Why tracing is off then, if it is; nothing if that is as it was before the part.
        off: Option<Off>,
    },
}

/// Why tracing is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// Code is traced.
    No,
    /// A branch has led to code that is not traced.
    Outside,
    /// The kernel has been called, or something has interrupted what is traced, at an address.
    Away(Option<u64>),
}

/// A receiver of calls.
pub trait CallSink {
    /// A call begins or ends.
    fn call(&mut self, call: Call);

    /// Code is of another address space from here on, as [`Sink::space`] says.
    fn space(&mut self, space: Space) {
        let _ = space;
    }

    /// Whether a function begins at an address, as far as is known: where tracing begins there, it was called.
    fn is_function(&self, address: u64) -> bool {
        let _ = address;
        false
    }

    /// Something that the calls before this part say the meaning of ([`Calls::of_part`]). A call that escapes does not
    /// end any more.
    fn escape(&mut self, escape: Escape) {
        let _ = escape;
    }
}

impl<F: FnMut(Call)> CallSink for F {
    fn call(&mut self, call: Call) {
        self(call);
    }
}

/// The calls of a flow: a sink for its blocks.
#[derive(Debug)]
pub struct Calls<S> {
    sink: S,
    open: Vec<Frame>,
    /// What the last block's branch was, until it is known where it has led to.
    branch: Branch,
    /// Why tracing is off; nothing if that is not known.
    off: Option<Off>,
    instructions: u64,
    /// Calls before the first instruction are not known.
    is_part: bool,
}

/// A call that has not ended.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: u64,
    returns_to: Option<u64>,
    /// What has called it was not traced.
    is_entered: bool,
    /// The count of instructions at its begin.
    begin: u64,
}

#[derive(Clone, Copy, Debug)]
enum Branch {
    /// None that matters here.
    Other,
    Call {
        returns_to: u64,
    },
    Return,
}

impl<S: CallSink> Calls<S> {
    /// Calls are given to `sink`.
    pub fn new(sink: S) -> Self {
        let (branch, off) = (Branch::Other, Some(Off::No));
        Calls { sink, open: Vec::new(), branch, off, instructions: 0, is_part: false }
    }

    /// Calls of a part of a flow that has others before it: what depends on these is given to `sink` as an [`Escape`],
    /// and comes to its right by [`Calls::resume`] of the whole.
    pub fn of_part(sink: S) -> Self {
        Calls { off: None, is_part: true, ..Calls::new(sink) }
    }

    /// The part has ended, and leads on to `place` if that is known.
    pub fn end_part(&mut self, place: Option<u64>) {
        place.iter().for_each(|place| self.arrive(*place));
        self.spill();
        self.sink.escape(Escape::End { at: self.instructions, off: self.off });
    }

    /// Does what has escaped from a part whose first instruction is number `base` of this flow.
    pub fn resume(&mut self, escape: Escape, base: u64) {
        match escape {
            Escape::Begin { function, returns_to, is_entered, at } => {
                self.instructions = base + at;
                self.begin(function, returns_to, is_entered);
            }
            Escape::Return { address, leaves, at } => {
                self.instructions = base + at;
                self.end(address, leaves);
            }
            Escape::Enabled { address, off, at } => {
                self.instructions = base + at;
                self.off = off.or(self.off);
                self.enable(address);
            }
            Escape::Cut { at } => {
                self.instructions = base + at;
                self.cut();
            }
            Escape::End { at, off } => {
                self.instructions = base + at;
                self.off = off.or(self.off);
            }
        }
    }

    /// How many calls have begun and not ended.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// How many instructions were executed.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Where the calls are given to.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// The same, while there may be more.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The last block's branch has led to an address, if it was one: something else is told of what is there than a
    /// block.
    pub fn arrive(&mut self, address: u64) {
        self.arrive_at(address, false);
    }

    /// The same; the branch may have left what is traced.
    fn arrive_at(&mut self, address: u64, leaves: bool) {
        match std::mem::replace(&mut self.branch, Branch::Other) {
            Branch::Other => {}
            Branch::Call { returns_to } => self.begin(address, Some(returns_to), false),
            Branch::Return => self.end(address, leaves),
        }
    }

    fn begin(&mut self, function: u64, returns_to: Option<u64>, is_entered: bool) {
        if self.open.len() == DEPTH_MAX {
            self.open.drain(..DEPTH_MAX / 2);
        }
        let depth = self.open.len();
        self.open.push(Frame { function, returns_to, is_entered, begin: self.instructions });
        self.sink.call(Call::Begin { function, returns_to, depth });
    }

    /// A return leads to an address, which may be outside of what is traced.
    fn end(&mut self, address: u64, leaves: bool) {
        if self.end_known(address) {
            return;
        }
        if self.is_part && self.open.len() < SEARCH_MAX {
            self.spill();
            return self.sink.escape(Escape::Return { address, leaves, at: self.instructions });
        }
        let mut youngest = self.open.iter().rev().take(if leaves { SEARCH_MAX } else { 1 });
        if let Some(above) = youngest.position(|frame| frame.is_entered) {
            self.pop_to(above);
        }
    }

    /// Ends the youngest call that returns to an address; false where there is none.
    fn end_known(&mut self, address: u64) -> bool {
        let mut youngest = self.open.iter().rev().take(SEARCH_MAX);
        let above = youngest.position(|frame| !frame.is_entered && frame.returns_to == Some(address));
        above.into_iter().for_each(|above| self.pop_to(above));
        above.is_some()
    }

    /// A call returns that has so many above it.
    fn pop_to(&mut self, above: usize) {
        for _ in 0..above {
            self.pop(End::Outer);
        }
        self.pop(End::Return);
    }

    fn pop(&mut self, by: End) {
        let Some(Frame { function, begin, .. }) = self.open.pop() else { return };
        let instructions = self.instructions - begin;
        self.sink.call(Call::End { function, depth: self.open.len(), instructions, by });
    }

    /// Code is missing: no call is known any more.
    fn cut(&mut self) {
        self.branch = Branch::Other;
        while !self.open.is_empty() {
            self.pop(End::Gap);
        }
        // Nothing that comes depends on calls before.
        if std::mem::take(&mut self.is_part) {
            self.sink.escape(Escape::Cut { at: self.instructions });
        }
    }

    /// Tracing begins again: what is not traced has returned from a call, goes on where it was interrupted, or has
    /// called a function.
    fn enable(&mut self, address: u64) {
        let off = self.off.replace(Off::No);
        if off == Some(Off::Outside) && self.end_known(address) {
            return;
        }
        // Calls before the part may be meant.
        let may_be_before = match off {
            None => true,
            Some(Off::Outside) => self.open.len() < SEARCH_MAX,
            Some(Off::No | Off::Away(_)) => self.open.is_empty(),
        };
        if self.is_part && may_be_before {
            self.spill();
            return self.sink.escape(Escape::Enabled { address, off, at: self.instructions });
        }
        let interrupted = if let Some(Off::Away(at)) = off { at } else { None };
        let is_handled = |frame: &Frame| frame.is_entered && frame.returns_to == Some(address);
        if off != Some(Off::Outside) && self.open.last().is_some_and(is_handled) {
            self.pop(End::Return);
        } else if interrupted != Some(address) && self.sink.is_function(address) {
            self.begin(address, interrupted, true);
        }
    }

    /// Calls are ended from outside, if at all.
    fn spill(&mut self) {
        for Frame { function, returns_to, is_entered, begin } in self.open.drain(..) {
            self.sink.escape(Escape::Begin { function, returns_to, is_entered, at: begin });
        }
    }
}

impl<S: CallSink> Sink for Calls<S> {
    const NEEDS_TIME: bool = false;

    #[inline]
    fn block(&mut self, block: &Block, _: &Graph) {
        if !matches!(self.branch, Branch::Other) {
            self.arrive(block.start);
        }
        self.instructions += u64::from(block.instructions);
        self.branch = match block.class {
            Class::Call | Class::IndirectCall => Branch::Call { returns_to: block.end },
            Class::Return | Class::Far => Branch::Return,
            _ => Branch::Other,
        };
    }

    fn event(&mut self, _: u64, event: Event) {
        match event {
            Event::AsyncBranch { from, to } => {
                self.arrive(from);
                self.begin(to, Some(from), false);
            }
            Event::Disabled { from, to } => {
                from.into_iter().for_each(|from| self.arrive(from));
                // A system call that is not traced goes on behind it: it is no call here.
                self.off = Some(if to.is_some() { Off::Outside } else { Off::Away(from) });
                if let Some(to) = to {
                    self.arrive_at(to, true);
                }
                self.branch = Branch::Other;
            }
            Event::Enabled { address, by: Start::Pge } => self.enable(address),
            Event::Overflow | Event::Cut => self.cut(),
            _ => {}
        }
    }

    fn gap(&mut self, _: Gap) {
        self.cut();
    }

    fn space(&mut self, space: Space) {
        self.sink.space(space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Cause;

    /// Blocks of so many instructions, from and to an address, and what they do.
    fn check(blocks: &[(u64, u64, u32, Class)], then: &[Event], expect: &[&str]) {
        let mut found = Vec::new();
        let mut calls = Calls::new(|call| {
            found.push(match call {
                Call::Begin { function, returns_to, depth } => {
                    format!("{depth} begin {function:x} to {:x}", returns_to.unwrap_or(0))
                }
                Call::End { function, depth, instructions, by } => {
                    format!("{depth} end {function:x} {instructions} {by:?}")
                }
            })
        });
        let graph = Graph::new(0);
        for &(start, end, instructions, class) in blocks {
            calls.block(&Block { start, end, instructions, class, ..Block::default() }, &graph);
        }
        then.iter().for_each(|&event| calls.event(0, event));
        calls.gap(Gap { offset: 0, cause: Cause::Damage, is_guest: false });
        drop(calls);
        assert_eq!(found, expect);
    }

    #[test]
    fn a_call_ends_where_it_returns_to() {
        use Class::*;
        let blocks = [
            (0x1000, 0x1005, 2, Call),
            (0x2000, 0x2010, 3, IndirectCall),
            (0x3000, 0x3008, 4, Return),
            (0x2010, 0x2012, 1, Conditional),
            (0x2012, 0x2013, 1, Return),
            (0x1005, 0x1006, 1, Sequential),
        ];
        let expect =
            ["0 begin 2000 to 1005", "1 begin 3000 to 2010", "1 end 3000 4 Return", "0 end 2000 9 Return"];
        check(&blocks, &[], &expect);
    }

    #[test]
    fn calls_end_with_an_outer_one() {
        use Class::*;
        let blocks = [
            (0x1000, 0x1005, 1, Call),
            (0x2000, 0x2005, 1, Call),
            (0x3000, 0x3005, 1, Call),
            // To an address that no call returns to, and then to the first one's.
            (0x4000, 0x4001, 1, Return),
            (0x5000, 0x5001, 1, Return),
            (0x1005, 0x100a, 1, Call),
            (0x2000, 0x2001, 1, Sequential),
        ];
        let expect = [
            "0 begin 2000 to 1005",
            "1 begin 3000 to 2005",
            "2 begin 4000 to 3005",
            "2 end 4000 2 Outer",
            "1 end 3000 3 Outer",
            "0 end 2000 4 Return",
            "0 begin 2000 to 100a",
            "0 end 2000 1 Gap",
        ];
        check(&blocks, &[], &expect);
    }

    #[test]
    fn what_is_interrupted_has_arrived() {
        use Class::*;
        let blocks = [(0x1000, 0x1005, 1, Call), (0x2000, 0x2001, 1, Return)];
        let interrupted = |from| Event::Disabled { from: Some(from), to: None };
        check(&blocks, &[interrupted(0x1005)], &["0 begin 2000 to 1005", "0 end 2000 1 Return"]);
        check(&blocks[..1], &[interrupted(0x2000)], &["0 begin 2000 to 1005", "0 end 2000 0 Gap"]);
    }

    #[test]
    fn an_interrupt_is_a_call() {
        let events = [Event::AsyncBranch { from: 0x2000, to: 0x9000 }];
        let expect = ["0 begin 2000 to 1005", "1 begin 9000 to 2000", "1 end 9000 0 Gap", "0 end 2000 0 Gap"];
        check(&[(0x1000, 0x1005, 1, Class::Call)], &events, &expect);
    }

    /// Knows one function.
    struct Knowing(Vec<String>);

    impl CallSink for Knowing {
        fn call(&mut self, call: Call) {
            self.0.push(match call {
                Call::Begin { function, returns_to, .. } => format!("begin {function:x} to {returns_to:x?}"),
                Call::End { function, instructions, by, .. } => {
                    format!("end {function:x} {instructions} {by:?}")
                }
            });
        }

        fn is_function(&self, address: u64) -> bool {
            address == 0x2000
        }
    }

    fn entered(steps: &[Result<(u64, u64, Class), Event>], expect: &[&str]) {
        let mut calls = Calls::new(Knowing(Vec::new()));
        let graph = Graph::new(0);
        for step in steps {
            match *step {
                Ok((start, end, class)) => {
                    calls.block(&Block { start, end, instructions: 1, class, ..Block::default() }, &graph);
                }
                Err(event) => calls.event(0, event),
            }
        }
        assert_eq!(calls.into_sink().0, expect);
    }

    fn enabled(address: u64) -> Result<(u64, u64, Class), Event> {
        Err(Event::Enabled { address, by: Start::Pge })
    }

    #[test]
    fn what_is_entered_from_outside_is_called() {
        use Class::*;
        let outside = |to| Err(Event::Disabled { from: None, to: Some(to) });
        let steps = [
            enabled(0x2000),
            Ok((0x2000, 0x2005, Call)),
            // It calls what is not traced, which returns.
            outside(0x9000),
            enabled(0x2005),
            Ok((0x2005, 0x2006, Return)),
            outside(0x8000),
            // Again, with a call that does not return, but is left.
            enabled(0x2000),
            Ok((0x2000, 0x2005, Call)),
            Ok((0x2100, 0x2101, Return)),
            outside(0x8000),
            // Inside of a function: nothing is known to be called.
            enabled(0x2004),
        ];
        let expect = [
            "begin 2000 to None",
            "begin 9000 to Some(2005)",
            "end 9000 0 Return",
            "end 2000 2 Return",
            "begin 2000 to None",
            "begin 2100 to Some(2005)",
            "end 2100 1 Outer",
            "end 2000 2 Return",
        ];
        entered(&steps, &expect);
    }

    #[test]
    fn handlers_of_signals_are_called() {
        use Class::*;
        let away = |from| Err(Event::Disabled { from, to: None });
        let steps = [
            Ok((0x1000, 0x1004, Sequential)),
            away(Some(0x1004)),
            enabled(0x2000),
            Ok((0x2000, 0x2001, Return)),
            // What it returns to leaves the handler.
            Ok((0x7000, 0x7002, Far)),
            away(None),
            enabled(0x1004),
            // Another one calls the kernel itself.
            away(Some(0x1004)),
            enabled(0x2000),
            Ok((0x2000, 0x2002, Far)),
            away(None),
            enabled(0x1004),
            // The begin of a function is interrupted, which is no call.
            away(Some(0x2000)),
            enabled(0x2000),
        ];
        let expect = [
            "begin 2000 to Some(1004)",
            "end 2000 1 Return",
            "begin 2000 to Some(1004)",
            "end 2000 1 Return",
        ];
        entered(&steps, &expect);
    }

    #[test]
    fn calls_leave_what_is_traced_and_come_back() {
        let left = Event::Disabled { from: None, to: Some(0x1005) };
        let blocks = [(0x1000, 0x1005, 1, Class::Call), (0x2000, 0x2001, 1, Class::Return)];
        check(&blocks, &[left], &["0 begin 2000 to 1005", "0 end 2000 1 Return"]);

        let left = Event::Disabled { from: None, to: Some(0x2000) };
        let back = Event::Enabled { address: 0x1005, by: Start::Pge };
        check(&blocks[..1], &[left, back], &["0 begin 2000 to 1005", "0 end 2000 0 Return"]);
        let call = Event::Disabled { from: None, to: None };
        check(&blocks[..1], &[call, back], &[]);
    }
}
