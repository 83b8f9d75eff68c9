//! Actions, and lists of keys.

use super::Parser;
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::Kind;
use crate::syntax::{Action, ActionKind, Expr, Scope, SpeculationKey};
use mote_layout::cooperation::{SYSCALLS, UNSET_NS};
use mote_layout::syscalls;

/// Names of actions. Behind a comma they begin an action; a field of such a name goes in brackets there.
const ACTIONS: [&str; 13] = [
    "record",
    "count",
    "hist",
    "last",
    "set",
    "clear",
    "emit",
    "snapshot",
    "open",
    "threshold",
    "speculate",
    "commit",
    "discard",
];

/// First word of `pt snapshot`: an action where that follows, else perhaps a field's name.
const PACKETS: &str = "pt";
/// First word of `profile for`, likewise.
const PROFILE: &str = "profile";
/// First word of `fperf "PATTERN" for`: an action where a string follows.
const FPERF: &str = "fperf";
/// Functions can be sampled for so many nanoseconds at least: it takes half of it until the recorder has noticed, and
/// each begin and end is a change of code.
const FPERF_MIN_NS: u64 = 20_000_000;
/// Samples of so many nanoseconds can be asked for: an hour.
const PROFILE_MAX_NS: u64 = 3_600_000_000_000;
/// Packets of so many nanoseconds can be asked for: 60 s.
const PACKETS_MAX_NS: u64 = 60_000_000_000;

/// Most entries that `last` keeps.
const LAST_MAX: u64 = 1 << 20;

/// A time that an action has, behind a word.
struct Time {
    word: &'static str,
    /// In nanoseconds.
    least: u64,
    most: u64,
    /// What is said of others.
    bounds: &'static str,
    example: &'static str,
}

impl Parser {
    /// `ACTION, ACTION, ..`
    pub(crate) fn actions(&mut self) -> Result<Vec<Action>, Diagnostic> {
        let mut actions = vec![self.action()?];
        while self.eat(",").or_else(|| self.eat(";")).is_some() {
            actions.push(self.action()?);
        }
        Ok(actions)
    }

    fn action(&mut self) -> Result<Action, Diagnostic> {
        let (name, start) = self.name("an action")?;
        let kind = match name.as_str() {
            "record" => ActionKind::Record,
            "count" => ActionKind::Count { by: self.keys()? },
            "hist" => self.histogram()?,
            "last" => self.last()?,
            "set" => ActionKind::Set(self.name("the name of a flag")?.0),
            "clear" => ActionKind::Clear(self.name("the name of a flag")?.0),
            "emit" => self.emit()?,
            "snapshot" => ActionKind::Snapshot,
            PACKETS => self.packets()?,
            PROFILE => self.profile()?,
            FPERF => self.fperf()?,
            "open" => self.open()?,
            "threshold" => self.threshold()?,
            "speculate" => ActionKind::Speculate(self.only_key()?),
            "commit" => ActionKind::Commit(self.only_key()?),
            "discard" => ActionKind::Discard(self.only_key()?),
            _ => {
                let problem = Diagnostic::syntax(start, format!("there is no action `{name}`"));
                return Err(problem.similar(&name, &ACTIONS));
            }
        };
        Ok(Action { kind, span: start.to(self.before()) })
    }

    /// The place of the token before this one.
    fn before(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(self.peek().span, |token| token.span)
    }

    /// `VALUE [by K, ..]`
    pub(crate) fn histogram(&mut self) -> Result<ActionKind, Diagnostic> {
        self.by_begins_keys = true;
        let value = self.expression();
        self.by_begins_keys = false;
        Ok(ActionKind::Histogram { value: value?, by: self.keys()? })
    }

    /// `[by KEY]`, and no second key.
    fn only_key(&mut self) -> Result<Option<SpeculationKey>, Diagnostic> {
        let key = self.speculation_key()?;
        if key.is_some() && self.peek().kind == Kind::Sign(",") && !self.action_is_next() {
            let problem = Diagnostic::syntax(self.peek().span, "a speculation has one key");
            return Err(problem.help("make one number of several: `by (connection << 32 | stream)`"));
        }
        Ok(key)
    }

