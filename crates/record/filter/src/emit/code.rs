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
use mote_builder::{BuildError, Builder};

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

/// A place in the program; what is known there is what all jumps to it know.
#[derive(Clone, Copy, Debug)]
pub(in crate::emit) struct Label {
    inner: mote_builder::Label,
    at: usize,
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

/// Where the pointers and times of a program with thread state are: below the frame's end, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::emit) struct ThreadPlaces {
    /// Process and thread: the key.
    pub(in crate::emit) key: i16,
    /// What was kept, or null.
    pub(in crate::emit) pointer: i16,
    /// The time of this event.
    pub(in crate::emit) now: i16,
}

/// Where the thread's state is found, and the values of it that are kept.
#[derive(Clone, Debug, Default)]
pub(in crate::emit) struct StatePlaces {
    /// The pointer, below the frame's end; in `r2` in a program without calls.
    pub(in crate::emit) pointer: i16,
    /// Values at this event: offset in the state, place below the frame's end.
    pub(in crate::emit) now: Vec<(u16, i16)>,
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
    labels: Vec<Option<Known>>,
    /// How many values each register is held for.
    held: [u8; Reg::COUNT],
    /// Uses to come.
    uses: std::collections::HashMap<Cached, u32>,
    leaf: bool,
    /// Offset of the lowest byte of the stack in use.
    stack: i16,
    /// The lowest that was ever in use.
    deepest: i16,
    /// On the kernel's side, where the pointer to the thread's entry is kept, if it is.
    pub(in crate::emit) entry: i16,
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
        let fail = Label { inner: b.label(), at: 0 };
        let mut code = Code {
            plan,
            needs,
            maps,
            declare,
            b,
            program: None,
            fail,
            known: Some(Known::nothing()),
            labels: vec![None],
            held: [0; Reg::COUNT],
            uses: needs.uses.clone(),
            leaf,
            stack: 0,
            deepest: 0,
            entry: 0,
            words: Vec::new(),
            slots: [0; 5],
            thread: Default::default(),
            state_places: Default::default(),
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
        self.labels.push(None);
        let inner = self.program.as_mut().unwrap_or(&mut self.b).label();
        Label { inner, at: self.labels.len() - 1 }
    }

    pub(in crate::emit) fn is_reachable(&self) -> bool {
        self.known.is_some()
    }

    /// No way leads to what follows, until the next label: it is not written.
    pub(in crate::emit) fn leave(&mut self) {
        self.known = None;
        if self.program.is_none() {
            self.program = Some(std::mem::take(&mut self.b));
        }
    }

    fn arrive(&mut self, label: Label) {
        if let (Some(known), Some(there)) = (&self.known, self.labels.get_mut(label.at)) {
            *there = Some(there.map_or(*known, |there| there.and(known)));
        }
    }

    pub(in crate::emit) fn bind(&mut self, label: Label) {
        self.arrive(label);
        self.known = self.labels.get(label.at).copied().flatten();
        match &mut self.program {
            // A label without a jump to it: still not reachable.
            Some(program) if self.known.is_none() => program.bind(label.inner),
            Some(program) => {
                self.b = std::mem::take(program);
                self.program = None;
                self.b.bind(label.inner);
            }
            None => self.b.bind(label.inner),
        }
    }

    pub(in crate::emit) fn jump(&mut self, to: Label) {
        if self.is_reachable() {
            self.arrive(to);
            self.b.jump(to.inner);
        }
        self.leave();
    }

    pub(in crate::emit) fn branch(&mut self, cond: Cond, left: Reg, right: impl Into<Operand>, to: Label) {
        if self.is_reachable() {
            self.arrive(to);
            self.b.branch(cond, left, right, to.inner);
        }
    }

    pub(in crate::emit) fn branch32(&mut self, cond: Cond, left: Reg, right: i32, to: Label) {
        if self.is_reachable() {
            self.arrive(to);
            self.b.branch32(cond, left, right, to.inner);
        }
    }

    // Registers.

    /// Where the context is.
    pub(in crate::emit) fn context(&self) -> Reg {
        if self.leaf { Reg::R1 } else { Reg::R6 }
    }

    /// Puts the context where no call changes it.
    pub(in crate::emit) fn save_context(&mut self) {
        self.held[self.context().index()] = 1;
        if !self.leaf {
            self.b.mov(Reg::R6, Reg::R1);
        }
    }

    /// A register for a value of one's own. Calls change it.
    pub(in crate::emit) fn alloc(&mut self) -> Result<Held, Stop> {
        const SCRATCH: [Reg; 6] = [Reg::R0, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R1];
        let known = self.known.unwrap_or(Known::nothing());
        let free = |reg: &&Reg| self.held[reg.index()] == 0;
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
        self.held[..6].iter().filter(|held| **held == 0).count()
    }

    /// A register that calls do not change, if there is one.
    pub(in crate::emit) fn alloc_saved(&mut self) -> Option<Reg> {
        let known = self.known?;
        let free = |reg: &Reg| !self.leaf && self.held[reg.index()] == 0 && known.at(*reg).is_none();
        [Reg::R7, Reg::R8, Reg::R9].into_iter().find(free)
    }

    /// All registers that calls may change are needed: the context must not be in one of them.
    pub(in crate::emit) fn needs_all_registers(&self) -> Result<(), Stop> {
        if self.leaf { Err(Stop::NotALeaf) } else { Ok(()) }
    }

    /// Takes this register for good.
    pub(in crate::emit) fn hold(&mut self, reg: Reg) -> Result<(), Stop> {
        if self.leaf {
            return Err(Stop::NotALeaf);
        }
        self.held[reg.index()] += 1;
        Ok(())
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
        if let Some(known) = &mut self.known {
            known.set(reg, value);
        }
    }

    /// The value, if some register has it.
    pub(in crate::emit) fn recall(&mut self, value: Cached) -> Option<Held> {
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

    /// Keeps what a call returned from being overwritten.
    pub(in crate::emit) fn hold_result(&mut self) -> Result<(), Stop> {
        self.held[0] += 1;
        if self.held[0] == 1 { Ok(()) } else { Err(Stop::NoRegister) }
    }

    /// What a call returned, as a value of one's own.
    pub(in crate::emit) fn result(&mut self) -> Result<Held, Stop> {
        self.hold_result()?;
        self.changed(Reg::R0);
        Ok(Held { reg: Reg::R0, owned: true })
    }

    pub(in crate::emit) fn drop_result(&mut self) {
        self.held[0] = 0;
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

    /// `dst =` address on the stack.
    pub(in crate::emit) fn stack_address(&mut self, dst: Reg, at: i16) {
        self.changed(dst);
        self.b.mov(dst, Reg::R10);
        self.b.add(dst, i32::from(at));
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
        let slot = self.words.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        });
        // As many as there are words of an event: at most 4095.
        self.b.load(Size::DW, dst, self.context(), (slot * 8) as i16);
    }

    /// `cond` decides between two labels, of which one is next.
    pub(in crate::emit) fn decide(
        &mut self,
        cond: Cond,
        left: Reg,
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
