//! Checks of the house that a machine can make: the map and the crates say the same, nothing knows what it must not,
//! and files read as `CONTRIBUTING.md` asks.

mod cited;
mod docs;
mod glossary;
mod invariants;
mod lines;
mod modules;
mod names;
mod obligations;
mod paths;
mod persons;
mod processor;
mod promises;
mod skips;
mod subjects;

use crate::plan::{self, Crate};
use anyhow::{Context, bail};
use obligations::Obligations;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, without its tests.
const LINES_MAX: usize = 700;
/// Longest function.
const FUNCTION_MAX: usize = 70;

/// What crates that run in somebody else's process deny: it may panic.
const DENIED: [&str; 10] = [
    "indexing_slicing",
    "string_slice",
    "unwrap_used",
    "expect_used",
    "get_unwrap",
    "panic",
    "unreachable",
    "todo",
    "unimplemented",
    "disallowed_methods",
];

/// Checks everything, and names all that is wrong.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let crates = plan::crates(root)?;
    crates_match_the_map(root, &crates, &mut wrong)?;
    wrong.extend(plan::arrows_that_climb(&crates));
    wrong.extend(plan::not_to_be_packaged(&crates));
    invariants::check_crates(&crates, &mut wrong);
    modules::check(root, &crates, &mut wrong)?;
    let mut obligations = Obligations::default();
    let files = sources(root)?;
    for (name, text) in others(root)? {
        lines::other(&name, &text, &mut wrong);
    }
    for (name, text) in &files {
        source(name, text, &mut wrong);
        obligations.code(name, text);
    }
    processor::check_page(&fs::read_to_string(root.join("arch/README.md"))?, &files, &mut wrong);
    names::check_allowances(files.iter().map(|(name, text)| (name.as_str(), text.as_str())), &mut wrong);
    for page in fs::read_dir(root.join("docs/soundness"))? {
        obligations.page(&fs::read_to_string(page?.path())?);
    }
    obligations.check(&mut wrong);
    verbs_have_examples(root, &mut wrong)?;
    promises::check(root, &files, &mut wrong)?;
    let declared = cited::Declared::of(&crates, &files);
    for (name, text) in glossary::check(root, &mut wrong)? {
        declared.check(&name, &text, &mut wrong);
    }
    subjects::check(root, &mut wrong);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("tidy found {} things:\n  {}", wrong.len(), wrong.join("\n  "))
}

/// The rows `| crate | [U] | role |` of the folders' README.md, by folder: whether the crate may hold `unsafe`.
fn map(root: &Path) -> anyhow::Result<BTreeMap<String, bool>> {
    let mut rows = BTreeMap::new();
    for (group, _) in plan::GROUPS {
        let file = root.join(group).join("README.md");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let known = rows.len();
        for line in text.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let [_, name, mark, _, _] = cells.as_slice()
                && let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'))
            {
                rows.insert(format!("{group}/{name}"), *mark == "[U]");
            }
        }
        if rows.len() == known {
            bail!("{group}/README.md has no table of crates");
        }
    }
    Ok(rows)
}

/// The packages that may hold `unsafe`.
///
/// # Errors
/// The map cannot be read.
pub(crate) fn packages_with_unsafe(root: &Path, crates: &[Crate]) -> anyhow::Result<BTreeSet<String>> {
    let map = map(root)?;
    let marked = crates.iter().filter(|one| map.get(&one.folder()) == Some(&true));
    Ok(marked.map(|one| one.package.clone()).collect())
}

