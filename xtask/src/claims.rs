//! The end-to-end tests (`tests/claims`): of the release as whoever calls, and of the build that checks, where what
//! overflows ends the test. As root these run as a user without rights, because what root may, most users may not.

use crate::run::{self, Counts};
use crate::unprivileged::{User, closed_above};
use crate::workspace::cargo;
use crate::{plan, test, tools};
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The arguments and the environment of cargo for the build that checks: the profile `checked` ends a test where
/// arithmetic overflows or an assertion fails, and this `cfg` where an index comes round (`lib/bpf/src/table.rs`).
pub(crate) const CHECKED: (&str, &str) = ("RUSTFLAGS", "--cfg mote_checked");

/// Claims that are of the release: they look at its machine code and its sizes; or at sites that happen to lie where no
/// thread needs to be stopped to change them; or they take minutes. Each is one claim, or a few that say the same of
/// several programs: whole modules of claims are run without rights, too.
const OF_RELEASE: [&str; 14] = [
    "a_library_that_is_loaded_beside_threads",
    "a_library_that_is_unloaded",
    "a_planted_panic_is_found",
    "the_short_way_touches",
    "a_program_grows_by",
    "a_program_of_rust_grows_by",
    "a_recorder_that_is_killed_at_any_of_its_calls",
    "a_static_program_of_c_grows_by",
    "in_a_loop_each_turn_has_one_nop",
    "is_one_nop",
    "no_function_of_ours_panics",
    "older_kernels_take_programs",
    "the_library_has_no_panic_left",
    "the_library_is_small",
];

/// Claims that the quick run leaves out, because each takes 10 seconds or more.
const LONG: [&str; 8] = [
    "a_killed_process_loses_nothing",
    "a_process_that_is_not_recorded_yet_joins",
    "a_processor_is_followed_through_programs_and_the_kernel",
    "calls_with",
    "code_that_never_ends",
    "no_signal_is_lost",
    "the_first_ends_and_the_second_goes_on",
    "the_header_compiles_everywhere",
];

/// Runs all of them, of the release, as who we are. Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn of_release(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    let mut command = cargo();
    command.args(["test", "--release", "-p", "mote-tests"]);
    let program = program(command.current_dir(root))?;
    run_claims(counts, || {
        let mut command = Command::new(&program);
        command.env("MOTE_BIN", root.join("target/release/mote")).current_dir(root.join("tests"));
        command
    })
}

/// Runs those of the build that checks without rights. Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn without_rights(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    let program = built(root)?;
    if !tools::is_root() {
        return run_claims(counts, || checked(root, Command::new(&program), &[]));
    }
    let Some(user) = user(root, counts)? else { return Ok(true) };
    run_claims(counts, || checked(root, user.command(&program), &[]))
}

/// Runs the unit tests of crates that ask for rights without any, in the build that checks. Returns whether they
/// passed.
///
/// # Errors
/// They cannot be started.
pub(crate) fn units_without_rights(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    if !tools::is_root() {
        // They have run so already, among all.
        return Ok(true);
    }
    let Some(user) = user(root, counts)? else { return Ok(true) };
    let crates = plan::crates(root)?;
    let folders: Vec<PathBuf> =
        crates.iter().filter(|one| asks_for_rights(one)).map(|one| root.join(one.folder())).collect();
    // The same words as those of all unit tests: with others, cargo builds what they share another time.
    let mut command = cargo();
    command.args(test::ALL_UNIT_TESTS).env(CHECKED.0, CHECKED.1);
    let programs = programs(command.current_dir(root))?;
    let mut passed = true;
    for program in programs.iter().filter(|program| folders.contains(&program.folder)) {
        println!("-- without rights: {}", program.file.display());
        passed &= run::follow_tests(counts, &[], |words| {
            let mut command = user.command(&program.file);
            command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder).args(words);
            command
        })?;
    }
    Ok(passed)
}

