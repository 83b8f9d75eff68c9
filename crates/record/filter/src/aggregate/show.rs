//! Aggregates as text for a terminal.

use super::value::nanos;
use super::{Aggregate, Content, Histogram, Table, Value};
use crate::maps::KeyType;
use mote_words::{bar, counted, fitted, wrapped};
use std::fmt::Write;

/// Most characters of a cell.
const CELL_MAX: usize = 64;
/// Fewest characters that a cell is cut to, where its table is too wide.
const CELL_MIN: usize = 8;
/// Most lines of a histogram; above it, neighbouring buckets are put together.
const LINES_MAX: usize = 32;

impl Aggregate {
    /// For a terminal of `width` characters: the name, a table or histograms with bars, what did not fit. At most
    /// `rows` rows of a table, or histograms; what is left out is said. Ends with a line feed.
    pub fn text(&self, width: usize, rows: usize) -> String {
        let mut out = format!("{}\n", wrapped(&self.name, width, 2));
        let left_out = match &self.content {
            Content::Counts(table) => {
                counts(&mut out, table, width, rows);
                table.rows.len().saturating_sub(rows)
            }
            Content::Last(table) => {
                let from = table.rows.len().saturating_sub(rows);
                grid(&mut out, &header(table, None), &table.rows[from..], |row| row.values.clone(), width);
                from
            }
            Content::Histograms { value, keys, list } => {
                list.iter().take(rows).for_each(|one| histogram(&mut out, value, keys, one, width));
                list.len().saturating_sub(rows)
            }
            Content::Flag(set) => {
                let _ = writeln!(out, "  {}", if *set { "set" } else { "clear" });
                0
            }
        };
        if left_out > 0 {
            let _ = writeln!(out, "  and {left_out} more");
        }
        if self.is_empty() {
            out.push_str("  nothing\n");
        }
        if self.dropped > 0 {
            let events = counted(self.dropped, "event is", "events are");
            let text = format!("  {events} not in the table: it is full");
            let _ = writeln!(out, "{}", wrapped(&text, width, 2));
        }
        out
    }
}

fn header(table: &Table, last: Option<&str>) -> Vec<String> {
    table.columns.iter().map(String::as_str).chain(last).map(str::to_owned).collect()
}

fn counts(out: &mut String, table: &Table, width: usize, rows: usize) {
    let shown = &table.rows[..table.rows.len().min(rows)];
    let max = shown.iter().map(|row| row.count).max().unwrap_or(0);
    let cells = |row: &super::Row| {
        let mut cells = row.values.clone();
        cells.push(Value::Unsigned(row.count));
        cells
    };
    let mut lines = String::new();
    grid(&mut lines, &header(table, Some("count")), shown, cells, width);
    let widest = lines.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(widest + 2).min(40);
    for (at, line) in lines.lines().enumerate() {
        let bar = at
            .checked_sub(1)
            .and_then(|at| shown.get(at))
            .map_or(String::new(), |row| bar(row.count, max, room));
        let padding = if bar.is_empty() { 0 } else { widest - line.chars().count() + 2 };
        let _ = writeln!(out, "{line}{}{bar}", " ".repeat(padding));
    }
}

/// Columns, numbers at the right; where all together are too wide, texts give way.
fn grid(
    out: &mut String,
    header: &[String],
    rows: &[super::Row],
    cells: impl Fn(&super::Row) -> Vec<Value>,
    width: usize,
) {
    let lines: Vec<Vec<(String, bool)>> = rows
        .iter()
        .map(|row| cells(row).iter().map(|value| (value.to_string(), value.is_number())).collect())
        .collect();
    let number = |column: usize| lines.iter().all(|line| line.get(column).is_some_and(|cell| cell.1));
    let head = header.iter().enumerate().map(|(at, name)| (name.clone(), number(at))).collect();
    let all: Vec<Vec<(String, bool)>> = std::iter::once(head).chain(lines.iter().cloned()).collect();
    let widths = (0..header.len()).map(|at| {
        let cells = all.iter().filter_map(|line| line.get(at));
        let longest = cells.map(|cell| cell.0.chars().count()).max().unwrap_or(0);
        (longest.min(CELL_MAX), !number(at))
    });
    let widths = narrowed(widths.collect(), width.saturating_sub(1));
    for line in &all {
        out.push(' ');
        for ((cell, right), width) in line.iter().zip(&widths) {
            let cell = fitted(cell, *width);
            let _ = if *right { write!(out, " {cell:>width$}") } else { write!(out, " {cell:<width$}") };
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
}

/// Widths of columns, each behind a space, of which some can be less wide, that fit together.
fn narrowed(mut columns: Vec<(usize, bool)>, width: usize) -> Vec<usize> {
    while columns.iter().map(|(width, _)| width + 1).sum::<usize>() > width {
        let widest = columns.iter_mut().filter(|(width, gives_way)| *gives_way && *width > CELL_MIN);
        let Some((columns, _)) = widest.max_by_key(|(width, _)| *width) else { break };
        *columns -= 1;
    }
    columns.into_iter().map(|(width, _)| width).collect()
}

fn histogram(out: &mut String, value: &str, keys: &[String], one: &Histogram, width: usize) {
    let key: Vec<_> = keys.iter().zip(&one.keys).map(|(name, value)| format!("{name} {value}")).collect();
    let quantile = |part| one.quantile(part).map_or(String::new(), |at| number(at, &one.ty));
    let line = format!(
        "  {}{}{value}: {}, median {}, 99 % {}",
        key.join(", "),
        if key.is_empty() { "" } else { ": " },
        counted(one.count(), "value", "values"),
        quantile(0.5),
        quantile(0.99)
    );
    let _ = writeln!(out, "{}", wrapped(&line, width, 4));
    let lines = merged(&one.buckets);
    let labels: Vec<_> = lines
        .iter()
        .map(|(first, last, _)| {
            let start = number(*first, &one.ty);
            if first == last { start } else { format!("{start} .. {}", number(*last, &one.ty)) }
        })
        .collect();
    let wide = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let max = lines.iter().map(|line| line.2).max().unwrap_or(0);
    let digits = max.to_string().len();
    let room = width.saturating_sub(wide + digits + 8).min(60);
    for (label, (.., count)) in labels.iter().zip(&lines) {
        let _ = writeln!(out, "    {label:>wide$}  {count:>digits$} {}", bar(*count, max, room));
    }
}

/// Few enough lines: buckets are put together by twos as long as there are too many.
fn merged(buckets: &[(i128, i128, u64)]) -> Vec<(i128, i128, u64)> {
    let mut lines = buckets.to_vec();
    while lines.len() > LINES_MAX {
        lines = lines
            .chunks(2)
            .map(|pair| {
                let (first, last) = (pair[0].0, pair[pair.len() - 1].1);
                (first, last, pair.iter().fold(0u64, |sum, line| sum.saturating_add(line.2)))
            })
            .collect();
    }
    lines
}

fn number(value: i128, ty: &KeyType) -> String {
    match (ty, u64::try_from(value)) {
        (KeyType::Nanos, Ok(value)) => nanos(value),
        (KeyType::Hex, Ok(value)) => format!("{value:#x}"),
        (KeyType::Labels(labels), _) => {
            let label = labels
                .iter()
                .find(|(_, first, last)| (i128::from(*first)..=i128::from(*last)).contains(&value));
            label.map_or_else(|| value.to_string(), |(label, ..)| label.clone())
        }
        _ => value.to_string(),
    }
}