fn crates_match_the_map(root: &Path, crates: &[Crate], wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let map = map(root)?;
    let traced = plan::traced(crates);
    for one in crates {
        let folder = one.folder();
        let Some(&may_hold_unsafe) = map.get(&folder) else {
            wrong.push(format!("{folder} has no row in {}/README.md", one.group));
            continue;
        };
        let main = ["src/lib.rs", "src/main.rs"].map(|file| root.join(&folder).join(file));
        let text = main.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let forbids = text.contains("#![forbid(unsafe_code)]");
        if forbids == may_hold_unsafe {
            let should = if may_hold_unsafe { "may hold unsafe" } else { "must forbid unsafe" };
            wrong.push(format!("{folder} {should} by the map, and its root file says otherwise"));
        }
        for lint in missing_lints(&text).filter(|_| traced.contains(&one.package)) {
            wrong.push(format!("{folder} runs in traced processes and does not deny clippy::{lint}"));
        }
        let name = &one.name;
        let page = root.join("docs/soundness").join(format!("{name}.md"));
        if may_hold_unsafe && !page.is_file() {
            wrong.push(format!("{folder} may hold unsafe and has no docs/soundness/{name}.md"));
        }
    }
    let there: BTreeSet<String> = crates.iter().map(Crate::folder).collect();
    for folder in map.keys().filter(|folder| !there.contains(*folder)) {
        wrong.push(format!("its group's README.md has a row for {folder}, and there is no such crate"));
    }
    Ok(())
}

/// Lints against what may panic that the root file of a crate does not deny outside of its tests.
fn missing_lints(text: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    let denied = text.split("cfg_attr(").find_map(|rest| {
        let words: String = rest.chars().filter(|c| !c.is_whitespace()).collect();
        words.strip_prefix("not(test),deny(").and_then(|rest| rest.split(')').next()).map(str::to_owned)
    });
    let denied = denied.unwrap_or_default();
    DENIED.into_iter().filter(move |lint| !denied.split(',').any(|one| one == format!("clippy::{lint}")))
}

/// All Rust files of the project: names from its root, and texts.
fn sources(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    read(root, &["lib", "crates", "bench", "tests", "xtask", "fuzz"], &[".rs"])
}

/// The same of its files in C and Promela.
fn others(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    read(root, &["lib", "crates", "bench", "tests", "fuzz", "models"], &lines::OTHERS)
}

/// The files below directories whose names end in one of these ways.
fn read(root: &Path, directories: &[&str], ends: &[&str]) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for name in directories {
        files.extend(files_below(&root.join(name), ends)?);
    }
    files.sort();
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok((file.strip_prefix(root).unwrap_or(&file).display().to_string(), text))
    };
    files.into_iter().map(read).collect()
}

/// The Rust files below a directory.
fn source_files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    files_below(directory, &[".rs"])
}

