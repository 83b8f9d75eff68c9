//! From a rule's text to tokens.
//!
//! Numbers, names and operators are those of LTTng's filters (`filter-lexer.l` of lttng-tools 2.13), and with them
//! units (`250us`, `4k`), `..`, `;`, and names in back quotes.

use crate::diagnostic::{Diagnostic, Span};
use crate::string_pattern::StringPattern;
use std::fmt;

mod number;

mod string;

pub(crate) use number::time_unit;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A name: of a field, a label, a function, a word of the language.
    Name(String),
    /// What follows a `$`: `tid`, `ctx.vpid`, `last.len`.
    Context(String),
    /// A number, its unit (in ns or bytes) multiplied in.
    Integer(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// A string in quotes.
    String(StringPattern),
    /// An operator or a bracket.
    Sign(&'static str),
    /// Behind the last token.
    End,
}

impl fmt::Display for Kind {
    /// As it may be written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Name(name) => write!(f, "{name}"),
            Kind::Context(name) => write!(f, "${name}"),
            Kind::Integer(value) => write!(f, "{value}"),
            Kind::Float(value) => write!(f, "{value:?}"),
            Kind::String(pattern) => write!(f, "{pattern}"),
            Kind::Sign(sign) => write!(f, "{sign}"),
            Kind::End => Ok(()),
        }
    }
}

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// Operators and brackets; longer ones before those that they begin with.
const SIGNS: [&str; 31] = [
    "<<", ">>", "==", "!=", "<=", ">=", "&&", "||", "..", "->", "<", ">", "!", "~", "&", "|", "^", "+", "-",
    "*", "/", "%", "(", ")", "[", "]", ",", ".", "=", ";", ":",
];

/// Most bytes of a rule.
pub(crate) const TEXT_MAX: usize = 4 << 20;

/// The tokens of `text` from byte `from` on, the last one [`Kind::End`].
pub(crate) fn tokens(text: &str, from: usize) -> Result<Vec<Token>, Diagnostic> {
    if text.len() > TEXT_MAX {
        return Err(Diagnostic::syntax(Span::new(0, 1), "the rule is longer than 4 MiB").help("split it"));
    }
    let mut out = Vec::new();
    let mut at = from;
    loop {
        at = skip_blanks(text, at)?;
        let Some(c) = text[at..].chars().next() else {
            out.push(Token { kind: Kind::End, span: Span::new(text.len(), text.len()) });
            return Ok(out);
        };
        let (kind, end) = token(text, at, c)?;
        out.push(Token { kind, span: Span::new(at, end) });
        at = end;
    }
}

fn token(text: &str, at: usize, c: char) -> Result<(Kind, usize), Diagnostic> {
    let next = text[at + c.len_utf8()..].chars().next();
    match c {
        '"' | '\'' => string::read(text, at, c),
        '`' => quoted_name(text, at),
        '$' => context(text, at),
        '0'..='9' => number::read(text, at),
        '.' if next.is_some_and(|c| c.is_ascii_digit()) => number::read(text, at),
        _ if starts_name(c) => {
            let end = name_end(text, at, false);
            Ok((Kind::Name(text[at..end].to_owned()), end))
        }
        _ => match SIGNS.iter().find(|sign| text[at..].starts_with(**sign)) {
            Some(sign) => Ok((Kind::Sign(sign), at + sign.len())),
            None => {
                let span = Span::new(at, at + c.len_utf8());
                Err(Diagnostic::syntax(span, format!("`{}` has no meaning here", c.escape_debug())))
            }
        },
    }
}

/// Behind blanks and comments.
fn skip_blanks(text: &str, mut at: usize) -> Result<usize, Diagnostic> {
    loop {
        let rest = &text[at..];
        let blanks = rest.len() - rest.trim_start().len();
        at += blanks;
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let Some(end) = rest.find("*/") else {
                return Err(
                    Diagnostic::syntax(Span::new(at, at + 2), "comment without an end").help("add `*/`")
                );
            };
            at += end + 2;
        } else if blanks == 0 {
            return Ok(at);
        }
    }
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// Behind the name at `at`; its parts may have dots between them. A colon is a part of the names that LTTng's contexts
/// have.
fn name_end(text: &str, at: usize, colons: bool) -> usize {
    let mut end = at;
    let mut rest = text[at..].chars().peekable();
    while let Some(c) = rest.next() {
        let joins = c == '.' || (c == ':' && colons);
        let goes_on =
            c.is_alphanumeric() || c == '_' || (joins && rest.peek().copied().is_some_and(starts_name));
        if !goes_on {
            break;
        }
        end += c.len_utf8();
    }
    end
}

fn quoted_name(text: &str, at: usize) -> Result<(Kind, usize), Diagnostic> {
    match text[at + 1..].find('`') {
        Some(0) => Err(Diagnostic::syntax(Span::new(at, at + 2), "empty name")),
        Some(len) => Ok((Kind::Name(text[at + 1..at + 1 + len].to_owned()), at + len + 2)),
        None => {
            Err(Diagnostic::syntax(Span::new(at, at + 1), "name without an end").help("add a back quote"))
        }
    }
}

fn context(text: &str, at: usize) -> Result<(Kind, usize), Diagnostic> {
    let end = name_end(text, at + 1, true);
    if end == at + 1 {
        let problem = Diagnostic::syntax(Span::new(at, at + 1), "`$` without a name");
        return Err(problem.help("a context looks like `$tid`"));
    }
    Ok((Kind::Context(text[at + 1..end].to_owned()), end))
}
