//! Typed trees: what rules mean for one event.
//!
//! # Meaning
//! A condition holds, does not hold, or **fails**: an element that is not there, a division by zero, a shift by more
//! than 63. A condition that fails does not hold as a whole, whatever else is in it (LTTng: "EXPR is false"). Operands
//! of `&&` and `||` are worked out from left to right, as far as needed.
//!
//! Numbers are 64-bit patterns, together with the range in which their value lies: signed, unless that range goes above
//! `i64::MAX`. Arithmetic wraps. Comparisons are of values: a negative number is less than any unsigned one.

use crate::diagnostic::{Diagnostic, Span};
use crate::maps::KeyType;
use crate::session::Emitted;
use crate::string_pattern::StringPattern;
use crate::syntax::{BinaryOp, Scope};
use crate::target::Side;
use std::cmp::Ordering;

pub(crate) mod float;
pub(crate) mod number;
pub(crate) mod set;
mod show;

pub(crate) use float::FloatSet;
pub(crate) use set::Set;

/// All that a program does at one event.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where it runs.
    pub(crate) side: Side,
    /// `provider:name`
    pub(crate) event: String,
    /// Names of the context's words, for people.
    pub(crate) words: Vec<String>,
    pub(crate) rules: Vec<RulePlan>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// Whether records may have to be kept aside by their thread: some rule of the session speculates so.
    pub(crate) speculates: bool,
    /// The keys by which the event's records may have to be kept aside; the first that has a speculation open counts.
    pub(crate) speculated_by: Vec<Speculated>,
    /// What is kept for each thread.
    pub(crate) thread: Vec<Kept>,
    /// How many counters the program keeps.
    pub(crate) counters: u16,
}

/// What one rule does at it.
#[derive(Clone, Debug)]
pub(crate) struct RulePlan {
    pub(crate) source: String,
    pub(crate) condition: Cond,
    pub(crate) actions: Vec<Action>,
}

/// Something that is kept from a thread's last event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The time of the event.
    Time,
    /// A word of the context.
    Word(u16),
    /// The hash of a string.
    StringHash(u16),
    /// What the kernel has published of the thread, at this offset of its state.
    Published(u16),
}

/// An action.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Record,
    Count {
        name: String,
        keys: Vec<KeyPlan>,
    },
    Histogram {
        name: String,
        value: KeyPlan,
        keys: Vec<KeyPlan>,
    },
    Last {
        name: String,
        entries: u32,
        fields: Vec<KeyPlan>,
    },
    Set(String),
    Clear(String),
    Emit {
        event: Emitted,
        fields: Vec<EmittedField>,
        span: Span,
    },
    Snapshot,
    /// The packets of the hardware trace of so many ns before the event are kept.
    SnapshotPackets {
        ns: u64,
    },
    /// Samples of threads are kept for so many ns.
    Profile {
        ns: u64,
    },
    /// Calls of the functions of this pattern are sampled for so many ns.
    SampleFunctions {
        pattern: String,
        ns: u64,
    },
    /// A system call is recorded from this duration on, in ns ([`mote_layout::cooperation::threshold_word`]).
    Threshold {
        syscall: u32,
        ns: u64,
    },
    OpenKernel {
        ns: u64,
        of: Scope,
    },
    /// These three go by the thread when there is no key.
    Speculate(Option<SpeculationKey>),
    Commit(Option<SpeculationKey>),
    Discard(Option<SpeculationKey>),
}

/// What a speculation goes by, at this event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpeculationKey {
    /// As it is written: keys of different names are different, whatever their values.
    pub(crate) name: String,
    pub(crate) value: SpeculationValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SpeculationValue {
    Number(Num),
    /// The hash of the string that begins in this word.
    String(u16),
}

/// How an event finds the speculation of its key.
#[derive(Clone, Debug)]
pub(crate) struct Speculated {
    pub(crate) key: SpeculationKey,
    pub(crate) link: Link,
}

/// What an event does to the speculation of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    None,
    /// A span is made: it belongs to the speculation of its parent, whose id is in this word.
    Parent(u16),
    /// A span is gone.
    Leave,
}

/// A part of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlan {
    pub(crate) name: String,
    pub(crate) ty: KeyType,
    pub(crate) value: KeyValue,
}

/// What a part of a key is made of.
#[derive(Clone, Debug)]
pub(crate) enum KeyValue {
    Number(Num),
    Float(Float),
    /// So many bytes of a string.
    String(StringSource, u32),
    /// The event itself.
    Event,
}

/// A field of an event that is emitted.
#[derive(Clone, Debug)]
pub(crate) enum EmittedField {
    /// So many bytes of a number.
    Number(Num, u32),
    Float(Float),
    /// A string, cut to so many bytes; it is the last field.
    String(StringSource, u32),
}

/// A number, and the range in which its value lies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Num {
    pub(crate) kind: NumKind,
    pub(crate) min: i128,
    pub(crate) max: i128,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NumKind {
    Constant(i128),
    /// A word of the context.
    Word(u16),
    /// An element of an array or a sequence; fails when there is none.
    Element(Box<Element>),
    /// Elements of what begins in this word, each of so many bytes.
    Length(u16, u32),
    Context(Context),
    Flag(String),
    /// A word of the context; fails when it is 0.
    NotZero(u16),
    /// ns since the speculation of this key began; fails when none is open.
    Elapsed(Box<SpeculationKey>),
    /// Something kept of the thread's last event; fails at its first.
    Last(u16),
    /// What the kernel publishes of the thread, at this offset of its state.
    Published(u16),
    /// How much that has grown since it was kept at the thread's last event; at its first, all of it.
    Since(u16),
    /// A word with a name; fails when it has fewer words.
    SharedWord(Box<SharedWord>),
    Neg(Box<Num>),
    BitNot(Box<Num>),
    Binary(BinaryOp, Box<Num>, Box<Num>),
    /// 1 or 0.
    Truth(Box<Cond>),
}

