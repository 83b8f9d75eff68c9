//! Strings in quotes.

use super::Kind;
use crate::diagnostic::{Diagnostic, Span};
use crate::string_pattern::StringPattern;

/// The string that begins with the quote at `at`, and the place behind it.
pub(super) fn read(text: &str, at: usize, quote: char) -> Result<(Kind, usize), Diagnostic> {
    let mut parts = vec![Vec::new()];
    let mut chars = text[at + 1..].char_indices().map(|(i, c)| (at + 1 + i, c));
    while let Some((place, c)) = chars.next() {
        let mut bytes = [0; 4];
        match c {
            c if c == quote => return Ok((Kind::String(StringPattern::new(parts)), place + 1)),
            '*' => {
                parts.push(Vec::new());
                continue;
            }
            '\\' => {
                let (byte_len, escaped, used) = escape(text, place)?;
                push(&mut parts, &escaped[..byte_len], Span::new(place, place + used))?;
                (1..text[place..place + used].chars().count()).for_each(|_| _ = chars.next());
            }
            c => push(&mut parts, c.encode_utf8(&mut bytes).as_bytes(), Span::new(place, place + 1))?,
        }
    }
    Err(Diagnostic::syntax(Span::new(at, at + 1), "the string has no end").help(format!("add a `{quote}`")))
}

fn push(parts: &mut [Vec<u8>], bytes: &[u8], span: Span) -> Result<(), Diagnostic> {
    if bytes.contains(&0) {
        return Err(Diagnostic::syntax(span, "a string has no NUL in it"));
    }
    if let Some(last) = parts.last_mut() {
        last.extend_from_slice(bytes);
    }
    Ok(())
}

/// The escape at `at`: how many bytes it means, the bytes, and how many bytes of the rule it takes.
fn escape(text: &str, at: usize) -> Result<(usize, [u8; 4], usize), Diagnostic> {
    let rest = &text[at + 1..];
    let Some(c) = rest.chars().next() else {
        return Err(Diagnostic::syntax(Span::new(at, at + 1), "the string has no end"));
    };
    let one = |byte: u8, used: usize| Ok((1, [byte, 0, 0, 0], used));
    match c {
        '*' | '\\' | '"' | '\'' | '?' => one(c as u8, 2),
        'n' => one(b'\n', 2),
        't' => one(b'\t', 2),
        'r' => one(b'\r', 2),
        'a' => one(7, 2),
        'b' => one(8, 2),
        'f' => one(12, 2),
        'v' => one(11, 2),
        '0'..='7' => {
            let len = rest.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
            number(&rest[..len], 8, Span::new(at, at + 1 + len)).and_then(|byte| one(byte, 1 + len))
        }
        'x' => {
            let len = rest[1..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
            number(&rest[1..1 + len], 16, Span::new(at, at + 2 + len)).and_then(|byte| one(byte, 2 + len))
        }
        'u' | 'U' => {
            let len = if c == 'u' { 4 } else { 8 };
            let span = Span::new(at, at + 2);
            let digits = rest.get(1..1 + len);
            let value =
                digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
            let value = value.ok_or_else(|| Diagnostic::syntax(span, "this is not a character"))?;
            let mut bytes = [0; 4];
            let byte_len = value.encode_utf8(&mut bytes).len();
            Ok((byte_len, bytes, 2 + len))
        }
        _ => {
            let span = Span::new(at, at + 1 + c.len_utf8());
            let problem = Diagnostic::syntax(span, format!("unknown escape `\\{}`", c.escape_debug()));
            Err(problem.help("a backslash is written `\\\\`"))
        }
    }
}

fn number(digits: &str, radix: u32, span: Span) -> Result<u8, Diagnostic> {
    u8::from_str_radix(digits, radix).map_err(|_| Diagnostic::syntax(span, "this is not a byte"))
}
