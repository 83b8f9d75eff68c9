//! Times and counts in few columns.

use crate::civil::{DAY, Date, SECOND};

/// A date and time to the millisecond.
pub(super) fn moment(ns: i64) -> String {
    let Date { year, month, day } = Date::from_days(ns.div_euclid(DAY));
    let of_day = ns.rem_euclid(DAY);
    let (seconds, millis) = (of_day / SECOND, of_day % SECOND / 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
}

/// `15:34:12.123456789`
pub(super) fn moment_of_day(ns: i64) -> String {
    let of_day = ns.rem_euclid(DAY);
    let (seconds, nanos) = (of_day / SECOND, of_day % SECOND);
    format!("{:02}:{:02}:{:02}.{nanos:09}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A time with three digits and the unit that suits it: `17ns`, `1.23us`, `45.6ms`, `2.50s`, `3m20s`, `5h07m`, `9d`.
pub(crate) fn duration(ns: u64) -> String {
    let whole = ns / SECOND.unsigned_abs();
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => three(ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => three(ns as f64 / 1e6, "ms"),
        1_000_000_000..100_000_000_000 => three(ns as f64 / 1e9, "s"),
        _ if whole < 3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ if whole < 360_000 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d", whole / 86_400),
    }
}

/// A number below a thousand with three digits, cut off rather than rounded up to a fourth.
fn three(number: f64, unit: &str) -> String {
    let decimals: usize = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    let scale = 10_f64.powi(decimals as i32);
    format!("{:.decimals$}{unit}", (number * scale).floor() / scale)
}

/// A rate with three digits and `k`, `M` or `G`.
pub(crate) fn short(number: f64) -> String {
    match number {
        n if n < 1e3 => three(n, ""),
        n if n < 1e6 => three(n / 1e3, "k"),
        n if n < 1e9 => three(n / 1e6, "M"),
        n if n < 1e12 => three(n / 1e9, "G"),
        n => format!("{n:.0e}"),
    }
}

/// A count in so many columns: all digits if they fit.
pub(super) fn tight(number: u64, width: usize) -> String {
    let digits = number.to_string();
    if digits.len() <= width { digits } else { short(number as f64) }
}

/// The same, nothing for none.
pub(super) fn tight_or_none(number: u64, width: usize) -> String {
    if number > 0 { tight(number, width) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let times = [17, 1_234, 45_678_901, 999_999, 2_500_000_000, 200_000_000_000, 18_420_000_000_000];
        assert_eq!(times.map(duration), ["17ns", "1.23us", "45.6ms", "999us", "2.50s", "3m20s", "5h07m"]);
        assert_eq!([0.5, 999.9, 20_000_000.0].map(short), ["0.50", "999", "20.0M"]);
        assert_eq!([1_234_567, 12_345_678].map(|count| tight(count, 7)), ["1234567", "12.3M"]);
        assert_eq!(moment(1_795_188_852_123_456_789), "2026-11-20 15:34:12.123");
    }
}
