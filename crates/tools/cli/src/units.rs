//! Sizes (`64k`, `1M`) and times (`250ms`, `1.5s`) as people write them.

/// Nanoseconds of the units of time, longest name first where one is the end of another.
const TIMES: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Bytes of the units of size: powers of 1024.
const SIZES: [(&str, u64); 4] = [("k", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("", 1)];

/// A time in nanoseconds: a number, with a fraction if it likes, and a unit.
///
/// # Errors
/// What is wrong and what would be right, for a person.
pub(crate) fn time(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let Some((_, factor)) = TIMES.iter().find(|(name, _)| *name == unit) else {
        let hint = "give a number and one of ns, us, ms, s, m, h, as in 250ms";
        return Err(if unit.is_empty() {
            format!("no unit; {hint}")
        } else {
            format!("unknown unit `{unit}`; {hint}")
        });
    };
    scaled(number, *factor).ok_or_else(|| format!("`{number}` is not a time; give for example 250ms or 1.5s"))
}

/// A size in bytes: a number, and `k`, `M` or `G` if it likes (`K`, `kB`, `MiB` and so on mean the same).
///
/// # Errors
/// What is wrong and what would be right, for a person.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let short = unit.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let Some((_, factor)) = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(short)) else {
        return Err(format!("unknown unit `{unit}`; give bytes, or a number and one of k, M, G, as in 64k"));
    };
    scaled(number, *factor)
        .ok_or_else(|| format!("`{number}` is not a size; give for example 65536, 64k or 1M"))
}

/// The number and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// `number`, a decimal fraction, times `factor`, exactly, rounded down; `None` if it is no number or out of range.
pub(crate) fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut part = 0_u128;
    let mut weight = u128::from(factor);
    for digit in fraction.bytes().take(18) {
        weight *= 10;
        part = part * 10 + u128::from(digit - b'0') * u128::from(factor);
    }
    let part = part * u128::from(factor) / weight;
    whole.checked_mul(factor)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ns) in
            [("1ns", 1), ("250ms", 250_000_000), ("1.5s", 1_500_000_000), ("2 h", 7_200_000_000_000)]
        {
            assert_eq!(time(text), Ok(ns), "{text}");
        }
        assert_eq!(time(".000000001s"), Ok(1));
        assert_eq!(time("0.3m"), Ok(18_000_000_000));
        assert!(time("5").is_err_and(|e| e.contains("no unit")));
        assert!(time("5x").is_err_and(|e| e.contains("`x`")));
        for bad in ["", "s", "1.2.3s", "-1s", "99999999999h"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("65536", 65536),
            ("64k", 65536),
            ("64K", 65536),
            ("1.5M", 3 << 19),
            ("2GiB", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "k", "1T", "1..2", "-1", "999999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
