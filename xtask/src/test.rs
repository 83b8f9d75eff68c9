//! `cargo xtask test`: everything that must pass before a change lands.
//!
//! There are two builds. The release is what users get: its end-to-end tests run as whoever calls, beside the unit
//! tests of all that is unsafe or runs in traced processes. The build that checks (profile `checked`) has all unit
//! tests, and the end-to-end tests of a user without rights.

use crate::run::{self, Counts};
use crate::workspace::{cargo, root};
use crate::{claims, fuzz, install, models, mutants, tidy, tools, units};
use anyhow::bail;
use std::process::Command;
use std::time::Instant;

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything.
    Full,
    /// What the build that checks has: all unit tests, and the end-to-end tests that do not take long.
    Quick,
}

/// What loom explores. `cargo xtask soak` gives it larger bounds.
pub(crate) const LOOM: &[(&str, &str)] = &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")];

pub(crate) const LOOM_TESTS: &[&str] = &[
    "test",
    "--profile",
    "explored",
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
    "loom_lock",
    "--test",
    "loom_list",
    "--test",
    "loom_rcu",
    "--test",
    "structures_loom",
    "--test",
    "loom_maps",
    "--test",
    "loom_ring",
];

pub(crate) const SHUTTLE: &[(&str, &str)] =
    &[("RUSTFLAGS", "--cfg shuttle"), ("CARGO_TARGET_DIR", "target/shuttle")];

pub(crate) const SHUTTLE_TESTS: &[&str] =
    &["test", "--profile", "explored", "-p", "mote-trace-ring", "--test", "shuttle_ring"];

/// The programs of the release that the tests start.
const PROGRAMS: &[&str] = &["build", "--release", "-p", "mote-cli"];

/// Runs all steps, or those that have `only` in their names; goes on after one that fails, so that all that is wrong is
/// seen at once.
///
/// # Errors
/// Names the steps that failed.
pub(crate) fn all(depth: Depth, only: Option<&str>) -> anyhow::Result<()> {
    tools::packages()?;
    let mut steps = Steps { only: only.map(str::to_owned), ..Steps::default() };
    steps.run("tidy", |_| tidy::check(&root()).map(|()| true));
    steps.run("models and their code", |_| models::check(&root()).map(|()| true));
    steps.cargo("format", &["fmt", "--all", "--check"], &[]);
    let lints = ["clippy", "--workspace", "--exclude", "mote-capi", "--all-targets", "--", "-D", "warnings"];
    // With one way to panic, programs and tests share what they depend on.
    steps.cargo("lints", &lints, &[("CARGO_PROFILE_DEV_PANIC", "unwind")]);
    steps.cargo("lints of libmote.so", &["clippy", "-p", "mote-capi", "--", "-D", "warnings"], &[]);
    steps.cargo("tests of the chores", &["test", "-p", "xtask"], &[]);
    match depth {
        Depth::Quick => {
            steps.run("unit tests, checked", |counts| units::checked(&root(), counts, Some(units::NOT_OURS)));
            steps.run("end-to-end tests, checked", |counts| claims::quickly(&root(), counts));
        }
        Depth::Full => {
            steps.run("unit tests, checked", |counts| units::checked(&root(), counts, None));
            full(&mut steps);
        }
    }
    steps.end()
}

/// What the quick run leaves out.
fn full(steps: &mut Steps) {
    steps.cargo("libmote.so and libmote.a", &["build", "--profile", "library", "-p", "mote-capi"], &[]);
    steps.cargo("programs", PROGRAMS, &[]);
    steps.run("installation", |counts| install::check(&root(), counts).map(|()| true));
    steps.run("unit tests of the release", |counts| units::of_release(&root(), counts));
    steps.run("end-to-end tests of the release", |counts| claims::of_release(&root(), counts));
    steps.run("unit tests without rights, checked", |counts| units::without_rights(&root(), counts));
    steps.run("end-to-end tests without rights, checked", |counts| claims::without_rights(&root(), counts));
    steps.run("models", |counts| run::follow(&mut xtask(&["models", "--new"]), counts));
    steps.cargo("models of the code", LOOM_TESTS, LOOM);
    steps.cargo("random schedules", SHUTTLE_TESTS, SHUTTLE);
    steps.run("mutants", |_| mutants::some(&root()).map(|()| true));
    steps.run("fuzzing", |_| fuzz::all(&root(), fuzz::BRIEFLY).map(|()| true));
}

