//! What people read: counts with what they count, sizes, and names and sentences that fit into a line.
//!
//! | function | gives |
//! |---|---|
//! | [`counted`] | `1 event`, `2 events` |
//! | [`grouped`] | `1,234,567` |
//! | [`size`] | `512 bytes`, `1.5 MiB` |
//! | [`cut`], [`middle`], [`fitted`] | a name in so many columns: without its end, its middle, or what suits it |
//! | [`bar`] | a bar of a histogram |
//! | [`wrapped`] | sentences in lines of so many columns |
#![forbid(unsafe_code)]

use std::fmt::Display;

/// Fewest columns that tables are made for: what is narrower is taken to be as wide.
pub const COLUMNS_MIN: usize = 60;
/// Columns of a table of which it is not known how wide it may be: in a file, for another program.
pub const COLUMNS: usize = 100;

/// What stands for what was left out.
const GAP: &str = "...";

/// A number, and what there is so many of: `1 event`, `2 events`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, several: &str) -> String {
    let what = noun(&count, one, several);
    format!("{count} {what}")
}

/// The same with groups of three digits: `1,234 events`.
pub fn counted_grouped(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), noun(&count, one, several))
}

/// The word that goes with a number.
fn noun<'a, N: PartialEq + From<u8>>(count: &N, one: &'a str, several: &'a str) -> &'a str {
    if *count == N::from(1) { one } else { several }
}

/// A number with groups of three digits: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A bar of at most `room` columns, as long as `count` is of `max`; something that is there has at least half a column.
pub fn bar(count: u64, max: u64, room: usize) -> String {
    if count == 0 || max == 0 || room == 0 {
        return String::new();
    }
    let halves = (u128::from(count) * room as u128 * 2).div_ceil(u128::from(max)) as usize;
    let mut bar = "█".repeat(halves / 2);
    if halves % 2 == 1 {
        bar.push('▌');
    }
    bar
}

/// Bytes in a unit that suits them, cut off after one decimal: `512 bytes`, `1.5 MiB`, `16 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = bytes.checked_ilog2().unwrap_or(0) / 10;
    let Some(unit) = power.checked_sub(1).and_then(|power| UNITS.get(power as usize)) else {
        return counted(bytes, "byte", "bytes");
    };
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    match (tenths / 10, tenths % 10) {
        (whole, tenth) if whole < 100 && tenth > 0 => format!("{whole}.{tenth} {unit}"),
        (whole, _) => format!("{whole} {unit}"),
    }
}

/// Number of characters, which terminals show in a column each.
fn columns(text: &str) -> usize {
    text.chars().count()
}

/// At most so many characters of a text: its end is left out.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let gap = GAP.get(..GAP.len().min(width)).unwrap_or(GAP);
    text.chars().take(width - gap.len()).chain(gap.chars()).collect()
}

/// At most so many characters of a path: its middle is left out, because its end says most.
pub fn middle(path: &str, width: usize) -> String {
    let count = columns(path);
    if count <= width {
        return path.to_owned();
    }
    let gap = GAP.get(..GAP.len().min(width)).unwrap_or(GAP);
    let kept = width - gap.len();
    let (head, tail) = (kept / 3, kept - kept / 3);
    path.chars().take(head).chain(gap.chars()).chain(path.chars().skip(count - tail)).collect()
}

/// At most so many characters of a name: of a path without its middle, of any other without its end.
pub fn fitted(name: &str, width: usize) -> String {
    if name.contains('/') { middle(name, width) } else { cut(name, width) }
}

/// Sentences in lines of so many columns; all lines but the first begin with `indent` spaces. Words that are longer
/// than a line have one for themselves. Does not end with a line feed.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, paragraph) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        wrap_line(&mut out, paragraph, width, indent);
    }
    out
}

/// Wraps what is one line; its own spaces stay where it is not broken.
fn wrap_line(out: &mut String, line: &str, width: usize, indent: usize) {
    if columns(line) <= width {
        return out.push_str(line);
    }
    let mut column = 0;
    let mut waiting = 0;
    for word in line.split(' ') {
        let length = columns(word);
        if word.is_empty() {
            waiting += 1;
            continue;
        }
        if column > indent && column + waiting + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.extend(std::iter::repeat_n(' ', waiting));
            column += waiting;
        }
        out.push_str(word);
        column += length;
        waiting = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_others_are_several() {
        let events = |count: u64| counted(count, "event", "events");
        assert_eq!([0, 1, 2].map(events), ["0 events", "1 event", "2 events"]);
        assert_eq!(counted(1_usize, "process was", "processes were"), "1 process was");
        assert_eq!(counted_grouped(1234, "event", "events"), "1,234 events");
        assert_eq!([7, 999, 1_000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1 MiB"),
            ((1 << 20) - 1, "1023 KiB"),
            (100 << 20 | 1 << 19, "100 MiB"),
            (16 << 30, "16 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn paths_lose_their_middle_and_names_their_end() {
        let path = "/opt/vendor/releases/2026-11-24/lib/server/bin/worker";
        let short = middle(path, 30);
        assert_eq!(columns(&short), 30);
        assert!(short.starts_with("/opt/") && short.ends_with("/bin/worker"), "{short}");
        assert_eq!((middle(path, 100), fitted(path, 30)), (path.to_owned(), short));
        assert_eq!(fitted("a name without end", 8), "a nam...");
        assert_eq!(cut("ääääää", 5), "ää...");
        for width in 0..12 {
            assert_eq!((columns(&cut(path, width)), columns(&middle(path, width))), (width, width));
        }
    }

    #[test]
    fn sentences_are_wrapped_between_words() {
        let text = "  LOST 12 events, ring full: give larger buffers";
        assert_eq!(wrapped(text, 24, 7), "  LOST 12 events, ring\n       full: give larger\n       buffers");
        assert_eq!(wrapped(text, 60, 7), text);
        assert_eq!(wrapped("one\n  two  three", 9, 2), "one\n  two\n  three");
        assert_eq!(wrapped("/a/very/long/path and more", 9, 1), "/a/very/long/path\n and more");
    }
}
