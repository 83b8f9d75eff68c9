//! Programs by values, conditions and calls, instead of registers, jumps and offsets.

use crate::builder::Builder;
use crate::call::Arguments;
use crate::error::{BuildError, Label};
use crate::expr::{Expr, Test};
use crate::place::Local;
use crate::place::Memory;
use crate::registers::Value;
use mote_bpf::Reg;
use mote_bpf::environment::STACK_BYTES;
use mote_bpf::op::{AtomicOp, Op};
use std::panic::Location;

/// What writes a program: a [`Builder`], or what has one and knows more about the programs that it writes.
///
/// All methods but [`Build::builder`] are provided. Mistakes do not panic: [`Builder::finish`] tells the first one,
/// with its place in the source.
pub trait Build: Sized {
    /// The program in the making.
    fn builder(&mut self) -> &mut Builder;

    // Values.

    /// Works `expr` out, in a register that the next call takes back.
    #[track_caller]
    fn get(&mut self, expr: impl Into<Expr>) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.value_of(expr.into(), false)
    }

    /// Works `expr` out, in a register that survives calls. There are four.
    #[track_caller]
    fn keep(&mut self, expr: impl Into<Expr>) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.value_of(expr.into(), true)
    }

    /// A value without a register that survives calls, to be [set](Build::set) on all ways to where it is read.
    #[track_caller]
    fn scratch(&mut self) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.unset_scratch()
    }

    /// A value in a register that survives calls, to be [set](Build::set) on all ways to where it is read.
    #[track_caller]
    fn saved(&mut self) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.unset(true)
    }

    /// Changes a value.
    #[track_caller]
    fn set(&mut self, value: &Value, expr: impl Into<Expr>) {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.assign(value, expr.into());
    }

    /// The value that is in this register here: the context in `r1` when a program begins, or what instructions that
    /// were written one by one have left there.
    #[track_caller]
    fn pin(&mut self, reg: Reg) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        if !b.registers.is_free(reg) {
            b.fail(BuildError::Taken { reg, at: Location::caller() });
        }
        let value = b.registers.own(reg);
        b.written(&value);
        value
    }

    // Memory.

    /// Room for a `T` in the frame, at a multiple of 8, for the rest of the program or function.
    #[track_caller]
    fn local<T>(&mut self) -> Local<T> {
        let b = self.builder();
        let bytes = size_of::<T>().next_multiple_of(8);
        let lowest = usize::from(b.frame.unsigned_abs()) + bytes;
        if lowest > STACK_BYTES {
            b.fail(BuildError::Frame { bytes: lowest, at: Location::caller() });
            return Local::at(b.frame);
        }
        b.frame = -(lowest as i16);
        Local::at(b.frame)
    }

    /// Stores the low bytes of `expr`, as many as the place has.
    #[track_caller]
    fn put(&mut self, place: impl Into<Memory>, expr: impl Into<Expr>) {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.store_to(place.into(), expr.into());
    }

    /// Adds to what lies at a place of which only one CPU at a time writes.
    #[track_caller]
    fn increase(&mut self, place: impl Into<Memory>, by: impl Into<Expr>) {
        let b = self.builder();
        b.registers.at = Location::caller();
        let to = b.resolve(place.into());
        let sum = b.unset(false);
        b.write(Op::Load { dst: sum.reg, src: to.reg, off: to.off, size: to.size, signed: false });
        b.written(&sum);
        b.assign(&sum, &sum + by);
        b.write(Op::Store { dst: to.reg, off: to.off, size: to.size, src: sum.reg.into() });
    }

    /// Adds to 4 or 8 bytes, atomically.
    #[track_caller]
    fn add_atomically(&mut self, place: impl Into<Memory>, by: impl Into<Expr>) {
        let b = self.builder();
        b.registers.at = Location::caller();
        let to = b.resolve(place.into());
        let (reg, _held) = b.in_register(by.into());
        b.write(Op::Atomic { op: AtomicOp::Add, base: to.reg, off: to.off, size: to.size, reg });
    }

    /// Adds to 4 or 8 bytes, atomically, and returns what was there.
    #[track_caller]
    fn fetch_add(&mut self, place: impl Into<Memory>, by: impl Into<Expr>) -> Value {
        let by = self.get(by);
        self.atomic_op(AtomicOp::FetchAdd, place, by)
    }

    /// Stores to 4 or 8 bytes, atomically and behind all stores before, and returns what was there.
    #[track_caller]
    fn exchange(&mut self, place: impl Into<Memory>, expr: impl Into<Expr>) -> Value {
        let value = self.get(expr);
        self.atomic_op(AtomicOp::Xchg, place, value)
    }

    /// Stores to 4 or 8 bytes if `expected` lies there, atomically, and returns what was there.
    #[track_caller]
    fn compare_exchange(
        &mut self,
        place: impl Into<Memory>,
        expected: impl Into<Expr>,
        new: impl Into<Expr>,
    ) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        let to = b.resolve(place.into());
        let (new, _held) = b.in_register(new.into());
        let expected = expected.into();
        // The instruction has `r0` for what is expected, and for what was there.
        if !b.registers.is_free(Reg::R0) && expected.reads() & 1 == 0 {
            b.fail(BuildError::Taken { reg: Reg::R0, at: Location::caller() });
        }
        let old = b.work_out_in(expected, Reg::R0);
        b.write(Op::Atomic { op: AtomicOp::CmpXchg, base: to.reg, off: to.off, size: to.size, reg: new });
        old
    }

    #[doc(hidden)]
    #[track_caller]
    fn atomic_op(&mut self, op: AtomicOp, place: impl Into<Memory>, value: Value) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        let to = b.resolve(place.into());
        b.write(Op::Atomic { op, base: to.reg, off: to.off, size: to.size, reg: value.reg });
        value
    }

    // Ways.

    /// A label for a place to come.
    fn label(&mut self) -> Label {
        self.builder().label()
    }

    /// Puts a label before the next instruction.
    fn bind(&mut self, label: Label) {
        self.builder().bind(label);
    }

    /// Goes on at the label.
    #[track_caller]
    fn jump(&mut self, to: Label) {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.jump(to);
    }

    /// Goes on at the label if the test holds.
    #[track_caller]
    fn jump_if(&mut self, test: Test, to: Label) {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.decide(test, to, true);
    }

    /// Does `then` if the test holds.
    #[track_caller]
    fn when<R>(&mut self, test: Test, then: impl FnOnce(&mut Self) -> R) -> R {
        let end = self.label();
        self.jump_if(!test, end);
        let done = then(self);
        self.bind(end);
        done
    }

    /// Does `then` if the test holds, else `other`.
    #[track_caller]
    fn either<R>(
        &mut self,
        test: Test,
        then: impl FnOnce(&mut Self) -> R,
        other: impl FnOnce(&mut Self) -> R,
    ) -> (R, R) {
        let (not, end) = (self.label(), self.label());
        self.jump_if(!test, not);
        let first = then(self);
        if self.builder().registers.here.is_some() {
            self.jump(end);
        }
        self.bind(not);
        let second = other(self);
        self.bind(end);
        (first, second)
    }

    /// Does `body`, which may leave early by a jump to the label that it is given.
    fn block<R>(&mut self, body: impl FnOnce(&mut Self, Label) -> R) -> R {
        let end = self.label();
        let done = body(self, end);
        self.bind(end);
        done
    }

    // Calls.

    /// Calls a helper by its number (`mote_bpf::helper`). Values in `r0` to `r5` are lost; returns what the helper
    /// does.
    #[track_caller]
    fn invoke(&mut self, helper: u32, arguments: impl Arguments) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.pass(arguments.list());
        b.write(Op::Call { helper });
        b.returned()
    }

    /// Calls a function of the program ([`Build::function`]), as a helper.
    #[track_caller]
    fn invoke_function(&mut self, function: Label, arguments: impl Arguments) -> Value {
        let b = self.builder();
        b.registers.at = Location::caller();
        b.pass(arguments.list());
        b.call_local(function);
        b.returned()
    }

    /// Writes a function of the program, with its arguments: registers and frame of its own. It ends with
    /// [`Build::exit_with`].
    #[track_caller]
    fn function<const N: usize>(&mut self, label: Label, body: impl FnOnce(&mut Self, [Value; N])) {
        const { assert!(N <= 5, "functions have five arguments at most") };
        let b = self.builder();
        b.registers.at = Location::caller();
        let frame = std::mem::take(&mut b.frame);
        let arguments = b.enter(label);
        body(self, arguments);
        self.builder().frame = frame;
    }

    /// Ends the function or the program with this result.
    #[track_caller]
    fn exit_with(&mut self, expr: impl Into<Expr>) {
        let b = self.builder();
        b.registers.at = Location::caller();
        // What else was in `r0` is not needed any more.
        b.work_out(expr.into(), Reg::R0);
        b.write(Op::Exit);
        b.registers.here = None;
    }
}

impl Build for Builder {
    fn builder(&mut self) -> &mut Builder {
        self
    }
}
