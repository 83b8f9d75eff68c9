//! The Gregorian calendar, in UTC.

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds in a day.
pub const DAY: i64 = 86_400 * SECOND;

/// A date of the Gregorian calendar, also for years before it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Year; 0 is 1 BC.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
}

impl Date {
    /// The date that is `days` days after 1970-01-01.
    ///
    /// Years are counted from March, so that the leap day is the last of its year; 400 years are 146 097 days.
    #[must_use]
    pub fn from_days(days: i64) -> Date {
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * march + 2) / 5 + 1) as u32;
        let month = if march < 10 { march + 3 } else { march - 9 } as u32;
        Date { year: year + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Days from 1970-01-01 to it; `None` if there is no such date, or it is outside the years 1600 to 2400.
    #[must_use]
    pub fn to_days(self) -> Option<i64> {
        if !(1600..=2400).contains(&self.year)
            || !(1..=12).contains(&self.month)
            || !(1..=31).contains(&self.day)
        {
            return None;
        }
        let year = self.year - i64::from(self.month <= 2);
        let march = i64::from(if self.month > 2 { self.month - 3 } else { self.month + 9 });
        let of_year = (153 * march + 2) / 5 + i64::from(self.day) - 1;
        let era = year.div_euclid(400);
        let in_era = year.rem_euclid(400);
        let days = era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + of_year - 719_468;
        (Date::from_days(days) == self).then_some(days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (-1, 1969, 12, 31),
            (11_016, 2000, 2, 29),
            (20_777, 2026, 11, 20),
            (47_540, 2100, 2, 28),
        ] {
            let date = Date { year, month, day };
            assert_eq!(Date::from_days(days), date);
            assert_eq!(date.to_days(), Some(days));
        }
        assert_eq!(Date { year: 2100, month: 2, day: 29 }.to_days(), None);
    }

    #[test]
    fn every_day_of_800_years_goes_there_and_back() {
        for days in -100_000..150_000 {
            assert_eq!(Date::from_days(days).to_days(), Some(days));
        }
    }
}
