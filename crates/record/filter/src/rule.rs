//! Rules: which events, on what condition, what to do.

use crate::diagnostic::{Diagnostic, Span};
use crate::parse::{self, Parser};
use crate::syntax::{Action, ActionKind, Expr, ExprKind, SpeculationKey};
use mote_pattern::Pattern;

/// How a rule was written: what its [source](Rule::source) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole rule.
    Whole,
    /// Its pattern, of which everything is recorded.
    Record,
    /// A condition for recording.
    Filter,
    /// What `--count` takes.
    Count,
    /// What `--hist` takes.
    Histogram,
}

/// A rule, parsed and not yet fitted to an event.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As it was written: what spans refer to.
    pub(crate) source: String,
    form: Form,
    pattern: Pattern,
    pattern_text: String,
    /// What it is called among results.
    title: String,
    pub(crate) condition: Option<Expr>,
    pub(crate) actions: Vec<Action>,
    /// It was written with several actions, which have titles of their own.
    has_several: bool,
}

impl Rule {
    /// The rule `PATTERN [if EXPR] do ACTION {, ACTION}`, as of `--on`. Without `do`, it records.
    ///
    /// # Errors
    /// What is wrong with it, of [`crate::Kind::Syntax`].
    pub fn parse(text: &str) -> Result<Rule, Diagnostic> {
        Rule::parse_whole(text).map_err(|problem| problem.of(text))
    }

    fn parse_whole(text: &str) -> Result<Rule, Diagnostic> {
        let start = text.len() - text.trim_start().len();
        let rest = &text[start..];
        let end = start + rest.find(char::is_whitespace).unwrap_or(rest.len());
        let pattern = &text[start..end];
        if pattern.is_empty() || matches!(pattern, "if" | "do") {
            let problem = Diagnostic::syntax(Span::new(start, end), "expected a pattern of events");
            return Err(problem.help("a rule looks like `net:* if len > 1500 do count by proto`"));
        }
        let mut parser = Parser::new(text, end)?;
        let condition = if parser.eat_word("if").is_some() { Some(parser.expression()?) } else { None };
        let actions = match parser.eat_word("do") {
            Some(_) => parser.actions()?,
            None => vec![record(Span::new(start, end))],
        };
        parser.end()?;
        Ok(Rule::new(text, pattern, condition, actions))
    }

