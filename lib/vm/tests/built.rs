//! Programs that the builder makes of random trees of conditions compute what Rust computes.

mod common;

use common::{insns, run};
use mote_bpf::{Reg, helper};
use mote_builder::{Build, Builder, Expr, Local, Test, Value};
use proptest::prelude::*;

/// Variables: the first ones in registers, the others in the frame.
const VARIABLES: usize = 5;
const IN_REGISTERS: usize = 3;
/// Words of the context.
const WORDS: usize = 4;

#[derive(Clone, Debug)]
enum Number {
    Constant(u64),
    Variable(usize),
    Word(usize),
    Sum(Box<Number>, Box<Number>),
    Difference(Box<Number>, Box<Number>),
    Negated(Box<Number>),
    Product(Box<Number>, Box<Number>),
    And(Box<Number>, Box<Number>),
    Shifted(Box<Number>, u8),
    Extended(Box<Number>, u8, bool),
    LowDifference(Box<Number>, Box<Number>),
}

#[derive(Clone, Debug)]
enum Condition {
    Less(Number, Number),
    SignedLess(Number, Number),
    Equal(Number, Number),
    LowEqual(Number, Number),
    Not(Box<Condition>),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Debug)]
enum Statement {
    Set(usize, Number),
    Increase(usize, Number),
    If(Condition, Vec<Statement>, Vec<Statement>),
    When(Condition, Vec<Statement>),
    /// Leaves early if the condition holds.
    Block(Vec<Statement>, Condition, Vec<Statement>),
    /// A call takes all scratch registers.
    Call,
    End(Number),
}

fn number() -> impl Strategy<Value = Number> {
    let constant = prop_oneof![any::<u64>(), (0..20u64), any::<i32>().prop_map(|number| number as u64)];
    let leaf = prop_oneof![
        constant.prop_map(Number::Constant),
        (0..VARIABLES).prop_map(Number::Variable),
        (0..WORDS).prop_map(Number::Word),
    ];
    // Three deep: each level may need a register more.
    leaf.prop_recursive(3, 12, 2, |inner| {
        let two = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            two().prop_map(|(a, b)| Number::Sum(a, b)),
            two().prop_map(|(a, b)| Number::Difference(a, b)),
            two().prop_map(|(a, _)| Number::Negated(a)),
            two().prop_map(|(a, b)| Number::Product(a, b)),
            two().prop_map(|(a, b)| Number::And(a, b)),
            two().prop_map(|(a, b)| Number::LowDifference(a, b)),
            (inner.clone().prop_map(Box::new), 0..64u8).prop_map(|(a, bits)| Number::Shifted(a, bits)),
            (inner.clone().prop_map(Box::new), prop::sample::select(vec![8, 16, 32, 64]), any::<bool>())
                .prop_map(|(a, bits, signed)| Number::Extended(a, bits, signed)),
        ]
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        (number(), number()).prop_map(|(a, b)| Condition::Less(a, b)),
        (number(), number()).prop_map(|(a, b)| Condition::SignedLess(a, b)),
        (number(), number()).prop_map(|(a, b)| Condition::Equal(a, b)),
        (number(), number()).prop_map(|(a, b)| Condition::LowEqual(a, b)),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let two = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.clone().prop_map(|a| Condition::Not(Box::new(a))),
            two().prop_map(|(a, b)| Condition::Both(a, b)),
            two().prop_map(|(a, b)| Condition::Either(a, b)),
        ]
    })
}

fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let leaf = prop_oneof![
        6 => (0..VARIABLES, number()).prop_map(|(to, value)| Statement::Set(to, value)),
        2 => (IN_REGISTERS..VARIABLES, number()).prop_map(|(to, value)| Statement::Increase(to, value)),
        2 => Just(Statement::Call),
        1 => number().prop_map(Statement::End),
    ];
    let one = leaf.prop_recursive(4, 40, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            (condition(), list(), list()).prop_map(|(test, then, other)| Statement::If(test, then, other)),
            (condition(), list()).prop_map(|(test, then)| Statement::When(test, then)),
            (list(), condition(), list()).prop_map(|(first, test, rest)| Statement::Block(first, test, rest)),
        ]
    });
    prop::collection::vec(one, 0..6)
}

