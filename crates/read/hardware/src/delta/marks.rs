//! Which instructions of code are steps of patterns: found once for each decoded block, and kept beside it.

use super::operands::{Place, may_pass, may_pass_prefix, passes};
use super::pattern::{Pattern, STEPS_MAX, Step, What, lower};
use crate::program::{Function, Program, is_kernel};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use mote_pattern::similar;
use mote_pt::flow::Graph;
use mote_pt::image::Space;
use mote_pt::insn::{Block, Class, Kind, LEN_MAX, Mode};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// Most functions whose names are kept for who has misspelt one.
const FUNCTIONS_MAX: usize = 1 << 16;

/// The instructions that interrupts depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switching {
    Cli,
    Sti,
    Pushf,
    Popf,
    Iret,
    Syscall,
    Sysret,
}

impl Switching {
    fn of(mnemonic: Mnemonic) -> Option<Switching> {
        match mnemonic {
            Mnemonic::Cli => Some(Switching::Cli),
            Mnemonic::Sti => Some(Switching::Sti),
            Mnemonic::Pushf | Mnemonic::Pushfd | Mnemonic::Pushfq => Some(Switching::Pushf),
            Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => Some(Switching::Popf),
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Some(Switching::Iret),
            Mnemonic::Syscall | Mnemonic::Sysenter => Some(Switching::Syscall),
            Mnemonic::Sysret | Mnemonic::Sysretq | Mnemonic::Sysexit | Mnemonic::Sysexitq => {
                Some(Switching::Sysret)
            }
            _ => None,
        }
    }
}

/// An instruction that is a step, or that interrupts depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Which one of its block.
    pub(super) index: u32,
    pub(super) address: u64,
    /// Bits of steps, in the order of the patterns and their sequences.
    pub(super) steps: [u64; 2],
    /// The same of those that do not count while interrupts are known to stay disabled.
    pub(super) conditional: [u64; 2],
    pub(super) switching: Option<Switching>,
}

/// What an instruction of a mnemonic may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Candidate {
    /// Bits of steps.
    steps: [u64; 2],
    switching: Option<Switching>,
}

impl Candidate {
    fn is_none(&self) -> bool {
        self.steps == [0, 0] && self.switching.is_none()
    }
}

/// The instructions of a block that matter.
#[derive(Debug, Default)]
struct Marked {
    /// So many instructions of it were looked at.
    checked: u32,
    marks: Vec<Mark>,
}

/// The marks of all code that was met.
///
/// # Cost
/// An executed block without marks costs one load: of a bit for each decoded instruction.
#[derive(Debug)]
pub(super) struct Marks<'p, P> {
    program: &'p P,
    /// The steps of each pattern.
    steps: [Vec<&'p Step>; 2],
    /// What an instruction may be, by the number of its mnemonic.
    candidates: Vec<Candidate>,
    /// Bits of steps that an instruction may be, by whether it has the prefixes LOCK and REP.
    by_prefix: [[[u64; 2]; 2]; 2],
    /// Bits of steps that only the first instruction of a function is.
    entries: [u64; 2],
    /// Functions that were met, by where they begin.
    functions: BTreeMap<(Space, u64), Rc<Function>>,
    /// The last one, which the next instruction is mostly of.
    last: Option<(Space, u64, Rc<Function>)>,
    /// Where the last instructions were that no function is known of.
    nameless: (Space, Range<u64>),
    /// Names of functions are asked for.
    needs_functions: bool,
    /// By the number of a block: a bit if the whole of it is known to have no marks. All that is executed again and
    /// again is in the processor's cache so.
    plain: Vec<u64>,
    marked: FxHashMap<u32, Marked>,
    generation: u32,
    space: Space,
    seen: Seen,
}

/// What was met, for who looks for something else.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// By the number of the mnemonic.
    mnemonics: Vec<bool>,
    functions: BTreeSet<String>,
    /// Code in the upper half of all addresses: the kernel's.
    has_kernel: bool,
    /// Steps that an instruction was.
    steps: [u64; 2],
}

