//! Speculations that go by a key.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Held, Stop};
use crate::typed::{Link, Speculated, SpeculationKey, SpeculationValue};
use mote_bpf::Reg;
use mote_bpf::helper::{self, KINDS_MAX, SPECULATION_JOIN, SPECULATION_LEAVE, SPECULATION_LOOK};
use mote_bpf::op::Cond;
use mote_layout::context;

/// What [`helper::SPECULATED_BY`] returns for a key without a speculation: all ones.
const NONE_OPEN: i32 = -1;

impl Code<'_> {
    /// Calls a helper that takes a key.
    pub(in crate::emit) fn call_by(&mut self, helper: u32, key: &SpeculationKey) -> Result<(), Stop> {
        self.load_key(key)?;
        self.call(helper)
    }

    /// Kind and value of a key into `r1` and `r2`.
    fn load_key(&mut self, key: &SpeculationKey) -> Result<(), Stop> {
        let Some(kind) = self.maps.speculation_key(&key.name) else {
            let message = format!("speculations go by more than {KINDS_MAX} kinds of keys");
            return Err(Stop::Wrong(Box::new(Diagnostic::new(Kind::TooLarge, Span::default(), message))));
        };
        match &key.value {
            SpeculationValue::Number(num) => {
                let held = self.number(num)?;
                self.changed(Reg::R2);
                self.b.mov(Reg::R2, held.reg);
                self.release(held);
            }
            SpeculationValue::String(word) => {
                self.string_hash(*word)?;
                self.changed(Reg::R2);
                self.b.mov(Reg::R2, Reg::R0);
            }
        }
        self.changed(Reg::R1);
        self.b.mov(Reg::R1, kind as i32);
        Ok(())
    }

    /// ns since the speculation of a key began; fails when none is open.
    pub(in crate::emit) fn elapsed_by(&mut self, key: &SpeculationKey) -> Result<Held, Stop> {
        self.call_by(helper::SPECULATED_BY, key)?;
        let held = self.result()?;
        self.branch(Cond::Eq, held.reg, NONE_OPEN, self.fail);
        Ok(held)
    }

    /// At the program's end: an event that is recorded goes to the first speculation that is open for one of its keys.
    pub(in crate::emit) fn look_up_speculation(&mut self, verdict: Reg) -> Result<(), Stop> {
        let plan = self.plan;
        if plan.aside_by.is_empty() {
            return Ok(());
        }
        let done = self.label();
        self.branch(Cond::Eq, verdict, context::DROP as i32, done);
        for Speculated { key, link } in &plan.aside_by {
            let next = self.label();
            self.fail = next;
            self.load_key(key)?;
            let (how, parent) = match link {
                Link::None => (SPECULATION_LOOK, None),
                Link::Parent(word) => (SPECULATION_JOIN, Some(*word)),
                Link::Leave => (SPECULATION_LEAVE, None),
            };
            [Reg::R3, Reg::R4].into_iter().for_each(|reg| self.changed(reg));
            self.b.mov(Reg::R3, how as i32);
            match parent {
                Some(word) => self.load_word(Reg::R4, word),
                None => self.b.mov(Reg::R4, 0),
            }
            self.call(helper::SPECULATION)?;
            self.branch(Cond::Eq, Reg::R0, 0, next);
            self.b.mov(verdict, Reg::R0);
            self.jump(done);
            self.bind(next);
        }
        self.bind(done);
        Ok(())
    }
}
