//! A digest of Rust items, to notice when code changes that a model stands for.
//!
//! White space and comments do not count. Items are found by rustfmt's layout: the closing
//! brace stands where the item began.

use super::header::Code;
use anyhow::Context;
use std::fs;
use std::path::Path;

/// Words that may stand before the word that says what an item is.
const BEFORE: [&str; 8] =
    ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\"", "macro_rules!"];
/// What an item may be.
const KINDS: [&str; 8] = ["fn", "struct", "enum", "impl", "static", "type", "trait", "mod"];

/// The digest of all the items.
///
/// # Errors
/// A file or item that is not there.
pub(super) fn of(root: &Path, code: &[Code]) -> anyhow::Result<String> {
    let mut digest = FNV_START;
    for Code { file, items } in code {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
        for name in items {
            let item = item(&text, name).with_context(|| format!("{file} has no item `{name}`"))?;
            let bytes = item.iter().flat_map(|line| line.bytes()).filter(|byte| !byte.is_ascii_whitespace());
            digest = bytes.fold(digest, fnv);
        }
    }
    if code.is_empty() {
        // A model of the framework itself.
        return Ok("none".to_owned());
    }
    Ok(format!("{digest:016x}"))
}

/// FNV-1a, 64 bits.
pub(super) const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

pub(super) fn fnv(digest: u64, byte: u8) -> u64 {
    (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
}

/// The lines of all items called `name` (functions of several types may share one), without comments.
fn item<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let own = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines: Vec<&str> = own.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if names(line) != Some(name) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let closes = |other: &str| {
            let is_as_deep = other.len() - other.trim_start().len() == indent;
            is_as_deep && (other.trim_start().starts_with('}') || other.trim_end().ends_with(';'))
        };
        let ends_at_once = line.ends_with(';') || (line.contains('{') && line.ends_with('}'));
        let rest = lines.get(at + 1..).unwrap_or_default();
        let more = if ends_at_once { 0 } else { 1 + rest.iter().position(|other| closes(other))? };
        found.extend_from_slice(lines.get(at..=at + more)?);
    }
    let code = found.into_iter().map(without_comment).filter(|line| !line.is_empty());
    let code: Vec<&str> = code.collect();
    (!code.is_empty()).then_some(code)
}

/// A line up to its comment. In the items of models no text has these characters in it.
fn without_comment(line: &str) -> &str {
    let is_behind_space =
        |at: usize| line.get(..at).is_none_or(|before| before.trim_end().len() < before.len());
    let comment = line.match_indices("//").find(|(at, _)| *at == 0 || is_behind_space(*at));
    line.get(..comment.map_or(line.len(), |(at, _)| at)).unwrap_or(line).trim_end()
}

/// The name of the item that begins on this line.
fn names(line: &str) -> Option<&str> {
    let mut is_constant = false;
    for word in line.split_whitespace() {
        let stem = word.split(['(', '<', ':', '{', ';', '!']).next().unwrap_or(word);
        if KINDS.contains(&stem) {
            is_constant = true;
        } else if BEFORE.contains(&word) {
            is_constant |= word == "const" || word == "macro_rules!";
        } else {
            return is_constant.then_some(stem);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pub(crate) fn one(a: u8) -> u8 {\n    // why\n    a\n}\n\nmacro_rules! two {\n    () => {}\n}\nconst THREE: u8 = 3;\nimpl<T> Four {\n    pub fn five(\n        &self,\n    ) -> u8 {\n        5\n    }\n}\n";

    #[test]
    fn items_are_found() {
        let first = |name| item(TEXT, name).map(|lines| (lines.len(), lines[0].trim().to_owned()));
        assert_eq!(first("one"), Some((3, "pub(crate) fn one(a: u8) -> u8 {".into())));
        assert_eq!(first("two").map(|found| found.0), Some(3));
        assert_eq!(first("THREE").map(|found| found.0), Some(1));
        assert_eq!(first("five").map(|found| found.0), Some(5));
        assert_eq!(first("six"), None);
    }

    #[test]
    fn space_and_comments_do_not_count() {
        let other = TEXT.replace("    // why\n", "").replace("    a\n", "        a // because\n");
        let digest = |text: &str| {
            let lines = item(text, "one").unwrap();
            lines.iter().flat_map(|line| line.bytes()).filter(|byte| *byte != b' ').fold(FNV_START, fnv)
        };
        assert_eq!(digest(TEXT), digest(&other));
        assert_ne!(digest(TEXT), digest(&TEXT.replace("    a\n", "    b\n")));
    }
}
