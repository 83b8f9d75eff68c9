//! Names of values and of bits, from the `print fmt` of a trace event: `__print_symbolic` and `__print_flags`.
//!
//! Only what is about a field as it is recorded (`REC->state`, maybe with a cast), with constant values, is taken;
//! everything else is left alone.

/// Names of a field's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Label, first and last value.
    Values(Vec<(String, i64, i64)>),
    /// Label and bits.
    Bits(Vec<(String, u64)>),
}

/// More parentheses than any constant has.
const DEPTH_MAX: u32 = 64;
/// More names than any field has.
const NAMES_MAX: usize = 1024;

/// The fields that have names, and which.
pub(crate) fn names(format: &str) -> Vec<(String, Names)> {
    let mut found: Vec<(String, Names)> = Vec::new();
    for (function, bits) in [("__print_symbolic(", false), ("__print_flags(", true)] {
        for (at, _) in format.match_indices(function) {
            let rest = format.get(at + function.len()..).unwrap_or_default();
            if let Some((field, names)) = call(rest, bits)
                && !found.iter().any(|(other, _)| *other == field)
            {
                found.push((field, names));
            }
        }
    }
    found
}

/// The fields that are printed in base 16, or as addresses.
pub(crate) fn hexadecimal(format: &str) -> Vec<String> {
    let Some((text, arguments)) = format.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'))
    else {
        return Vec::new();
    };
    let mut arguments = arguments_of(arguments).into_iter();
    let mut found = Vec::new();
    let mut conversions = text.split('%').skip(1);
    while let Some(conversion) = conversions.next() {
        if conversion.is_empty() {
            // Two signs are one that is printed; the text behind belongs to it.
            conversions.next();
            continue;
        }
        let end = conversion.find(|c: char| c.is_ascii_alphabetic() && !"hljztL".contains(c));
        let Some((before, kind)) = end.and_then(|end| conversion.split_at_checked(end)) else { continue };
        let widths = before.matches('*').count();
        let argument = arguments.by_ref().nth(widths).and_then(field);
        if let Some(field) = argument.filter(|_| kind.starts_with(['p', 'x', 'X'])) {
            found.push(field);
        }
    }
    found
}

/// What stands between the commas outside of all parentheses and texts.
fn arguments_of(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start, mut found) = (0i32, false, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '{' if !quoted => depth += 1,
            ')' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                found.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text.get(start..).unwrap_or_default());
    // Before the first comma there is nothing.
    found.into_iter().skip(1).collect()
}

/// `REC->vec, { 0, "HI" }, { 1, "TIMER" })`; for bits with a text of what stands between, after the field.
fn call(text: &str, bits: bool) -> Option<(String, Names)> {
    let (subject, mut rest) = text.split_once(',')?;
    let field = field(subject)?;
    if bits {
        let (_, after) = quoted(rest.trim_start())?;
        rest = after.trim_start().strip_prefix(',')?;
    }
    let mut labels = Vec::new();
    while let Some(inner) = rest.trim_start().strip_prefix('{') {
        // A value that is no constant here has no name; without a label it is the end of the list.
        let Some((value, _)) = inner.split_once('"').filter(|(value, _)| !value.contains('}')) else { break };
        let after = inner.get(value.len()..)?;
        let (label, after) = quoted(after)?;
        rest = after.trim_start().strip_prefix('}')?.trim_start();
        let label = label_of(label);
        if let Some((value, ",")) = expression(value, DEPTH_MAX).map(|(value, rest)| (value, rest.trim()))
            && !label.is_empty()
            && labels.len() < NAMES_MAX
        {
            labels.push((label, value));
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    if labels.is_empty() {
        return None;
    }
    let names = if bits {
        Names::Bits(own_bits(labels))
    } else {
        Names::Values(labels.into_iter().map(|(label, value)| (label, value, value)).collect())
    };
    Some((field, names))
}

/// Without labels for what others name together (`GFP_KERNEL`), and without second names: so that a set of bits reads
/// as one.
fn own_bits(labels: Vec<(String, i64)>) -> Vec<(String, u64)> {
    let single: u64 = labels
        .iter()
        .map(|(_, bits)| *bits as u64)
        .filter(|bits| bits.is_power_of_two())
        .fold(0, |all, bits| all | bits);
    let mut kept: Vec<(String, u64)> = Vec::new();
    for (label, bits) in labels {
        let bits = bits as u64;
        let covered = !bits.is_power_of_two() && bits != 0 && bits & !single == 0;
        if !covered && !kept.iter().any(|(_, other)| *other == bits) {
            kept.push((label, bits));
        }
    }
    kept
}

/// `REC->state`, `(unsigned long)REC->flags`, `(REC->x)`: the name of the field.
fn field(subject: &str) -> Option<String> {
    let mut text = subject.trim();
    while let Some(inner) = text.strip_prefix('(') {
        let (within, after) = inner.split_once(')')?;
        // Either a cast, or parentheses around all.
        text = if after.trim().is_empty() { within.trim() } else { after.trim_start() };
    }
    let name = text.strip_prefix("REC->")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| name.to_owned())
}

/// A text in quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('"')?.split_once('"')
}