/// What Rust makes of it.
struct Evaluation {
    variables: [u64; VARIABLES],
    words: [u64; WORDS],
}

impl Evaluation {
    fn number(&self, number: &Number) -> u64 {
        match number {
            Number::Constant(number) => *number,
            Number::Variable(at) => self.variables[*at],
            Number::Word(at) => self.words[*at],
            Number::Sum(a, b) => self.number(a).wrapping_add(self.number(b)),
            Number::Difference(a, b) => self.number(a).wrapping_sub(self.number(b)),
            Number::Negated(a) => self.number(a).wrapping_neg(),
            Number::Product(a, b) => self.number(a).wrapping_mul(self.number(b)),
            Number::And(a, b) => self.number(a) & self.number(b),
            Number::Shifted(a, bits) => self.number(a) << bits,
            Number::LowDifference(a, b) => u64::from(self.number(a).wrapping_sub(self.number(b)) as u32),
            Number::Extended(a, bits, signed) => {
                let (value, unused) = (self.number(a), 64 - u32::from(*bits));
                let shifted = value.checked_shl(unused).unwrap_or(0);
                if *signed { ((shifted as i64) >> unused) as u64 } else { shifted >> unused }
            }
        }
    }

    fn condition(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Less(a, b) => self.number(a) < self.number(b),
            Condition::SignedLess(a, b) => (self.number(a) as i64) < self.number(b) as i64,
            Condition::Equal(a, b) => self.number(a) == self.number(b),
            Condition::LowEqual(a, b) => self.number(a) as u32 == self.number(b) as u32,
            Condition::Not(a) => !self.condition(a),
            Condition::Both(a, b) => self.condition(a) && self.condition(b),
            Condition::Either(a, b) => self.condition(a) || self.condition(b),
        }
    }

    /// The result, if the statements end the program.
    fn all(&mut self, statements: &[Statement]) -> Option<u64> {
        statements.iter().find_map(|statement| self.one(statement))
    }

    fn one(&mut self, statement: &Statement) -> Option<u64> {
        match statement {
            Statement::Set(to, value) => self.variables[*to] = self.number(value),
            Statement::Increase(to, value) => {
                self.variables[*to] = self.variables[*to].wrapping_add(self.number(value));
            }
            Statement::If(test, then, other) => {
                let way = if self.condition(test) { then } else { other };
                return self.all(way);
            }
            Statement::When(test, then) if self.condition(test) => return self.all(then),
            Statement::When(..) | Statement::Call => {}
            Statement::Block(first, test, rest) => {
                let ended = self.all(first);
                if ended.is_some() || self.condition(test) {
                    return ended;
                }
                return self.all(rest);
            }
            Statement::End(value) => return Some(self.number(value)),
        }
        None
    }
}

/// What the builder makes of it.
struct Written {
    b: Builder,
    registers: [Value; IN_REGISTERS],
    frame: [Local<u64>; VARIABLES - IN_REGISTERS],
    context: Value,
}

impl Build for Written {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }
}

impl Written {
    fn new() -> Written {
        let mut b = Builder::new();
        let context = b.pin(Reg::R1);
        let context = b.keep(context);
        let registers = std::array::from_fn(|_| b.keep(0));
        let frame = std::array::from_fn(|_| b.local::<u64>());
        frame.iter().for_each(|place| b.put(*place, 0));
        Written { b, registers, frame, context }
    }

    fn number(&self, number: &Number) -> Expr {
        match number {
            Number::Constant(number) => Expr::from(*number),
            Number::Variable(at) => match self.registers.get(*at) {
                Some(value) => Expr::from(value),
                None => Expr::from(self.frame[at - IN_REGISTERS]),
            },
            Number::Word(at) => (&self.context + 8 * *at).place::<u64>().into(),
            Number::Sum(a, b) => self.number(a) + self.number(b),
            Number::Difference(a, b) => self.number(a) - self.number(b),
            Number::Negated(a) => -self.number(a),
            Number::Product(a, b) => self.number(a) * self.number(b),
            Number::And(a, b) => self.number(a) & self.number(b),
            Number::Shifted(a, bits) => self.number(a) << *bits,
            Number::Extended(a, bits, signed) => self.number(a).extended(*bits, *signed),
            Number::LowDifference(a, b) => (self.number(a) - self.number(b)).low(),
        }
    }

