//! `cargo xtask test`: everything that must pass before a change lands.

use crate::{as_user, fuzz, install, models, root, tidy};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything.
    Full,
    /// Without torture, models and fuzzing.
    Quick,
}

/// Tests that were run, in all steps together.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skips: Vec<String>,
}

/// The steps: a name, arguments of cargo, environment, and whether they belong to the quick ones.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    quick: bool,
}

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, arguments, environment: &[], quick: true }
}

const LOOM: &[(&str, &str)] = &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")];

const LOOM_TESTS: &[&str] = &[
    "test",
    "--release",
    "-p",
    "mote-trace-clock",
    "-p",
    "mote-trace-sync",
    "-p",
    "mote-trace-rcu",
    "-p",
    "mote-trace-reclaim",
    "-p",
    "mote-trace-vm",
    "-p",
    "mote-trace-ring",
    "--test",
    "loom_synthetic",
    "--test",
    "loom_lock",
    "--test",
    "loom_rcu",
    "--test",
    "structures_loom",
    "--test",
    "loom_maps",
    "--test",
    "loom_ring",
];

const SHUTTLE: &[(&str, &str)] = &[("RUSTFLAGS", "--cfg shuttle"), ("CARGO_TARGET_DIR", "target/shuttle")];

const SHUTTLE_TESTS: &[&str] = &["test", "--release", "-p", "mote-trace-ring", "--test", "shuttle_ring"];

/// Arithmetic that overflows, assertions of the standard library, and indexes that come round (`bpf/src/table.rs`) end the test there.
const CHECKED: &[(&str, &str)] = &[
    ("RUSTFLAGS", "-C overflow-checks=on -C debug-assertions=on --cfg mote_checked"),
    ("CARGO_TARGET_DIR", "target/checked"),
];

/// What runs in traced processes: all unit tests, and those beside them that bring hostile and random input.
const CHECKED_TESTS: &[&str] = &[
    "test",
    "--release",
    "--no-fail-fast",
    "-p",
    "mote-trace-sys",
    "-p",
    "mote-trace-sync",
    "-p",
    "mote-trace-rcu",
    "-p",
    "mote-trace-clock",
    "-p",
    "mote-trace-layout",
    "-p",
    "mote-trace-ring",
    "-p",
    "mote-trace-text",
    "-p",
    "mote-trace-bpf",
    "-p",
    "mote-trace-jit",
    "-p",
    "mote-trace-vm",
    "-p",
    "mote-trace-wire",
    "-p",
    "mote-trace-agent",
    "-p",
    "mote-trace",
    "-p",
    "mote-tracing",
    "--lib",
    "--test",
    "verify_accepted",
    "--test",
    "verify_refused",
    "--test",
    "verify_sound",
    "--test",
    "hostile",
    "--test",
    "maps",
    "--test",
    "program",
    "--test",
    "helpers",
    "--test",
    "geometry",
    "--test",
    "speculation",
    "--test",
    "filters",
];

const STEPS: &[Step] = &[
    step("format", &["fmt", "--all", "--check"]),
    step(
        "lints",
        &["clippy", "--workspace", "--exclude", "mote-capi", "--all-targets", "--", "-D", "warnings"],
    ),
    step("lints of libmote.so", &["clippy", "-p", "mote-capi", "--", "-D", "warnings"]),
    step("libmote.so and libmote.a", &["build", "--release", "-p", "mote-capi"]),
    step("programs", &["build", "--release", "--bins", "--workspace", "--exclude", "mote-capi"]),
    step("tests", &["test", "--release", "--workspace", "--exclude", "mote-capi", "--no-fail-fast"]),
    Step { name: "checked arithmetic", arguments: CHECKED_TESTS, environment: CHECKED, quick: true },
    Step { name: "models", arguments: &["xtask", "models"], environment: &[], quick: false },
    Step { name: "models of the code", arguments: LOOM_TESTS, environment: LOOM, quick: false },
    Step { name: "random schedules", arguments: SHUTTLE_TESTS, environment: SHUTTLE, quick: false },
    Step {
        name: "torture of the ring",
        arguments: &["run", "--release", "-p", "mote-bench", "--", "torture", "ring", "--quick"],
        environment: &[],
        quick: false,
    },
    Step {
        name: "torture of live patching",
        arguments: &["run", "--release", "-p", "mote-bench", "--", "torture", "text", "--quick"],
        environment: &[],
        quick: false,
    },
    Step {
        name: "torture of RCU",
        arguments: &["run", "--release", "-p", "mote-bench", "--", "torture", "rcu", "--quick"],
        environment: &[],
        quick: false,
    },
];

