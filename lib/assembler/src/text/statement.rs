//! What stands in a line, and what is wrong with it.

use mote_bpf::op::Op;

/// What is wrong within a line.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) column: usize,
    pub(super) message: String,
}

/// What was read, or what is wrong.
pub(super) type Result<T> = std::result::Result<T, Trouble>;

/// Where a jump goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// Slots from behind it.
    Offset(i64),
    /// A label, or (for calls) a helper's name.
    Name { name: &'a str, column: usize },
}

/// What stands in a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Statement<'a> {
    Plain(Op),
    /// Takes the distance to the target as its offset.
    Branch(Op, Target<'a>),
    Goto(Target<'a>),
    /// The long form, whatever the distance.
    GotoLong(Target<'a>),
    CallLocal(Target<'a>),
    /// A helper, or a function of the program.
    CallName {
        name: &'a str,
        column: usize,
    },
    /// 8 bytes as they are.
    Quad(u64),
}

impl Statement<'_> {
    /// Slots that it takes.
    pub(super) fn slots(&self) -> usize {
        if let Statement::Plain(op) = self { op.slots() } else { 1 }
    }
}
