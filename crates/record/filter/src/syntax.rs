//! A rule as it is written: names are names yet, whatever the event.

use crate::diagnostic::Span;
use crate::string_pattern::StringPattern;

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
    height: u32,
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, span: Span) -> Expr {
        let highest = |list: &[Expr]| list.iter().map(Expr::height).max().unwrap_or(0);
        let below = match &kind {
            ExprKind::Integer(_)
            | ExprKind::Float(_)
            | ExprKind::String(_)
            | ExprKind::Name(_)
            | ExprKind::Context(_) => 0,
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => a.height.max(b.height),
            ExprKind::Call(_, arguments) => arguments.iter().map(Argument::height).max().unwrap_or(0),
            ExprKind::Unary(_, inner) => inner.height,
            ExprKind::ElapsedBy(key) => key.expr.height,
            ExprKind::And(list) | ExprKind::Or(list) => highest(list),
            ExprKind::In(left, members) => {
                left.height.max(members.iter().map(Member::height).max().unwrap_or(0))
            }
        };
        Expr { kind, span, height: below + 1 }
    }

    /// Whether a context whose name is so is in it; `ctx.` is left out of names.
    pub(crate) fn has_context(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.has(&|expr| match &expr.kind {
            ExprKind::Context(name) => is(name.strip_prefix("ctx.").unwrap_or(name)),
            // It compares with `$last`.
            ExprKind::Call(name, _) => name == "changed" && is("last."),
            ExprKind::ElapsedBy(_) => is("elapsed"),
            _ => false,
        })
    }

    /// Whether it, or an expression in it, is so.
    pub(crate) fn has(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        let member = |member: &Member| match member {
            Member::One(one) => one.has(is),
            Member::Range(first, last) => first.has(is) || last.has(is),
        };
        let inside = || match &self.kind {
            ExprKind::Integer(_)
            | ExprKind::Float(_)
            | ExprKind::String(_)
            | ExprKind::Name(_)
            | ExprKind::Context(_) => false,
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => a.has(is) || b.has(is),
            ExprKind::Call(_, arguments) => {
                arguments.iter().any(|one| matches!(one, Argument::Expr(expr) if expr.has(is)))
            }
            ExprKind::Unary(_, inner) => inner.has(is),
            ExprKind::ElapsedBy(key) => key.expr.has(is),
            ExprKind::And(list) | ExprKind::Or(list) => list.iter().any(|expr| expr.has(is)),
            ExprKind::In(left, members) => left.has(is) || members.iter().any(member),
        };
        is(self) || inside()
    }

    /// Levels of the tree.
    pub(crate) fn height(&self) -> u32 {
        self.height
    }
}

/// What an expression is. `&&`, `||` and lists have any number of operands; the tree is at most
/// [`crate::parse::DEPTH_MAX`] high.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Integer(u64),
    Float(f64),
    String(StringPattern),
    /// A field, or a label; nested names have dots.
    Name(String),
    /// `$NAME`
    Context(String),
    /// `$elapsed by KEY`
    ElapsedBy(Box<SpeculationKey>),
    /// `a[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `name(..)`
    Call(String, Vec<Argument>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `a in (..)`
    In(Box<Expr>, Vec<Member>),
}

/// What a speculation goes by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpeculationKey {
    /// As it is written, without blanks and outer brackets: the same text is the same kind of key.
    pub(crate) name: String,
    pub(crate) expr: Expr,
}

/// One of a list behind `in`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Member {
    One(Expr),
    /// `1..5`, both included.
    Range(Expr, Expr),
}

impl Member {
    fn height(&self) -> u32 {
        match self {
            Member::One(one) => one.height,
            Member::Range(first, last) => first.height.max(last.height),
        }
    }
}

/// What a function is given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Expr(Expr),
    /// `1%`
    Percent(f64, Span),
    /// `100/s`: how many in how many ns.
    Rate(u64, u64, Span),
}

impl Argument {
    fn height(&self) -> u32 {
        if let Argument::Expr(expr) = self { expr.height } else { 0 }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Argument::Expr(expr) => expr.span,
            Argument::Percent(_, span) | Argument::Rate(_, _, span) => *span,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Plus,
    Minus,
    Not,
    BitNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    BitOr,
    BitXor,
    BitAnd,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

impl BinaryOp {
    /// As it is written.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::BitAnd => "&",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
        }
    }
}

/// An action and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Action {
    pub(crate) kind: ActionKind,
    pub(crate) span: Span,
}

/// Whose kernel events are wanted; the numbers are those of the helper `open_kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Thread = 0,
    All = 1,
    Process = 2,
}

/// What is done with an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ActionKind {
    Record,
    Count {
        by: Vec<Expr>,
    },
    Histogram {
        value: Expr,
        by: Vec<Expr>,
    },
    Last {
        entries: u32,
        fields: Vec<Expr>,
    },
    Set(String),
    Clear(String),
    Emit {
        name: String,
        fields: Vec<(String, Expr)>,
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
    /// This system call of the thread is recorded from so many ns on.
    Threshold {
        syscall: u32,
        ns: u64,
    },
    /// Kernel events are wanted for so many ns.
    OpenKernel {
        ns: u64,
        of: Scope,
    },
    /// These three go by the thread when there is no key.
    Speculate(Option<SpeculationKey>),
    Commit(Option<SpeculationKey>),
    Discard(Option<SpeculationKey>),
}

impl ActionKind {
    /// Whether a context whose name is so is in it: see [`Expr::has_context`].
    pub(crate) fn has_context(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.has(&|expr| expr.has_context(is))
    }

    /// Whether one of its expressions is so.
    pub(crate) fn has(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            ActionKind::Count { by } => by.iter().any(is),
            ActionKind::Histogram { value, by } => is(value) || by.iter().any(is),
            ActionKind::Last { fields, .. } => fields.iter().any(is),
            ActionKind::Emit { fields, .. } => fields.iter().any(|(_, expr)| is(expr)),
            ActionKind::Record
            | ActionKind::Set(_)
            | ActionKind::Clear(_)
            | ActionKind::Snapshot
            | ActionKind::SnapshotPackets { .. }
            | ActionKind::Profile { .. }
            | ActionKind::SampleFunctions { .. }
            | ActionKind::Threshold { .. }
            | ActionKind::OpenKernel { .. }
            | ActionKind::Speculate(None)
            | ActionKind::Commit(None)
            | ActionKind::Discard(None) => false,
            ActionKind::Speculate(Some(key))
            | ActionKind::Commit(Some(key))
            | ActionKind::Discard(Some(key)) => is(&key.expr),
        }
    }
}
