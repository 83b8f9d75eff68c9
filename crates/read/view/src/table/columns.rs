//! A table of names and numbers that fits into so many columns of a terminal.
//!
//! The column of names takes what the numbers leave. Where that is too little, numbers are left out, those first that
//! matter least.

use mote_words::{cut, fitted};
use std::fmt::{Result, Write};

/// A column of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'t> {
    title: &'t str,
    width: usize,
    /// The larger, the earlier it is left out; those with 0 always stay.
    rank: u8,
    /// What stands above the first column that has it.
    group: &'static str,
}

/// A column with a title and so many characters, without the space before it.
pub(super) const fn number(title: &str, width: usize, rank: u8) -> Number<'_> {
    Number { title, width, rank, group: "" }
}

impl<'t> Number<'t> {
    /// The same, as one of several with a title in common.
    pub(super) const fn of(self, group: &'static str) -> Number<'t> {
        Number { group, ..self }
    }
}

/// What the table is to be.
pub(super) struct Wanted<'a> {
    /// Title of the names.
    pub(super) title: &'a str,
    /// The names.
    pub(super) names: Vec<String>,
    /// Columns of the names: as many are wanted where names are not longer, and as few have to do.
    pub(super) name: (usize, usize),
    /// The numbers.
    pub(super) numbers: &'a [Number<'a>],
    /// Title of a last column of texts, and how few columns have to do; none when the title is empty.
    pub(super) rest: (&'a str, usize),
}

/// A table whose columns are known.
pub(super) struct Columns<'a> {
    width: usize,
    name: usize,
    numbers: &'a [Number<'a>],
    /// Which of the numbers are shown.
    shown: Vec<bool>,
    /// Columns of the last one; 0 when there is none.
    rest: usize,
    /// Names that do not fit have a line of their own.
    is_whole: bool,
}

/// The spaces before the last column.
const BEFORE_REST: usize = 2;

impl<'a> Columns<'a> {
    /// Fits a table into `width` columns, and writes its head to `out`. A name that does not fit is shortened.
    pub(super) fn begin(
        out: &mut String,
        width: usize,
        wanted: &Wanted<'a>,
    ) -> std::result::Result<Columns<'a>, std::fmt::Error> {
        let rest_min = if wanted.rest.0.is_empty() { 0 } else { BEFORE_REST + wanted.rest.1 };
        let mut shown = vec![true; wanted.numbers.len()];
        let taken = |shown: &[bool]| -> usize {
            wanted
                .numbers
                .iter()
                .zip(shown)
                .filter(|(_, shown)| **shown)
                .map(|(number, _)| number.width + 1)
                .sum()
        };
        while wanted.name.1 + taken(&shown) + rest_min > width {
            let ranks = wanted.numbers.iter().zip(&shown).enumerate().filter(|(_, (_, shown))| **shown);
            let least =
                ranks.map(|(index, (number, _))| (number.rank, index)).filter(|(rank, _)| *rank > 0).max();
            let Some(place) = least.and_then(|(_, index)| shown.get_mut(index)) else { break };
            *place = false;
        }
        let room = width.saturating_sub(taken(&shown) + rest_min).max(wanted.name.1);
        let longest = wanted.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let name = longest.max(wanted.name.0).min(room);
        let rest = width.saturating_sub(name + taken(&shown) + BEFORE_REST);
        let rest = if rest_min == 0 { 0 } else { rest.max(wanted.rest.1) };
        let columns = Columns { width, name, numbers: wanted.numbers, shown, rest, is_whole: false };
        columns.head(out, wanted)?;
        Ok(columns)
    }

    /// The same table, in which names that do not fit have a line of their own.
    pub(super) fn with_whole_names(self) -> Columns<'a> {
        Columns { is_whole: true, ..self }
    }

    fn shown(&self) -> impl Iterator<Item = (usize, &Number<'a>)> {
        self.numbers.iter().enumerate().filter(|(index, _)| self.shown.get(*index) == Some(&true))
    }

    fn head(&self, out: &mut String, wanted: &Wanted<'_>) -> Result {
        out.push('\n');
        self.groups(out)?;
        write!(out, "{:1$}", cut(wanted.title, self.name), self.name)?;
        self.shown().try_for_each(|(_, number)| write!(out, " {:>1$}", number.title, number.width))?;
        if self.rest > 0 {
            write!(out, "{:BEFORE_REST$}{}", "", wanted.rest.0)?;
        }
        end_line(out);
        Ok(())
    }

    /// The line above the titles, if a group has one.
    fn groups(&self, out: &mut String) -> Result {
        let mut line = String::new();
        let (mut at, mut last) = (self.name, "");
        for (_, number) in self.shown() {
            if number.group != last && !number.group.is_empty() {
                // To the left where it would not fit.
                let place = (at + 1).min(self.width.saturating_sub(number.group.len()));
                let gap = place.saturating_sub(line.len()).max(usize::from(!line.is_empty()) * 2);
                write!(line, "{:gap$}{}", "", number.group)?;
            }
            (at, last) = (at + 1 + number.width, number.group);
        }
        if line.is_empty() { Ok(()) } else { writeln!(out, "{line}") }
    }

    /// A row: a name, its numbers, the last column's text.
    pub(super) fn row(&self, out: &mut String, name: &str, numbers: &[String], rest: &str) -> Result {
        if self.is_whole && name.chars().count() > self.name {
            write!(out, "{}\n{:2$}", fitted(name, self.width), "", self.name)?;
        } else {
            write!(out, "{:1$}", fitted(name, self.name), self.name)?;
        }
        for (index, number) in self.shown() {
            write!(out, " {:>1$}", numbers.get(index).map_or("", String::as_str), number.width)?;
        }
        if !rest.is_empty() && self.rest > 0 {
            write!(out, "{:BEFORE_REST$}{}", "", fitted(rest, self.rest))?;
        }
        end_line(out);
        Ok(())
    }
}

/// Ends a line, without the spaces at its end.
fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [Number; 4] = [
        number("count", 10, 0),
        number("mean", 7, 1).of("times of all of them"),
        number("p99", 7, 2).of("times of all of them"),
        number("max", 7, 0).of("times of all of them"),
    ];

    fn shown(width: usize) -> String {
        let mut out = String::new();
        let wanted = Wanted {
            title: "event",
            names: vec!["a:b".to_owned(), "provider:a_long_name".to_owned()],
            name: (12, 10),
            numbers: &NUMBERS,
            rest: ("file", 6),
        };
        let columns = Columns::begin(&mut out, width, &wanted).expect("text").with_whole_names();
        let numbers = ["7", "1us", "2us", "3us"].map(str::to_owned);
        columns.row(&mut out, "a:b", &numbers, "/usr/lib/file").expect("text");
        columns.row(&mut out, "provider:a_long_name", &numbers, "").expect("text");
        out
    }

    #[test]
    fn names_shrink_first_and_then_columns_go() {
        let wide = "
                                times of all of them
event                     count    mean     p99     max  file
a:b                           7     1us     2us     3us  /usr/lib/file
provider:a_long_name          7     1us     2us     3us
";
        assert_eq!(shown(80), wide);
        let narrow = "
                       times of all of them
event            count    mean     max  file
a:b                  7     1us     3us  /...le
provider:a_long_name
                     7     1us     3us
";
        assert_eq!(shown(46), narrow);
        for width in 37..90 {
            let page = shown(width);
            assert!(page.lines().all(|line| line.chars().count() <= width), "{width}:\n{page}");
            assert!(page.contains("provider:a_long_name"), "{width}:\n{page}");
        }
    }
}