/// Runs all steps; goes on after one that fails, so that all that is wrong is seen at once.
pub(crate) fn all(depth: Depth) -> anyhow::Result<()> {
    install::packages()?;
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    if let Err(error) = tidy::check(&root()) {
        eprintln!("{error:#}");
        failed.push("tidy");
    }
    if let Err(error) = models::check(&root()) {
        eprintln!("{error:#}");
        failed.push("models and their code");
    }
    for step in STEPS.iter().filter(|step| depth == Depth::Full || step.quick) {
        let began = Instant::now();
        println!("== {}: cargo {}", step.name, step.arguments.join(" "));
        if !run(step, &mut counts)? {
            failed.push(step.name);
        }
        println!("== {}: {:.0} s", step.name, began.elapsed().as_secs_f64());
    }
    if depth == Depth::Full {
        if !beside("tests without rights", &mut counts, without_rights)? {
            failed.push("tests without rights");
        }
        if !beside("fuzzing", &mut counts, |_| fuzz::briefly(&root()).map(|()| true))? {
            failed.push("fuzzing");
        }
    }
    for skip in &counts.skips {
        println!("{skip}");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skips.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    if counts.passed == 0 {
        bail!("no test was run");
    }
    Ok(())
}

/// Does a step that is no command of cargo's alone; says what went wrong, and how long it took.
fn beside(
    name: &str,
    counts: &mut Counts,
    step: impl FnOnce(&mut Counts) -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let began = Instant::now();
    println!("== {name}");
    let passed = step(counts).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        false
    });
    println!("== {name}: {:.0} s", began.elapsed().as_secs_f64());
    Ok(passed)
}

/// The end-to-end tests once more, as a user without rights.
fn without_rights(counts: &mut Counts) -> anyhow::Result<bool> {
    match as_user::tests(&root()) {
        Ok(mut tests) => follow(&mut tests.command, counts),
        Err(why) => {
            counts.note(&format!("SKIP: tests without rights: {why}"));
            Ok(true)
        }
    }
}

/// Runs one step, shows what it prints, and counts the tests and skips in it.
fn run(step: &Step, counts: &mut Counts) -> anyhow::Result<bool> {
    let mut command = crate::cargo();
    command.args(step.arguments).current_dir(root()).envs(step.environment.iter().copied());
    follow(&mut command, counts)
}

/// Runs a command, shows what it prints, and counts the tests and skips in it.
fn follow(command: &mut Command, counts: &mut Counts) -> anyhow::Result<bool> {
    // Skips are told on standard error of tests, which cargo hides of those that pass.
    command.env("RUST_TEST_NOCAPTURE", "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(writer.try_clone().context("cannot make a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    // The command has the pipe's other end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what cargo prints")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts.note(&line);
    }
    Ok(child.wait().context("the command is lost")?.success())
}

impl Counts {
    fn note(&mut self, line: &str) {
        if let Some(at) = line.find("SKIP: ") {
            self.skips.push(line[at..].to_owned());
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = result.split(word).next().unwrap_or("");
                before.trim().rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += number(" passed");
            self.failed += number(" failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn all_that_runs_in_traced_processes_is_checked() {
        let crates = plan::crates(&root()).expect("cargo");
        for package in plan::traced(&crates).iter().filter(|package| *package != "mote-capi") {
            assert!(CHECKED_TESTS.contains(&package.as_str()), "{package}");
        }
    }

    #[test]
    fn results_and_skips_are_counted() {
        let mut counts = Counts::default();
        counts.note(
            "test result: ok. 12 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        counts.note("SKIP: no babeltrace2");
        assert_eq!((counts.passed, counts.failed, counts.skips.len()), (12, 1, 1));
    }
}
