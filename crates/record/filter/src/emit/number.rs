//! Numbers: their 64 bits in a register.
//!
//! Arithmetic is written by registers. What it reads is held: a register may hold the same word for both sides of an
//! operator, and for others later, while one of the builder's values has its register to itself; and where there is no
//! register left, [`Stop::NoRegister`] says what to do about the expression.

use crate::emit::code::{Code, Held, Next, Stop};
use crate::emit::known::{Cached, Slot};
use crate::syntax::BinaryOp;
use crate::target::{INDEX_MAX, STRING_LEN_MAX};
use crate::typed::number::divides_signed;
use crate::typed::{Cond, Context, Element, Num, NumKind};
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_bpf::op::{self, AluOp, Size};
use mote_builder::{Build, Expr, Local};
use mote_layout::tracer;

/// What [`tracer::SPECULATED`] returns for a thread that does not speculate: all ones.
const NOT_SPECULATING: i32 = -1;

impl Code<'_> {
    /// A number in some register.
    pub(in crate::emit) fn number(&mut self, num: &Num) -> Result<Held, Stop> {
        match &num.kind {
            NumKind::Constant(value) => self.constant(*value as u64),
            NumKind::Word(word) => self.word(*word),
            NumKind::Element(element) => self.element(element, element.signed),
            NumKind::Length(word, bytes) => self.length(*word, *bytes),
            NumKind::Context(context) => self.thread_context(*context),
            NumKind::Flag(name) => {
                let flag = self.flag_word(name)?;
                let value = self.get(flag);
                Ok(self.held(value))
            }
            NumKind::NotZero(word) => {
                let held = self.word(*word)?;
                let value = self.read(held);
                self.jump_if(value.eq(0), self.fail);
                Ok(held)
            }
            NumKind::Elapsed(key) => self.elapsed_by(key),
            NumKind::Last(kept) => self.kept(*kept),
            NumKind::Published(offset) => self.published(*offset),
            NumKind::Since(kept) => self.since(*kept),
            NumKind::SharedWord(word) => self.shared_number(word),
            NumKind::Neg(inner) => {
                let held = self.own_number(inner)?;
                self.negate(held);
                Ok(held)
            }
            NumKind::BitNot(inner) => {
                let held = self.own_number(inner)?;
                self.apply(AluOp::Xor, held, -1);
                Ok(held)
            }
            NumKind::Binary(op, a, b) => self.binary(*op, a, b),
            NumKind::Truth(cond) => self.truth(cond),
        }
    }

    fn own_number(&mut self, num: &Num) -> Result<Held, Stop> {
        let held = self.number(num)?;
        self.own(held)
    }

    /// A condition as 1 or 0.
    fn truth(&mut self, cond: &Cond) -> Result<Held, Stop> {
        let (holds, not, end) = (self.label(), self.label(), self.label());
        self.condition(cond, holds, not, Next::True)?;
        self.bind(holds);
        let held = self.constant(1)?;
        self.jump(end);
        self.bind(not);
        self.changed(held.reg);
        self.apply(AluOp::Mov, held, 0);
        self.bind(end);
        Ok(held)
    }

    /// Two numbers at once, neither of them to be changed.
    pub(in crate::emit) fn both(&mut self, a: &Num, b: &Num) -> Result<(Held, Held), Stop> {
        let (a_calls, b_calls) = (calls(a), calls(b));
        // What is worked out second must not disturb the first: no call, and few registers. Neither has an effect but
        // to fail, unless it counts.
        let better = b_calls && !a_calls || (a_calls == b_calls && weight(b) > weight(a));
        let b_first = better && !counts(a) && !counts(b);
        let (first, second) = if b_first { (b, a) } else { (a, b) };
        let one = self.number(first)?;
        let disturbs = calls(second) || weight(second) + 2 > self.free_registers();
        let (one, two) = if disturbs {
            let mark = self.stack_mark();
            let slot = self.room::<u64>()?;
            self.with(one, |code, one| code.put(slot, one));
            let two = self.number(second)?;
            let back = self.get(slot);
            self.give_back(mark);
            (self.held(back), two)
        } else {
            (one, self.number(second)?)
        };
        Ok(if b_first { (two, one) } else { (one, two) })
    }

    fn binary(&mut self, op: BinaryOp, a: &Num, b: &Num) -> Result<Held, Stop> {
        let commutes = matches!(
            op,
            BinaryOp::Add | BinaryOp::Mul | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor
        );
        let (a, b) = if commutes && a.as_constant().is_some() { (b, a) } else { (a, b) };
        let alu = alu_of(op, divides_signed(a, b));
        let fails = match (op, b.as_constant()) {
            (BinaryOp::Shl | BinaryOp::Shr, Some(by)) => !(0..64).contains(&by),
            (BinaryOp::Div | BinaryOp::Mod, Some(by)) => by == 0,
            _ => false,
        };
        if fails {
            self.jump(self.fail);
            return self.alloc();
        }
        if let Some(value) = b.as_constant()
            && let Ok(value) = i32::try_from(value as u64 as i64)
        {
            let left = self.own_number(a)?;
            self.apply(alu, left, value);
            return Ok(left);
        }
        let (left, right) = self.both(a, b)?;
        let left = self.own(left)?;
        match op {
            BinaryOp::Div | BinaryOp::Mod if b.min <= 0 && b.max >= 0 => {
                self.branch(op::Cond::Eq, right, 0, self.fail);
            }
            BinaryOp::Shl | BinaryOp::Shr if b.min < 0 || b.max > 63 => {
                self.branch(op::Cond::Gt, right, 63, self.fail);
            }
            _ => {}
        }
        self.apply(alu, left, right);
        self.release(right);
        Ok(left)
    }

    fn length(&mut self, word: u16, bytes: u32) -> Result<Held, Stop> {
        if self.is_kernel() {
            return Ok(self.string_length(word));
        }
        let start = self.word(word)?;
        let end = self.word(word + 1)?;
        let length = self.own(end)?;
        self.apply(AluOp::Sub, length, start);
        if bytes > 1 {
            self.apply(AluOp::Rsh, length, bytes.trailing_zeros() as i32);
        }
        self.release(start);
        Ok(length)
    }

    /// An element; fails when it is not there.
    pub(in crate::emit) fn element(&mut self, element: &Element, signed: bool) -> Result<Held, Stop> {
        let size = match element.bytes {
            1 => Size::B,
            2 => Size::H,
            4 => Size::W,
            _ => Size::DW,
        };
        let most = if self.is_kernel() { STRING_LEN_MAX - 1 } else { INDEX_MAX };
        let last = element.count.map_or(i128::from(most), |count| i128::from(count) - 1);
        let (pointer, offset) = match element.index.as_constant() {
            Some(index) if (0..=last).contains(&index) => self.element_at(element, index as u64)?,
            Some(_) => {
                self.jump(self.fail);
                return self.alloc();
            }
            None => (self.element_behind(element, last)?, 0),
        };
        let held = self.own(pointer)?;
        if signed {
            self.load_signed_into(held, size, held, offset);
        } else {
            self.load_into(held, size, held, offset);
        }
        Ok(held)
    }

    /// Pointer and offset of an element whose index is known.
    fn element_at(&mut self, element: &Element, index: u64) -> Result<(Held, i16), Stop> {
        let offset = index * u64::from(element.bytes);
        let behind = offset + u64::from(element.bytes);
        if element.count.is_none() && self.is_kernel() {
            let length = self.length_of(element.word);
            self.jump_if(length.lt(behind), self.fail);
            drop(length);
            return Ok((self.word(element.word)?, offset as i16));
        }
        let start = self.word(element.word)?;
        if element.count.is_none() {
            self.check_end(element, start, behind)?;
        }
        if let Ok(offset) = i16::try_from(offset) {
            return Ok((start, offset));
        }
        let start = self.value(start)?;
        self.set(&start, &start + offset);
        Ok((self.held(start), 0))
    }

    /// Pointer to an element whose index is worked out.
    fn element_behind(&mut self, element: &Element, last: i128) -> Result<Held, Stop> {
        let index = self.own_number(&element.index)?;
        if last < 0 {
            self.jump(self.fail);
        }
        let index = self.value(index)?;
        self.jump_if(index.gt(last.max(0) as u32), self.fail);
        if element.count.is_none() && self.is_kernel() {
            let length = self.length_of(element.word);
            self.jump_if(length.le(&index), self.fail);
            drop(length);
            let start = self.word(element.word)?;
            let pointer = self.value(start)?;
            self.set(&pointer, &pointer + index);
            return Ok(self.held(pointer));
        }
        self.set(&index, &index << element.bytes.trailing_zeros());
        let start = self.word(element.word)?;
        let pointer = self.value(start)?;
        self.set(&pointer, &pointer + index);
        let pointer = self.held(pointer);
        if element.count.is_none() {
            self.check_end(element, pointer, element.bytes.into())?;
        }
        Ok(pointer)
    }

    /// Fails when so many bytes from the pointer on do not end before the sequence does.
    fn check_end(&mut self, element: &Element, pointer: Held, bytes: u64) -> Result<(), Stop> {
        let end = self.word(element.word + 1)?;
        let pointer = self.read(pointer);
        self.with(end, |code, end| code.jump_if((&pointer + bytes).gt(end), code.fail));
        Ok(())
    }

    fn thread_context(&mut self, context: Context) -> Result<Held, Stop> {
        match context {
            Context::Tid => {
                let both = self.helper_value(Cached::PidTgid, Slot::PidTgid, helper::GET_CURRENT_PID_TGID)?;
                let both = self.value(both)?;
                let tid = self.get(Expr::from(both).low());
                Ok(self.held(tid))
            }
            Context::Pid => {
                let both = self.helper_value(Cached::PidTgid, Slot::PidTgid, helper::GET_CURRENT_PID_TGID)?;
                let both = self.value(both)?;
                let pid = self.get(both >> 32);
                Ok(self.held(pid))
            }
            Context::Cpu => {
                self.helper_value(Cached::Context(context), Slot::Cpu, helper::GET_SMP_PROCESSOR_ID)
            }
            Context::Elapsed => {
                let held = self.helper_value(Cached::Context(context), Slot::Elapsed, tracer::SPECULATED)?;
                let elapsed = self.read(held);
                self.jump_if(elapsed.eq(NOT_SPECULATING), self.fail);
                Ok(held)
            }
            Context::Delta => self.delta(),
            Context::Target => {
                let target = self.target();
                let value = self.get(target);
                Ok(self.held(value))
            }
        }
    }

    /// What a helper returns, called once: after that from a saved register, or from the stack.
    pub(in crate::emit) fn helper_value(&mut self, value: Cached, slot: Slot, id: u32) -> Result<Held, Stop> {
        if let Some(held) = self.recall(value) {
            return Ok(held);
        }
        if self.slot_is_filled(slot) {
            let held = self.taken_from_stack(self.slot(slot))?;
            self.release(held);
            self.remember(held.reg, Some(value));
            return Ok(self.share(held.reg, value));
        }
        self.call(id)?;
        if self.uses_to_come(value) > 1 {
            if let Some(saved) = self.alloc_saved() {
                self.b.mov(saved, Reg::R0);
                self.remember(saved, Some(value));
                return Ok(self.share(saved, value));
            }
            let result = self.left_in(Reg::R0);
            self.put(Local::<u64>::at(self.slot(slot)), result);
            self.slot_filled(slot);
        }
        self.remember(Reg::R0, Some(value));
        Ok(self.share(Reg::R0, value))
    }
}

