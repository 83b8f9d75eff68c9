//! Speculations that go by a key.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Held, Stop};
use crate::typed::{Link, Speculated, SpeculationKey, SpeculationValue};
use mote_builder::{Build, Expr, Value};
use mote_layout::context;
use mote_layout::tracer::{self, KINDS_MAX, SPECULATION_JOIN, SPECULATION_LEAVE, SPECULATION_LOOK};

/// What [`tracer::SPECULATED_BY`] returns for a key without a speculation: all ones.
const NONE_OPEN: i32 = -1;

impl Code<'_> {
    /// Calls a helper that takes a key.
    pub(in crate::emit) fn call_by(&mut self, helper: u32, key: &SpeculationKey) -> Result<Value, Stop> {
        self.with_key(key, |code, kind, value| code.call_with(helper, (kind, value)))
    }

    /// Does something with kind and value of a key.
    fn with_key<R>(
        &mut self,
        key: &SpeculationKey,
        then: impl FnOnce(&mut Self, u32, &Value) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let Some(kind) = self.maps.speculation_key(&key.name) else {
            let message = format!("speculations go by more than {KINDS_MAX} kinds of keys");
            return Err(Stop::Wrong(Box::new(Diagnostic::new(Kind::TooLarge, Span::default(), message))));
        };
        match &key.value {
            SpeculationValue::Number(num) => {
                let held = self.number(num)?;
                self.with(held, |code, value| then(code, kind, value))
            }
            SpeculationValue::String(word) => {
                let hash = self.string_hash(*word)?;
                then(self, kind, &hash)
            }
        }
    }

    /// ns since the speculation of a key began; fails when none is open.
    pub(in crate::emit) fn elapsed_by(&mut self, key: &SpeculationKey) -> Result<Held, Stop> {
        let elapsed = self.call_by(tracer::SPECULATED_BY, key)?;
        self.jump_if(elapsed.eq(NONE_OPEN), self.fail);
        Ok(self.held(elapsed))
    }

    /// At the program's end: an event that is recorded goes to the first speculation that is open for one of its keys.
    pub(in crate::emit) fn look_up_speculation(&mut self, verdict: &Value) -> Result<(), Stop> {
        let plan = self.plan;
        if plan.speculated_by.is_empty() {
            return Ok(());
        }
        let done = self.label();
        self.jump_if(verdict.eq(context::DROP), done);
        for Speculated { key, link } in &plan.speculated_by {
            let next = self.label();
            self.fail = next;
            let (how, parent) = match link {
                Link::None => (SPECULATION_LOOK, None),
                Link::Parent(word) => (SPECULATION_JOIN, Some(*word)),
                Link::Leave => (SPECULATION_LEAVE, None),
            };
            let parent = parent.map_or(Expr::from(0), |word| self.event_word(word).into());
            let open = self.with_key(key, |code, kind, value| {
                code.call_with(tracer::SPECULATION, (kind, value, how, parent))
            })?;
            self.jump_if(open.eq(0), next);
            self.set(verdict, open);
            self.jump(done);
            self.bind(next);
        }
        self.bind(done);
        Ok(())
    }
}
