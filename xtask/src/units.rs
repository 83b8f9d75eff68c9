//! The unit tests: cargo builds their programs, and these run beside each other, as many at once as there are
//! processors, because many of them wait. Of the build that checks there are all, and once more without rights those of
//! crates that ask for some; of the release those of crates where it matters what the compiler makes of them.

use crate::run::{self, Counts};
use crate::workspace::cargo;
use crate::{claims, plan, tidy, tools};
use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment of cargo for the build that checks: the profile `checked` ends a test where arithmetic overflows or
/// an assertion fails, and this `cfg` where an index comes round (`lib/bpf/src/table.rs`).
pub(crate) const CHECKED: (&str, &str) = ("RUSTFLAGS", "--cfg mote_checked");

/// All tests of the build that checks, the end-to-end tests among them: with other words, cargo would build what they
/// share another time. `mote-capi` is apart, because it has no `std`.
const ALL: &[&str] = &["--profile", "checked", "--workspace", "--exclude", "mote-capi", "--exclude", "xtask"];

/// What the tracer does not use: everyday work need not test it.
pub(crate) const NOT_OURS: &str = "lib/reclaim";

/// Milliseconds of each case of the tortures among the unit tests of the release. `cargo xtask soak` has them by the
/// hour (`mote-bench torture`).
const TORTURE: (&str, &str) = ("TORTURE_MS", "400");

/// Runs those of the build that checks, without those of one folder. Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn checked(root: &Path, counts: &mut Counts, without: Option<&str>) -> anyhow::Result<bool> {
    let mut units = programs(root)?;
    let is_left_out =
        |folder: &Path| folder == root.join("tests") || without.is_some_and(|out| folder == root.join(out));
    units.retain(|program| !is_left_out(&program.folder));
    let passed = run::follow_beside(counts, &units, TestProgram::command)?;
    let mut examples = cargo();
    examples.args(["test", "--doc", "--no-fail-fast"]).args(ALL).current_dir(root).env(CHECKED.0, CHECKED.1);
    Ok(run::follow(&mut examples, counts)? && passed)
}

/// Runs those of the release (profile `tested`). Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn of_release(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    let words = of_release_words(root)?;
    let mut command = cargo();
    command.arg("test").args(&words).current_dir(root);
    let passed = run::follow_beside(counts, &built_by(&mut command)?, |program| {
        let mut command = program.command();
        command.env(TORTURE.0, TORTURE.1);
        command
    })?;
    let mut examples = cargo();
    examples.args(["test", "--doc", "--no-fail-fast"]).args(&words).current_dir(root);
    Ok(run::follow(&mut examples, counts)? && passed)
}

/// The words for cargo about the unit tests that the release has to pass, too: of the crates that may hold `unsafe` or
/// run in traced processes, where it matters what the compiler makes of them.
fn of_release_words(root: &Path) -> anyhow::Result<Vec<String>> {
    let crates = plan::crates(root)?;
    let mut packages = plan::traced(&crates);
    packages.extend(tidy::packages_with_unsafe(root, &crates)?);
    packages.remove("mote-capi");
    let packages = packages.into_iter().flat_map(|package| ["-p".to_owned(), package]);
    Ok(["--profile", "tested"].into_iter().map(str::to_owned).chain(packages).collect())
}

/// Runs those of crates that ask for rights without any, in the build that checks. Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn without_rights(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    if !tools::is_root() {
        // They have run so already, among all.
        return Ok(true);
    }
    let Some(user) = claims::user(root, counts)? else { return Ok(true) };
    let crates = plan::crates(root)?;
    let folders: BTreeSet<PathBuf> =
        crates.iter().filter(|one| asks_for_rights(one)).map(|one| root.join(one.folder())).collect();
    let mut units = programs(root)?;
    units.retain(|program| folders.contains(&program.folder));
    run::follow_beside(counts, &units, |program| program.by(user.command(&program.file)))
}

/// Whether what a crate does needs rights, or is different without them: the recorder's side, what people start, and
/// what looks into other processes or speaks to the kernel for these.
fn asks_for_rights(one: &plan::Crate) -> bool {
    const OTHERS: [&str; 5] = ["lib/bpf", "lib/conform", "lib/memory", "lib/sys", "crates/read/symbol"];
    matches!(one.group.as_str(), "crates/record" | "crates/tools") || OTHERS.contains(&one.folder().as_str())
}

/// A program of tests.
pub(crate) struct TestProgram {
    /// As cargo calls the target.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// Its crate's.
    folder: PathBuf,
}

impl TestProgram {
    /// Starts it as cargo does.
    fn command(&self) -> Command {
        self.by(Command::new(&self.file))
    }

    /// Completes a command that starts it.
    fn by(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// What a log calls it.
impl std::fmt::Display for TestProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.display().fmt(f)
    }
}

/// Has cargo build the programs of all tests of the build that checks.
///
/// # Errors
/// It cannot.
pub(crate) fn programs(root: &Path) -> anyhow::Result<Vec<TestProgram>> {
    let mut command = cargo();
    command.arg("test").args(ALL).current_dir(root).env(CHECKED.0, CHECKED.1);
    built_by(&mut command)
}

/// Has cargo build the programs of tests that `command` would run.
fn built_by(command: &mut Command) -> anyhow::Result<Vec<TestProgram>> {
    command
        .args(["--no-run", "--quiet", "--message-format", "json-render-diagnostics"])
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo without output")?;
    let mut found = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo prints")?;
        found.extend(test_program(&serde_json::from_str(&line).unwrap_or_default()));
    }
    if !child.wait().context("cargo is lost")?.success() {
        bail!("the tests cannot be built");
    }
    Ok(found)
}

/// The program that a message of cargo's tells of, if it is one of tests.
fn test_program(message: &Value) -> Option<TestProgram> {
    let is_test = message["profile"]["test"] == true;
    Some(TestProgram {
        name: message["target"]["name"].as_str()?.to_owned(),
        file: message["executable"].as_str().filter(|_| is_test)?.into(),
        folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_runs_in_traced_processes_is_tested_in_the_release() {
        let words = of_release_words(&crate::workspace::root()).expect("cargo");
        for package in [
            "mote-trace-ring",
            "mote-trace-agent",
            "mote-trace-rcu",
            "mote-trace-reclaim",
            "mote-trace-conform",
        ] {
            assert!(words.iter().any(|word| word == package), "{package}");
        }
        assert!(!words.iter().any(|word| word == "mote-trace-view"), "{words:?}");
    }
}
