//! Numbers: decimal, hexadecimal, octal, binary, with a fraction, with a unit.

use super::Kind;
use crate::diagnostic::{Diagnostic, Span};

/// Units of time in ns, and of size in bytes.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("kB", 1 << 10),
    ("KB", 1 << 10),
    ("KiB", 1 << 10),
    ("M", 1 << 20),
    ("MB", 1 << 20),
    ("MiB", 1 << 20),
    ("G", 1 << 30),
    ("GB", 1 << 30),
    ("GiB", 1 << 30),
    ("T", 1 << 40),
    ("TB", 1 << 40),
    ("TiB", 1 << 40),
];

/// Nanoseconds of a unit of time.
pub(crate) fn time_unit(name: &str) -> Option<u64> {
    UNITS.iter().take(8).find(|(unit, _)| *unit == name).map(|(_, ns)| *ns)
}

/// The number that begins at `at`, and the place behind it.
pub(super) fn read(text: &str, at: usize) -> Result<(Kind, usize), Diagnostic> {
    let rest = &text[at..];
    let (radix, skip) = match rest.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, 2),
        [b'0', b'b' | b'B', ..] => (2, 2),
        _ => (10, 0),
    };
    let digits_from = at + skip;
    let whole_end = digits_from + count(&text[digits_from..], |c| c.is_digit(radix));
    let (end, is_float) = if radix == 10 { fraction(text, whole_end) } else { (whole_end, false) };
    let unit_end = end + count_chars(&text[end..], |c| c.is_alphanumeric() || c == '_');
    let unit = &text[end..unit_end];
    let span = Span::new(at, unit_end);
    let number = &text[digits_from..end];
    if number.is_empty() {
        return Err(Diagnostic::syntax(span, format!("`{}` is not a number", &text[at..unit_end])));
    }
    let kind = if is_float { float(number, unit, span)? } else { integer(number, radix, unit, span)? };
    Ok((kind, unit_end))
}

/// Behind the fraction and the exponent, and whether there was one.
fn fraction(text: &str, whole_end: usize) -> (usize, bool) {
    let mut end = whole_end;
    let mut is_float = false;
    // `1..5` is a range, no fraction.
    if text[end..].starts_with('.') && !text[end..].starts_with("..") {
        end += 1 + count(&text[end + 1..], |c| c.is_ascii_digit());
        is_float = true;
    }
    let rest = &text[end..];
    if rest.starts_with(['e', 'E']) {
        let sign = usize::from(rest[1..].starts_with(['+', '-']));
        let digits = count(&rest[1 + sign..], |c| c.is_ascii_digit());
        if digits > 0 {
            return (end + 1 + sign + digits, true);
        }
    }
    (end, is_float)
}

fn integer(digits: &str, mut radix: u32, unit: &str, span: Span) -> Result<Kind, Diagnostic> {
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        radix = 8;
        if let Some(digit) = digits.chars().find(|c| !c.is_digit(8)) {
            let problem = Diagnostic::syntax(span, format!("`{digit}` is not an octal digit"));
            return Err(problem.help("a number that begins with 0 is octal; leave the 0 out"));
        }
    }
    let factor = factor(unit, span)?;
    let value = u64::from_str_radix(digits, radix).ok().and_then(|value| value.checked_mul(factor));
    let too_large = || Diagnostic::syntax(span, "the number does not fit 64 bits");
    value.map(Kind::Integer).ok_or_else(too_large)
}

fn float(number: &str, unit: &str, span: Span) -> Result<Kind, Diagnostic> {
    let value: f64 = number.parse().map_err(|_| Diagnostic::syntax(span, "this is not a number"))?;
    if !value.is_finite() {
        return Err(Diagnostic::syntax(span, "the number is too large for a float"));
    }
    if unit.is_empty() || matches!(unit, "f" | "F" | "l" | "L") {
        return Ok(Kind::Float(value));
    }
    // `1.5ms` is a whole number of ns.
    let scaled = value * factor(unit, span)? as f64;
    if scaled < u64::MAX as f64 {
        Ok(Kind::Integer(scaled.round() as u64))
    } else {
        Err(Diagnostic::syntax(span, "the number does not fit 64 bits"))
    }
}

fn factor(unit: &str, span: Span) -> Result<u64, Diagnostic> {
    // C's suffixes, which LTTng takes too, mean nothing here.
    let is_c_suffix =
        matches!(unit.to_ascii_lowercase().as_str(), "u" | "l" | "ul" | "ll" | "ull" | "lu" | "llu");
    if unit.is_empty() || is_c_suffix {
        return Ok(1);
    }
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(|| {
        let span = Span::new(span.end - unit.len(), span.end);
        let problem = Diagnostic::syntax(span, format!("unknown unit `{unit}`"));
        problem.help("times have ns, us, ms, s, m or h, as in `250us`; sizes have k, M, G or T, as in `4k`")
    })
}

fn count(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

fn count_chars(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|(_, c)| !fits(*c)).map_or(text.len(), |(at, _)| at)
}