impl<'p, P: Program> Marks<'p, P> {
    /// Of one pattern or two.
    pub(super) fn new(program: &'p P, patterns: [Option<&'p Pattern>; 2]) -> Marks<'p, P> {
        let tests = || patterns.iter().flatten().flat_map(|pattern| pattern.tests());
        let steps = |pattern: Option<&'p Pattern>| {
            pattern.iter().flat_map(|pattern| &pattern.sequences).flatten().collect::<Vec<&Step>>()
        };
        let steps = patterns.map(steps);
        let needs_interrupts = tests().any(|test| test.enables);
        let candidate = |mnemonic| Candidate {
            steps: bits(&steps, |step| step.tests.iter().any(|test| may_pass(test, mnemonic))),
            switching: Switching::of(mnemonic).filter(|_| needs_interrupts),
        };
        let of_prefix =
            |lock, rep| bits(&steps, |step| step.tests.iter().any(|test| may_pass_prefix(test, lock, rep)));
        Marks {
            program,
            candidates: Mnemonic::values().map(candidate).collect(),
            by_prefix: [false, true].map(|lock| [false, true].map(|rep| of_prefix(lock, rep))),
            entries: bits(&steps, |step| step.tests.iter().all(|test| test.what == What::Entry)),
            functions: BTreeMap::new(),
            last: None,
            nameless: (Space::ANY, 0..0),
            steps,
            needs_functions: tests().any(|test| test.function.is_some()),
            plain: Vec::new(),
            marked: FxHashMap::default(),
            generation: 0,
            space: Space::ANY,
            seen: Seen::default(),
        }
    }

    /// Code is of another address space from here on.
    pub(super) fn set_space(&mut self, space: Space) {
        self.space = space;
    }

    pub(super) fn program(&self) -> &'p P {
        self.program
    }

    /// What was met.
    pub(super) fn into_seen(self) -> Seen {
        let Marks { functions, mut seen, .. } = self;
        functions.values().for_each(|function| seen.met_function(&function.name));
        seen
    }

    pub(super) fn space(&self) -> Space {
        self.space
    }

    /// Whether none of a block's instructions matters, as far as is known.
    #[inline]
    pub(super) fn is_plain(&self, block: &Block, graph: &Graph) -> bool {
        let number = block.number() as usize;
        let bits = self.plain.get(number / 64).copied().unwrap_or(0);
        bits >> (number % 64) & 1 != 0 && self.generation == graph.generation()
    }

    /// The marks of a block.
    pub(super) fn of(&mut self, block: &Block, graph: &Graph) -> &[Mark] {
        if self.generation != graph.generation() {
            self.generation = graph.generation();
            self.plain.clear();
            self.marked.clear();
        }
        let checked = self.marked.get(&block.number()).map_or(0, |marked| marked.checked);
        if checked < block.instructions {
            self.look(block, graph);
        }
        let marks = self.marked.get(&block.number()).map_or(&[][..], |marked| &marked.marks);
        // Of a block that is cut short, its own.
        let own = marks.partition_point(|mark| mark.index < block.instructions);
        marks.get(..own).unwrap_or_default()
    }

    /// Looks at each instruction of a block; decodes those that may matter.
    #[cold]
    fn look(&mut self, block: &Block, graph: &Graph) {
        let mut marked = Marked { checked: block.instructions, marks: Vec::new() };
        let mut address = block.start;
        self.seen.has_kernel |= is_kernel(address);
        for (index, (length, kind)) in (0..).zip(graph.lengths(block).iter().zip(graph.kinds(block))) {
            self.seen.met(kind.mnemonic());
            let candidate = self.candidate(*kind, address);
            if !candidate.is_none() {
                let insn = self.decode(block.mode, address, usize::from(*length));
                marked.marks.extend(self.mark(index, &insn, candidate));
            }
            address = address.wrapping_add(u64::from(*length));
        }
        self.keep(block, marked);
    }

    /// What an instruction may be, as far as its kind and place say.
    fn candidate(&mut self, kind: Kind, address: u64) -> Candidate {
        let Candidate { steps, switching } =
            self.candidates.get(kind.mnemonic()).copied().unwrap_or_default();
        let by_prefix = self.by_prefix[usize::from(kind.has_lock())][usize::from(kind.has_rep())];
        let mut steps = [steps[0] & by_prefix[0], steps[1] & by_prefix[1]];
        let entries = self.entries;
        if (steps[0] & entries[0]) | (steps[1] & entries[1]) != 0 && !self.is_entry(address) {
            steps = [steps[0] & !entries[0], steps[1] & !entries[1]];
        }
        Candidate { steps, switching }
    }

    /// Whether an instruction is the first one of a function.
    fn is_entry(&mut self, address: u64) -> bool {
        if let Some((space, start, function)) = &self.last
            && *space == self.space
            && address.wrapping_sub(*start) < function.bytes
        {
            return address == *start;
        }
        self.function(address).is_some_and(|(start, _)| address == start)
    }

    fn decode(&self, mode: Mode, address: u64, length: usize) -> Instruction {
        let mut copy = [0; LEN_MAX];
        let own = match self.program.code(self.space, address).get(..length) {
            Some(own) => own,
            // It lies in several pieces.
            None => {
                let count = self.program.copy(self.space, address, &mut copy).min(length);
                copy.get(..count).unwrap_or_default()
            }
        };
        Decoder::with_ip(mode.bits(), own, address, DecoderOptions::NONE).decode()
    }

    fn keep(&mut self, block: &Block, marked: Marked) {
        // One that ends without a branch may be cut short: the rest of it comes later.
        if marked.marks.is_empty() && block.class != Class::Sequential {
            let number = block.number() as usize;
            if self.plain.len() <= number / 64 {
                self.plain.resize(number / 64 + 1, 0);
            }
            if let Some(bits) = self.plain.get_mut(number / 64) {
                *bits |= 1 << (number % 64);
            }
        } else {
            self.marked.insert(block.number(), marked);
        }
    }

    /// What an instruction is, if it matters.
    fn mark(&mut self, index: u32, insn: &Instruction, candidate: Candidate) -> Option<Mark> {
        let (address, Candidate { steps: candidates, switching }) = (insn.ip(), candidate);
        let mut mark = Mark { index, address, steps: [0; 2], conditional: [0; 2], switching };
        let function = if self.needs_functions { self.function(address) } else { None };
        let offset = function.as_ref().map_or(0, |(start, _)| address - start);
        let at = Place {
            insn,
            space: self.space,
            function: function.as_ref().map(|(_, function)| &**function),
            offset,
        };
        for (pattern, steps) in self.steps.iter().enumerate() {
            let mut left = candidates[pattern];
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let Some(step) = steps.get(bit as usize) else { break };
                let passed = || step.tests.iter().filter(|test| passes(test, &at, self.program));
                let bit = 1 << bit;
                if passed().any(|test| !test.enables) {
                    mark.steps[pattern] |= bit;
                } else if passed().next().is_some() {
                    mark.conditional[pattern] |= bit;
                }
            }
        }
        for (seen, (always, conditional)) in
            self.seen.steps.iter_mut().zip(mark.steps.iter().zip(mark.conditional))
        {
            *seen |= always | conditional;
        }
        let is_none = mark.steps == [0, 0] && mark.conditional == [0, 0] && switching.is_none();
        (!is_none).then_some(mark)
    }

    /// The function at an address, and where it begins. Each is looked up once.
    fn function(&mut self, address: u64) -> Option<(u64, Rc<Function>)> {
        let space = self.space;
        if let Some((of, start, function)) = &self.last
            && *of == space
            && address.wrapping_sub(*start) < function.bytes
        {
            return Some((*start, Rc::clone(function)));
        }
        let (nameless_in, nameless) = &self.nameless;
        if *nameless_in == space && nameless.contains(&address) {
            return None;
        }
        let Some((start, function)) = self.find_function(space, address) else {
            self.nameless = (space, address..self.program.nameless_until(space, address));
            return None;
        };
        self.last = Some((space, start, Rc::clone(&function)));
        Some((start, function))
    }

    fn find_function(&mut self, space: Space, address: u64) -> Option<(u64, Rc<Function>)> {
        let found = self.functions.range(..=(space, address)).next_back();
        let is_it = |((of, start), function): &(&(Space, u64), &Rc<Function>)| {
            *of == space && address - start < function.bytes.max(1)
        };
        if let Some(((_, start), function)) = found.filter(is_it) {
            return Some((*start, Rc::clone(function)));
        }
        let function = Rc::new(self.program.function(space, address)?);
        let start = address - function.offset;
        self.functions.insert((space, start), Rc::clone(&function));
        Some((start, function))
    }
}