/// The files below a directory whose names end in one of these ways.
fn files_below(directory: &Path, ends: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                directories.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| ends.iter().any(|end| name.to_string_lossy().ends_with(end)))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// What is checked in each source file.
fn source(name: &str, text: &str, wrong: &mut Vec<String>) {
    if !text.starts_with("//!") {
        wrong.push(format!("{name} does not open with what it is for (`//!`)"));
    }
    let own = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = own.lines().count();
    if lines > LINES_MAX {
        wrong.push(format!(
            "{name} has {lines} lines; the most is {LINES_MAX}: which concept should leave it?"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        let mark = ["TO", "DO"].concat();
        if line.contains(&mark) {
            wrong.push(format!("{name}:{} holds a {mark}; make an issue of it, or nothing", number + 1));
        }
    }
    long_functions(name, own, wrong);
    writes_by_path(name, own, wrong);
    processor::check(name, text, wrong);
    skips::check(name, text, wrong);
    invariants::check(name, own, wrong);
    lines::code(name, text, wrong);
    names::check(name, own, wrong);
    docs::check(name, own, wrong);
    persons::check(name, own, wrong);
}

/// What writes by path, in the recorder, which may run as root in a directory of others: it writes through `folder.rs`.
const BY_PATH: [&str; 14] = [
    "fs::write",
    "fs::rename",
    "fs::copy",
    "fs::hard_link",
    "fs::create_dir",
    "fs::remove_",
    "fs::set_permissions",
    "File::create",
    "File::options",
    "OpenOptions",
    "DirBuilder",
    "symlink(",
    "chown(",
    "fd::open(",
];

/// The file of the recorder that may.
const MAY_WRITE_BY_PATH: &str = "crates/record/daemon/src/output/folder.rs";

fn writes_by_path(name: &str, text: &str, wrong: &mut Vec<String>) {
    if !name.starts_with("crates/record/daemon/src") || name == MAY_WRITE_BY_PATH {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        if let Some(word) = BY_PATH.iter().find(|word| code.contains(**word)) {
            let number = number + 1;
            wrong.push(format!(
                "{name}:{number} writes by path ({word}); files of recordings are made by folder.rs"
            ));
        }
    }
}

/// Functions are found by rustfmt's layout: the closing brace stands where `fn` began.
fn long_functions(name: &str, text: &str, wrong: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let is_function = line.trim_start().split("fn ").count() == 2
            && line.split("fn ").nth(1).is_some_and(|rest| rest.contains(['(', '<']))
            && line.trim_start().split("fn ").next().is_some_and(|before| {
                before.split(' ').all(|word| {
                    ["", "pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\""]
                        .contains(&word)
                })
            });
        if !is_function || line.ends_with(';') || line.ends_with('}') {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let length = lines[at..].iter().position(|line| *line == close).unwrap_or(0);
        // Assembly is data: its lines count for nothing.
        let data = lines[at..at + length]
            .iter()
            .filter(|line| line.trim_start().starts_with('"') || line.contains(" = const "))
            .count();
        if length - data > FUNCTION_MAX {
            wrong.push(format!(
                "{name}:{} is a function of {length} lines; the most is {FUNCTION_MAX}",
                at + 1
            ));
        }
    }
}

/// Every verb's help ends with examples.
fn verbs_have_examples(root: &Path, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(root.join("crates/tools/cli/src/cmd"))? {
        let path = entry?.path();
        if path.is_dir() {
            continue;
        }
        let verb = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        if verb != "mod" && text.contains("clap::Args") && !text.contains("Examples:") {
            wrong.push(format!("`mote {verb} --help` shows no examples"));
        }
    }
    Ok(())
}

/// Asserts that a check of one file finds something at these lines, and nowhere else.
#[cfg(test)]
#[track_caller]
fn assert_finds(check: fn(&str, &str, &mut Vec<String>), name: &str, text: &str, lines: &[usize]) {
    let mut wrong = Vec::new();
    check(name, text, &mut wrong);
    let found: Vec<String> = lines.iter().map(|line| format!("{name}:{line} ")).collect();
    let is_found = wrong.len() == found.len() && wrong.iter().zip(&found).all(|(a, b)| a.starts_with(b));
    assert!(is_found, "{wrong:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_that_are_not_denied_are_found() {
        let all = DENIED.map(|lint| format!("clippy::{lint}")).join(",\n    ");
        let text = |list: &str| {
            format!("//! x\n#![no_std]\n#![cfg_attr(\n  not(test),\n  deny({list})\n)]\nmod a;\n")
        };
        assert_eq!(missing_lints(&text(&all)).count(), 0);
        assert_eq!(missing_lints(&text(&all.replace("clippy::panic,", ""))).collect::<Vec<_>>(), ["panic"]);
        assert_eq!(missing_lints(&text(&all).replace("deny(", "allow(")).count(), DENIED.len());
        assert_eq!(missing_lints("//! x\n").count(), DENIED.len());
    }

    #[test]
    fn what_is_untidy_is_found() {
        let mut wrong = Vec::new();
        let body = "    x();\n".repeat(80);
        source("a.rs", &format!("fn long() {{\n{body}}}\n"), &mut wrong);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        let by_path = "//! A file.\nfn f() {\n    fs::write(path, bytes); // fs::write\n}\n";
        for (name, count) in
            [("crates/record/daemon/src/a.rs", 1), ("crates/tools/cli/src/a.rs", 0), (MAY_WRITE_BY_PATH, 0)]
        {
            let mut wrong = Vec::new();
            source(name, by_path, &mut wrong);
            assert_eq!(wrong.len(), count, "{name}: {wrong:?}");
        }
    }
}
