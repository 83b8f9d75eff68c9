//! Lines end at 120 columns: of code, of comments, and of the documents' prose.
//!
//! What cannot be wrapped may be longer: strings, tables, blocks of code in documentation, a single long word; of
//! models the rows of their runs.

use super::paths::{character, raw_string, string};

/// The last column.
const COLUMNS: usize = 120;

/// The columns of a tab, in C and Promela.
const TAB: usize = 4;

/// How the names of files end that are in neither Rust nor Markdown and have lines of this length.
pub(super) const OTHERS: [&str; 4] = [".c", ".h", ".cpp", ".pml"];

/// Checks the lengths of a Rust file's lines.
pub(super) fn code(name: &str, text: &str, wrong: &mut Vec<String>) {
    let mut is_block = false;
    let lines = widths(text).into_iter().zip(text.lines()).map(|(width, line)| {
        // A block of code in documentation ends with it.
        is_block =
            line.trim_start().starts_with("//") && (is_block ^ comment(line).trim_start().starts_with("```"));
        (if is_block || is_table(comment(line)) { 0 } else { width }, line)
    });
    check(name, lines, wrong);
}

/// Checks the lengths of the lines of a file in C or Promela.
pub(super) fn other(name: &str, text: &str, wrong: &mut Vec<String>) {
    // A row of a model's table: `@find short | TITLE | OPTIONS`.
    let is_row = |line: &str| line.trim_start_matches([' ', '*']).starts_with('@') && line.contains(" | ");
    let width = |line: &str| line.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum();
    check(name, text.lines().map(|line| (if is_row(line) { 0 } else { width(line) }, line)), wrong);
}

/// Checks the lengths of the lines of a document's prose.
pub(super) fn document(name: &str, text: &str, wrong: &mut Vec<String>) {
    let mut is_code = false;
    let prose = text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let counts = !is_code && !is_fence && !is_table(line);
        (if counts { line.chars().count() } else { 0 }, line)
    });
    check(name, prose, wrong);
}

fn check<'t>(name: &str, lines: impl Iterator<Item = (usize, &'t str)>, wrong: &mut Vec<String>) {
    for (number, (width, line)) in lines.enumerate() {
        // A link, or a path: nothing can be wrapped.
        let is_word = comment(line).split_whitespace().nth(1).is_none();
        if width > COLUMNS && !is_word {
            wrong.push(format!("{name}:{} has {width} columns; lines end at {COLUMNS}", number + 1));
        }
    }
}

/// A line without the signs that make it a comment.
fn comment(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!'])
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// How many columns of each line are not inside of a string.
fn widths(text: &str) -> Vec<usize> {
    let mut widths = vec![0];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let (len, counts) = match c {
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            '"' => (string(rest), false),
            'r' if rest.starts_with("r\"") || rest.starts_with("r#") => (raw_string(rest), false),
            '\'' => (character(rest), true),
            _ if is_word(c) => (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true),
            _ => (c.len_utf8(), true),
        };
        for c in rest[..len].chars() {
            match widths.last_mut() {
                Some(_) if c == '\n' => widths.push(0),
                Some(width) if counts => *width += 1,
                _ => {}
            }
        }
        rest = &rest[len..];
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(check: impl Fn(&str, &str, &mut Vec<String>), text: &str, count: usize) {
        let mut wrong = Vec::new();
        check("a", text, &mut wrong);
        assert_eq!(wrong.len(), count, "{wrong:?}");
    }

    #[test]
    fn code_and_comments_are_measured_without_strings() {
        let long = "word ".repeat(25);
        finds(code, &format!("//! {long}\nfn f() {{}}\n"), 1);
        finds(code, &format!("    /// {long}\n    x(); // {long}"), 2);
        finds(code, &format!("let a = \"{long}\";\nlet b = r#\"\"{long}\n{long}\"#;\n"), 0);
        finds(code, &format!("let a = \"\\\"{long}\", b = {long};"), 1);
        finds(code, &format!("let c = '\"'; // {long}"), 1);
        finds(code, &format!("//! | {long} | a table |\n"), 0);
        finds(code, &format!("//! ```text\n//! {long}\n//! ```\n//! {long}\n"), 1);
        finds(code, &format!("// https://{}\n", "x".repeat(150)), 0);
    }

    #[test]
    fn other_languages_are_measured() {
        let long = "word ".repeat(25);
        finds(other, &format!("/* {long} */\nint a;\n * @code a.rs: {long}\n"), 2);
        finds(other, &format!(" * @find short | {long} | -DX\n"), 0);
        finds(other, &format!("\t\t\t\t{}\n", "a b ".repeat(27)), 1);
        finds(other, &format!("\t\t\t{}\n", "a b ".repeat(27)), 0);
    }

    #[test]
    fn of_documents_prose_is_measured() {
        let long = "word ".repeat(25);
        finds(document, &format!("{long}\n\n- {long}\n"), 2);
        finds(document, &format!("| {long} |\n```sh\n{long}\n```\nshort\n"), 0);
        finds(document, &format!("```sh\n```\n{long}\n"), 1);
    }
}