/// Whether what a crate does needs rights, or is different without them: the recorder's side, what people start, and
/// what looks into other processes or speaks to the kernel for these.
fn asks_for_rights(one: &plan::Crate) -> bool {
    const OTHERS: [&str; 5] = ["lib/bpf", "lib/conform", "lib/memory", "lib/sys", "crates/read/symbol"];
    matches!(one.group.as_str(), "crates/record" | "crates/tools") || OTHERS.contains(&one.folder().as_str())
}

/// The user without rights; `None`, as a skip, where others may not come to what was built.
fn user(root: &Path, counts: &mut Counts) -> anyhow::Result<Option<User>> {
    if let Some(closed) = closed_above(&root.join("target/checked/mote")) {
        counts.skip(&format!("tests without rights: others may not enter {}", closed.display()));
        return Ok(None);
    }
    User::make().map(Some)
}

/// Runs those of the build that checks as who we are, without those that take long. Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn quickly(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    let program = built(root)?;
    run_claims(counts, || checked(root, Command::new(&program), &LONG))
}

/// Completes a command that starts the tests' program of the build that checks.
fn checked(root: &Path, mut command: Command, without: &[&str]) -> Command {
    command.env("MOTE_TESTS_BUILT", "1").env("MOTE_BIN", root.join("target/checked/mote"));
    command.args(OF_RELEASE.iter().chain(without).flat_map(|claims| ["--skip", claims]));
    command.current_dir(root.join("tests"));
    command
}

/// Runs the tests' program, which `command` starts; returns whether all passed.
///
/// # Errors
/// It cannot be started.
fn run_claims(counts: &mut Counts, command: impl Fn() -> Command) -> anyhow::Result<bool> {
    // Most claims wait most of the time, for what they record and for each other's processors.
    let threads = 3 * std::thread::available_parallelism().map_or(1, usize::from);
    run::follow_tests(counts, &[&format!("--test-threads={threads}")], |words| {
        let mut command = command();
        command.args(words);
        command
    })
}

/// Builds something with the profile that checks.
fn build(root: &Path, name: &str, what: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--profile", "checked"]).args(what).current_dir(root);
    command.env(CHECKED.0, CHECKED.1).envs(environment.iter().copied());
    if !command.status().context("cannot start cargo")?.success() {
        bail!("{name} cannot be built");
    }
    Ok(())
}

/// Builds the program of the tests and what it runs; the program `mote` was built with the tests of its crate.
fn built(root: &Path) -> anyhow::Result<PathBuf> {
    // It has no `std`, and so no way to unwind.
    build(root, "libmote.so", &["-p", "mote-capi"], &[("CARGO_PROFILE_CHECKED_PANIC", "abort")])?;
    let tested_byte = ["-p", "mote-tests", "--bin", "scenes", "--features", "tested-byte"];
    build(root, "scenes", &tested_byte, &[("CARGO_TARGET_DIR", "target/tested-byte")])?;
    let no_filters = ["-p", "mote-tests", "--bin", "scenes", "--no-default-features"];
    build(root, "scenes", &no_filters, &[("CARGO_TARGET_DIR", "target/no-filters")])?;
    let mut command = cargo();
    command.args(["test", "--profile", "checked", "-p", "mote-tests"]).env(CHECKED.0, CHECKED.1);
    program(command.current_dir(root))
}

/// Has cargo build the program of the end-to-end tests by `command`, which would run it.
fn program(command: &mut Command) -> anyhow::Result<PathBuf> {
    let claims = programs(command)?.into_iter().find(|program| program.name == "claims");
    Ok(claims.context("cargo has built no end-to-end tests")?.file)
}

/// A program of tests.
struct TestProgram {
    /// As cargo calls the target.
    name: String,
    file: PathBuf,
    /// Its crate's.
    folder: PathBuf,
}

/// Has cargo build the programs of tests that `command` would run.
fn programs(command: &mut Command) -> anyhow::Result<Vec<TestProgram>> {
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