    /// The rule that was written so.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(form: Form, pattern: &str, source: &str) -> Result<Rule, Diagnostic> {
        match form {
            Form::Whole => Rule::parse(source),
            Form::Record => Ok(Rule::record(pattern)),
            Form::Filter => Rule::filter(pattern, source),
            Form::Count => Rule::count(pattern, source),
            Form::Histogram => Rule::histogram(pattern, source),
        }
    }

    /// Records all events that the pattern names: `-e PATTERN`.
    pub fn record(pattern: &str) -> Rule {
        Rule::new(pattern, pattern, None, vec![record(Span::new(0, pattern.len()))]).in_form(Form::Record)
    }

    /// Records those of them for which the expression holds: `-e PATTERN --filter EXPRESSION`.
    ///
    /// # Errors
    /// What is wrong with the expression.
    pub fn filter(pattern: &str, expression: &str) -> Result<Rule, Diagnostic> {
        let condition = parse::expression(expression).map_err(|problem| problem.of(expression))?;
        let actions = vec![record(condition.span)];
        Ok(Rule::new(expression, pattern, Some(condition), actions).in_form(Form::Filter))
    }

    /// Counts: `--count '[by K, ..] [if EXPR]'`, the word `by` being optional.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn count(pattern: &str, text: &str) -> Result<Rule, Diagnostic> {
        Rule::shorthand(pattern, text, |parser| {
            let no_keys = matches!(&parser.peek().kind, crate::lex::Kind::End)
                || matches!(&parser.peek().kind, crate::lex::Kind::Name(word) if word == "if" || word == "by");
            let by = if no_keys { parser.keys()? } else { parser.expressions()? };
            Ok(ActionKind::Count { by })
        })
        .map(|rule| {
            let starts = |word: &str| text.split_whitespace().next().is_none_or(|first| first == word);
            let titled = rule.titled(if starts("by") || starts("if") { "count" } else { "count by" });
            titled.in_form(Form::Count)
        })
    }

    /// Makes a histogram: `--hist 'VALUE [by K, ..] [if EXPR]'`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn histogram(pattern: &str, text: &str) -> Result<Rule, Diagnostic> {
        let rule = Rule::shorthand(pattern, text, Parser::histogram)?;
        Ok(rule.titled("hist").in_form(Form::Histogram))
    }

    fn shorthand(
        pattern: &str,
        text: &str,
        action: impl FnOnce(&mut Parser) -> Result<ActionKind, Diagnostic>,
    ) -> Result<Rule, Diagnostic> {
        let parse = || {
            let mut parser = Parser::new(text, 0)?;
            let kind = action(&mut parser)?;
            let condition = if parser.eat_word("if").is_some() { Some(parser.expression()?) } else { None };
            parser.end()?;
            Ok((kind, condition))
        };
        let (kind, condition) = parse().map_err(|problem: Diagnostic| problem.of(text))?;
        let action = Action { kind, span: Span::new(0, text.len()) };
        Ok(Rule::new(text, pattern, condition, vec![action]))
    }

    fn new(source: &str, pattern: &str, condition: Option<Expr>, actions: Vec<Action>) -> Rule {
        Rule {
            source: source.to_owned(),
            form: Form::Whole,
            title: words(source),
            pattern: Pattern::new(pattern),
            pattern_text: pattern.to_owned(),
            condition,
            has_several: actions.len() > 1,
            actions,
        }
    }

    /// The same rule with another condition, and some of its actions.
    pub(crate) fn with(&self, condition: Option<Expr>, actions: Vec<Action>) -> Rule {
        Rule { condition, actions, ..self.clone() }
    }

    /// The same rule about the events of another pattern: for patterns whose meaning only a catalogue of events knows.
    #[must_use]
    pub fn about(&self, pattern: &str) -> Rule {
        Rule { pattern: Pattern::new(pattern), pattern_text: pattern.to_owned(), ..self.clone() }
    }

    fn in_form(self, form: Form) -> Rule {
        Rule { form, ..self }
    }

    /// With a title that says what its shorthand leaves out.
    fn titled(mut self, action: &str) -> Rule {
        self.title = format!("{action} {}", words(&self.source)).trim_end().to_owned();
        if self.pattern_text != "*" {
            self.title = format!("{} of {}", self.title, self.pattern_text);
        }
        self
    }

    /// What the map of an action is called.
    pub(crate) fn title_of(&self, action: &Action) -> String {
        if !self.has_several {
            return self.title.clone();
        }
        let written = self.source.get(action.span.start..action.span.end).unwrap_or_default();
        format!("{}: {}", self.title, words(written))
    }

    /// Whether it does what the other does: then one of them is enough.
    pub(crate) fn is_same(&self, other: &Rule) -> bool {
        self.title == other.title && self.pattern_text == other.pattern_text && self.actions == other.actions
    }

    /// Whether it is about the event `name` of `provider`.
    pub fn matches(&self, provider: &str, name: &str) -> bool {
        self.pattern.matches(provider, name)
    }

    /// The pattern as it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern_text
    }

    /// Whether it was written as a whole rule, or in parts on the command line.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The rule, or for shorthands its part behind the flag, as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it records events, on whatever condition.
    pub fn records(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Record))
    }

    /// Whether it puts events into the recording: those that it is about, or others. To speculate and to commit does
    /// not: these say what becomes of records that other rules make.
    pub fn writes(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Record | ActionKind::Emit { .. }))
    }

    /// Whether it leaves something behind: events, counts, histograms, the last ones, samples.
    pub fn yields(&self) -> bool {
        let counts = |kind: &ActionKind| {
            matches!(kind, ActionKind::Count { .. } | ActionKind::Histogram { .. } | ActionKind::Last { .. })
        };
        self.writes() || self.profiles() || self.sampled_functions().next().is_some() || self.has(counts)
    }

    /// Whether it records events and does nothing else.
    pub fn only_records(&self) -> bool {
        self.actions.iter().all(|action| matches!(action.kind, ActionKind::Record))
    }

    /// Whether it speculates, by thread or by key: then records may have to be kept aside.
    pub fn speculates(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Speculate(_)))
    }

    /// Whether it speculates by thread: then the records of all events may have to be kept aside.
    pub(crate) fn speculates_by_thread(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Speculate(None)))
    }

    /// The keys that it speculates by: the records of events that have one may have to be kept aside.
    pub(crate) fn speculation_keys(&self) -> impl Iterator<Item = &SpeculationKey> {
        self.actions.iter().filter_map(|action| match &action.kind {
            ActionKind::Speculate(key) => key.as_ref(),
            _ => None,
        })
    }

    /// Whether it asks for snapshots, for which the session must be a flight recorder.
    pub fn snapshots(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Snapshot))
    }

    /// Whether it asks for packets of the hardware trace, of which the recording must keep the last ones.
    pub fn snapshots_packets(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::SnapshotPackets { .. }))
    }

    /// Whether it asks for samples of threads, which the recording must take.
    pub fn profiles(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Profile { .. }))
    }

    /// The patterns of functions whose calls it has sampled, in the order of its actions.
    pub fn sampled_functions(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter_map(|action| match &action.kind {
            ActionKind::SampleFunctions { pattern, .. } => Some(pattern.as_str()),
            _ => None,
        })
    }

    /// Whether it asks something of the kernel's side: the state of threads (`$kernel`), thresholds, kernel events.
    pub fn asks_kernel(&self) -> bool {
        self.has(|kind| matches!(kind, ActionKind::Threshold { .. } | ActionKind::OpenKernel { .. }))
            || self.has_context(&|name| name.starts_with("kernel."))
    }

    /// Whether it reads words that the session shares (`$shared`, `$thread`).
    pub fn reads_shared(&self) -> bool {
        self.has_context(&|name| name.starts_with("shared.") || name.starts_with("thread."))
    }

    /// Whether it names words that the session shares with all processes; `with_flags` when flags are among these
    /// ([`crate::Maps::share_flags`]).
    pub fn names_shared_words(&self, with_flags: bool) -> bool {
        self.has_context(&|name| name.starts_with("shared.") || with_flags && name.starts_with("flag."))
            || with_flags && self.has(|kind| matches!(kind, ActionKind::Set(_) | ActionKind::Clear(_)))
    }

    /// Whether it names something that is none of these: a field, or a label of one.
    pub fn names_others(&self, than: &[&str]) -> bool {
        let is_name =
            |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if !than.contains(&name.as_str()));
        let has = |expr: &Expr| expr.has(&is_name);
        self.condition.as_ref().is_some_and(has) || self.actions.iter().any(|action| action.kind.has(&has))
    }

    pub(crate) fn has_context(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.condition.as_ref().is_some_and(|expr| expr.has_context(is))
            || self.actions.iter().any(|action| action.kind.has_context(is))
    }

    fn has(&self, is: impl Fn(&ActionKind) -> bool) -> bool {
        self.actions.iter().any(|action| is(&action.kind))
    }
}

