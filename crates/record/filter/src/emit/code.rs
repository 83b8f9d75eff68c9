//! A program in the making: instructions, and with them what is where.

use super::Program;
use crate::diagnostic::Diagnostic;
use crate::emit::known::{Cached, Known, Slot};
use crate::emit::needs::Needs;
use crate::maps::Maps;
use crate::session::Declare;
use crate::target::{ContextWord, KERNEL_STACK_BYTES, Side};
use crate::typed::Plan;
use mote_bpf::Reg;
use mote_bpf::environment::STACK_BYTES;
use mote_bpf::op::{Cond, Operand, Size};
pub(in crate::emit) use mote_builder::Label;
use mote_builder::{Build, BuildError, Builder, Local, Value};
use std::collections::HashMap;

/// Why the writing stopped.
#[derive(Clone, Debug)]
pub(in crate::emit) enum Stop {
    /// A call in a program that was to have none.
    NotALeaf,
    NoRegister,
    NoStack,
    Build(BuildError),
    Wrong(Box<Diagnostic>),
}

/// A value in a register, for as long as it is not released.
#[derive(Clone, Copy, Debug)]
pub(in crate::emit) struct Held {
    pub(in crate::emit) reg: Reg,
    /// The register has no other reader: it may be changed.
    owned: bool,
}

/// Which of the two labels is bound right behind a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emit) enum Next {
    True,
    False,
}

impl Next {
    pub(in crate::emit) fn flipped(self) -> Next {
        if self == Next::True { Next::False } else { Next::True }
    }
}

/// The labels of the outcomes of a condition, and which is next.
pub(in crate::emit) type Ways = (Label, Label, Next);

/// By what the state of a thread is found: in the program of one event on the user's side by the first alone.
#[repr(C)]
pub(in crate::emit) struct ThreadKey {
    /// Process and thread.
    pub(in crate::emit) thread: u64,
    /// The event.
    pub(in crate::emit) event: u64,
}

/// Where the pointers and times of a program with thread state are in the frame.
#[derive(Clone, Copy, Debug)]
pub(in crate::emit) struct ThreadPlaces {
    pub(in crate::emit) key: Local<ThreadKey>,
    /// What was kept, or null.
    pub(in crate::emit) pointer: Local<u64>,
    /// The time of this event.
    pub(in crate::emit) now: Local<u64>,
}

impl ThreadPlaces {
    /// None that were reserved.
    const NONE: ThreadPlaces = ThreadPlaces { key: Local::at(0), pointer: Local::at(0), now: Local::at(0) };
}

/// Where the thread's state is found, and the values of it that are kept.
#[derive(Clone, Debug)]
pub(in crate::emit) struct StatePlaces {
    /// The pointer; in `r2` in a program without calls.
    pub(in crate::emit) pointer: Local<u64>,
    /// Values at this event: offset in the state, place in the frame.
    pub(in crate::emit) now: Vec<(u16, Local<u64>)>,
}

pub(in crate::emit) struct Code<'a> {
    pub(in crate::emit) plan: &'a Plan,
    pub(in crate::emit) needs: &'a Needs,
    pub(in crate::emit) maps: &'a mut Maps,
    pub(in crate::emit) declare: Declare<'a>,
    /// Where instructions go: the program, or nowhere as long as no way leads there.
    pub(in crate::emit) b: Builder,
    /// The program, while `b` is nowhere.
    program: Option<Builder>,
    /// Where what fails goes on.
    pub(in crate::emit) fail: Label,
    /// `None`: no way leads here.
    known: Option<Known>,
    /// What is known at each label that was jumped to: what all jumps to it know.
    labels: HashMap<Label, Known>,
    /// How many values each register is held for.
    held: [u8; Reg::COUNT],
    /// Uses to come.
    uses: HashMap<Cached, u32>,
    leaf: bool,
    /// Where the context is, as a value.
    pub(in crate::emit) context: Option<Value>,
    /// What the program will return, in programs that do not end where a rule holds.
    pub(in crate::emit) verdict: Option<Value>,
    /// Offset of the lowest byte of the stack in use.
    stack: i16,
    /// The lowest that was ever in use.
    deepest: i16,
    /// On the kernel's side, where the pointer to the thread's entry is kept, if it is.
    pub(in crate::emit) entry: Local<u64>,
    /// On the kernel's side: the words of the context so far, by their slots.
    words: Vec<ContextWord>,
    /// Where the slots that are filled at most once are.
    slots: [i16; 5],
    pub(in crate::emit) thread: ThreadPlaces,
    pub(in crate::emit) state_places: StatePlaces,
}

