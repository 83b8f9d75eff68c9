//! Words, numbers and symbols of a line.

use super::statement::{Result, Trouble};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Word(&'a str),
    Number { magnitude: u64, hex: bool },
    Symbol(&'a str),
}

/// A token and its column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) text: &'a str,
    pub(super) column: usize,
}

/// The longest come first.
const SYMBOLS: &[&str] = &[
    "s>>=", "s>=", "s<=", "s/=", "s%=", "<<=", ">>=", "s>", "s<", "+=", "-=", "*=", "/=", "%=", "|=", "&=",
    "^=", "==", "!=", ">=", "<=", "(", ")", "[", "]", ",", ":", "+", "-", "*", "&", "=", "<", ">", "#",
];

/// The tokens of a line, without its comment.
pub(super) fn tokens(line: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut rest = line;
    let mut column = 1;
    loop {
        let spaces = rest.len() - rest.trim_start().len();
        // `call bpf_map_lookup_elem#1`: the number belongs to the name, it is no comment.
        let glued = spaces == 0 && matches!(tokens.last(), Some(Token { kind: Kind::Word(_), .. }));
        column += rest[..spaces].chars().count();
        rest = &rest[spaces..];
        let numbered = glued && rest.len() > 1 && rest.as_bytes()[1].is_ascii_digit();
        if rest.is_empty() || rest.starts_with("//") || rest.starts_with(';') {
            return Ok(tokens);
        }
        if rest.starts_with('#') && !numbered {
            return Ok(tokens);
        }
        let (kind, bytes) = token(rest).map_err(|message| Trouble { column, message })?;
        let text = &rest[..bytes];
        tokens.push(Token { kind, text, column });
        column += bytes;
        rest = &rest[bytes..];
    }
}

/// The first token of a text that has one, and its bytes, all ASCII.
fn token(rest: &str) -> std::result::Result<(Kind<'_>, usize), String> {
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((Kind::Symbol(symbol), symbol.len()));
    }
    // `%r0` is the same as `r0`.
    let percent = usize::from(rest.starts_with('%'));
    let word = &rest[percent..];
    let end = word
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')))
        .unwrap_or(word.len());
    let word = &word[..end];
    if word.starts_with(|c: char| c.is_ascii_digit()) && percent == 0 {
        return number(word).map(|kind| (kind, end));
    }
    if word.is_empty() {
        let found = rest.chars().next().unwrap_or(' ');
        return Err(format!("expected an instruction, found `{}`", found.escape_default()));
    }
    Ok((Kind::Word(word), percent + end))
}

fn number(word: &str) -> std::result::Result<Kind<'_>, String> {
    let hex = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((word, 10), |digits| (digits, 16));
    let magnitude = u64::from_str_radix(digits, radix)
        .map_err(|_| format!("expected a number of at most 64 bits, found `{word}`"))?;
    Ok(Kind::Number { magnitude, hex: hex.is_some() })
}
