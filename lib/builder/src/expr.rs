//! Values to be worked out: numbers, registers, memory, and sums of these.
//!
//! An expression is no instruction yet. It is worked out where it goes: into a register of its own, into the argument
//! of a call, or as an operand; so that no register is taken and no move is made on its way.

use crate::place::{Local, Memory, Place, Pointer, Scalar};
use crate::registers::{Id, Value};
use mote_bpf::Reg;
use mote_bpf::op::{AluOp, Cond, Wide, Width};
use std::ops;

/// A number of 64 bits, to be worked out.
#[derive(Debug)]
#[must_use]
pub struct Expr(pub(crate) Node);

#[derive(Debug)]
pub(crate) enum Node {
    Number(i64),
    /// A value that stays as it is.
    Register(Reg, Id),
    /// A value that is given up.
    Owned(Value),
    Wide(Wide),
    /// An address in the frame.
    Frame(i32),
    Load(Box<Memory>),
    Binary(Width, AluOp, Box<Expr>, Box<Expr>),
    /// 0 less the number.
    Negated(Box<Expr>),
    /// The low bits, the others as the sign or 0.
    Extended {
        value: Box<Expr>,
        bits: u8,
        signed: bool,
    },
    /// The low bits in the byte order of networks, the others 0.
    BigEndian {
        value: Box<Expr>,
        bits: u8,
    },
}

/// A map, by its index in the environment: what helpers take.
pub fn map(map: u32) -> Expr {
    Expr(Node::Wide(Wide::Map(map)))
}

/// The address at an offset in the first value of an array map.
pub fn map_value(map: u32, offset: u32) -> Expr {
    Expr(Node::Wide(Wide::MapValue { map, offset }))
}

impl Expr {
    fn binary(width: Width, op: AluOp, left: Expr, right: Expr) -> Expr {
        // Nothing is added, or shifted.
        match (op, &right.0) {
            (AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor, Node::Number(0))
            | (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Node::Number(0))
                if width == Width::W64 =>
            {
                left
            }
            _ => Expr(Node::Binary(width, op, Box::new(left), Box::new(right))),
        }
    }

    fn compared(self, cond: Cond, right: Expr) -> Test {
        Test::Compare { width: Width::W64, cond, left: self, right }
    }

    /// Registers that are read, a bit for each.
    pub(crate) fn reads(&self) -> u16 {
        match &self.0 {
            Node::Number(_) | Node::Wide(_) | Node::Frame(_) => 0,
            Node::Register(reg, _) => 1 << reg.index(),
            Node::Owned(value) => 1 << value.reg.index(),
            Node::Load(memory) => memory.base.reads(),
            Node::Binary(_, _, left, right) => left.reads() | right.reads(),
            Node::Negated(value) | Node::Extended { value, .. } | Node::BigEndian { value, .. } => {
                value.reads()
            }
        }
    }

    /// A value that is given up, and in whose register the whole may be worked out; it is only read then.
    pub(crate) fn give_up(&mut self, fits: impl Fn(Reg) -> bool + Copy) -> Option<Value> {
        match &mut self.0 {
            Node::Owned(value) if fits(value.reg) => {
                let read = Node::Register(value.reg, value.id);
                match std::mem::replace(&mut self.0, read) {
                    Node::Owned(value) => Some(value),
                    _ => None,
                }
            }
            Node::Load(memory) => memory.base.give_up(fits),
            Node::Binary(_, _, left, _) => left.give_up(fits),
            Node::Negated(value) | Node::Extended { value, .. } | Node::BigEndian { value, .. } => {
                value.give_up(fits)
            }
            _ => None,
        }
    }

    /// As a constant of an instruction, if it is one.
    pub(crate) fn immediate(&self) -> Option<i32> {
        match self.0 {
            Node::Number(number) => i32::try_from(number).ok(),
            _ => None,
        }
    }
}

/// A condition: what [`Build::when`](crate::Build::when) and its relatives decide by.
#[derive(Debug)]
#[must_use]
pub enum Test {
    /// A comparison; made by [`Expr::eq`] and the like.
    #[doc(hidden)]
    Compare { width: Width, cond: Cond, left: Expr, right: Expr },
    /// Both hold; the second is worked out only when the first holds.
    #[doc(hidden)]
    Both(Box<Test>, Box<Test>),
    /// One holds; the second is worked out only when the first does not hold.
    #[doc(hidden)]
    Either(Box<Test>, Box<Test>),
    /// It does not hold.
    #[doc(hidden)]
    Not(Box<Test>),
}

impl Test {
    /// Holds when both do. The second one is worked out only when the first one holds.
    pub fn and(self, other: Test) -> Test {
        Test::Both(Box::new(self), Box::new(other))
    }

    /// Holds when one of them does. The second one is worked out only when the first one does not hold.
    pub fn or(self, other: Test) -> Test {
        Test::Either(Box::new(self), Box::new(other))
    }

    /// The same of the low 32 bits of both sides.
    pub fn of_32_bits(self) -> Test {
        match self {
            Test::Compare { cond, left, right, .. } => Test::Compare { width: Width::W32, cond, left, right },
            Test::Both(a, b) => Test::Both(Box::new(a.of_32_bits()), Box::new(b.of_32_bits())),
            Test::Either(a, b) => Test::Either(Box::new(a.of_32_bits()), Box::new(b.of_32_bits())),
            Test::Not(test) => Test::Not(Box::new(test.of_32_bits())),
        }
    }
}

impl ops::Not for Test {
    type Output = Test;