    /// `[by K, ..]`
    pub(crate) fn keys(&mut self) -> Result<Vec<Expr>, Diagnostic> {
        if self.eat_word("by").is_none() { Ok(Vec::new()) } else { self.expressions() }
    }

    /// `A, B, ..`, up to a comma before an action.
    pub(crate) fn expressions(&mut self) -> Result<Vec<Expr>, Diagnostic> {
        let mut list = vec![self.expression()?];
        while self.peek().kind == Kind::Sign(",") && !self.action_is_next() {
            self.bump();
            list.push(self.expression()?);
        }
        Ok(list)
    }

    /// Whether an action's name is behind the next token, and not used as a field's.
    fn action_is_next(&self) -> bool {
        let name = |at: usize| match self.tokens.get(self.at + at).map(|token| &token.kind) {
            Some(Kind::Name(name)) => name.as_str(),
            _ => "",
        };
        let is_string =
            matches!(self.tokens.get(self.at + 2).map(|token| &token.kind), Some(Kind::String(_)));
        ACTIONS.contains(&name(1))
            || [(PACKETS, "snapshot"), (PROFILE, "for")].contains(&(name(1), name(2)))
            || name(1) == FPERF && is_string
    }

    /// `last N [FIELD, ..]`, behind `last`.
    fn last(&mut self) -> Result<ActionKind, Diagnostic> {
        let span = self.peek().span;
        let entries = match self.bump().kind {
            Kind::Integer(n @ 1..=LAST_MAX) => n as u32,
            _ => {
                let problem = Diagnostic::syntax(
                    span,
                    format!("expected the number of events to keep, from 1 to {LAST_MAX}"),
                );
                return Err(problem.help("for example `last 100 len, proto`"));
            }
        };
        let ends = match &self.peek().kind {
            Kind::End | Kind::Sign("," | ";") => true,
            Kind::Name(word) => word == "if",
            _ => false,
        };
        let fields = if ends { Vec::new() } else { self.expressions()? };
        Ok(ActionKind::Last { entries, fields })
    }

    /// `pt snapshot TIME`, behind `pt`.
    fn packets(&mut self) -> Result<ActionKind, Diagnostic> {
        let ns = self.time(&Time {
            word: "snapshot",
            least: 1,
            most: PACKETS_MAX_NS,
            bounds: "packets of 1 ns to 60 s before an event can be asked for",
            example: "for example `pt snapshot 5ms`: the hardware trace of the 5 ms before the event",
        })?;
        Ok(ActionKind::SnapshotPackets { ns })
    }

    /// `profile for TIME`, behind `profile`.
    fn profile(&mut self) -> Result<ActionKind, Diagnostic> {
        let ns = self.time(&Time {
            word: "for",
            least: 1,
            most: PROFILE_MAX_NS,
            bounds: "samples of 1 ns to 1 h behind an event can be asked for",
            example: "for example `profile for 2s`: where threads are in the 2 s behind the event",
        })?;
        Ok(ActionKind::Profile { ns })
    }

    /// `fperf "PATTERN" for TIME`, behind `fperf`.
    fn fperf(&mut self) -> Result<ActionKind, Diagnostic> {
        const EXAMPLE: &str = "for example `fperf \"db::*\" for 2s`: what calls of these functions cost in the 2 s \
                               behind the event";
        let span = self.peek().span;
        let Kind::String(string) = self.peek().kind.clone() else {
            return Err(self.unexpected("a pattern of functions in quotes").help(EXAMPLE));
        };
        self.bump();
        let pattern = String::from_utf8(string.parts().join(&b'*'))
            .ok()
            .filter(|pattern| !pattern.is_empty() && !pattern.contains(|c: char| c == '`' || c.is_control()))
            .ok_or_else(|| Diagnostic::syntax(span, "no function can be called so").help(EXAMPLE))?;
        let ns = self.time(&Time {
            word: "for",
            least: FPERF_MIN_NS,
            most: PROFILE_MAX_NS,
            bounds: "functions can be sampled for 20 ms to 1 h behind an event",
            example: EXAMPLE,
        })?;
        Ok(ActionKind::SampleFunctions { pattern, ns })
    }

