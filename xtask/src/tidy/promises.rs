//! `docs/security.md` promises nothing without a check and a test: the files and the tests that it names are there.

use anyhow::Context;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/security.md";

/// How the head of a table ends that has tests in its last column.
const TESTED: &str = "| test |";

/// Checks the page by the names and texts of all source files.
pub(super) fn check(root: &Path, files: &[(String, String)], wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    page(&text, files, wrong);
    Ok(())
}

fn page(text: &str, files: &[(String, String)], wrong: &mut Vec<String>) {
    let tests: BTreeSet<&str> = files.iter().flat_map(|(_, text)| tests(text)).collect();
    let mut is_tested = false;
    for (number, line) in text.lines().enumerate() {
        let mut miss = |what: String| wrong.push(format!("{PAGE}:{} names {what}", number + 1));
        for file in quoted(line).filter(|name| name.ends_with(".rs")) {
            if !files.iter().any(|(name, _)| is_called(name, file)) {
                miss(format!("the file {file}, which is not there"));
            }
        }
        is_tested = line.starts_with('|') && (is_tested || line.ends_with(TESTED));
        if !is_tested || line.ends_with(TESTED) || line.starts_with("|---") {
            continue;
        }
        let cell = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let named: Vec<&str> = quoted(cell).filter(|name| is_path(name)).collect();
        if named.is_empty() {
            miss("no test".to_owned());
        }
        for test in named {
            let function = test.rsplit("::").next().unwrap_or(test);
            if !tests.contains(function) {
                miss(format!("the test {test}, which is not there"));
            }
        }
    }
}

/// What stands in backquotes.
pub(super) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a file may be called so: by the end of its path, with `src` or without it.
fn is_called(file: &str, name: &str) -> bool {
    let ends =
        |file: &str| file.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    ends(file) || ends(&file.replacen("/src/", "/", 1))
}

/// A name in small letters with `_` and `::`.
fn is_path(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:".contains(&byte))
}

/// The functions of a Rust file that are tests.
fn tests(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if is_test && !line.starts_with("#[") && !line.starts_with("//") {
            let name = line.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next());
            found.extend(name);
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<(String, String)> {
        let text = "fn helper() {}\n#[test]\n#[cfg(unix)]\nfn one_is_kept() {}\n";
        let named = |name: &str| (name.to_owned(), text.to_owned());
        ["crates/record/daemon/src/a/quota.rs", "tests/claims/c.rs"].map(named).to_vec()
    }

    #[track_caller]
    fn finds(text: &str, expect: &[&str]) {
        let mut wrong = Vec::new();
        page(text, &files(), &mut wrong);
        let is_found = wrong.len() == expect.len() && wrong.iter().zip(expect).all(|(a, b)| a.contains(b));
        assert!(is_found, "{wrong:?}");
    }

    #[test]
    fn files_that_are_not_there_are_found() {
        finds("See `quota.rs`, `daemon/a/quota.rs` and `record/daemon/src/a/quota.rs` (`Quota`).\n", &[]);
        finds(
            "See `shares.rs`,\nand `a/c.rs`, `uota.rs`.",
            &[":1 names the file shares.rs", "a/c.rs", "uota.rs"],
        );
    }

    #[test]
    fn tests_that_are_not_there_are_found() {
        let head = "| what | where | test |\n|---|---|---|\n";
        finds(&format!("{head}| a | `f` | `one_is_kept` (as `SIGTERM`), `c::one_is_kept` |\n"), &[]);
        finds(&format!("{head}| a | `f` | `c::two`, `::helper` |\n"), &["test c::two", "test ::helper"]);
        finds(&format!("{head}| a | `one_is_kept` | none |\n"), &[":3 names no test"]);
        finds("| what | how |\n|---|---|\n| a | `two` |\n", &[]);
    }
}