    fn not(self) -> Test {
        Test::Not(Box::new(self))
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Expr {
            fn from(number: $ty) -> Expr {
                Expr(Node::Number(number as i64))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, usize, i16, i32, i64);

impl From<Value> for Expr {
    fn from(value: Value) -> Expr {
        Expr(Node::Owned(value))
    }
}

impl From<&Value> for Expr {
    fn from(value: &Value) -> Expr {
        Expr(Node::Register(value.reg, value.id))
    }
}

impl<S> From<Pointer<S>> for Expr {
    fn from(pointer: Pointer<S>) -> Expr {
        pointer.into_value().into()
    }
}

impl<S> From<&Pointer<S>> for Expr {
    fn from(pointer: &Pointer<S>) -> Expr {
        (&**pointer).into()
    }
}

impl From<Memory> for Expr {
    fn from(memory: Memory) -> Expr {
        let (bits, signed) = (8 * memory.size.bytes() as u8, memory.signed);
        let loaded = Expr(Node::Load(Box::new(memory)));
        // Loads that extend the sign are of Linux 6.6; shifts do on all.
        if signed { loaded.extended(bits, true) } else { loaded }
    }
}

impl<T: Scalar> From<Place<T>> for Expr {
    fn from(place: Place<T>) -> Expr {
        Memory::from(place).into()
    }
}

impl<T: Scalar> From<Local<T>> for Expr {
    fn from(local: Local<T>) -> Expr {
        Memory::from(local).into()
    }
}

/// Arithmetic of everything that is a number.
macro_rules! operators {
    ($([$($generic:tt)*] $ty:ty;)*) => {$(
        operators!(@all [$($generic)*] $ty; Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Mod,
            BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor, Shl shl Lsh, Shr shr Rsh);
    )*};
    (@all $generic:tt $ty:ty; $($trait:ident $method:ident $op:ident),*) => {$(
        operators!(@one $generic $ty, $trait $method $op);
    )*};
    (@one [$($generic:tt)*] $ty:ty, $trait:ident $method:ident $op:ident) => {
        impl<Right: Into<Expr>, $($generic)*> ops::$trait<Right> for $ty {
            type Output = Expr;

            fn $method(self, right: Right) -> Expr {
                Expr::binary(Width::W64, AluOp::$op, self.into(), right.into())
            }
        }
    };
}

operators! {
    [] Expr;
    [] Value;
    [] &Value;
    [S] Pointer<S>;
    [S] &Pointer<S>;
    [T: Scalar] Place<T>;
    [T: Scalar] Local<T>;
    [] Memory;
}

macro_rules! negations {
    ($($ty:ty),*) => {$(
        impl ops::Neg for $ty {
            type Output = Expr;

            fn neg(self) -> Expr {
                Expr(Node::Negated(Box::new(self.into())))
            }
        }
    )*};
}
negations!(Expr, Value, &Value);

/// Comparisons and functions of everything that is a number.
macro_rules! functions {
    ($([$($generic:tt)*] $ty:ty, $self:ty;)*) => {$(
        functions!(@tests [$($generic)*] $ty, $self;
            eq Eq "==", ne Ne "!=", gt Gt "> (unsigned)", ge Ge ">= (unsigned)", lt Lt "< (unsigned)",
            le Le "<= (unsigned)", sgt SGt "> (signed)", sge SGe ">= (signed)", slt SLt "< (signed)",
            sle SLe "<= (signed)");

        impl<$($generic)*> $ty {
            /// Shifted to the right, with the sign.
            pub fn arsh(self: $self, bits: impl Into<Expr>) -> Expr {
                Expr::binary(Width::W64, AluOp::Arsh, self.into(), bits.into())
            }

            /// The low `bits` (8, 16 or 32; of 64 all), the upper ones as their sign or 0.
            pub fn extended(self: $self, bits: u8, signed: bool) -> Expr {
                let value = Expr::from(self);
                if bits >= 64 {
                    return value;
                }
                Expr(Node::Extended { value: Box::new(value), bits, signed })
            }

            /// The low 32 bits. Of a sum, a difference and the like, 32 bits are worked out at once.
            pub fn low(self: $self) -> Expr {
                Expr::from(self).narrow()
            }

            /// The low `bits` (16, 32 or 64) turned round from or to the byte order of networks, the upper ones 0.
            pub fn big_endian(self: $self, bits: u8) -> Expr {
                Expr(Node::BigEndian { value: Box::new(self.into()), bits })
            }
        }
    )*};
    (@tests $generic:tt $ty:ty, $self:ty; $($method:ident $cond:ident $text:literal),*) => {
        $(functions!(@test $generic $ty, $self, $method $cond $text);)*
    };
    (@test [$($generic:tt)*] $ty:ty, $self:ty, $method:ident $cond:ident $text:literal) => {
        impl<$($generic)*> $ty {
            #[doc = concat!("`self ", $text, " right`")]
            pub fn $method(self: $self, right: impl Into<Expr>) -> Test {
                Expr::from(self).compared(Cond::$cond, right.into())
            }
        }
    };
}

functions! {
    [] Expr, Self;
    [] Value, &Self;
    [T: Scalar] Place<T>, Self;
    [T: Scalar] Local<T>, Self;
    [] Memory, Self;
}

impl Expr {
    fn narrow(self) -> Expr {
        match self.0 {
            // The low bits of these depend on low bits only.
            Node::Binary(
                _,
                op @ (AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::And | AluOp::Or | AluOp::Xor),
                left,
                right,
            ) => Expr(Node::Binary(Width::W32, op, left, right)),
            node => Expr(Node::Extended { value: Box::new(Expr(node)), bits: 32, signed: false }),
        }
    }
}
