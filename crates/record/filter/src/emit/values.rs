//! The builder's values, in programs whose registers [`Code`] hands out.
//!
//! What comes from expressions is in registers that `Code` chooses: it knows what will be wanted again. What is done
//! with it is written by values: the builder chooses among the registers that `Code` has not given away
//! ([`Code::withheld`]), last of all those that hold what will be wanted again ([`Code::wanted`]), and `Code` forgets
//! what was in those that the builder took ([`Code::forget_changed`]).

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::target::ContextWord;
use crate::typed::Order;
use mote_bpf::Reg;
use mote_bpf::op::Size;
use mote_builder::{Arguments, Build, Builder, Expr, Local, Memory, Test, Value};

impl Build for Code<'_> {
    fn builder(&mut self) -> &mut Builder {
        self.forget_changed();
        let (withheld, wanted) = (self.withheld(), self.wanted());
        self.b.withhold(withheld);
        self.b.avoid(wanted);
        &mut self.b
    }

    fn label(&mut self) -> Label {
        Code::label(self)
    }

    fn bind(&mut self, label: Label) {
        Code::bind(self, label);
    }

    #[track_caller]
    fn jump(&mut self, to: Label) {
        Code::jump(self, to);
    }

    #[track_caller]
    fn jump_if(&mut self, test: Test, to: Label) {
        self.builder().jump_if(test, to);
        // What the test has changed is not known there, wherever it jumped.
        self.arrive(to);
    }

    #[track_caller]
    fn invoke(&mut self, helper: u32, arguments: impl Arguments) -> Value {
        debug_assert!(!self.is_leaf(), "call_with looks");
        self.builder().invoke(helper, arguments)
    }

    #[track_caller]
    fn exit_with(&mut self, expr: impl Into<Expr>) {
        self.builder().exit_with(expr);
        self.leave();
    }
}

impl Code<'_> {
    /// Calls a helper with these arguments.
    #[track_caller]
    pub(in crate::emit) fn call_with(
        &mut self,
        helper: u32,
        arguments: impl Arguments,
    ) -> Result<Value, Stop> {
        self.needs_all_registers()?;
        Ok(self.invoke(helper, arguments))
    }

    /// As [`Code::call_with`], of a helper whose answer is not looked at.
    #[track_caller]
    pub(in crate::emit) fn call_only(&mut self, helper: u32, arguments: impl Arguments) -> Result<(), Stop> {
        self.call_with(helper, arguments).map(drop)
    }

    /// Does something with a held value, and releases it.
    pub(in crate::emit) fn with<R>(&mut self, held: Held, then: impl FnOnce(&mut Self, &Value) -> R) -> R {
        let value = self.b.pin(held.reg);
        let done = then(self, &value);
        drop(value);
        self.release(held);
        done
    }

    /// A held value as one of the builder's, to be read while it stays held. No other one is in its register: two held
    /// values may be in the same.
    pub(in crate::emit) fn read(&mut self, held: Held) -> Value {
        self.b.pin(held.reg)
    }

    /// A held value as one of the builder's, to be changed or given up.
    pub(in crate::emit) fn value(&mut self, held: Held) -> Result<Value, Stop> {
        let own = self.own(held)?;
        self.release(own);
        Ok(self.b.pin(own.reg))
    }

    /// What instructions that were written one by one have left in a register.
    pub(in crate::emit) fn left_in(&mut self, reg: Reg) -> Value {
        self.changed(reg);
        self.b.pin(reg)
    }

    /// One of the builder's values as a held one.
    pub(in crate::emit) fn held(&mut self, value: Value) -> Held {
        self.changed(value.register());
        self.hold(value.register())
    }

    /// A test decides between two labels, of which one is next.
    #[track_caller]
    pub(in crate::emit) fn choose(&mut self, test: Test, (holds, not, next): Ways) {
        match next {
            Next::True => self.jump_if(!test, not),
            Next::False => self.jump_if(test, holds),
        }
    }

    /// Room for a `T` in the frame, until it is given back.
    pub(in crate::emit) fn room<T>(&mut self) -> Result<Local<T>, Stop> {
        self.reserve(size_of::<T>() as u32).map(Local::at)
    }

    /// What the kernel's side puts into its context, from now on in a slot of its own.
    pub(in crate::emit) fn given(&mut self, word: ContextWord) -> Memory {
        let slot = self.context_slot(word);
        self.context_word(slot)
    }

    /// The place in the context where a word of the event lies.
    pub(in crate::emit) fn event_word(&mut self, word: u16) -> Memory {
        if self.is_kernel() { self.given(ContextWord::Field(word)) } else { self.context_word(word.into()) }
    }

    /// There are at most 4095.
    fn context_word(&self, slot: usize) -> Memory {
        let context = self.context.as_ref().map_or(Expr::from(0), Expr::from);
        Memory::new(context, (slot * 8) as i32, Size::DW)
    }

    /// What the program returns from here on.
    pub(in crate::emit) fn set_verdict(&mut self, verdict: impl Into<Expr>) {
        if let Some(kept) = self.verdict.take() {
            self.set(&kept, verdict);
            self.verdict = Some(kept);
        }
    }
}

/// Words in memory, to be compared with constants.
#[derive(Clone, Copy)]
pub(in crate::emit) enum Words<'v> {
    /// At offsets from this address.
    At(&'v Value),
    /// At offsets from the frame's end.
    Frame,
}

impl Words<'_> {
    pub(in crate::emit) fn word(self, offset: i32, size: Size) -> Memory {
        match self {
            Words::At(address) => Memory::new(address, offset, size),
            Words::Frame => Memory::new(Local::<u64>::at(0).address(), offset, size),
        }
    }
}

/// How two numbers are ordered, as a test.
pub(in crate::emit) fn ordered(order: Order, is_signed: bool, left: &Value, right: impl Into<Expr>) -> Test {
    match (order, is_signed) {
        (Order::Eq, _) => left.eq(right),
        (Order::Ne, _) => left.ne(right),
        (Order::Lt, false) => left.lt(right),
        (Order::Le, false) => left.le(right),
        (Order::Gt, false) => left.gt(right),
        (Order::Ge, false) => left.ge(right),
        (Order::Lt, true) => left.slt(right),
        (Order::Le, true) => left.sle(right),
        (Order::Gt, true) => left.sgt(right),
        (Order::Ge, true) => left.sge(right),
    }
}