/// With one blank between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn record(span: Span) -> Action {
    Action { kind: ActionKind::Record, span }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rule = Rule::parse("net:* if len > 1500 do count by proto, $tid, set big; record").unwrap();
        assert!(rule.matches("net", "packet_in") && rule.records() && !rule.speculates());
        assert_eq!(rule.actions.len(), 3);
        assert!(matches!(&rule.actions[0].kind, ActionKind::Count { by } if by.len() == 2));
        assert!(rule.names_others(&["len"]) && !rule.names_others(&["proto", "len"]));
        let rule = Rule::parse("f:a if duration > 5 && !(3 in (1, key)) do record").unwrap();
        assert!(rule.names_others(&["duration"]) && !rule.names_others(&["duration", "key"]));
        let rule = Rule::parse("http:begin do speculate").unwrap();
        assert!(rule.condition.is_none() && rule.speculates() && !rule.records());
        let rule =
            Rule::parse("http:begin do speculate by req.id, commit by $span, discard by (a + b)").unwrap();
        assert!(rule.speculates() && !rule.speculates_by_thread() && !rule.yields());
        assert_eq!(rule.speculation_keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["req.id"]);
        for (text, value_is_by) in
            [("* do hist $elapsed by a", false), ("* do hist ($elapsed by a) by b", true)]
        {
            let ActionKind::Histogram { value, by } = &Rule::parse(text).unwrap().actions[0].kind.clone()
            else {
                panic!("{text}");
            };
            assert_eq!((matches!(value.kind, ExprKind::ElapsedBy(_)), by.len()), (value_is_by, 1), "{text}");
        }
        let rule = Rule::parse("req:slow if ns > 3 do record, pt snapshot 5ms, count by pt, pt snapshot 1s")
            .unwrap();
        assert!(rule.snapshots_packets() && rule.records() && !rule.snapshots());
        let kinds: Vec<_> = rule.actions.iter().map(|action| &action.kind).collect();
        assert!(
            matches!(
                kinds.as_slice(),
                [
                    ActionKind::Record,
                    ActionKind::SnapshotPackets { ns: 5_000_000 },
                    ActionKind::Count { by },
                    ActionKind::SnapshotPackets { ns: 1_000_000_000 }
                ] if by.len() == 1
            ),
            "{kinds:?}"
        );
        let rule = Rule::parse("req:slow do count by profile, profile for 2s").unwrap();
        assert!(rule.profiles() && rule.yields() && !rule.snapshots_packets());
        assert!(matches!(&rule.actions[1].kind, ActionKind::Profile { ns: 2_000_000_000 }));
        for wrong in ["x do profile", "x do profile for", "x do profile for 0s", "x do profile for 2h"] {
            assert!(Rule::parse(wrong).is_err(), "{wrong}");
        }
        let rule =
            Rule::parse("f:a if ns > 3 do count by fperf, fperf \"db::*\" for 2s, fperf '@a?.c' for 20ms")
                .unwrap();
        assert_eq!(rule.sampled_functions().collect::<Vec<_>>(), ["db::*", "@a?.c"]);
        assert!(rule.yields() && !rule.writes() && !rule.profiles());
        assert!(matches!(&rule.actions[1].kind, ActionKind::SampleFunctions { ns: 2_000_000_000, .. }));
        let again = Rule::parse("x do count by a, fperf 'b' for 1s").unwrap();
        assert_eq!(again.actions.len(), 2);
        // A field may have that name.
        let rule = Rule::parse("x do count by a, pt").unwrap();
        assert!(matches!(&rule.actions[0].kind, ActionKind::Count { by } if by.len() == 2));
        let rule = Rule::parse("x do emit slow(url = path, ns = $delta), last 5, hist len by proto").unwrap();
        assert_eq!(rule.actions.len(), 3);
        assert!(Rule::parse("net:*").unwrap().records());
    }

    #[test]
    fn shorthands_are_read() {
        for (text, title) in [
            ("", "count"),
            ("by proto", "count by proto"),
            ("proto,  $tid", "count by proto, $tid"),
            ("by proto if len > 4k", "count by proto if len > 4k"),
            ("if len > 4k", "count if len > 4k"),
        ] {
            assert_eq!(Rule::count("*", text).unwrap().title, title);
        }
        assert_eq!(Rule::histogram("net:*", "len").unwrap().title, "hist len of net:*");
        assert!(Rule::histogram("*", "len by proto if len > 3").is_ok());
        assert!(Rule::histogram("*", "by proto").is_err());
        for rule in [
            Rule::count("net:*", "by proto if len > 4k"),
            Rule::filter("net:*", "len > 3"),
            Ok(Rule::record("net")),
        ] {
            let rule = rule.unwrap();
            assert!(Rule::of(rule.form(), rule.pattern(), rule.source()).unwrap().is_same(&rule));
        }
    }

    #[test]
    fn bad_rules_say_what_is_wrong() {
        for (text, message) in [
            ("", "expected a pattern of events"),
            ("if len > 3 do count", "expected a pattern of events"),
            ("net:* do", "expected an action, found the end"),
            ("net:* do cuont", "there is no action `cuont`"),
            ("net:* if do count", "expected an operator, or the end, found `count`"),
            ("net:* do last 0", "expected the number of events to keep, from 1 to 1048576"),
            ("net:* do emit e(a = 1, a = 2)", "field `a` is given twice"),
            ("net:* do set 5", "expected the name of a flag, found a number"),
            ("net:* do speculate by", "expected a field, a number or a string, found the end"),
            ("net:* do speculate by a, b", "a speculation has one key"),
            ("net:* do speculate by a + b", "expected an operator, or the end, found `+`"),
            ("net:* do pt", "expected `snapshot` and a time, found the end"),
            ("net:* do pt snapshot", "expected `snapshot` and a time, found the end"),
            ("net:* do pt snapshot 0", "packets of 1 ns to 60 s before an event can be asked for"),
            ("net:* do pt snapshot 61s", "packets of 1 ns to 60 s before an event can be asked for"),
            ("net:* do pt snapsot 5ms", "expected `snapshot` and a time, found `snapsot`"),
            ("net:* do fperf", "expected a pattern of functions in quotes, found the end"),
            ("net:* do fperf parse_* for 2s", "expected a pattern of functions in quotes, found `parse_`"),
            ("net:* do fperf 'parse_*'", "expected `for` and a time, found the end"),
            ("net:* do fperf 'parse_*' for", "expected `for` and a time, found the end"),
            ("net:* do fperf 'parse_*' 2s", "expected `for` and a time, found a number"),
            ("net:* do fperf 'parse_*' for 0s", "functions can be sampled for 20 ms to 1 h behind an event"),
            (
                "net:* do fperf 'parse_*' for 19ms",
                "functions can be sampled for 20 ms to 1 h behind an event",
            ),
            ("net:* do fperf 'parse_*' for 2h", "functions can be sampled for 20 ms to 1 h behind an event"),
            ("net:* do fperf '' for 2s", "no function can be called so"),
            ("net:* do fperf 'a`b' for 2s", "no function can be called so"),
            ("net:* do hist $elapsed by a by b", "expected an operator, or the end, found `by`"),
        ] {
            assert_eq!(Rule::parse(text).unwrap_err().message(), message, "{text}");
        }
    }
}
