//! Functions that were called: how often, and for how many instructions.

use crate::code::Code;
use crate::follow::Summary;
use crate::stream::Part;
use mote_pt::flow::calls::{Call, CallSink, Calls, Escape};
use mote_pt::flow::{Event, Gap, Graph, Sink};
use mote_pt::image::Space;
use mote_pt::insn::Block;
use std::collections::{HashMap, VecDeque};

/// What the calls of a function were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// How many have ended.
    pub calls: u64,
    /// Instructions of those, with all that they have called; of calls in calls of the same function, of the outermost
    /// only.
    pub total: u64,
    /// Their own instructions.
    pub own: u64,
    /// How many have not ended.
    pub open: u64,
}

/// The functions of a stream, by their address space and first instruction.
pub type Functions = HashMap<(Space, u64), Function>;

/// A summary of calls: parts of a stream have their own calls, and what escapes from them is done when they are joined.
///
/// # Cost
/// A few nanoseconds a call; of each part, as many entries as it has functions, and as calls reach over its ends.
pub struct CallTable<'c>(State<'c>, Option<&'c Code>);

enum State<'c> {
    Part(Calls<OfPart<'c>>),
    Whole(Calls<Table<'c>>),
}

impl Default for CallTable<'_> {
    /// No calls; functions that are entered from what is not traced are not told from others.
    fn default() -> Self {
        CallTable(State::Whole(Calls::new(Table::default())), None)
    }
}

impl<'c> CallTable<'c> {
    /// No calls, through code that says where functions begin.
    #[must_use]
    pub fn of(code: &'c Code) -> CallTable<'c> {
        CallTable(State::Whole(Calls::new(Table::of(code))), Some(code))
    }

    /// What was counted of each function, after the last block.
    #[must_use]
    pub fn functions(self) -> Functions {
        match self.0 {
            State::Whole(calls) => calls.into_sink().functions,
            State::Part(calls) => calls.into_sink().table.functions,
        }
    }
}

impl Sink for CallTable<'_> {
    const NEEDS_TIME: bool = false;

    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph) {
        match &mut self.0 {
            State::Part(calls) => calls.block(block, graph),
            State::Whole(calls) => calls.block(block, graph),
        }
    }

    fn event(&mut self, offset: u64, event: Event) {
        match &mut self.0 {
            State::Part(calls) => calls.event(offset, event),
            State::Whole(calls) => calls.event(offset, event),
        }
    }

    fn gap(&mut self, gap: Gap) {
        match &mut self.0 {
            State::Part(calls) => calls.gap(gap),
            State::Whole(calls) => calls.gap(gap),
        }
    }

    fn space(&mut self, space: Space) {
        match &mut self.0 {
            State::Part(calls) => calls.space(space),
            State::Whole(calls) => calls.space(space),
        }
    }
}

impl Summary for CallTable<'_> {
    fn begin(&mut self, _: &Part) {
        let table = Table { code: self.1, ..Table::default() };
        self.0 = State::Part(Calls::of_part(OfPart { table, ..OfPart::default() }));
    }

    fn end(&mut self, place: Option<u64>) {
        if let State::Part(calls) = &mut self.0 {
            calls.end_part(place);
        }
    }

    fn append(&mut self, next: Self) {
        let (State::Whole(whole), State::Part(part)) = (&mut self.0, next.0) else { return };
        let base = whole.instructions();
        let OfPart { table, segments, .. } = part.into_sink();
        whole.sink().add(&table.functions);
        for Segment { ended, space, then } in segments {
            whole.sink().add_ended(ended);
            whole.space(space);
            whole.resume(then, base);
        }
    }
}

/// The calls of a flow.
#[derive(Default)]
pub(crate) struct Table<'c> {
    pub(crate) functions: Functions,
    /// Of each call that is under way: the function, and the instructions of the calls in it.
    pub(crate) open: VecDeque<((Space, u64), u64)>,
    pub(crate) space: Space,
    /// What says where functions begin.
    code: Option<&'c Code>,
}

/// Calls of a part that have ended in it, between two escapes, with none of the part around them.
#[derive(Default)]
struct Ended {
    /// Instructions of the outermost calls of each function.
    totals: HashMap<(Space, u64), u64>,
    /// Instructions of the outermost calls of all.
    instructions: u64,
}