/// A chore as a command of its own.
pub(crate) fn xtask(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "xtask".into()));
    command.args(words).current_dir(root());
    command
}

/// The steps that were run.
#[derive(Default)]
struct Steps {
    /// Steps without this in their names are left out.
    only: Option<String>,
    counts: Counts,
    failed: Vec<String>,
    times: Vec<(String, Times)>,
}

/// What a step took, in seconds.
#[derive(Clone, Copy, Default)]
struct Times {
    wall: f64,
    /// Of all processors together: beside other work it says more than the wall clock.
    cpu: f64,
}

impl Times {
    /// Reads the clock, and the CPU time of all processes that ours has started and waited for, theirs included.
    fn now(began: Instant) -> Times {
        /// Of `USER_HZ`: x86-64 counts the times in /proc in hundredths of a second.
        const TICKS: f64 = 100.0;
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // proc_pid_stat(5): `cutime` and `cstime` are the 14th and 15th behind the name, which may hold anything.
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(13).take(2);
        let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
        Times { wall: began.elapsed().as_secs_f64(), cpu: ticks / TICKS }
    }

    fn since(self, before: Times) -> Times {
        Times { wall: self.wall - before.wall, cpu: self.cpu - before.cpu }
    }
}

impl Steps {
    /// Runs cargo. Where it fails before any test was run, it is tried once more: what cannot be built fails again, and
    /// a machine that was short of memory for a moment need not cost the whole run.
    fn cargo(&mut self, name: &str, arguments: &[&str], environment: &[(&str, &str)]) {
        self.run(name, |counts| {
            println!("cargo {}", arguments.join(" "));
            let command = |words: &[&str]| {
                let mut command = cargo();
                command.args(arguments).current_dir(root()).envs(environment.iter().copied());
                command.args(Some("--").filter(|_| !words.is_empty())).args(words);
                command
            };
            let before = counts.passed + counts.failed;
            if run::follow_tests(counts, &[], command)? {
                return Ok(true);
            }
            if arguments.first() != Some(&"test") || counts.passed + counts.failed > before {
                return Ok(false);
            }
            println!("== {name}: no test was run; once more");
            run::follow(&mut command(&[]), counts)
        });
    }

    /// Does a step; says what went wrong, and how long it took.
    fn run(&mut self, name: &str, step: impl FnOnce(&mut Counts) -> anyhow::Result<bool>) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        let began = Instant::now();
        let before = Times::now(began);
        println!("== {name}");
        let passed = step(&mut self.counts).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            false
        });
        let times = Times::now(began).since(before);
        println!("== {name}: {:.0} s", times.wall);
        self.times.push((name.to_owned(), times));
        if !passed {
            self.failed.push(name.to_owned());
        }
    }

    /// Says how it went.
    fn end(self) -> anyhow::Result<()> {
        for skip in &self.counts.skips {
            println!("{skip}");
        }
        println!();
        println!("    wall       CPU  step");
        let sum = |of: fn(&Times) -> f64| self.times.iter().map(|(_, times)| of(times)).sum();
        let all = Times { wall: sum(|times| times.wall), cpu: sum(|times| times.cpu) };
        for (name, Times { wall, cpu }) in self.times.iter().chain([&("in all".to_owned(), all)]) {
            println!("{wall:>6.0} s  {cpu:>6.0} s  {name}");
        }
        println!();
        for line in self.counts.panics_of_failed() {
            println!("{line}");
        }
        let Counts { passed, failed, left_out, skips, wrong, unstable, .. } = &self.counts;
        for what in wrong {
            println!("{what}");
        }
        for test in unstable {
            println!("{test}: failed beside others, and passed when it was run once more");
        }
        let (skips, unstable) = (skips.len(), unstable.len());
        println!(
            "{passed} passed, {failed} failed, {skips} skipped, {left_out} left out by name, {unstable} unstable"
        );
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(", "));
        }
        if *passed == 0 && self.only.is_none() {
            bail!("no test was run");
        }
        if self.times.is_empty() {
            bail!("no step has `{}` in its name", self.only.unwrap_or_default());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_named_at_the_end() {
        let mut steps = Steps::default();
        steps.run("good", |counts| {
            counts.note("test result: ok. 1 passed; 0 failed;");
            Ok(true)
        });
        steps.run("bad", |_| bail!("why"));
        assert_eq!(steps.end().unwrap_err().to_string(), "failed: bad");
    }
}
