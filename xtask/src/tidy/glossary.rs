//! The glossary: each term once, in order, and none of the words that are not the field's in the documents.

use super::{files_below, lines};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Where documents are, beside the three in the root.
const DIRECTORIES: [&str; 9] = ["arch", "docs", "lib", "crates", "bench", "tests", "fuzz", "models", "xtask"];

/// A row: the term, and words that are not to be used for it.
struct Row {
    term: String,
    not: Vec<String>,
}

/// Checks `GLOSSARY.md`, and the documents by it. Returns these: names from the project's root, and texts.
pub(super) fn check(root: &Path, wrong: &mut Vec<String>) -> anyhow::Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root.join("GLOSSARY.md")).context("cannot read GLOSSARY.md")?;
    let rows = rows(&text);
    if rows.is_empty() {
        wrong.push("GLOSSARY.md has no rows".to_owned());
    }
    for pair in rows.windows(2) {
        let [first, second] = pair else { continue };
        if first.term.to_lowercase() >= second.term.to_lowercase() {
            wrong.push(format!(
                "GLOSSARY.md: `{}` comes before `{}`, or is there twice",
                first.term, second.term
            ));
        }
    }
    lines::document("GLOSSARY.md", &text, wrong);
    let mut documents = Vec::new();
    for document in files(root)? {
        let text =
            fs::read_to_string(&document).with_context(|| format!("cannot read {}", document.display()))?;
        let name = document.strip_prefix(root).unwrap_or(&document).display().to_string();
        lines::document(&name, &text, wrong);
        wrong.extend(misused(&rows, &text).map(|(line, word, term)| {
            format!("{name}:{line} says \"{word}\"; the field's word is \"{term}\" (GLOSSARY.md)")
        }));
        documents.push((name, text));
    }
    Ok(documents)
}

fn rows(text: &str) -> Vec<Row> {
    let lines = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, term, _, not, _] = cells.as_slice() else { return None };
        let not = not.split(',').map(str::trim).filter(|word| !word.is_empty());
        Some(Row { term: (*term).to_owned(), not: not.map(str::to_owned).collect() })
    };
    lines.filter_map(row).collect()
}

/// Line, word and term of each word that is not to be used.
fn misused<'t>(rows: &'t [Row], text: &'t str) -> impl Iterator<Item = (usize, &'t str, &'t str)> {
    text.lines().enumerate().flat_map(move |(number, line)| {
        let lower = line.to_lowercase();
        let found = move |row: &'t Row| {
            let word = row.not.iter().find(|word| holds(&lower, word))?;
            Some((number + 1, word.as_str(), row.term.as_str()))
        };
        rows.iter().filter_map(found).collect::<Vec<_>>()
    })
}

/// Whether a line holds the word, and not as a part of another one.
fn holds(line: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        !is_letter(line[..at].chars().next_back()) && !is_letter(line[at + word.len()..].chars().next())
    })
}

/// What people read: all documents but the glossary itself.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)).to_vec();
    for directory in DIRECTORIES {
        found.extend(files_below(&root.join(directory), &[".md"])?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole() {
        let rows = rows(
            "| term | meaning | not |\n|---|---|---|\n| ring | a buffer | ringbuffer, fifo |\n| site | a place | |\n",
        );
        assert_eq!(rows.len(), 2);
        let text = "A ring.\nThe Ringbuffer of it.\nringbuffers, and a fifo";
        let found: Vec<_> = misused(&rows, text).collect();
        assert_eq!(found, [(2, "ringbuffer", "ring"), (3, "fifo", "ring")]);
    }
}