/// A label is one word.
fn label_of(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '\\' { ' ' } else { c };
    let text: String = text.chars().map(plain).collect();
    text.split_whitespace().collect::<Vec<_>>().join("_")
}

/// Operators by how strongly they bind, and what they do.
type Operator = (&'static str, u8, fn(i64, i64) -> i64);
const OPERATORS: [Operator; 7] = [
    ("|", 1, |a, b| a | b),
    ("^", 2, |a, b| a ^ b),
    ("&", 3, |a, b| a & b),
    ("<<", 4, |a, b| a.wrapping_shl(b as u32)),
    (">>", 4, |a, b| (a as u64).wrapping_shr(b as u32) as i64),
    ("+", 5, i64::wrapping_add),
    ("-", 5, i64::wrapping_sub),
];

/// A constant of C without variables: numbers, casts, `~ - + | & ^ << >>` and parentheses; what follows it.
fn expression(text: &str, depth: u32) -> Option<(i64, &str)> {
    binary(text, 0, depth)
}

/// The same, up to an operator that does not bind more strongly than `than`.
fn binary(text: &str, than: u8, depth: u32) -> Option<(i64, &str)> {
    let (mut value, mut rest) = term(text, depth)?;
    loop {
        let trimmed = rest.trim_start();
        let operator = OPERATORS.iter().find(|(sign, ..)| trimmed.starts_with(sign));
        let Some((sign, binds, apply)) = operator.filter(|(_, binds, _)| *binds > than) else {
            return Some((value, trimmed));
        };
        let (other, after) = binary(trimmed.get(sign.len()..)?, *binds, depth.checked_sub(1)?)?;
        (value, rest) = (apply(value, other), after);
    }
}

fn term(text: &str, depth: u32) -> Option<(i64, &str)> {
    let depth = depth.checked_sub(1)?;
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('-') {
        return term(rest, depth).map(|(value, rest)| (value.wrapping_neg(), rest));
    }
    if let Some(rest) = text.strip_prefix('~') {
        return term(rest, depth).map(|(value, rest)| (!value, rest));
    }
    let Some(inner) = text.strip_prefix('(') else { return number(text) };
    if let Some((within, after)) = inner.split_once(')')
        && is_type(within)
    {
        return term(after, depth);
    }
    let (value, rest) = expression(inner, depth)?;
    rest.trim_start().strip_prefix(')').map(|rest| (value, rest))
}

/// What stands between the parentheses of a cast.
fn is_type(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ' ' || c == '*')
}

fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
        None => digits.parse().ok()?,
    };
    Some((value as i64, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        expression(text, DEPTH_MAX).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
    }

    #[test]
    fn constants() {
        for (text, expected) in [
            ("0x10", 16),
            ("1 << 2 | 1 << 3", 12),
            ("(1UL << 2) + 1", 5),
            ("1 + 2 << 1", 6),
            ("-1", -1),
            (
                "( unsigned long)((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))) & ~(( gfp_t)((((1UL))) << (10))))",
                1 << 11,
            ),
            ("(u32)((((1UL))) << (31))", 1 << 31),
            ("017", 15),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in ["", "(", "1 <<", "NAME", "((1)", "1 2", "0xg"] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(value(&"(".repeat(100_000)), None);
        assert_eq!(value(&"1+".repeat(100_000)), None);
    }

    #[test]
    fn fields_in_base_16() {
        let text = "\"%pS 100%% %d %#lx %-*s %llx %x %px\", (void *)REC->site, REC->n, REC->a, 8, REC->s, (unsigned long long)(REC->b), REC->c & 1, __f(REC->d, \",\")";
        assert_eq!(hexadecimal(text), ["site", "a", "b"]);
        assert_eq!(hexadecimal("\"%x"), [""; 0]);
        assert_eq!(hexadecimal("\"%\", REC->a"), [""; 0]);
    }

    #[test]
    fn names_of_fields() {
        let text = "\"%s %s\", __print_symbolic((int)REC->vec, { 0, \"HI\" }, { ODD, \"ODD\" }, { 1, \"NET RX\" }), __print_flags(REC->f, \"|\", { 1UL << 3, \"A\" }), __print_flags(REC->g & 3, \"|\", { 1, \"B\" })";
        let one = |name: &str, value| (name.to_owned(), value, value);
        assert_eq!(
            names(text),
            [
                ("vec".to_owned(), Names::Values(vec![one("HI", 0), one("NET_RX", 1)])),
                ("f".to_owned(), Names::Bits(vec![("A".to_owned(), 8)])),
            ]
        );
    }
}