fn alu_of(op: BinaryOp, signed: bool) -> AluOp {
    match (op, signed) {
        (BinaryOp::Add, _) => AluOp::Add,
        (BinaryOp::Sub, _) => AluOp::Sub,
        (BinaryOp::Mul, _) => AluOp::Mul,
        (BinaryOp::Div, true) => AluOp::SDiv,
        (BinaryOp::Div, false) => AluOp::Div,
        (BinaryOp::Mod, true) => AluOp::SMod,
        (BinaryOp::Mod, false) => AluOp::Mod,
        (BinaryOp::BitOr, _) => AluOp::Or,
        (BinaryOp::BitXor, _) => AluOp::Xor,
        (BinaryOp::Shl, _) => AluOp::Lsh,
        (BinaryOp::Shr, _) => AluOp::Rsh,
        // Comparisons are conditions: none comes here.
        _ => AluOp::And,
    }
}

/// About how many registers it takes to work out.
fn weight(num: &Num) -> usize {
    match &num.kind {
        NumKind::Binary(_, a, b) if b.as_constant().is_some() => weight(a),
        NumKind::Binary(_, a, b) => {
            let (a, b) = (weight(a), weight(b));
            if a == b { a + 1 } else { a.max(b) }
        }
        NumKind::Neg(inner) | NumKind::BitNot(inner) => weight(inner),
        NumKind::Element(element) => weight(&element.index).max(1) + 2,
        NumKind::Length(..) => 2,
        NumKind::SharedWord(word) => weight(&word.index) + 1,
        // It uses the registers as it likes.
        NumKind::Truth(_) | NumKind::Elapsed(_) => 8,
        _ => 1,
    }
}

/// Whether working it out changes the registers that calls change.
pub(in crate::emit) fn calls(num: &Num) -> bool {
    match &num.kind {
        NumKind::Context(_)
        | NumKind::Truth(_)
        | NumKind::Last(_)
        | NumKind::Since(_)
        | NumKind::Elapsed(_) => true,
        NumKind::SharedWord(word) => calls(&word.index),
        NumKind::Neg(inner) | NumKind::BitNot(inner) => calls(inner),
        NumKind::Binary(_, a, b) => calls(a) || calls(b),
        NumKind::Element(element) => calls(&element.index),
        _ => false,
    }
}

/// Whether it matters when it is worked out.
fn counts(num: &Num) -> bool {
    match &num.kind {
        NumKind::Truth(_) => true,
        NumKind::Neg(inner) | NumKind::BitNot(inner) => counts(inner),
        NumKind::Binary(_, a, b) => counts(a) || counts(b),
        NumKind::Element(element) => counts(&element.index),
        NumKind::SharedWord(word) => counts(&word.index),
        _ => false,
    }
}
