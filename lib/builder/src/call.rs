//! Calls: each argument into the register where it is expected, none over another one that is still to be read.

use crate::builder::Builder;
use crate::error::{BuildError, Label};
use crate::expr::{Expr, Node};
use crate::place::Memory;
use crate::registers::Value;
use mote_bpf::Reg;
use mote_bpf::op::Op;

/// Where arguments are passed.
const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

/// Up to five arguments: a tuple of what are expressions.
pub trait Arguments {
    /// In order.
    fn list(self) -> Vec<Expr>;
}

macro_rules! arguments {
    ($($name:ident)*) => {
        impl<$($name: Into<Expr>),*> Arguments for ($($name,)*) {
            #[allow(non_snake_case)]
            fn list(self) -> Vec<Expr> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    };
}

arguments!();
arguments!(A);
arguments!(A B);
arguments!(A B C);
arguments!(A B C D);
arguments!(A B C D E);

impl Builder {
    /// Puts the arguments into `r1` and on.
    pub(crate) fn pass(&mut self, arguments: Vec<Expr>) {
        let mut left: Vec<(Reg, Expr)> = ARGUMENTS.into_iter().zip(arguments).collect();
        // Until the call, so that no other argument is worked out there.
        let mut passed = Vec::new();
        while !left.is_empty() {
            let read_later =
                |at: usize, reg: Reg| left.iter().enumerate().any(|(i, (_, e))| i != at && reads(e, reg));
            let ready =
                (0..left.len()).find(|at| left.get(*at).is_some_and(|(reg, _)| !read_later(*at, *reg)));
            let Some(at) = ready else {
                self.break_circle(&mut left);
                continue;
            };
            let (reg, expr) = left.remove(at);
            // A value that is there is lost with the call anyway.
            passed.push(self.work_out_in(expr, reg));
        }
    }

    /// Each argument is read by another one: one of them is put aside.
    fn break_circle(&mut self, left: &mut [(Reg, Expr)]) {
        let Some((_, first)) = left.first_mut() else { return };
        let expr = std::mem::replace(first, Expr(Node::Number(0)));
        *first = Expr(Node::Owned(self.copy_of(expr)));
    }

    /// Works the expression out in this register, whatever is there.
    pub(crate) fn work_out_in(&mut self, expr: Expr, reg: Reg) -> Value {
        let value = (!reads(&expr, reg)).then(|| self.registers.own(reg));
        self.work_out(expr, reg);
        let value = value.unwrap_or_else(|| self.registers.own(reg));
        self.written(&value);
        value
    }

    /// After a call: what it returned.
    pub(crate) fn returned(&mut self) -> Value {
        self.registers.call();
        let value = self.registers.own(Reg::R0);
        self.written(&value);
        value
    }

    /// Begins a function; returns its arguments.
    pub(crate) fn enter<const N: usize>(&mut self, label: Label) -> [Value; N] {
        if self.registers.here.is_some() {
            self.fail(BuildError::FallsInto { at: self.registers.at });
        }
        self.registers.here = Some(Default::default());
        self.place_label(label);
        let mut registers = ARGUMENTS.into_iter();
        std::array::from_fn(|_| {
            let value = self.registers.own(registers.next().unwrap_or(Reg::R5));
            self.written(&value);
            value
        })
    }

    /// Changes a value to what the expression is.
    pub(crate) fn assign(&mut self, value: &Value, expr: Expr) {
        self.work_out(expr, value.reg);
        self.written(value);
    }

    /// Stores an expression.
    pub(crate) fn store_to(&mut self, memory: Memory, expr: Expr) {
        let constant = match expr.0 {
            Node::Number(number) => i32::try_from(number).ok().or(match memory.size.bytes() {
                8 => None,
                _ => u32::try_from(number).ok().map(u32::cast_signed),
            }),
            _ => None,
        };
        let (src, _held) = match constant {
            Some(number) => (number.into(), None),
            None => {
                let (reg, held) = self.in_register(expr);
                (reg.into(), held)
            }
        };
        let to = self.resolve(memory);
        self.write(Op::Store { dst: to.reg, off: to.off, size: to.size, src });
    }
}

fn reads(expr: &Expr, reg: Reg) -> bool {
    expr.reads() >> reg.index() & 1 == 1
}
