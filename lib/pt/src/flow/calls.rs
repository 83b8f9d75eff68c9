//! Calls and returns, from blocks: which function calls which, how deep, and for how many instructions.
//!
//! A return belongs to the youngest call whose next instruction it leads to. Calls above that one have ended without a
//! return (`longjmp`, exceptions of languages), and a return that belongs to no call ends none: code that returns to
//! something else than its caller (retpolines, coroutines) keeps the calls around it. An interrupt is a call, too: it
//! ends where the code that it has interrupted goes on.

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
        /// The instruction that it returns to.
        returns_to: u64,
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
        /// The instruction that it returns to.
        returns_to: u64,
        /// How many instructions the part had before it.
        at: u64,
    },
    /// A return that belongs to no call of the part.
    Return {
        /// Where it leads to.
        address: u64,
        /// How many instructions the part had before.
        at: u64,
    },
    /// Tracing begins, where the part began while it was off.
    Enabled {
        /// The first instruction.
        address: u64,
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
        /// Whether code is executed then that is not traced; nothing if that is as it was before the part.
        is_outside: Option<bool>,
    },
}

/// A receiver of calls.
pub trait CallSink {
    /// A call begins or ends.
    fn call(&mut self, call: Call);

    /// Code is of another address space from here on, as [`Sink::space`] says.
    fn space(&mut self, space: Space) {
        let _ = space;
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
    /// Code is executed that is not traced, where a branch has led to; nothing if that is not known.
    is_outside: Option<bool>,
    instructions: u64,
    /// Calls before the first instruction are not known.
    is_part: bool,
}

/// A call that has not ended.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: u64,
    returns_to: u64,
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
        let (branch, is_outside) = (Branch::Other, Some(false));
        Calls { sink, open: Vec::new(), branch, is_outside, instructions: 0, is_part: false }
    }

    /// Calls of a part of a flow that has others before it: what depends on these is given to `sink` as an [`Escape`],
    /// and comes to its right by [`Calls::resume`] of the whole.
    pub fn of_part(sink: S) -> Self {
        Calls { is_outside: None, is_part: true, ..Calls::new(sink) }
    }

    /// The part has ended, and leads on to `place` if that is known.
    pub fn end_part(&mut self, place: Option<u64>) {
        place.iter().for_each(|place| self.arrive(*place));
        self.spill();
        self.sink.escape(Escape::End { at: self.instructions, is_outside: self.is_outside });
    }

    /// Does what has escaped from a part whose first instruction is number `base` of this flow.
    pub fn resume(&mut self, escape: Escape, base: u64) {
        match escape {
            Escape::Begin { function, returns_to, at } => {
                self.instructions = base + at;
                self.begin(function, returns_to);
            }
            Escape::Return { address, at } => {
                self.instructions = base + at;
                self.end(address);
            }
            Escape::Enabled { address } => {
                self.instructions = base;
                self.enable(address);
            }
            Escape::Cut { at } => {
                self.instructions = base + at;
                self.cut();
            }
            Escape::End { at, is_outside } => {
                self.instructions = base + at;
                self.is_outside = is_outside.or(self.is_outside);
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
        match std::mem::replace(&mut self.branch, Branch::Other) {
            Branch::Other => {}
            Branch::Call { returns_to } => self.begin(address, returns_to),
            Branch::Return => self.end(address),
        }
    }

    fn begin(&mut self, function: u64, returns_to: u64) {
        if self.open.len() == DEPTH_MAX {
            self.open.drain(..DEPTH_MAX / 2);
        }
        let depth = self.open.len();
        self.open.push(Frame { function, returns_to, begin: self.instructions });
        self.sink.call(Call::Begin { function, returns_to, depth });
    }

    fn end(&mut self, address: u64) {
        let mut youngest = self.open.iter().rev().take(SEARCH_MAX);
        let Some(above) = youngest.position(|frame| frame.returns_to == address) else {
            if self.is_part && self.open.len() < SEARCH_MAX {
                self.spill();
                self.sink.escape(Escape::Return { address, at: self.instructions });
            }
            return;
        };
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

    /// Tracing begins again. It may have returned from where it was.
    fn enable(&mut self, address: u64) {
        match self.is_outside.replace(false) {
            Some(true) => self.end(address),
            Some(false) => {}
            None => self.sink.escape(Escape::Enabled { address }),
        }
    }

    /// Calls are ended from outside, if at all.
    fn spill(&mut self) {
        for Frame { function, returns_to, begin } in self.open.drain(..) {
            self.sink.escape(Escape::Begin { function, returns_to, at: begin });
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
                self.begin(to, from);
            }
            Event::Disabled { from, to } => {
                from.into_iter().for_each(|from| self.arrive(from));
                // A system call that is not traced goes on behind it: it is no call here.
                self.is_outside = Some(to.is_some());
                if let Some(to) = to {
                    self.arrive(to);
                }
                self.branch = Branch::Other;
            }
            Event::Enabled { address, by: Start::Pge } => self.enable(address),
            Event::Overflow => self.cut(),
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
                    format!("{depth} begin {function:x} to {returns_to:x}")
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
        calls.gap(Gap { offset: 0, cause: Cause::Damage });
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
