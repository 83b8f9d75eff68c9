//! The end-to-end tests (`tests/claims`): of the release as whoever calls, and of the build that checks, where what
//! overflows ends the test. As root these run as a user without rights, because what root may, most users may not.

use crate::run::{self, Counts};
use crate::tools;
use crate::units::{self, CHECKED};
use crate::unprivileged::{User, closed_above};
use crate::workspace::cargo;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Claims that say the same whoever runs them, and take long: they compile much, or count each call of a compiler. The
/// release has them; of the build that checks, unit tests and smaller claims look at the same code.
const OF_ANY_USER: [&str; 9] = [
    "a_compiler_makes_the_same_of_a_file",
    "a_script_of_node",
    "calls_in_a_compiler",
    "calls_in_python",
    "every_type_of_field_arrives_the_same",
    "inline_functions_and_templates_of_two_files",
    "programs_that_break_tracers_do_what_they_did",
    "release_builds_and_debug_builds",
    "the_header_compiles_everywhere",
];

/// Claims that the quick run leaves out, because each takes 10 seconds or more.
const LONG: [&str; 7] = [
    "a_killed_process_loses_nothing",
    "a_process_that_is_not_recorded_yet_joins",
    "a_processor_is_followed_through_programs_and_the_kernel",
    "calls_with",
    "code_that_never_ends",
    "no_signal_is_lost",
    "the_first_ends_and_the_second_goes_on",
];

/// Runs all of them, of the release, as who we are: the claims themselves are those of the build that checks, and what
/// they look at is the release. Returns whether they passed.
///
/// # Errors
/// They cannot be built, or cannot be started.
pub(crate) fn of_release(root: &Path, counts: &mut Counts) -> anyhow::Result<bool> {
    build(root, "release", "programs", &["-p", "mote-tests", "--bins", "--example", "plugin"], &[])?;
    let program = program(root)?;
    let release = root.join("target/release");
    run_claims(counts, || {
        let mut command = Command::new(&program);
        command.env("MOTE_BIN", release.join("mote")).env("MOTE_TESTS_PROGRAMS", &release);
        command.current_dir(root.join("tests"));
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

/// The user without rights; `None`, as a skip, where others may not come to what was built.
///
/// # Errors
/// There is none.
pub(crate) fn user(root: &Path, counts: &mut Counts) -> anyhow::Result<Option<User>> {
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
    command.args(OF_RELEASE.iter().chain(&OF_ANY_USER).chain(without).flat_map(|claims| ["--skip", claims]));
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

/// Builds something.
fn build(
    root: &Path,
    profile: &str,
    name: &str,
    what: &[&str],
    environment: &[(&str, &str)],
) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--profile", profile]).args(what).current_dir(root);
    command.envs(environment.iter().copied());
    if !command.status().context("cannot start cargo")?.success() {
        bail!("{name} cannot be built");
    }
    Ok(())
}

/// Builds the program of the tests and what it runs, all with the profile that checks; the programs were built with
/// the tests.
fn built(root: &Path) -> anyhow::Result<PathBuf> {
    // It has no `std`, and so no way to unwind.
    let no_unwinding = [CHECKED, ("CARGO_PROFILE_CHECKED_PANIC", "abort")];
    build(root, "checked", "libmote.so", &["-p", "mote-capi"], &no_unwinding)?;
    let scenes = ["-p", "mote-tests", "--bin", "scenes"];
    // Apart from the program of the same name; what is the same in both is built once.
    let apart = |target| [CHECKED, ("CARGO_TARGET_DIR", target), ("CARGO_BUILD_BUILD_DIR", "target")];
    let tested_byte = [&scenes[..], &["--features", "tested-byte"]].concat();
    build(root, "checked", "scenes", &tested_byte, &apart("target/tested-byte"))?;
    let no_filters = [&scenes[..], &["--no-default-features"]].concat();
    build(root, "checked", "scenes", &no_filters, &apart("target/no-filters"))?;
    program(root)
}

/// Has cargo build the program of the end-to-end tests, with the profile that checks.
fn program(root: &Path) -> anyhow::Result<PathBuf> {
    let claims = units::programs(root)?.into_iter().find(|program| program.name == "claims");
    Ok(claims.context("cargo has built no end-to-end tests")?.file)
}
