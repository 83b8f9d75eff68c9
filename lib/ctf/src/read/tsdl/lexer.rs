//! Tokens of TSDL (CTF 1.8 appendix C: C's lexical grammar without the preprocessor).

use crate::error::{MetadataError, MetadataFault};
use crate::read::place;
use std::borrow::Cow;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    /// Identifier or keyword.
    Ident(&'a str),
    /// Non-negative integer.
    Int(u64),
    /// Text in quotes, escapes resolved.
    Str(Cow<'a, str>),
    /// Punctuation, `:=` and `...` included.
    Punct(&'static str),
    /// End of the text.
    End,
}

/// Punctuation, longest first.
const PUNCTUATION: [&str; 19] =
    ["...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ",", ".", ":", "=", "-", "+", "*"];

/// Splits `text` into tokens with their offsets.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, MetadataError> {
    let mut found = Vec::with_capacity(text.len() / 5);
    let mut at = 0;
    loop {
        at = skip_blank(text, at)?;
        let rest = text.get(at..).unwrap_or("");
        let Some(first) = rest.bytes().next() else {
            found.push((Token::End, at));
            return Ok(found);
        };
        let (token, len) = match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => ident(rest),
            b'0'..=b'9' => integer(rest).ok_or_else(|| place(text, at, MetadataFault::BadValue("number")))?,
            b'"' => string(rest).ok_or_else(|| place(text, at, MetadataFault::BadValue("text in quotes")))?,
            b'\'' => character(rest).ok_or_else(|| place(text, at, MetadataFault::BadValue("character")))?,
            _ => match PUNCTUATION.into_iter().find(|p| rest.starts_with(p)) {
                Some(p) => (Token::Punct(p), p.len()),
                None => {
                    return Err(place(
                        text,
                        at,
                        MetadataFault::Expected("TSDL, found a character that is no part of it"),
                    ));
                }
            },
        };
        found.push((token, at));
        at += len;
    }
}

/// The offset of the next byte that is neither blank nor comment.
fn skip_blank(text: &str, mut at: usize) -> Result<usize, MetadataError> {
    let bytes = text.as_bytes();
    loop {
        let rest = bytes.get(at..).unwrap_or(&[]);
        let comment_end = match rest {
            [b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c, ..] => Some(1),
            // Zeros may fill up the end of a file.
            [0, ..] if rest.iter().all(|byte| matches!(byte, 0 | b'\n')) => Some(rest.len()),
            [b'/', b'/', ..] => Some(memchr::memchr(b'\n', rest).map_or(rest.len(), |i| i + 1)),
            [b'/', b'*', comment @ ..] => match memchr::memmem::find(comment, b"*/") {
                Some(end) => Some(end + 4),
                None => return Err(place(text, at, MetadataFault::Expected("end of comment"))),
            },
            _ => None,
        };
        match comment_end {
            Some(len) => at += len,
            None => return Ok(at),
        }
    }
}

fn ident(rest: &str) -> (Token<'_>, usize) {
    let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    (Token::Ident(&rest[..len]), len)
}

/// Decimal, octal, hexadecimal or binary, with C's suffixes.
fn integer(rest: &str) -> Option<(Token<'_>, usize)> {
    let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let digits = rest[..len].trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = rest[digits.len()..len].to_ascii_lowercase();
    if !matches!(suffix.as_str(), "" | "u" | "l" | "ll" | "ul" | "ull" | "lu" | "llu") {
        return None;
    }
    let parse = |digits, base| u64::from_str_radix(digits, base).ok();
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        parse(hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b").or(digits.strip_prefix("0B")) {
        parse(binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        parse(digits, 8)
    } else {
        parse(digits, 10)
    };
    Some((Token::Int(value?), len))
}

fn string(rest: &str) -> Option<(Token<'_>, usize)> {
    let body = &rest[1..];
    let plain = body.bytes().position(|b| b == b'"' || b == b'\\')?;
    if body.as_bytes()[plain] == b'"' {
        return Some((Token::Str(Cow::Borrowed(&body[..plain])), plain + 2));
    }
    let mut text = String::from(&body[..plain]);
    let mut chars = body.char_indices().skip_while(|(i, _)| *i < plain);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((Token::Str(Cow::Owned(text)), at + 2)),
            '\\' => text.push(escape(&mut chars)?),
            _ => text.push(c),
        }
    }
    None
}

/// The character of an escape sequence of C.
fn escape(chars: &mut (impl Iterator<Item = (usize, char)> + Clone)) -> Option<char> {
    let (_, c) = chars.next()?;
    let mut number = |base: u32, most: usize, first: u32| {
        let mut value = first;
        for _ in 0..most {
            let Some(digit) = chars.clone().next().and_then(|(_, c)| c.to_digit(base)) else { break };
            value = value * base + digit;
            chars.next();
        }
        char::from_u32(value)
    };
    match c {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'a' => Some('\x07'),
        'b' => Some('\x08'),
        'f' => Some('\x0c'),
        'v' => Some('\x0b'),
        'x' => number(16, 2, 0),
        'u' => number(16, 4, 0),
        '0'..='7' => number(8, 2, c.to_digit(8)?),
        other => Some(other),
    }
}

/// A character in quotes: its code.
fn character(rest: &str) -> Option<(Token<'_>, usize)> {
    let mut chars = rest.char_indices().skip(1);
    let (_, c) = chars.next()?;
    let value = if c == '\\' { escape(&mut chars)? } else { c };
    let (end, quote) = chars.next()?;
    (quote == '\'').then_some((Token::Int(u64::from(u32::from(value))), end + 1))
}
