//! What is shown to an observer of a verification: what is known at each point of each path.

use super::state::State;
use super::value::Value;
use crate::insn::Reg;

/// What is shown the state before each instruction.
pub trait Watch {
    /// What is known before the instruction at this slot, on one of the paths that lead there.
    fn at(&mut self, insn: usize, view: &View<'_>);
}

impl Watch for () {
    fn at(&mut self, _: usize, _: &View<'_>) {}
}

/// What is known at one point of one path.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) state: &'a State,
    pub(super) live: u16,
    pub(super) exact: u16,
}

impl View<'_> {
    /// How many frames there are.
    pub fn frames(&self) -> usize {
        self.state.top + 1
    }

    /// What is known of a register of the running frame. Of one that is not [`View::is_live`] what is said may be out
    /// of date.
    pub fn register(&self, reg: Reg) -> &Value {
        self.state.register(reg)
    }

    /// Whether it may be read before it is written.
    pub fn is_live(&self, reg: Reg) -> bool {
        self.live >> reg.number() & 1 != 0
    }

    /// Whether its number can decide what the program does. Of others the number is not compared when paths are.
    pub fn is_exact(&self, reg: Reg) -> bool {
        self.exact >> reg.number() & 1 != 0
    }
}
