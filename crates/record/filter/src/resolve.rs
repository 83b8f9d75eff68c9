//! From syntax to typed trees: names are looked up in the event, types are checked.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::rule::Rule;
use crate::session::Missing;
use crate::syntax::Expr;
use crate::target::Side;
use crate::typed::{Cond, Kept, Plan, RulePlan};
use mote_layout::context::words_of;
use mote_layout::parse::{Description, Field};

mod actions;
mod calls;
mod compare;
mod expression;
mod names;
mod published;
mod speculation;
mod value;

/// A field, and the word of the context in which it begins.
#[derive(Clone, Copy)]
struct Place<'a> {
    field: Field<'a>,
    word: u16,
}

/// What is known while the rules of one event are read.
struct Resolver<'a> {
    event: &'a Description<'a>,
    side: Side,
    fields: Vec<Place<'a>>,
    thread: Vec<Kept>,
    counters: u16,
}

/// Most words of a context: offsets in instructions have 15 bits.
const WORDS_MAX: usize = 4095;
/// Most things that are kept of a thread's last event.
const KEPT_MAX: usize = 32;
/// Most counters of a program.
const COUNTERS_MAX: u16 = 500;

/// The plan of an event; `None` when no rule is about it.
pub(crate) fn plan(
    rules: &[Rule],
    event: &Description<'_>,
    missing: Missing,
    side: Side,
) -> Result<Option<Plan>, Diagnostic> {
    let mut about: Vec<&Rule> = Vec::new();
    for rule in rules.iter().filter(|rule| rule.matches(event.provider, event.name)) {
        if !about.iter().any(|other| other.is_same(rule)) {
            about.push(rule);
        }
    }
    if about.is_empty() {
        return Ok(None);
    }
    let name = format!("{}:{}", event.provider, event.name);
    let (fields, words) = places(event).map_err(|problem| problem.of(about[0].source()).for_event(&name))?;
    let mut resolver = Resolver { event, side, fields, thread: Vec::new(), counters: 0 };
    let mut plan = Plan {
        side,
        event: name.clone(),
        words,
        rules: Vec::new(),
        warnings: Vec::new(),
        speculates: rules.iter().any(Rule::speculates_by_thread),
        speculated_by: Vec::new(),
        thread: Vec::new(),
        counters: 0,
    };
    for rule in about {
        let done = resolver.rule(rule, missing, &mut plan.warnings);
        plan.rules.push(done.map_err(|problem| problem.of(rule.source()).for_event(&name))?);
    }
    if plan.records() {
        plan.speculated_by = resolver.speculated_by(rules, &mut plan.warnings);
    }
    plan.warnings = plan.warnings.into_iter().map(|warning| warning.for_event(&name)).collect();
    plan.thread = resolver.thread;
    plan.counters = resolver.counters;
    Ok(Some(plan))
}

fn places<'a>(event: &Description<'a>) -> Result<(Vec<Place<'a>>, Vec<String>), Diagnostic> {
    let mut words = Vec::new();
    let mut places = Vec::new();
    for field in event.fields() {
        if words.len() >= WORDS_MAX {
            return Err(Diagnostic::new(
                Kind::TooLarge,
                Span::default(),
                "the event has too many fields to filter",
            ));
        }
        places.push(Place { field, word: words.len() as u16 });
        words.push(field.name.to_owned());
        if words_of(&field.ty).1.is_some() {
            words.push(format!("end of {}", field.name));
        }
    }
    Ok((places, words))
}

impl<'a> Resolver<'a> {
    fn rule(
        &mut self,
        rule: &Rule,
        missing: Missing,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<RulePlan, Diagnostic> {
        let mut never = |problem: Diagnostic| {
            if missing == Missing::Refuse || problem.kind() != Kind::UnknownField {
                return Err(problem);
            }
            warnings.push(problem.of(rule.source()).help("the rule never holds for this event"));
            Ok(())
        };
        let mut condition = Cond::Constant(true);
        if let Some(written) = &rule.condition {
            condition = match self.condition(written) {
                Ok(condition) => condition,
                Err(problem) => {
                    never(problem)?;
                    Cond::Constant(false)
                }
            };
        }
        let mut actions = Vec::new();
        for action in &rule.actions {
            match self.action(action, rule) {
                Ok(action) => actions.push(action),
                Err(problem) => never(problem)?,
            }
        }
        Ok(RulePlan { source: rule.source.clone(), condition, actions })
    }

    /// Something that holds or not.
    fn condition(&mut self, expr: &Expr) -> Result<Cond, Diagnostic> {
        let value = self.value(expr)?;
        value.truth(expr.span)
    }

    /// The number of something that is kept of a thread's last event.
    fn keep(&mut self, kept: Kept, span: Span) -> Result<u16, Diagnostic> {
        if let Some(at) = self.thread.iter().position(|known| *known == kept) {
            return Ok(at as u16);
        }
        if self.thread.len() >= KEPT_MAX {
            let message = format!("more than {KEPT_MAX} fields of the last event");
            return Err(Diagnostic::new(Kind::TooLarge, span, message));
        }
        self.thread.push(kept);
        Ok(self.thread.len() as u16 - 1)
    }

    /// A counter of its own.
    fn counter(&mut self, span: Span) -> Result<u16, Diagnostic> {
        if self.counters >= COUNTERS_MAX {
            return Err(Diagnostic::new(Kind::TooLarge, span, format!("more than {COUNTERS_MAX} counters")));
        }
        self.counters += 1;
        Ok(self.counters - 1)
    }
}

#[cfg(test)]
mod tests;