impl<'c> Table<'c> {
    /// Of calls through code that says where functions begin.
    pub(crate) fn of(code: &'c Code) -> Table<'c> {
        Table { code: Some(code), ..Table::default() }
    }

    /// A call ends; gives the function, whether it is the outermost of its calls, and whether no other is around it.
    fn end(&mut self, instructions: u64) -> Option<((Space, u64), bool, bool)> {
        let (key, inside) = self.open.pop_back()?;
        let outer = self.open.back_mut().map(|(_, inside)| *inside += instructions);
        let sum = self.functions.entry(key).or_default();
        sum.open = sum.open.saturating_sub(1);
        sum.calls += 1;
        sum.own += instructions.saturating_sub(inside);
        Some((key, sum.open == 0, outer.is_none()))
    }

    /// Forgets the outermost call, which does not end; gives what is known of it.
    fn forget(&mut self) -> Option<((Space, u64), u64)> {
        let outermost = self.open.pop_front()?;
        if let Some(sum) = self.functions.get_mut(&outermost.0) {
            sum.open = sum.open.saturating_sub(1);
        }
        Some(outermost)
    }

    /// Adds calls that have ended, without their totals.
    fn add(&mut self, functions: &Functions) {
        for (key, function) in functions {
            let sum = self.functions.entry(*key).or_default();
            sum.calls += function.calls;
            sum.own += function.own;
        }
    }

    /// Adds the totals of calls around which there may be others here.
    fn add_ended(&mut self, ended: Ended) {
        if let Some((_, inside)) = self.open.back_mut() {
            *inside += ended.instructions;
        }
        for (key, total) in ended.totals {
            let sum = self.functions.entry(key).or_default();
            sum.total += if sum.open == 0 { total } else { 0 };
        }
    }
}

impl CallSink for Table<'_> {
    fn call(&mut self, call: Call) {
        match call {
            Call::Begin { function, depth, .. } => {
                let key = (self.space, function);
                while self.open.len() > depth {
                    self.forget();
                }
                self.open.push_back((key, 0));
                self.functions.entry(key).or_default().open += 1;
            }
            Call::End { instructions, .. } => {
                if let Some((key, is_outermost, _)) = self.end(instructions)
                    && is_outermost
                {
                    self.functions.entry(key).or_default().total += instructions;
                }
            }
        }
    }

    fn space(&mut self, space: Space) {
        self.space = space;
    }

    fn is_function(&self, address: u64) -> bool {
        self.code.is_some_and(|code| code.is_function(self.space, address))
    }
}

/// The calls of a part.
#[derive(Default)]
struct OfPart<'c> {
    /// Totals are in the segments.
    table: Table<'c>,
    now: Ended,
    segments: Vec<Segment>,
}

/// Calls that have ended, and what has escaped behind them.
struct Segment {
    ended: Ended,
    space: Space,
    then: Escape,
}