impl<'a> Code<'a> {
    pub(in crate::emit) fn new(
        plan: &'a Plan,
        needs: &'a Needs,
        maps: &'a mut Maps,
        declare: Declare<'a>,
        leaf: bool,
    ) -> Code<'a> {
        let mut b = Builder::new();
        let fail = b.label();
        let mut code = Code {
            plan,
            needs,
            maps,
            declare,
            b,
            program: None,
            fail,
            known: Some(Known::nothing()),
            labels: HashMap::new(),
            held: [0; Reg::COUNT],
            uses: needs.uses.clone(),
            leaf,
            context: None,
            verdict: None,
            stack: 0,
            deepest: 0,
            entry: Local::at(0),
            words: Vec::new(),
            slots: [0; 5],
            thread: ThreadPlaces::NONE,
            state_places: StatePlaces { pointer: Local::at(0), now: Vec::new() },
        };
        for &(slot, bytes) in &needs.slots {
            // Few and small: they always fit.
            code.slots[slot as usize] = code.reserve(bytes).unwrap_or_default();
        }
        code
    }

    /// The finished program.
    pub(in crate::emit) fn finish(self) -> Result<Program, Stop> {
        let insns = self.program.unwrap_or(self.b).finish().map_err(Stop::Build)?;
        Ok(Program { insns, words: self.words, stack_bytes: self.deepest.unsigned_abs().into() })
    }

    /// Whether it is for the kernel.
    pub(in crate::emit) fn is_kernel(&self) -> bool {
        self.plan.side == Side::Kernel
    }

    // Ways.

    pub(in crate::emit) fn label(&mut self) -> Label {
        self.program.as_mut().unwrap_or(&mut self.b).label()
    }

    pub(in crate::emit) fn is_reachable(&self) -> bool {
        self.known.is_some()
    }

    /// No way leads to what follows, until the next label: it is not written.
    pub(in crate::emit) fn leave(&mut self) {
        self.forget_changed();
        self.known = None;
        if self.program.is_none() {
            self.program = Some(std::mem::take(&mut self.b));
        }
    }

    /// A way leads from here to the label.
    pub(in crate::emit) fn arrive(&mut self, label: Label) {
        self.forget_changed();
        if let Some(known) = self.known {
            self.labels.entry(label).and_modify(|there| *there = there.and(&known)).or_insert(known);
        }
    }

    /// What the builder's own values have changed is not known any more.
    pub(in crate::emit) fn forget_changed(&mut self) {
        let changed = self.b.take_changed();
        if let Some(known) = &mut self.known {
            Reg::ALL
                .into_iter()
                .filter(|reg| changed >> reg.index() & 1 == 1)
                .for_each(|reg| known.set(reg, None));
        }
    }

    pub(in crate::emit) fn bind(&mut self, label: Label) {
        self.arrive(label);
        self.known = self.labels.get(&label).copied();
        match &mut self.program {
            // A label without a jump to it: still not reachable.
            Some(program) if self.known.is_none() => program.bind(label),
            Some(program) => {
                self.b = std::mem::take(program);
                self.program = None;
                self.b.bind(label);
            }
            None => self.b.bind(label),
        }
    }

    pub(in crate::emit) fn jump(&mut self, to: Label) {
        if self.is_reachable() {
            self.arrive(to);
            self.b.jump(to);
        }
        self.leave();
    }

    pub(in crate::emit) fn branch(&mut self, cond: Cond, left: Held, right: impl Into<Operand>, to: Label) {
        if self.is_reachable() {
            self.arrive(to);
            self.b.branch(cond, left.reg, right, to);
        }
    }

    // Registers.

    /// The register that has the address of the context.
    pub(in crate::emit) fn context(&self) -> Reg {
        if self.leaf { Reg::R1 } else { Reg::R6 }
    }

    /// Puts the context where no call changes it.
    pub(in crate::emit) fn save_context(&mut self) {
        self.held[self.context().index()] = 1;
        if !self.leaf {
            self.b.mov(Reg::R6, Reg::R1);
        }
        self.context = Some(self.b.pin(self.context()));
    }

    /// A register for a value of one's own. Calls change it.
    pub(in crate::emit) fn alloc(&mut self) -> Result<Held, Stop> {
        const SCRATCH: [Reg; 6] = [Reg::R0, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R1];
        self.forget_changed();
        let known = self.known.unwrap_or(Known::nothing());
        let free = |reg: &&Reg| self.held[reg.index()] == 0 && !self.b.is_held(**reg);
        let empty = SCRATCH.iter().filter(free).find(|reg| known.at(**reg).is_none());
        // Else one whose value is not wanted any more, or at least the one that is wanted least.
        let wanted =
            |reg: &&Reg| known.at(**reg).and_then(|value| self.uses.get(&value)).copied().unwrap_or(0);
        let reg = empty.or_else(|| SCRATCH.iter().filter(free).min_by_key(wanted)).copied();
        let reg = reg.ok_or(Stop::NoRegister)?;
        self.held[reg.index()] += 1;
        self.changed(reg);
        Ok(Held { reg, owned: true })
    }

    /// How many registers `alloc` has left.
    pub(in crate::emit) fn free_registers(&self) -> usize {
        let is_free = |reg: &&Reg| self.held[reg.index()] == 0 && !self.b.is_held(**reg);
        Reg::ALL[..6].iter().filter(is_free).count()
    }

    /// Registers that the builder's values may not be put into, a bit for each: what is held.
    pub(in crate::emit) fn withheld(&self) -> u16 {
        registers(|reg| self.held[reg.index()] > 0 || reg >= Reg::R6 && self.leaf)
    }

    /// Those that are better left as they are: what will be wanted again is in them.
    pub(in crate::emit) fn wanted(&self) -> u16 {
        let value = |reg| self.known.and_then(|known| known.at(reg));
        registers(|reg| value(reg).is_some_and(|value| self.uses_to_come(value) > 0))
    }

    /// A register that calls do not change, if there is one.
    pub(in crate::emit) fn alloc_saved(&mut self) -> Option<Reg> {
        self.forget_changed();
        let known = self.known?;
        let is_free = |reg: Reg| self.held[reg.index()] == 0 && !self.b.is_held(reg);
        let free = |reg: &Reg| !self.leaf && is_free(*reg) && known.at(*reg).is_none();
        [Reg::R7, Reg::R8, Reg::R9].into_iter().find(free)
    }

    /// All registers that calls may change are needed: the context must not be in one of them.
    pub(in crate::emit) fn needs_all_registers(&self) -> Result<(), Stop> {
        if self.leaf { Err(Stop::NotALeaf) } else { Ok(()) }
    }

    /// Holds the value in this register, which has no other reader.
    pub(in crate::emit) fn hold(&mut self, reg: Reg) -> Held {
        self.held[reg.index()] += 1;
        Held { reg, owned: true }
    }

    pub(in crate::emit) fn release(&mut self, held: Held) {
        let count = &mut self.held[held.reg.index()];
        *count = count.saturating_sub(1);
    }

    /// Whether it calls nothing.
    pub(in crate::emit) fn is_leaf(&self) -> bool {
        self.leaf
    }

    /// Keeps `r2`, which points to the thread's state, for the whole program.
    pub(in crate::emit) fn hold_state(&mut self) -> Result<(), Stop> {
        self.held[Reg::R2.index()] += 1;
        Ok(())
    }

    /// `r2`, which was kept.
    pub(in crate::emit) fn held_state(&mut self) -> Held {
        self.held[Reg::R2.index()] += 1;
        Held { reg: Reg::R2, owned: false }
    }

    /// The register, if it may be changed, or another one: for a new value.
    pub(in crate::emit) fn own_or_other(&mut self, held: Held) -> Result<Held, Stop> {
        if held.owned {
            self.changed(held.reg);
            return Ok(held);
        }
        self.release(held);
        self.alloc()
    }

    /// The same value in a register that may be changed.
    pub(in crate::emit) fn own(&mut self, held: Held) -> Result<Held, Stop> {
        if held.owned {
            self.changed(held.reg);
            return Ok(held);
        }
        let own = self.alloc()?;
        self.b.mov(own.reg, held.reg);
        self.release(held);
        Ok(own)
    }

    /// The register has something new in it.
    pub(in crate::emit) fn changed(&mut self, reg: Reg) {
        self.remember(reg, None);
    }

    pub(in crate::emit) fn remember(&mut self, reg: Reg, value: Option<Cached>) {
        self.forget_changed();
        if let Some(known) = &mut self.known {
            known.set(reg, value);
        }
    }

    /// The value, if some register has it.
    pub(in crate::emit) fn recall(&mut self, value: Cached) -> Option<Held> {
        self.forget_changed();
        let reg = self.known?.find(value)?;
        Some(self.share(reg, value))
    }

    /// A register that has this value, for one of the uses that were foreseen; the last one may change it.
    pub(in crate::emit) fn share(&mut self, reg: Reg, value: Cached) -> Held {
        let uses = self.uses.entry(value).or_default();
        *uses = uses.saturating_sub(1);
        let owned = *uses == 0 && self.held[reg.index()] == 0 && reg < Reg::R6;
        self.held[reg.index()] += 1;
        if owned {
            self.changed(reg);
        }
        Held { reg, owned }
    }

    pub(in crate::emit) fn uses_to_come(&self, value: Cached) -> u32 {
        self.uses.get(&value).copied().unwrap_or(0)
    }

    /// Calls a helper, whose arguments are in place.
    pub(in crate::emit) fn call(&mut self, helper: u32) -> Result<(), Stop> {
        if self.leaf {
            return Err(Stop::NotALeaf);
        }
        self.b.call(helper);
        if let Some(known) = &mut self.known {
            known.call();
        }
        Ok(())
    }

    // The stack.

    /// So many bytes of the stack, a multiple of 8; their offset from `r10`.
    pub(in crate::emit) fn reserve(&mut self, bytes: u32) -> Result<i16, Stop> {
        let stack = u32::from(self.stack.unsigned_abs()) + bytes.next_multiple_of(8);
        let most = if self.is_kernel() { KERNEL_STACK_BYTES } else { STACK_BYTES as u32 };
        if stack > most {
            return Err(Stop::NoStack);
        }
        self.stack = -(stack as i16);
        self.deepest = self.deepest.min(self.stack);
        Ok(self.stack)
    }

    /// How much of the stack is in use: for [`Code::give_back`].
    pub(in crate::emit) fn stack_mark(&self) -> i16 {
        self.stack
    }

    /// Gives back all that was reserved since the mark.
    pub(in crate::emit) fn give_back(&mut self, mark: i16) {
        self.stack = mark;
    }

    pub(in crate::emit) fn slot(&self, slot: Slot) -> i16 {
        self.slots[slot as usize]
    }

    pub(in crate::emit) fn slot_is_filled(&self, slot: Slot) -> bool {
        self.known.is_some_and(|known| known.has(slot))
    }

    pub(in crate::emit) fn slot_filled(&mut self, slot: Slot) {
        if let Some(known) = &mut self.known {
            known.fill(slot);
        }
    }

    // Words.

    /// A word of the context, in some register.
    pub(in crate::emit) fn word(&mut self, word: u16) -> Result<Held, Stop> {
        let value = Cached::Word(word);
        if let Some(held) = self.recall(value) {
            return Ok(held);
        }
        // Worth a register that has to be saved when it is wanted again and again.
        let saved = if self.uses_to_come(value) >= 4 { self.alloc_saved() } else { None };
        let reg = match saved {
            Some(reg) => reg,
            None => {
                let held = self.alloc()?;
                self.release(held);
                held.reg
            }
        };
        self.load_word(reg, word);
        self.remember(reg, Some(value));
        Ok(self.share(reg, value))
    }

    /// `dst =` word of the context.
    pub(in crate::emit) fn load_word(&mut self, dst: Reg, word: u16) {
        if self.is_kernel() {
            return self.load_context(dst, ContextWord::Field(word));
        }
        self.changed(dst);
        // There are at most 4095.
        self.b.load(Size::DW, dst, self.context(), (word * 8) as i16);
    }

    /// `dst =` what the kernel's side puts into its context, from now on in a slot of its own.
    pub(in crate::emit) fn load_context(&mut self, dst: Reg, word: ContextWord) {
        self.changed(dst);
        if !self.is_reachable() {
            return;
        }
        let slot = self.context_slot(word);
        // As many as there are words of an event: at most 4095.
        self.b.load(Size::DW, dst, self.context(), (slot * 8) as i16);
    }

    /// Which word of the context this is, on the kernel's side.
    pub(in crate::emit) fn context_slot(&mut self, word: ContextWord) -> usize {
        self.words.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        })
    }

    /// `cond` decides between two labels, of which one is next.
    pub(in crate::emit) fn decide(
        &mut self,
        cond: Cond,
        left: Held,
        right: impl Into<Operand>,
        (holds, not, next): Ways,
    ) {
        match (next, opposite(cond)) {
            (Next::False, _) => self.branch(cond, left, right, holds),
            (Next::True, Some(opposite)) => self.branch(opposite, left, right, not),
            (Next::True, None) => {
                self.branch(cond, left, right, holds);
                self.jump(not);
            }
        }
    }
}

/// The registers of which this is true, a bit for each.
fn registers(is_one: impl Fn(Reg) -> bool) -> u16 {
    Reg::ALL.into_iter().filter(|reg| is_one(*reg)).fold(0, |bits, reg| bits | 1 << reg.index())
}

/// What holds when a condition does not.
fn opposite(cond: Cond) -> Option<Cond> {
    Some(match cond {
        Cond::Eq => Cond::Ne,
        Cond::Ne => Cond::Eq,
        Cond::Gt => Cond::Le,
        Cond::Ge => Cond::Lt,
        Cond::Lt => Cond::Ge,
        Cond::Le => Cond::Gt,
        Cond::SGt => Cond::SLe,
        Cond::SGe => Cond::SLt,
        Cond::SLt => Cond::SGe,
        Cond::SLe => Cond::SGt,
        Cond::Set => return None,
    })
}