/// The bits of those steps for which something holds.
fn bits(steps: &[Vec<&Step>; 2], holds: impl Fn(&Step) -> bool) -> [u64; 2] {
    steps.each_ref().map(|steps| {
        let steps = steps.iter().take(STEPS_MAX).enumerate();
        steps.filter(|(_, step)| holds(step)).fold(0, |bits, (bit, _)| bits | 1 << bit)
    })
}

impl Seen {
    /// An instruction was met: the number of its mnemonic.
    fn met(&mut self, number: usize) {
        if self.mnemonics.len() <= number {
            self.mnemonics.resize(number + 1, false);
        }
        if let Some(is_met) = self.mnemonics.get_mut(number) {
            *is_met = true;
        }
    }

    fn met_function(&mut self, name: &str) {
        if self.functions.len() < FUNCTIONS_MAX && !self.functions.contains(name) {
            self.functions.insert(name.to_owned());
        }
    }

    fn is_met(&self, mnemonic: Mnemonic) -> bool {
        self.mnemonics.get(mnemonic as usize).copied().unwrap_or(false)
    }

    /// Adds what another stream has met.
    pub(super) fn join(&mut self, other: Seen) {
        let more = other.mnemonics.len().saturating_sub(self.mnemonics.len());
        self.mnemonics.extend(std::iter::repeat_n(false, more));
        self.mnemonics.iter_mut().zip(other.mnemonics).for_each(|(seen, more)| *seen |= more);
        other.functions.iter().for_each(|name| self.met_function(name));
        self.has_kernel |= other.has_kernel;
        for (seen, more) in self.steps.iter_mut().zip(other.steps) {
            *seen |= more;
        }
    }