impl CallSink for OfPart<'_> {
    fn call(&mut self, call: Call) {
        match call {
            Call::Begin { .. } => self.table.call(call),
            Call::End { instructions, .. } => {
                let Some((key, is_outermost, is_alone)) = self.table.end(instructions) else { return };
                if is_outermost {
                    *self.now.totals.entry(key).or_default() += instructions;
                }
                if is_alone {
                    self.now.instructions += instructions;
                }
            }
        }
    }

    fn escape(&mut self, then: Escape) {
        // Calls escape from the outermost inwards, all at once; what is in one of them comes behind its begin.
        let begun = if matches!(then, Escape::Begin { .. }) { self.table.forget() } else { None };
        let ((space, _), instructions) = begun.unwrap_or(((self.table.space, 0), 0));
        let next = Ended { instructions, ..Ended::default() };
        self.segments.push(Segment { ended: std::mem::replace(&mut self.now, next), space, then });
    }

    fn space(&mut self, space: Space) {
        self.table.space(space);
    }

    fn is_function(&self, address: u64) -> bool {
        self.table.is_function(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf;
    use crate::files::Files;
    use crate::note::{Image, Note, What};
    use mote_pt::errata::Errata;
    use mote_pt::flow::{Cause, Start};
    use mote_pt::insn::Class;
    use std::path::Path;

    /// Something that a flow says.
    #[derive(Clone, Copy)]
    enum Said {
        Block(Block),
        Event(Event),
        Gap,
    }

    /// A flow that is as wild as flows may be: calls, returns to anywhere, loss, tracing that ends and begins.
    fn flow(seed: u64) -> Vec<Said> {
        let mut state = seed | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        let gaps = if seed.is_multiple_of(3) { 200 } else { 1_000_000 };
        let mut stack = Vec::new();
        let mut at = 0x1000;
        let mut said = Vec::new();
        for _ in 0..3000 {
            let mut block = |class, end, random: &mut dyn FnMut(u64) -> u64| {
                let instructions = 1 + random(9) as u32;
                let mut block = Block::default();
                (block.start, block.end) = (at, end);
                (block.instructions, block.class) = (instructions, class);
                said.push(Said::Block(block));
            };
            let end = at + 0x10;
            match random(gaps) {
                0..=40 if !stack.is_empty() => {
                    block(Class::Return, end, &mut random);
                    // Mostly to the caller, sometimes to one further out, or to nobody.
                    let out = if random(10) == 0 { random(stack.len() as u64) as usize } else { 0 };
                    stack.truncate(stack.len() - out);
                    at = stack.pop().unwrap_or(7);
                    at = if random(30) == 0 { 0x99_0000 } else { at };
                }
                41 => {
                    said.push(Said::Gap);
                    at = 0x1000 * (1 + random(20));
                }
                42 => said.push(Said::Event(Event::Overflow)),
                43..=45 => {
                    said.push(Said::Event(Event::Disabled { from: None, to: Some(0x77_0000) }));
                    let back = match random(3) {
                        0 => stack.last().copied().unwrap_or(at),
                        1 => 0x1000 * (1 + random(20)),
                        _ => at,
                    };
                    said.push(Said::Event(Event::Enabled { address: back, by: Start::Pge }));
                    at = back;
                }
                // A system call or an interrupt; perhaps a signal is handled then.
                101..=104 => {
                    let from = Some(at).filter(|_| random(2) == 0);
                    said.push(Said::Event(Event::Disabled { from, to: None }));
                    let to = if random(2) == 0 { at } else { 0x1000 * (1 + random(20)) };
                    said.push(Said::Event(Event::Enabled { address: to, by: Start::Pge }));
                    at = to;
                }
                46..=47 => {
                    let to = 0x1000 * (1 + random(20));
                    said.push(Said::Event(Event::AsyncBranch { from: at, to }));
                    stack.push(at);
                    at = to;
                }
                _ if random(3) == 0 => {
                    block(Class::Call, end, &mut random);
                    stack.push(end);
                    at = 0x1000 * (1 + random(20));
                }
                48..=100 if !stack.is_empty() => {
                    block(Class::Return, end, &mut random);
                    at = stack.pop().unwrap_or(7);
                }
                _ => {
                    block(Class::Conditional, end, &mut random);
                    at = end;
                }
            }
        }
        said
    }

    /// Code whose functions begin at each 0x1000.
    fn code() -> Code {
        let text = vec![0x90; 0x16000];
        let functions: Vec<(u64, String)> =
            (1..=20).map(|page| (0x1000 * page, format!("f{page}"))).collect();
        let names: Vec<(u64, &str)> = functions.iter().map(|(at, name)| (*at, name.as_str())).collect();
        let files = Files::default();
        files.add(Path::new("app"), elf::file(62, &[(0x1000, &text)], &names));
        let offset = elf::places(&[text.len()])[0];
        let image =
            Image { start: 0x1000, bytes: text.len() as u64, path: "app".into(), offset, build_id: None };
        let what = What::Image(image);
        Code::of([Note { pid: 7, tid: 7, cpu: None, instructions: None, time: None, what }].iter(), 7, &files)
    }

    fn tell(table: &mut CallTable, said: &[Said]) {
        let graph = Graph::new(0);
        for said in said {
            match said {
                Said::Block(block) => table.block(block, &graph),
                Said::Event(event) => table.event(0, *event),
                Said::Gap => table.gap(Gap { offset: 0, cause: Cause::Damage, is_guest: false }),
            }
        }
    }

    /// The functions, of a whole or joined of parts that end where `is_end` says so. Parts end between two blocks only,
    /// or where tracing is off.
    fn functions(code: &Code, said: &[Said], is_end: impl Fn(usize) -> bool) -> Functions {
        let mut whole = CallTable::of(code);
        let mut begin = 0;
        let part = Part {
            index: 0,
            offset: 0,
            bytes: Vec::new(),
            own: 0,
            is_new: false,
            errata: Errata::default(),
            cut_off: 0,
        };
        for at in 1..=said.len() {
            let place = match (said[at - 1], said.get(at)) {
                (_, None) | (Said::Event(Event::Disabled { .. }), _) => None,
                (Said::Block(_), Some(Said::Block(next))) => Some(next.start),
                _ => continue,
            };
            if at == said.len() || is_end(at) {
                let mut next = CallTable::of(code);
                next.begin(&part);
                tell(&mut next, &said[begin..at]);
                next.end(place);
                whole.append(next);
                begin = at;
            }
        }
        whole.functions()
    }

    #[test]
    fn calls_of_parts_are_those_of_the_whole() {
        let code = code();
        assert!(code.is_function(Space(0), 0x2000) && !code.is_function(Space(0), 0x2010));
        for seed in 1..200 {
            let said = flow(seed * 0x9e37_79b9);
            let mut whole = CallTable::of(&code);
            tell(&mut whole, &said);
            let whole = whole.functions();
            assert!(whole.values().map(|function| function.calls).sum::<u64>() > 100);
            for every in [1, 7, 100, 1000] {
                let joined = functions(&code, &said, |at| at.is_multiple_of(every));
                assert!(joined == whole, "seed {seed}, parts of {every}: {joined:?} is not {whole:?}");
            }
        }
    }
}