/// A word of those that have a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedWord {
    pub(crate) name: String,
    /// Each thread has its own.
    pub(crate) each_thread: bool,
    pub(crate) index: Num,
}

/// An element of an array or a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    /// The word in which it begins.
    pub(crate) word: u16,
    /// How many there are; `None`: the next word says where it ends.
    pub(crate) count: Option<u32>,
    /// Bytes of an element.
    pub(crate) bytes: u32,
    pub(crate) signed: bool,
    pub(crate) index: Num,
}

/// What is known of the thread that the event is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Context {
    Tid,
    Pid,
    Cpu,
    /// ns since the thread's last event of this kind; `u64::MAX` at its first.
    Delta,
    /// ns since this thread began to speculate; `u64::MAX` when it does not.
    Elapsed,
    /// The thread that the session is about.
    Target,
}

/// A float.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Float {
    Constant(f64),
    /// A word of the context: a double's bits.
    Word(u16),
    /// An element, of 4 or 8 bytes.
    Element(Box<Element>),
    /// Kept of the thread's last event.
    Last(u16),
}

impl Float {
    /// Whether it is a single.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self, Float::Element(element) if element.bytes == 4)
    }
}

/// A string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StringSource {
    /// Begins in this word, ends in the next.
    Field(u16),
    /// The thread's name.
    Comm,
    /// The program's path.
    Executable,
}

/// How two are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Order {
    /// The operator, if it compares.
    pub(crate) fn of(op: BinaryOp) -> Option<Order> {
        Some(match op {
            BinaryOp::Eq => Order::Eq,
            BinaryOp::Ne => Order::Ne,
            BinaryOp::Lt => Order::Lt,
            BinaryOp::Le => Order::Le,
            BinaryOp::Gt => Order::Gt,
            BinaryOp::Ge => Order::Ge,
            _ => return None,
        })
    }

    /// Whether two values in this order satisfy the comparison.
    pub(crate) fn holds(self, found: Ordering) -> bool {
        match self {
            Order::Eq => found.is_eq(),
            Order::Ne => found.is_ne(),
            Order::Lt => found.is_lt(),
            Order::Le => found.is_le(),
            Order::Gt => found.is_gt(),
            Order::Ge => found.is_ge(),
        }
    }

    /// With the sides changed.
    pub(crate) fn mirrored(self) -> Order {
        match self {
            Order::Lt => Order::Gt,
            Order::Le => Order::Ge,
            Order::Gt => Order::Lt,
            Order::Ge => Order::Le,
            same => same,
        }
    }

    /// What holds when this does not; not for floats, which may be no numbers.
    pub(crate) fn opposite(self) -> Order {
        match self {
            Order::Eq => Order::Ne,
            Order::Ne => Order::Eq,
            Order::Lt => Order::Ge,
            Order::Ge => Order::Lt,
            Order::Gt => Order::Le,
            Order::Le => Order::Gt,
        }
    }

    /// As it is written.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Order::Eq => "==",
            Order::Ne => "!=",
            Order::Lt => "<",
            Order::Le => "<=",
            Order::Gt => ">",
            Order::Ge => ">=",
        }
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cond {
    Constant(bool),
    And(Vec<Cond>),
    Or(Vec<Cond>),
    Not(Box<Cond>),
    /// A number is in a set.
    Member(Num, Set),
    Compare(Order, Num, Num),
    FloatMember(Float, FloatSet),
    FloatCompare(Order, Float, Float),
    /// A string fits one of these.
    StringMatch(StringSource, Vec<StringPattern>),
    /// A string comes before or after these bytes.
    StringOrder(Order, StringSource, Vec<u8>),
    StringCompare(Order, u16, u16),
    /// The string that begins in this word has the hash that was kept.
    StringKept(u16, u16),
    /// This is not the thread's first event of this kind.
    HasLast,
    /// The first of every so many; with its counter.
    Every(u64, u16),
    /// One of the first so many.
    First(u64, u16),
    /// One of the first so many in each span of so many ns.
    Limit(u32, u64, u16),
    /// With a probability of so many in 2^32.
    Sample(u64),
    /// Kernel events of this thread are wanted now.
    Window,
}

impl RulePlan {
    /// Whether it may do anything at all.
    pub(crate) fn does_something(&self) -> bool {
        self.condition != Cond::Constant(false) && !self.actions.is_empty()
    }
}

impl Plan {
    /// Whether every event is recorded and nothing else is done.
    pub(crate) fn always_records(&self) -> bool {
        let only_records =
            |rule: &RulePlan| rule.actions.iter().all(|action| matches!(action, Action::Record));
        let always = |rule: &RulePlan| !rule.actions.is_empty() && rule.condition == Cond::Constant(true);
        !self.speculates
            && self.speculated_by.is_empty()
            && self.thread.is_empty()
            && self.rules.iter().all(only_records)
            && self.rules.iter().any(always)
    }

    /// Whether it may record the event at all.
    pub(crate) fn records(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.condition != Cond::Constant(false)
                && rule.actions.iter().any(|action| matches!(action, Action::Record))
        })
    }
}