    /// A word and a time.
    fn time(&mut self, time: &Time) -> Result<u64, Diagnostic> {
        let begins = self.eat_word(time.word).is_some();
        match self.peek().kind {
            Kind::Integer(ns) if begins && (time.least..=time.most).contains(&ns) => {
                self.bump();
                Ok(ns)
            }
            Kind::Integer(_) if begins => {
                Err(Diagnostic::syntax(self.peek().span, time.bounds).help(time.example))
            }
            _ => Err(self.unexpected(&format!("`{}` and a time", time.word)).help(time.example)),
        }
    }

    /// `open kernel for TIME [of thread|process|all]`, behind `open`.
    fn open(&mut self) -> Result<ActionKind, Diagnostic> {
        const EXAMPLE: &str = "for example `open kernel for 10ms`, or `open kernel for 10ms of all`";
        let span = self.peek().span;
        let begins = self.eat_word("kernel").is_some() && self.eat_word("for").is_some();
        let Kind::Integer(ns @ 1..) = self.peek().kind.clone() else {
            return Err(self.unexpected("`kernel for` and a time").help(EXAMPLE));
        };
        let end = self.bump().span;
        if !begins {
            return Err(Diagnostic::syntax(span.to(end), "what is opened?").help(EXAMPLE));
        }
        if self.eat_word("of").is_none() {
            return Ok(ActionKind::OpenKernel { ns, of: Scope::Thread });
        }
        let scopes = [("thread", Scope::Thread), ("process", Scope::Process), ("all", Scope::All)];
        let scope = scopes.into_iter().find(|(word, _)| self.eat_word(word).is_some());
        match scope {
            Some((_, of)) => Ok(ActionKind::OpenKernel { ns, of }),
            None => Err(self.unexpected("`thread`, `process` or `all`").help(EXAMPLE)),
        }
    }

    /// `threshold CALL TIME|never|default`, behind `threshold`.
    fn threshold(&mut self) -> Result<ActionKind, Diagnostic> {
        const EXAMPLE: &str = "for example `threshold write 200us`, or `threshold write default`";
        let (token, span) = (self.peek().kind.clone(), self.peek().span);
        let syscall = match &token {
            Kind::Name(name) => syscalls::number(name),
            Kind::Integer(number) => {
                u32::try_from(*number).ok().filter(|number| (*number as usize) < SYSCALLS)
            }
            _ => return Err(self.unexpected("a system call").help(EXAMPLE)),
        };
        let Some(syscall) = syscall else {
            let problem = Diagnostic::syntax(span, "there is no such system call");
            let names: Vec<&str> = syscalls::names().collect();
            return Err(if let Kind::Name(name) = &token { problem.similar(name, &names) } else { problem });
        };
        self.bump();
        let ns = match self.peek().kind.clone() {
            Kind::Integer(ns) => ns.min(UNSET_NS - 1),
            Kind::Name(word) if word == "never" => u64::MAX,
            Kind::Name(word) if word == "default" => UNSET_NS,
            _ => return Err(self.unexpected("a time, `never` or `default`").help(EXAMPLE)),
        };
        self.bump();
        Ok(ActionKind::Threshold { syscall, ns })
    }

    /// `emit NAME(FIELD = EXPR, ..)`, behind `emit`.
    fn emit(&mut self) -> Result<ActionKind, Diagnostic> {
        let (mut name, _) = self.name("the name of an event")?;
        if self.eat(":").is_some() {
            name = format!("{name}:{}", self.name("the name of an event")?.0);
        }
        let mut fields = Vec::new();
        if self.eat("(").is_none() {
            return Ok(ActionKind::Emit { name, fields });
        }
        while self.eat(")").is_none() {
            if !fields.is_empty() {
                self.expect(",", "or `)` after a field")?;
            }
            let (field, span) = self.name("the name of a field")?;
            if fields.iter().any(|(other, _)| *other == field) {
                return Err(Diagnostic::syntax(span, format!("field `{field}` is given twice")));
            }
            self.expect("=", "after the name of a field")?;
            let value = self.expression()?;
            fields.push((field, value));
        }
        Ok(ActionKind::Emit { name, fields })
    }
}