    /// What is to be said of the steps of a pattern that no instruction was; which one of two it is.
    pub(super) fn missing(&self, pattern: &Pattern, which: usize) -> Vec<String> {
        let seen = self.steps.get(which).copied().unwrap_or(0);
        let steps = pattern.sequences.iter().flatten().enumerate();
        let missing = steps.filter(|(bit, _)| seen >> bit & 1 == 0).flat_map(|(_, step)| &step.tests);
        missing.map(|test| self.why(test)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn why(&self, test: &super::pattern::Test) -> String {
        let text = &test.text;
        let mut hints = Vec::new();
        if let Some(name) = text.split_once('@').map(|(_, name)| name.trim_matches('"'))
            && !self.functions.iter().any(|function| function == name)
        {
            let alike = nearest(name, self.functions.iter().map(String::as_str));
            hints.push(format!("among {} functions{alike}", self.functions.len()));
        }
        if let What::Mnemonics(meant) = &test.what
            && !meant.iter().any(|mnemonic| self.is_met(*mnemonic))
        {
            let word: String = text.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            let seen: Vec<String> = Mnemonic::values().filter(|one| self.is_met(*one)).map(lower).collect();
            let alike = nearest(&word, seen.iter().map(String::as_str));
            hints.push(format!("among {} kinds of instructions{alike}", seen.len()));
        }
        if !self.has_kernel && is_privileged(&test.what) {
            hints.push("the capture has no code of the kernel, which alone executes it".to_owned());
        }
        let hints = if hints.is_empty() { String::new() } else { format!(", {}", hints.join("; ")) };
        format!("`{text}` was not executed{hints}")
    }
}

/// The names that are like a word, for behind a sentence.
fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    match similar(word, names).as_slice() {
        [] => String::new(),
        similar => format!("; near are {}", similar.join(", ")),
    }
}

/// Whether all that is meant is for the kernel alone.
fn is_privileged(what: &What) -> bool {
    use Mnemonic::{Cli, Hlt, Invlpg, Iretq, Lgdt, Lidt, Rdmsr, Sti, Swapgs, Sysretq, Wbinvd, Wrmsr};
    let only = [Cli, Sti, Hlt, Invlpg, Iretq, Lgdt, Lidt, Rdmsr, Swapgs, Sysretq, Wbinvd, Wrmsr];
    matches!(what, What::Mnemonics(all) if all.iter().all(|one| only.contains(one)))
}
