//! What is wrong with a rule, shown in the rule's own text.

use crate::target::Side;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::ops::Range;

/// A part of a rule's text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte in the rule's text.
    pub start: usize,
    /// Offset of the byte behind the last one.
    pub end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }

    /// From the beginning of `self` to the end of `last`.
    pub(crate) fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end.max(self.start) }
    }
}

/// What a program can do about a problem, beside showing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The rule's text is malformed, whatever the event.
    Syntax,
    /// The event has no such field. Another event that the same pattern names may have it.
    UnknownField,
    /// It is right, and only possible on the other side: in the traced process, or in the kernel.
    Side,
    /// It does not fit this event's fields: types, labels, places in arrays.
    Type,
    /// It is right, and more than a program, its stack or its maps can hold.
    TooLarge,
}

/// A problem of a rule, or something that its author may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    kind: Kind,
    message: String,
    label: String,
    span: Span,
    helps: Vec<String>,
    source: String,
    event: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(kind: Kind, span: Span, message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        let (label, helps, source) = (String::new(), Vec::new(), String::new());
        Diagnostic(Box::new(Parts { kind, message, label, span, helps, source, event: None }))
    }

    pub(crate) fn syntax(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Kind::Syntax, span, message)
    }

    pub(crate) fn mismatch(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Kind::Type, span, message)
    }

    /// Something that programs on this side cannot do.
    pub(crate) fn wrong_side(side: Side, span: Span, message: impl std::fmt::Display) -> Diagnostic {
        let here = match side {
            Side::User => "in the traced process",
            Side::Kernel => "on the kernel's side",
        };
        Diagnostic::new(Kind::Side, span, format!("{message} {here}"))
    }

    /// A few words beside the mark under the text.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.0.label = label.into();
        self
    }

    /// What to do about it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.0.helps.push(help.into());
        self
    }

    /// Names that are there and look like what was written; nothing is said when there are none.
    pub(crate) fn similar(self, written: &str, names: &[&str]) -> Diagnostic {
        let similar = mote_pattern::similar(written, names.iter().copied());
        match similar.first() {
            Some(first) if similar.len() == 1 => self.help(format!("did you mean `{first}`?")),
            Some(_) => self.help(format!("similar names: {}", quoted(&similar))),
            None if names.is_empty() => self,
            None if names.len() <= 12 => self.help(format!("there are {}", quoted(names))),
            None => self,
        }
    }

    /// The text that it is about.
    pub(crate) fn of(mut self, source: &str) -> Diagnostic {
        if self.0.source.is_empty() {
            self.0.source = source.to_owned();
        }
        self
    }

    /// The event that the rule was compiled for.
    pub(crate) fn for_event(mut self, event: &str) -> Diagnostic {
        self.0.event.get_or_insert_with(|| event.to_owned());
        self
    }

    /// What a program can do about it.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What is wrong, in one sentence without a full stop.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the rule's text.
    pub fn span(&self) -> Span {
        self.0.span
    }

    /// For a person: the sentence, the place in the text, what to do. Several lines, without a line feed at the end.
    pub fn render(&self) -> String {
        self.rendered(Level::ERROR)
    }

    /// As [`Diagnostic::render`], for what is no error.
    pub fn render_warning(&self) -> String {
        self.rendered(Level::WARNING)
    }

    fn rendered(&self, level: Level<'static>) -> String {
        let (source, range) = excerpt(&self.0.source, self.0.span);
        let mut mark = AnnotationKind::Primary.span(range);
        if !self.0.label.is_empty() {
            mark = mark.label(self.0.label.as_str());
        }
        let mut snippet = Snippet::source(source.as_str()).annotation(mark);
        if let Some(event) = &self.0.event {
            snippet = snippet.path(event.as_str());
        }
        let mut report = level.primary_title(self.0.message.as_str()).element(snippet);
        for help in &self.0.helps {
            report = report.element(Level::HELP.message(help.as_str()));
        }
        Renderer::plain().render(&[report]).to_string()
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Diagnostic {}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Bytes of a rule's text that are shown on either side of a mark.
const AROUND: usize = 60;

/// A long text around the mark, on one line.
fn excerpt(source: &str, span: Span) -> (String, Range<usize>) {
    let floor = |mut at: usize| {
        at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (start, end) = (floor(span.start), floor(span.end.max(span.start)));
    let end = floor(end.min(start + 2 * AROUND)).max(start);
    let (from, to) = (floor(start.saturating_sub(AROUND)), floor(end + AROUND));
    let (mut text, mut shift) = (String::new(), 0);
    if from > 0 {
        text.push_str("... ");
        shift = text.len();
    }
    for c in source[from..to].chars() {
        match c.is_control() {
            // As many bytes, so that marks stay where they are.
            true => text.extend(std::iter::repeat_n(' ', c.len_utf8())),
            false => text.push(c),
        }
    }
    let range = start - from + shift..end - from + shift;
    if to < source.len() {
        text.push_str(" ...");
    }
    // An empty mark, at the end of the text, would not be seen.
    if range.is_empty() {
        text.push(' ');
        let at = range.start.min(text.len() - 1);
        let next = text[at..].chars().next().map_or(1, char::len_utf8);
        return (text, at..at + next);
    }
    (text, range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_inside_of_any_text() {
        for source in ["", "é", "a\nb", "\u{83}Һ3W", &"é".repeat(200), &"x && ".repeat(100)] {
            for start in 0..source.len() + 2 {
                for end in [start, start + 1, start + 7, usize::MAX] {
                    let problem = Diagnostic::syntax(Span { start, end }, "wrong").of(source);
                    assert!(problem.render().contains("error: wrong"));
                }
            }
        }
    }

    #[test]
    fn it_points_and_helps() {
        let problem = Diagnostic::new(Kind::UnknownField, Span::new(0, 5), "no field `proot`")
            .label("not a field")
            .similar("proot", &["len", "proto"])
            .of("proot > 3")
            .for_event("net:in");
        let text = problem.render();
        assert!(text.contains("^^^^^ not a field") && text.contains("did you mean `proto`?"), "{text}");
    }
}