    fn condition(&self, condition: &Condition) -> Test {
        match condition {
            Condition::Less(a, b) => self.number(a).lt(self.number(b)),
            Condition::SignedLess(a, b) => self.number(a).slt(self.number(b)),
            Condition::Equal(a, b) => self.number(a).eq(self.number(b)),
            Condition::LowEqual(a, b) => self.number(a).eq(self.number(b)).of_32_bits(),
            Condition::Not(a) => !self.condition(a),
            Condition::Both(a, b) => self.condition(a).and(self.condition(b)),
            Condition::Either(a, b) => self.condition(a).or(self.condition(b)),
        }
    }

    /// True when the program has ended on all ways: then nothing more is to be written.
    fn all(&mut self, statements: &[Statement]) -> bool {
        statements.iter().any(|statement| self.one(statement))
    }

    fn one(&mut self, statement: &Statement) -> bool {
        match statement {
            Statement::Set(to, value) => {
                let value = self.number(value);
                match self.registers.get(*to) {
                    Some(register) => self.b.set(register, value),
                    None => self.b.put(self.frame[to - IN_REGISTERS], value),
                }
                false
            }
            Statement::Increase(to, value) => {
                let value = self.number(value);
                self.b.increase(self.frame[to - IN_REGISTERS], value);
                false
            }
            Statement::If(test, then, other) => {
                let test = self.condition(test);
                self.either(test, |code| code.all(then), |code| code.all(other)) == (true, true)
            }
            Statement::When(test, then) => {
                let test = self.condition(test);
                self.when(test, |code| code.all(then));
                false
            }
            Statement::Block(first, test, rest) => self.block(|code, end| {
                if code.all(first) {
                    return true;
                }
                let test = code.condition(test);
                code.jump_if(test, end);
                code.all(rest);
                false
            }),
            Statement::Call => {
                let _random = self.invoke(mote_bpf::helper::GET_SMP_PROCESSOR_ID, ());
                false
            }
            Statement::End(value) => {
                let value = self.number(value);
                self.exit_with(value);
                true
            }
        }
    }
}

proptest! {
    #[test]
    fn trees_compute_what_rust_computes(statements in statements(), words in any::<[u64; WORDS]>()) {
        let mut expected = Evaluation { variables: [0; VARIABLES], words };
        let result = expected.all(&statements);
        let sum = (0..VARIABLES).map(Number::Variable);
        let sum = sum.fold(Number::Constant(0), |sum, next| Number::Sum(Box::new(sum), Box::new(next)));
        let result = result.unwrap_or_else(|| expected.number(&sum));

        let program = insns(|b| {
            let mut code = Written::new();
            if !code.all(&statements) {
                let sum = code.number(&sum);
                code.exit_with(sum);
            }
            *b = code.b;
        });
        prop_assert_eq!(run(&program, &[], &words), Ok(result));
    }
}

#[test]
fn buckets_are_those_of_the_helper() {
    let program = insns(|b| {
        let context = b.pin(Reg::R1);
        let bucket = mote_builder::bucket(b, Expr::from(context).place::<u64>());
        b.exit_with(bucket);
    });
    let powers = (0..64).map(|bits| 1u64 << bits);
    let ends = powers.flat_map(|power| [power - 1, power, power + 1, power | power >> 3, power | power >> 1]);
    let firsts = (0..helper::BUCKETS).map(helper::bucket_start);
    let all = ends.chain(firsts.flat_map(|first| [first, first.wrapping_sub(1)])).chain([0, u64::MAX, !7]);
    for value in all {
        let words = [value, 0, 0, 0];
        assert_eq!(run(&program, &[], &words), Ok(helper::bucket(value).into()), "{value:#x}");
    }
}
