//! Which way functions were called: stacks of the threads, from what was executed.
//!
//! It knows more than `mote_pt::flow::calls`, because it knows names: a jump to the first instruction of another
//! function is a call of that one in the place of the one that jumps, through retpolines, too; a system call is a call
//! of the kernel, which ends where the program goes on; a signal's handler is a call where the program was interrupted;
//! each thread of a processor has a stack.

use super::functions::{FunctionId, Functions, Place, Places};
use crate::program::{Program, is_kernel};
use crate::running::Running;
use mote_pt::flow::{Event, Gap, Graph, Start};
use mote_pt::image::Space;
use mote_pt::insn::{Block, Class, LEN_MAX};
use mote_pt::time::{Moment, Span, TimedSink};
use rustc_hash::FxHashMap;

/// Most calls that are known at once; beyond, the older half is forgotten.
const DEPTH_MAX: usize = 1 << 14;
/// How far below the youngest a call is looked for that a return belongs to.
const SEARCH_MAX: usize = 64;

/// How a function was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By a call.
    Call,
    /// By a system call.
    SystemCall,
    /// By an interrupt or exception.
    Interrupt,
    /// By the kernel, as a signal's handler.
    Signal,
}

/// Whoever wants to know which way functions were called.
pub trait PathSink {
    /// What stands for a path.
    type Node: Copy;

    /// A function, whose callers are not known.
    fn outermost(&mut self, function: FunctionId) -> Self::Node;

    /// A function is entered.
    fn enter(&mut self, from: Self::Node, function: FunctionId, how: How, when: Span) -> Self::Node;

    /// A function goes on as another one, which has the same caller.
    fn become_another(&mut self, old: Self::Node, function: FunctionId) -> Self::Node;

    /// So many instructions were executed at the end of a path, from then to then.
    fn spend(&mut self, node: Self::Node, instructions: u64, from: Span, to: Span);

    /// A function that was entered has ended. `functions` are those of the paths.
    fn leave(&mut self, node: Self::Node, how: How, when: Span, functions: &mut Functions);

    /// Code is missing: no path that was under way is known any more.
    fn cut(&mut self);

    /// A system call was made, and what the kernel did is not traced.
    fn untraced_call(&mut self) {}

    /// This thread runs from here on, as far as that is known.
    fn switch(&mut self, tid: Option<i32>) {
        let _ = tid;
    }
}

/// A call that has not ended.
#[derive(Clone, Copy, Debug)]
struct Frame<N> {
    function: FunctionId,
    returns_to: u64,
    how: How,
    is_kernel: bool,
    node: N,
}

/// What the last block's branch was, until it is known where it has led to.
#[derive(Clone, Copy, Debug)]
enum Branch {
    /// None that matters.
    Other,
    /// Nothing is known of what was before.
    Begin,
    Call {
        returns_to: u64,
    },
    Return,
    Jump,
    /// A far one; of a system call, where it returns to.
    Far(Option<u64>),
}

/// A sink for what a stream executes, which follows the stacks of its threads.
#[derive(Debug)]
pub struct Walker<'p, P, S: PathSink> {
    places: Places<'p, P>,
    sink: S,
    frames: Vec<Frame<S::Node>>,
    /// Stacks of threads that do not run.
    waiting: FxHashMap<i32, Vec<Frame<S::Node>>>,
    running: Running,
    tid: Option<i32>,
    /// The function outside of all frames.
    base: Option<(FunctionId, S::Node)>,
    branch: Branch,
    /// When the last branch was.
    when: Span,
    /// Since when the path is the same, and instructions since.
    since: Span,
    pending: u64,
    instructions: u64,
    /// Tracing has ended; and where it would go on by itself.
    expected: Option<u64>,
}

