//! Texts from a trace, made harmless: for a terminal, for JSON, for CSV.
//!
//! A traced program writes what it likes, escape sequences and broken UTF-8 included.

use crate::digits::hex;
use mote_ctf::model::Encoding;
use std::borrow::Cow;

/// Whether `bytes` can stand between quotes as they are: printable ASCII without quote and backslash.
#[inline]
fn plain(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |good, b| good & (b' '..=b'~').contains(b) & (*b != b'"') & (*b != b'\\'))
}

/// Decodes a text to UTF-8 where it is in another encoding; broken units become U+FFFD.
pub(crate) fn utf8(bytes: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    let wide = |big: bool| {
        let unit = move |c: &[u8]| {
            if big { u16::from_be_bytes([c[0], c[1]]) } else { u16::from_le_bytes([c[0], c[1]]) }
        };
        let text = char::decode_utf16(bytes.chunks_exact(2).map(unit));
        text.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>()
    };
    let wider = |big: bool| {
        let unit = move |c: &[u8]| {
            let c = [c[0], c[1], c[2], c[3]];
            char::from_u32(if big { u32::from_be_bytes(c) } else { u32::from_le_bytes(c) })
        };
        bytes.chunks_exact(4).map(|c| unit(c).unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>()
    };
    let text = match encoding {
        Encoding::Utf8 => return Cow::Borrowed(bytes),
        Encoding::Utf16Be => wide(true),
        Encoding::Utf16Le => wide(false),
        Encoding::Utf32Be => wider(true),
        Encoding::Utf32Le => wider(false),
    };
    Cow::Owned(text.into_bytes())
}

/// Appends a quoted text for people: control characters as `\n`, `\t` or `\x1b`, bytes that are not UTF-8 as `\xff`.
#[inline]
pub(crate) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    if plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        escaped(out, bytes);
    }
    out.push(b'"');
}

/// A text from the trace, without control characters: as [`escaped`].
pub(crate) fn safe(text: &str) -> String {
    let mut out = Vec::new();
    escaped(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a text for people as [`quoted`] does, without the quotes.
pub(crate) fn escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let byte = |out: &mut Vec<u8>, b: u8| out.extend_from_slice(&[b'\\', b'x', hex(b >> 4), hex(b)]);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\r' => out.extend_from_slice(b"\\r"),
                '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
                c if c.is_ascii_control() => byte(out, c as u8),
                c if unprintable(c) => out.extend_from_slice(c.escape_unicode().to_string().as_bytes()),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        chunk.invalid().iter().for_each(|b| byte(out, *b));
    }
}

/// Control characters beyond ASCII, line separators, and those that turn the direction of text.
fn unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Appends a JSON string; bytes that are not UTF-8 become U+FFFD.
#[inline]
pub(crate) fn json(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    if plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        json_escaped(out, bytes);
    }
    out.push(b'"');
}

fn json_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.extend_from_slice(b"\\n"),
                '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
                c if c.is_ascii_control() => {
                    out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(c as u8 >> 4), hex(c as u8)]);
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Appends a field of CSV (RFC 4180): in quotes, with quotes doubled, if it needs them.
pub(crate) fn csv(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.iter().any(|b| matches!(b, b'"' | b',' | b'\n' | b'\r')) {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    for part in bytes.split_inclusive(|b| *b == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(append: impl Fn(&mut Vec<u8>, &[u8]), bytes: &[u8]) -> String {
        let mut out = Vec::new();
        append(&mut out, bytes);
        String::from_utf8(out).expect("escaped text is UTF-8")
    }

    #[test]
    fn text_for_people_carries_no_control_characters() {
        assert_eq!(with(quoted, b"a \"b\" \\ \x1b[31m\n\xff\x00"), r#""a \"b\" \\ \x1b[31m\n\xff\x00""#);
        assert_eq!(with(quoted, "é\u{9b}\u{202e}x".as_bytes()), r#""é\u{9b}\u{202e}x""#);
    }

    #[test]
    fn json_is_json() {
        for bytes in [&b""[..], b"plain", b"\"\\\n\x01\x7f", b"\xc3\xa9 \xff\xfe ok", "\u{10ffff}".as_bytes()]
        {
            let text = with(json, bytes);
            let back: String = serde_json::from_str(&text).expect("valid JSON");
            let lossy = String::from_utf8_lossy(bytes);
            assert_eq!(back.replace('\u{fffd}', ""), lossy.replace('\u{fffd}', ""), "{text}");
        }
    }

    #[test]
    fn csv_doubles_quotes() {
        assert_eq!(with(csv, b"a b"), "a b");
        assert_eq!(with(csv, b"a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn wide_encodings_become_utf8() {
        assert_eq!(utf8(&[0x3d, 0xd8, 0, 0xde, 0x61, 0], Encoding::Utf16Le), "😀a".as_bytes());
        assert_eq!(utf8(&[0, 1, 0xf6, 0], Encoding::Utf32Be), "😀".as_bytes());
        assert_eq!(utf8(&[0xd8, 0x3d], Encoding::Utf16Be), "\u{fffd}".as_bytes());
    }
}
