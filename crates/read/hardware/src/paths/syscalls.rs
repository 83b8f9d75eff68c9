//! System calls from inside: the paths of each, from its entry to its return.

use super::functions::{FunctionId, Functions, Named};
use super::tree::{ROOT, Tree};
use super::walker::{How, PathSink};
use mote_analysis::Histogram;
use mote_pt::time::{Nanoseconds, Span};
use std::collections::BTreeMap;

/// How names of the kernel's functions begin that are system calls (Linux, `arch/x86/include/asm/syscall_wrapper.h`).
const PREFIXES: [&str; 6] =
    ["__x64_sys_", "__ia32_sys_", "__x64_compat_sys_", "__ia32_compat_sys_", "__se_sys_", "__do_sys_"];
/// A system call whose function is not known, or has another name.
const UNKNOWN: &str = "[unknown]";
/// Paths of a call that are looked through for its name.
const NAMED_WITHIN: usize = 64;

/// The calls of one name.
#[derive(Clone, Debug, Default)]
pub struct Syscall {
    /// Instructions of each that has returned, from the entry to the return, with those of interrupts between.
    pub instructions: Histogram,
    /// How many nanoseconds each took at least, where that is known; of those that wait, with the time in which others
    /// run.
    pub least_ns: Histogram,
    /// How many at most.
    pub most_ns: Histogram,
}

/// All system calls of streams, that have returned.
#[derive(Clone, Debug, Default)]
pub struct Syscalls {
    /// Paths: those of a system call begin with its name.
    pub tree: Tree,
    /// By name.
    pub calls: BTreeMap<String, Syscall>,
    /// Calls that have not returned: code is missing, or the capture ends.
    pub open: u64,
    /// Calls of which nothing in the kernel was traced.
    pub untraced: u64,
    /// Those that are under way, of all threads.
    slots: Vec<Option<Slot>>,
    clock: Option<Nanoseconds>,
}

/// A call that is under way.
#[derive(Clone, Debug)]
struct Slot {
    begin: Span,
    tree: Tree,
}

/// A path in a call that is under way.
#[derive(Clone, Copy, Debug)]
pub struct InCall {
    slot: usize,
    node: u32,
}

impl Syscalls {
    /// Another stream comes, whose time stamp counter means this; whatever was under way does not end any more.
    pub fn next_stream(&mut self, clock: Option<Nanoseconds>) {
        self.cut();
        self.clock = clock;
    }

    fn begin(&mut self, function: FunctionId, when: Span) -> InCall {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        let mut tree = Tree::default();
        let node = tree.call(ROOT, function);
        self.slots[slot] = Some(Slot { begin: when, tree });
        InCall { slot, node }
    }

    fn end(&mut self, slot: usize, when: Span, functions: &mut Functions) {
        let Some(Slot { begin, tree }) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        let name = name(&tree, functions);
        let ns = self.clock.map_or(Span::UNKNOWN, |clock| clock.duration(when.since(begin)));
        let sums = self.calls.entry(name.clone()).or_default();
        sums.instructions.add(tree.total());
        ns.low.iter().for_each(|ns| sums.least_ns.add(*ns));
        ns.high.iter().for_each(|ns| sums.most_ns.add(*ns));
        let function = functions.number(&Named { name, is_kernel: false });
        let node = self.tree.call(ROOT, function);
        self.tree.merge(node, &tree, |function| function);
    }

    fn tree(&mut self, slot: usize) -> Option<&mut Tree> {
        self.slots.get_mut(slot)?.as_mut().map(|slot| &mut slot.tree)
    }

    fn counted(&mut self, slot: usize, parent: u32, function: FunctionId) -> Option<InCall> {
        let node = self.tree(slot)?.call(parent, function);
        Some(InCall { slot, node })
    }
}

/// What a call is, by the functions that it went through.
fn name(tree: &Tree, functions: &Functions) -> String {
    let bare = |name: &str| PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned);
    let nodes = tree.nodes().iter().skip(1).take(NAMED_WITHIN);
    let found = nodes.map(|node| functions.get(node.function)).find_map(|named| bare(&named.name));
    found.unwrap_or_else(|| UNKNOWN.to_owned())
}

impl PathSink for Syscalls {
    type Node = Option<InCall>;

    fn outermost(&mut self, _: FunctionId) -> Option<InCall> {
        None
    }

    fn enter(&mut self, from: Option<InCall>, function: FunctionId, how: How, when: Span) -> Option<InCall> {
        match (from, how) {
            (Some(InCall { slot, node }), _) => self.counted(slot, node, function),
            (None, How::SystemCall) => Some(self.begin(function, when)),
            (None, _) => None,
        }
    }

    fn become_another(&mut self, old: Option<InCall>, function: FunctionId) -> Option<InCall> {
        let InCall { slot, node } = old?;
        let parent = self.tree(slot)?.parent(node);
        self.counted(slot, parent, function)
    }

    fn spend(&mut self, node: Option<InCall>, instructions: u64, from: Span, to: Span) {
        let Some(InCall { slot, node }) = node else { return };
        self.tree(slot).into_iter().for_each(|tree| tree.spend(node, instructions, from, to));
    }

    fn leave(&mut self, node: Option<InCall>, how: How, when: Span, functions: &mut Functions) {
        if let (Some(InCall { slot, .. }), How::SystemCall) = (node, how) {
            self.end(slot, when, functions);
        }
    }

    fn cut(&mut self) {
        self.open += self.slots.drain(..).flatten().count() as u64;
    }

    fn untraced_call(&mut self) {
        self.untraced += 1;
    }
}