impl<'p, P: Program, S: PathSink> Walker<'p, P, S> {
    /// For a stream whose code is `program`; `functions` may have names already.
    pub fn new(program: &'p P, functions: Functions, mut running: Running, mut sink: S) -> Walker<'p, P, S> {
        let tid = running.at(0, Span::UNKNOWN);
        sink.switch(tid);
        Walker {
            places: Places::new(program, functions),
            sink,
            frames: Vec::new(),
            waiting: FxHashMap::default(),
            running,
            tid,
            base: None,
            branch: Branch::Begin,
            when: Span::UNKNOWN,
            since: Span::UNKNOWN,
            pending: 0,
            instructions: 0,
            expected: None,
        }
    }

    /// How many instructions were executed.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The functions that are under way, the outermost first.
    pub fn stack(&self) -> impl Iterator<Item = FunctionId> {
        let base = self.base.map(|(function, _)| function);
        base.into_iter().chain(self.frames.iter().map(|frame| frame.function))
    }

    /// The names, and where paths were given to.
    #[must_use]
    pub fn finish(mut self) -> (Functions, S) {
        let when = self.when;
        self.flush(when);
        (self.places.functions, self.sink)
    }

    fn node(&self) -> Option<S::Node> {
        self.frames.last().map(|frame| frame.node).or(self.base.map(|(_, node)| node))
    }

    /// The function that is executed.
    fn function(&self) -> Option<FunctionId> {
        self.frames.last().map(|frame| frame.function).or(self.base.map(|(function, _)| function))
    }

    /// What was executed since the path has changed counts for it.
    fn flush(&mut self, now: Span) {
        if let Some(node) = self.node().filter(|_| self.pending > 0) {
            self.sink.spend(node, self.pending, self.since, now);
        }
        self.pending = 0;
        self.since = now;
    }

    fn push(&mut self, place: Place, address: u64, returns_to: u64, how: How) {
        let from = match self.node() {
            Some(node) => node,
            // Called by what is not known.
            None => self.set_base(place.function),
        };
        if self.frames.len() == DEPTH_MAX {
            self.frames.drain(..DEPTH_MAX / 2);
        }
        let node = self.sink.enter(from, place.function, how, self.since);
        let is_kernel = is_kernel(address);
        self.frames.push(Frame { function: place.function, returns_to, how, is_kernel, node });
    }

    fn pop(&mut self) -> Option<Frame<S::Node>> {
        let frame = self.frames.pop()?;
        self.sink.leave(frame.node, frame.how, self.since, &mut self.places.functions);
        Some(frame)
    }

    fn set_base(&mut self, function: FunctionId) -> S::Node {
        let node = self.sink.outermost(function);
        self.base = Some((function, node));
        node
    }

    /// Outside of all frames: it is this function.
    fn rebase(&mut self, place: Place) {
        if self.frames.is_empty() && self.base.is_none_or(|(function, _)| function != place.function) {
            self.flush(self.when);
            self.set_base(place.function);
        }
    }

    /// The branch has led to an address.
    fn arrive(&mut self, branch: Branch, address: u64, place: Place) {
        match branch {
            Branch::Other => {}
            Branch::Begin => self.rebase(place),
            Branch::Call { returns_to } => {
                self.flush(self.when);
                self.push(place, address, returns_to, How::Call);
            }
            Branch::Return => self.come_back(address, place),
            Branch::Jump => self.jump(place),
            Branch::Far(Some(returns_to)) if is_kernel(address) => {
                self.flush(self.when);
                self.push(place, address, returns_to, How::SystemCall);
            }
            Branch::Far(_) if is_kernel(address) => self.come_back(address, place),
            Branch::Far(_) => self.leave_kernel(address, place),
        }
    }

    /// A return has led to an address.
    fn come_back(&mut self, address: u64, place: Place) {
        let mut inwards = self.frames.iter().rev().take(SEARCH_MAX);
        if let Some(above) = inwards.position(|frame| frame.returns_to == address) {
            self.flush(self.when);
            for _ in 0..=above {
                self.pop();
            }
        } else if place.is_entry && self.is_in_thunk() {
            // The thunk has called itself, and returns to what it was to jump to.
            self.flush(self.when);
            self.pop();
            self.replace(place);
        }
        self.rebase(place);
    }

    /// Whether the caller of what is executed is a retpoline.
    fn is_in_thunk(&self) -> bool {
        let caller = self.frames.len().checked_sub(2).and_then(|at| self.frames.get(at));
        caller.is_some_and(|frame| {
            let name = &self.places.functions.get(frame.function).name;
            name.starts_with("__x86_indirect_") || name.starts_with("__llvm_retpoline_")
        })
    }

    /// A jump has led somewhere.
    fn jump(&mut self, place: Place) {
        if place.is_entry && self.function() != Some(place.function) && !self.frames.is_empty() {
            self.flush(self.when);
            self.replace(place);
        }
        self.rebase(place);
    }

    /// The youngest function goes on as another one.
    fn replace(&mut self, place: Place) {
        if let Some(frame) = self.frames.last_mut() {
            frame.function = place.function;
            frame.node = self.sink.become_another(frame.node, place.function);
        }
    }

    /// The kernel goes back to the program.
    fn leave_kernel(&mut self, address: u64, place: Place) {
        self.flush(self.when);
        let mut expected = None;
        while self.frames.last().is_some_and(|frame| frame.is_kernel) {
            expected = self.pop().map(|frame| frame.returns_to).or(expected);
        }
        self.go_on(expected, address, place);
    }

    /// The program goes on at an address, where another one was expected perhaps.
    fn go_on(&mut self, expected: Option<u64>, address: u64, place: Place) {
        if self.places.functions.get(place.function).name == "_start" && place.is_entry {
            // Another program.
            while self.pop().is_some() {}
            self.base = None;
        } else if self
            .frames
            .last()
            .is_some_and(|frame| frame.how == How::Signal && frame.returns_to == address)
        {
            self.pop();
        } else if let Some(returns_to) = expected.filter(|expected| *expected != address && place.is_entry) {
            self.push(place, address, returns_to, How::Signal);
        }
        self.rebase(place);
    }

    /// Another thread runs from here on.
    fn switch(&mut self, tid: Option<i32>, now: Span) {
        self.flush(now);
        if let Some(old) = self.tid {
            self.waiting.insert(old, std::mem::take(&mut self.frames));
        }
        self.frames = tid.and_then(|tid| self.waiting.remove(&tid)).unwrap_or_default();
        self.tid = tid;
        self.base = None;
        self.sink.switch(tid);
    }

    fn cut(&mut self) {
        self.flush(self.when);
        self.frames.clear();
        self.waiting.clear();
        self.base = None;
        self.branch = Branch::Begin;
        self.expected = None;
        self.sink.cut();
    }

    /// Of a block's far branch: where a system call returns to, if it is one.
    fn system_call(&self, block: &Block, graph: &Graph) -> Option<u64> {
        let length = graph.lengths(block).last().copied().unwrap_or(0);
        let mut bytes = [0; LEN_MAX];
        let count =
            self.places.program.copy(self.places.space(), block.end.wrapping_sub(length.into()), &mut bytes);
        // SYSCALL and SYSENTER.
        let is_one = count >= 2 && matches!(bytes, [0x0f, 0x05 | 0x34, ..]);
        is_one.then_some(block.end)
    }

    /// Whether there is an `int 0x80`.
    fn is_int_0x80(&self, address: u64) -> bool {
        let mut bytes = [0; LEN_MAX];
        self.places.program.copy(self.places.space(), address, &mut bytes) >= 2
            && matches!(bytes, [0xcd, 0x80, ..])
    }

    fn interrupt(&mut self, from: u64, to: u64, now: Span) {
        let branch = std::mem::replace(&mut self.branch, Branch::Other);
        let place = self.places.at(from);
        self.arrive(branch, from, place);
        self.when = now;
        self.flush(now);
        let how = if !is_kernel(from) && self.is_int_0x80(from) { How::SystemCall } else { How::Interrupt };
        // It returns behind a software interrupt, and else to what it has interrupted.
        let returns_to = if how == How::SystemCall { from.wrapping_add(2) } else { from };
        let place = self.places.at(to);
        self.push(place, to, returns_to, how);
    }

    fn disable(&mut self, from: Option<u64>) {
        self.expected = match self.branch {
            Branch::Far(Some(returns_to)) => {
                self.sink.untraced_call();
                Some(returns_to)
            }
            Branch::Call { returns_to } => Some(returns_to),
            _ => from,
        };
        self.branch = Branch::Other;
    }

    fn enable(&mut self, address: u64, now: Span) {
        self.when = now;
        let place = self.places.at(address);
        match self.expected.take() {
            Some(expected) => self.go_on(Some(expected), address, place),
            None => self.come_back(address, place),
        }
    }
}

impl<P: Program, S: PathSink> TimedSink for Walker<'_, P, S> {
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        if self.instructions >= self.running.next_number() {
            let tid = self.running.at(self.instructions, moment.span());
            self.switch(tid, moment.span());
        }
        let branch = std::mem::replace(&mut self.branch, Branch::Other);
        if !matches!(branch, Branch::Other) || self.node().is_none() {
            let place = self.places.of_block(block, graph);
            self.arrive(branch, block.start, place);
            self.rebase(place);
        }
        self.pending += u64::from(block.instructions);
        self.instructions += u64::from(block.instructions);
        self.branch = match block.class {
            Class::Call | Class::IndirectCall => Branch::Call { returns_to: block.end },
            Class::Return => Branch::Return,
            Class::Jump | Class::IndirectJump => Branch::Jump,
            Class::Far => Branch::Far(self.system_call(block, graph)),
            _ => return,
        };
        self.when = moment.last();
    }

    fn event(&mut self, _: u64, event: Event, moment: &Moment) {
        match event {
            Event::AsyncBranch { from, to } => self.interrupt(from, to, moment.span()),
            Event::Disabled { from, .. } => self.disable(from),
            Event::Enabled { address, by: Start::Pge } => self.enable(address, moment.span()),
            Event::Overflow | Event::Cut => self.cut(),
            Event::Packet { .. } if self.running.is_by_time() => {
                let tid = self.running.at(self.instructions, moment.span());
                if tid != self.tid {
                    self.switch(tid, moment.span());
                }
            }
            _ => {}
        }
    }

    fn gap(&mut self, _: Gap, _: &Moment) {
        self.cut();
    }

    fn space(&mut self, space: Space) {
        self.places.set_space(space);
    }
}
