//! The time of an event in the chosen style.

use crate::civil::{DAY, Date, SECOND};
use crate::digits;
use mote_timeline::Record;

/// What the time of an event counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeStyle {
    /// Time of day in UTC, without or with the date.
    #[default]
    Absolute,
    /// The same with the date.
    Date,
    /// From this moment, in nanoseconds since 1970.
    Relative(i64),
    /// From the event before that was shown.
    Delta,
    /// The trace's own clock; for mote and LTTng, `CLOCK_MONOTONIC`.
    Monotonic,
}

/// Turns times to numbers and text.
#[derive(Debug)]
pub(crate) struct Times {
    style: TimeStyle,
    previous: Option<i64>,
    /// The text of a second, and when in nanoseconds it begins.
    second: i64,
    text: Vec<u8>,
}

impl Times {
    pub(crate) fn new(style: TimeStyle) -> Times {
        let mut times = Times { style, previous: None, second: 0, text: Vec::new() };
        times.render(0);
        times
    }

    /// The time of `record` in the style, in nanoseconds.
    #[inline]
    pub(crate) fn number(&mut self, record: &Record<'_>) -> i64 {
        let time = record.time();
        match self.style {
            TimeStyle::Absolute | TimeStyle::Date => time,
            TimeStyle::Relative(start) => time.saturating_sub(start),
            TimeStyle::Delta => time.saturating_sub(self.previous.replace(time).unwrap_or(time)),
            TimeStyle::Monotonic => record.monotonic(),
        }
    }

    /// Appends the time of `record` as text.
    #[inline]
    pub(crate) fn text(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let number = self.number(record);
        self.print(out, number);
    }

    /// Appends a moment in nanoseconds since 1970, on a clock that began at `epoch`.
    pub(crate) fn moment(&mut self, out: &mut Vec<u8>, time: i64, epoch: i64) {
        let number = match self.style {
            TimeStyle::Absolute | TimeStyle::Date => time,
            TimeStyle::Relative(start) => time.saturating_sub(start),
            TimeStyle::Delta => time.saturating_sub(self.previous.unwrap_or(time)),
            TimeStyle::Monotonic => time.saturating_sub(epoch),
        };
        self.print(out, number);
    }

    /// The same of something that is shown, so that the next delta counts from it.
    pub(crate) fn shown(&mut self, out: &mut Vec<u8>, time: i64, epoch: i64) {
        self.moment(out, time, epoch);
        self.previous = Some(time);
    }

    #[inline]
    fn print(&mut self, out: &mut Vec<u8>, mut number: i64) {
        if number < 0 && !matches!(self.style, TimeStyle::Absolute | TimeStyle::Date) {
            out.push(b'-');
            number = number.saturating_neg();
        }
        let mut nanos = number.wrapping_sub(self.second);
        if !(0..SECOND).contains(&nanos) {
            self.render(number);
            nanos = number.wrapping_sub(self.second);
        }
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&digits::nine(nanos as u32));
    }

    /// Renders the second that `number` is in.
    #[cold]
    fn render(&mut self, number: i64) {
        let seconds = number.div_euclid(SECOND);
        self.second = seconds.saturating_mul(SECOND);
        let text = &mut self.text;
        text.clear();
        match self.style {
            TimeStyle::Absolute | TimeStyle::Date => {
                if self.style == TimeStyle::Date {
                    date(text, number.div_euclid(DAY));
                    text.push(b' ');
                }
                let of_day = seconds.rem_euclid(86_400) as u32;
                for (part, sign) in [(of_day / 3600, b':'), (of_day / 60 % 60, b':'), (of_day % 60, b'.')] {
                    digits::two(text, part);
                    text.push(sign);
                }
            }
            TimeStyle::Relative(_) | TimeStyle::Monotonic => padded(text, seconds, 6),
            TimeStyle::Delta => {
                text.push(b'+');
                padded(text, seconds, 0);
            }
        }
    }
}

fn padded(text: &mut Vec<u8>, seconds: i64, width: usize) {
    let start = text.len();
    digits::decimal(text, seconds);
    while text.len() - start < width {
        text.insert(start, b' ');
    }
    text.push(b'.');
}

/// Appends `2026-11-20`.
fn date(text: &mut Vec<u8>, days: i64) {
    let Date { year, month, day } = Date::from_days(days);
    digits::decimal(text, year);
    text.push(b'-');
    digits::two(text, month);
    text.push(b'-');
    digits::two(text, day);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(style: TimeStyle, time: i64, expect: &str) {
        let mut out = Vec::new();
        Times::new(style).moment(&mut out, time, 0);
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    #[test]
    fn times_in_all_styles() {
        check(TimeStyle::Absolute, 1_795_188_852_123_456_789, "15:34:12.123456789");
        check(TimeStyle::Date, 1_795_188_852_123_456_789, "2026-11-20 15:34:12.123456789");
        check(TimeStyle::Absolute, 0, "00:00:00.000000000");
        check(TimeStyle::Date, -1, "1969-12-31 23:59:59.999999999");
        check(TimeStyle::Relative(1_000), 2_000_000_001, "     1.999999001");
        check(TimeStyle::Relative(0), i64::MAX, "9223372036.854775807");
        check(TimeStyle::Monotonic, 12 * SECOND, "    12.000000000");
        check(TimeStyle::Delta, 77, "+0.000000000");
        check(TimeStyle::Relative(SECOND), SECOND - 1, "-     0.000000001");
    }

    #[test]
    fn the_cache_of_a_second_is_left_in_both_directions() {
        let mut times = Times::new(TimeStyle::Absolute);
        let mut out = Vec::new();
        for time in [SECOND, SECOND - 1, 0, 2 * SECOND, i64::MIN, i64::MAX] {
            times.moment(&mut out, time, 0);
            out.push(b'\n');
        }
        let expect = "00:00:01.000000000\n00:00:00.999999999\n00:00:00.000000000\n00:00:02.000000000\n";
        assert!(String::from_utf8_lossy(&out).starts_with(expect));
    }
}
