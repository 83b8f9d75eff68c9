//! Speculations that go by a key, and spans of the crate tracing, which are keys of tasks.

use super::Resolver;
use super::compare::string_of;
use super::value::{Shown, Value};
use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::rule::Rule;
use crate::syntax::{self, ExprKind};
use crate::typed::{Link, Num, NumKind, Speculated, SpeculationKey, SpeculationValue, StringSource};

/// What `mote_tracing` says of its events, in their descriptions.
const TRACING: [&str; 2] = ["an event of tracing", "a span of tracing"];

impl<'a> Resolver<'a> {
    /// The key of an action, if it goes by one.
    pub(super) fn speculation_key_of(
        &mut self,
        key: &Option<syntax::SpeculationKey>,
    ) -> Result<Option<SpeculationKey>, Diagnostic> {
        key.as_ref().map(|key| self.speculation_key(key)).transpose()
    }

    fn speculation_key(&mut self, key: &syntax::SpeculationKey) -> Result<SpeculationKey, Diagnostic> {
        let value = self.value(&key.expr)?;
        let name = key.name.clone();
        if let Some(StringSource::Field(word)) = string_of(&value) {
            return Ok(SpeculationKey { name, value: SpeculationValue::String(word) });
        }
        match value {
            Value::Num(num, _) if num.as_constant().is_none() => {
                Ok(SpeculationKey { name, value: SpeculationValue::Number(num) })
            }
            other => {
                let problem = Diagnostic::mismatch(key.expr.span, "this cannot be the key of a speculation");
                Err(problem
                    .label(format!("this is {}", other.what()))
                    .help("use an integer, a string of the event, or `$span`"))
            }
        }
    }

    /// `$elapsed by KEY`
    pub(super) fn elapsed_by(
        &mut self,
        key: &syntax::SpeculationKey,
        span: Span,
    ) -> Result<Value<'a>, Diagnostic> {
        self.context_is_here("elapsed", span)?;
        let key = self.speculation_key(key)?;
        Ok(Value::Num(Num::integer(NumKind::Elapsed(Box::new(key)), 64, false), Shown::Nanos))
    }

    /// `$span`: the span that the event is in, or is about.
    pub(super) fn span(&self, span: Span) -> Result<Value<'a>, Diagnostic> {
        let first = self.fields.first().filter(|place| place.field.name == "span");
        match first {
            Some(place) if TRACING.contains(&self.event.text) => {
                Ok(Value::Num(Num::integer(NumKind::NotZero(place.word), 64, false), Shown::Plain))
            }
            _ => {
                let event = format!("{}:{}", self.event.provider, self.event.name);
                let problem =
                    Diagnostic::new(Kind::UnknownField, span, format!("event {event} has no `$span`"));
                Err(problem.help("events and spans of the Rust crate tracing have one"))
            }
        }
    }

    /// How records of the event find the speculations that rules begin; keys that it does not have are left out.
    pub(super) fn speculated_by(
        &mut self,
        rules: &[Rule],
        warnings: &mut Vec<Diagnostic>,
    ) -> Vec<Speculated> {
        let mut all: Vec<Speculated> = Vec::new();
        for (rule, key) in rules.iter().flat_map(|rule| rule.speculation_keys().map(move |key| (rule, key))) {
            if all.iter().any(|known| known.key.name == key.name) {
                continue;
            }
            match self.speculation_key(key) {
                Ok(found) => all.push(Speculated { link: self.link(key), key: found }),
                Err(problem) if problem.kind() == Kind::UnknownField => {}
                Err(problem) => {
                    warnings.push(
                        problem
                            .of(rule.source())
                            .help("events of this kind are never kept aside by this key"),
                    );
                }
            }
        }
        all
    }

    /// A span that is made belongs to the speculation of its parent.
    fn link(&self, key: &syntax::SpeculationKey) -> Link {
        let is_span = matches!(&key.expr.kind, ExprKind::Context(name) if name.ends_with("span"));
        let parent = self.fields.get(1).filter(|place| place.field.name == "parent");
        match parent {
            _ if !is_span || self.event.text != TRACING[1] => Link::None,
            Some(place) if self.event.name.ends_with("_new") => Link::Parent(place.word),
            _ if self.event.name.ends_with("_close") => Link::Leave,
            _ => Link::None,
        }
    }
}
