//! Moments as people write them: `15:34:12.5`, `2026-11-20T15:34:12`, `1795188852.5`, `+250ms`.

use crate::units;
use mote_view::civil::{DAY, Date, SECOND};

/// A moment that may depend on the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Nanoseconds since 1970.
    Absolute(i64),
    /// Nanoseconds since midnight UTC, of the day that puts it nearest to the first event.
    OfDay(i64),
    /// Nanoseconds after the first event.
    After(i64),
}

impl Moment {
    /// Reads a moment.
    ///
    /// # Errors
    /// What would be right, for a person.
    pub(crate) fn parse(text: &str) -> Result<Moment, String> {
        if let Some(after) = text.strip_prefix('+') {
            let ns = units::time(after)?;
            return i64::try_from(ns)
                .map(Moment::After)
                .map_err(|_| "this time after the first event is too long".to_owned());
        }
        let parsed = if text.contains('-') {
            absolute(text)
        } else if text.contains(':') {
            of_day(text).map(Moment::OfDay)
        } else {
            seconds(text).map(Moment::Absolute)
        };
        parsed.ok_or_else(|| {
            "give HH:MM:SS[.fraction], YYYY-MM-DD[THH:MM:SS[.fraction]] (both UTC), seconds since 1970, or +TIME \
             after the first event, as in +250ms"
                .to_owned()
        })
    }

    /// The moment in nanoseconds since 1970, in a recording whose first event is at `start`.
    pub(crate) fn resolve(self, start: i64) -> i64 {
        match self {
            Moment::Absolute(ns) => ns,
            Moment::After(ns) => start.saturating_add(ns),
            Moment::OfDay(ns) => {
                let midnight = start.saturating_sub(start.rem_euclid(DAY));
                let days = [midnight.saturating_sub(DAY), midnight, midnight.saturating_add(DAY)];
                let moments = days.map(|day| day.saturating_add(ns));
                moments.into_iter().min_by_key(|moment| moment.abs_diff(start)).unwrap_or(start)
            }
        }
    }
}

/// `20261120-153412`: a moment in seconds since 1970 as a part of a file's name, UTC.
pub(crate) fn compact(seconds: u64) -> String {
    let date = Date::from_days((seconds / 86_400) as i64);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{:04}{:02}{:02}-{hour:02}{minute:02}{second:02}", date.year, date.month, date.day)
}

/// `2026-11-20T15:34:12.5`, a space instead of `T`, `Z` at the end, or the date alone.
fn absolute(text: &str) -> Option<Moment> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.split('-');
    let date = Date {
        year: number(parts.next()?, 4)?,
        month: u32::try_from(number(parts.next()?, 2)?).ok()?,
        day: u32::try_from(number(parts.next()?, 2)?).ok()?,
    };
    let of_day = time.map_or(Some(0), of_day)?;
    let days = date.to_days().filter(|_| parts.next().is_none())?;
    Some(Moment::Absolute(days.checked_mul(DAY)?.checked_add(of_day)?))
}

/// `15:34`, `15:34:12` or `15:34:12.5`: nanoseconds since midnight.
fn of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let hours = number(parts.next()?, 2).filter(|h| *h < 24)?;
    let minutes = number(parts.next()?, 2).filter(|m| *m < 60)?;
    let seconds = parts.next().map_or(Some(0), seconds).filter(|ns| *ns < 61 * SECOND)?;
    Some((hours * 3600 + minutes * 60) * SECOND + seconds)
}

/// A decimal number of seconds, in nanoseconds.
fn seconds(text: &str) -> Option<i64> {
    i64::try_from(units::scaled(text, SECOND.unsigned_abs())?).ok()
}

/// A number of at most so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let good = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| good)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T15:34:12.123456789Z
    const START: i64 = 1_795_188_852_123_456_789;

    #[test]
    fn all_notations_name_the_same_moment() {
        for text in [
            "15:34:12.123456789",
            "2026-11-20T15:34:12.123456789",
            "2026-11-20 15:34:12.123456789Z",
            "1795188852.123456789",
            "+0s",
        ] {
            assert_eq!(Moment::parse(text).map(|m| m.resolve(START)), Ok(START), "{text}");
        }
        assert_eq!(Moment::parse("+250ms"), Ok(Moment::After(250_000_000)));
        assert_eq!(Moment::parse("2026-11-20"), Ok(Moment::Absolute(1_795_132_800 * SECOND)));
    }

    #[test]
    fn a_time_of_day_is_on_the_nearest_day() {
        let near_midnight = 20_777 * DAY - SECOND;
        let resolve = |text: &str| Moment::parse(text).map(|m| m.resolve(near_midnight) - near_midnight);
        assert_eq!(resolve("00:00:00"), Ok(SECOND));
        assert_eq!(resolve("23:59:58.5"), Ok(-SECOND / 2));
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for text in [
            "",
            "noon",
            "25:00:00",
            "12",
            "1:2:3:4",
            "2026-13-01",
            "2026-02-29",
            "2026-1",
            "+5",
            "--",
            "12:60",
            "-5",
        ] {
            let parsed = Moment::parse(text);
            assert!(text == "12" || parsed.is_err(), "{text}: {parsed:?}");
        }
    }
}
