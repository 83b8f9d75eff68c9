//! `cargo xtask soak`: what is long for being long, at its full size. The test command runs a bounded form of each
//! part.
//!
//! The last result of each part stands in `docs/FIGURES.md`, where `--write` puts it as soon as the part has ended.

mod figures;
mod pages;

use crate::run::{self, Counts};
use crate::test::{self, LOOM, LOOM_TESTS, SHUTTLE, SHUTTLE_TESTS};
use crate::workspace::{cargo, root};
use crate::{fuzz, tools};
use anyhow::{Context, bail};
use figures::Row;
use std::process::Command;
use std::time::{Duration, Instant};

/// For how long all parts together run, where nothing is said: parts that have an end of their own take what they take.
const HOURS: f64 = 4.0;

/// One part.
struct Part {
    name: &'static str,
    /// Which share of the time it gets, in percent; 0: it has an end of its own.
    percent: u64,
    run: fn(&mut Soak) -> anyhow::Result<bool>,
}

const PARTS: [Part; 13] = [
    Part { name: "torture-ring", percent: 10, run: |soak| soak.torture("ring") },
    Part { name: "torture-patch", percent: 10, run: |soak| soak.torture("patch") },
    Part { name: "torture-functions", percent: 5, run: |soak| soak.torture("functions") },
    Part { name: "torture-rcu", percent: 10, run: |soak| soak.torture("rcu") },
    Part { name: "models", percent: 0, run: Soak::models },
    Part { name: "mutants", percent: 0, run: Soak::mutants },
    Part { name: "loom", percent: 20, run: Soak::loom },
    Part { name: "schedules", percent: 5, run: Soak::schedules },
    Part { name: "programs", percent: 5, run: Soak::programs },
    Part { name: "real-programs", percent: 0, run: Soak::real_programs },
    Part { name: "pages", percent: 0, run: Soak::pages },
    Part { name: "fuzz", percent: 35, run: Soak::fuzz },
    Part { name: "package", percent: 0, run: Soak::package },
];

/// What the words after `soak` ask for.
#[derive(Debug, PartialEq)]
struct Wish<'w> {
    hours: f64,
    only: Vec<&'w str>,
    write: bool,
}

/// Does what the words after `soak` ask for.
///
/// # Errors
/// Words that are not understood; parts that failed, by name.
pub(crate) fn chore(words: &[&str]) -> anyhow::Result<()> {
    let wish = understand(words)?;
    tools::packages()?;
    let chosen = PARTS.iter().filter(|part| wish.only.is_empty() || wish.only.contains(&part.name));
    let chosen: Vec<&Part> = chosen.collect();
    let percent: u64 = chosen.iter().map(|part| part.percent).sum();
    let mut failed = Vec::new();
    for (number, part) in (1..).zip(&chosen) {
        // The time is for the parts that were chosen.
        let share = part.percent as f64 / percent.max(1) as f64;
        let time = Duration::from_secs_f64(wish.hours * 3600.0 * share);
        println!(
            "== soak, part {number} of {}: {}, begun {}",
            chosen.len(),
            part.name,
            figures::now("+%F %H:%M")
        );
        let mut soak = Soak { time, size: String::new(), found: String::new(), counts: Counts::default() };
        let began = Instant::now();
        let passed = (part.run)(&mut soak).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            soak.found = "an error: see its output".to_owned();
            false
        });
        if !passed {
            failed.push(part.name);
        }
        let row = soak.row(part.name, passed, began.elapsed())?;
        println!("== soak, {}", row.line());
        if wish.write {
            figures::write(&root(), &row, &PARTS.map(|part| part.name))?;
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("failed: {}", failed.join(", "))
}

fn understand<'w>(words: &[&'w str]) -> anyhow::Result<Wish<'w>> {
    let mut wish = Wish { hours: HOURS, only: Vec::new(), write: false };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--write" => wish.write = true,
            "--hours" => {
                wish.hours =
                    words.next().and_then(|hours| hours.parse().ok()).context("--hours needs a number")?;
                anyhow::ensure!(wish.hours > 0.0, "--hours needs a number above 0");
            }
            "--only" => {
                let part = words.next().context("--only needs the name of a part")?;
                if !PARTS.iter().any(|known| known.name == part) {
                    bail!("no part {part}; there are {}", PARTS.map(|part| part.name).join(", "));
                }
                wish.only.push(part);
            }
            _ => bail!(
                "`{word}` is not understood; try: cargo xtask soak [--hours N] [--only PART]... [--write]"
            ),
        }
    }
    Ok(wish)
}

/// A part that runs.
struct Soak {
    /// For how long, where it has no end of its own.
    time: Duration,
    /// What was run, for people.
    size: String,
    /// What came of it, beside the counts of tests.
    found: String,
    counts: Counts,
}

impl Soak {
    fn row(&self, part: &str, passed: bool, took: Duration) -> anyhow::Result<Row> {
        let Counts { passed: good, failed: bad, skips, .. } = &self.counts;
        let mut result = vec![if passed { "passed".to_owned() } else { "FAILED".to_owned() }];
        if good + bad > 0 {
            result.push(format!("{good} passed, {bad} failed"));
        }
        if !skips.is_empty() {
            result.push(format!("{} skipped", skips.len()));
        }
        if !self.found.is_empty() {
            result.push(self.found.clone());
        }
        Row::made_now(part, &self.size, &result.join("; "), took)
    }

    fn follow(&mut self, command: &mut Command) -> anyhow::Result<bool> {
        run::follow(command, &mut self.counts)
    }

    /// Runs cargo in the project's root.
    fn cargo(
        &mut self,
        words: &[&str],
        environment: &[(&str, &str)],
        more: &[(&str, String)],
    ) -> anyhow::Result<bool> {
        let mut command = cargo();
        command.args(words).current_dir(root()).envs(environment.iter().copied());
        command.envs(more.iter().map(|(name, value)| (name, value)));
        self.follow(&mut command)
    }

    fn torture(&mut self, what: &str) -> anyhow::Result<bool> {
        // The last one starts what people start.
        let tool = [
            "build",
            "--release",
            "-p",
            "mote-bench",
            "--bin",
            "mote-bench",
            "-p",
            "mote-cli",
            "--bin",
            "mote",
        ];
        let library = ["build", "--profile", "library", "-p", "mote-capi"];
        if !self.cargo(&tool, &[], &[])? || !self.cargo(&library, &[], &[])? {
            return Ok(false);
        }
        let seconds = self.time.as_secs().max(1);
        self.size = format!("{seconds} s");
        let mut sum = String::new();
        let mut torture = Command::new(root().join("target/release/mote-bench"));
        torture.args(["torture", what, "--seconds", &seconds.to_string()]).current_dir(root());
        let passed = run::follow_lines(&mut torture, |line| {
            // The last line is the sum of all scenarios.
            if line.starts_with("torture") {
                sum = line
                    .split_whitespace()
                    .skip(3)
                    .take(4)
                    .collect::<Vec<_>>()
                    .join(" ")
                    .replace("violations ", "violations, ");
            }
        })?;
        self.found = sum;
        Ok(passed)
    }

    fn models(&mut self) -> anyhow::Result<bool> {
        self.size = "all runs, also the long ones".to_owned();
        self.follow(&mut test::xtask(&["models", "--long"]))
    }

    fn mutants(&mut self) -> anyhow::Result<bool> {
        self.size = "all".to_owned();
        self.follow(&mut test::xtask(&["mutants"]))
    }

    fn loom(&mut self) -> anyhow::Result<bool> {
        const PREEMPTIONS: u64 = 5;
        const MODELS: u64 = 36;
        // Two run at a time.
        let seconds = (self.time.as_secs() * 2 / MODELS).max(1);
        self.size = format!("up to {PREEMPTIONS} preemptions, {seconds} s for each model at most");
        let bounds =
            [("LOOM_MAX_PREEMPTIONS", PREEMPTIONS.to_string()), ("LOOM_MAX_DURATION", seconds.to_string())];
        self.cargo(LOOM_TESTS, LOOM, &bounds)
    }

    fn schedules(&mut self) -> anyhow::Result<bool> {
        /// Of each of two tests, with three strategies; as many as a slow machine makes in a second.
        const A_SECOND: u64 = 5_000;
        let schedules = self.time.as_secs() * A_SECOND;
        self.size = format!("{schedules} schedules of each strategy");
        self.cargo(SHUTTLE_TESTS, SHUTTLE, &[("SCHEDULES", schedules.to_string())])
    }

    /// Random eBPF programs on all engines, and against what the verifier promises.
    fn programs(&mut self) -> anyhow::Result<bool> {
        const TIMES: u64 = 100;
        let seconds = self.time.as_secs().max(1);
        self.size =
            format!("{TIMES} times as many programs, {seconds} s of the verifier against the interpreter");
        let sizes = [("MOTE_RANDOM", TIMES.to_string()), ("MOTE_FUZZ_SECONDS", seconds.to_string())];
        let engines =
            ["test", "--release", "-p", "mote-trace-conform", "--test", "random", "--test", "mutated"];
        let verifier = [
            "test",
            "--release",
            "-p",
            "mote-trace-bpf",
            "--test",
            "verify_sound",
            "--test",
            "verify_kernel",
        ];
        Ok(self.cargo(&engines, &[], &sizes)? & self.cargo(&verifier, &[], &sizes)?)
    }

    /// Whole runs of real programs, whose packets are followed, and whose calls are counted.
    fn real_programs(&mut self) -> anyhow::Result<bool> {
        let mote = ["build", "--release", "-p", "mote-cli", "--bin", "mote"];
        if !self.cargo(&mote, &[], &[])? {
            return Ok(false);
        }
        let (mut programs, mut instructions) = (0, 0);
        let mut command = cargo();
        command.args(["test", "--release", "-p", "mote-tests", "--test", "claims", "--", "--test-threads=1"]);
        command.arg("real_programs_are").current_dir(root());
        command.env("MOTE_REAL_PROGRAMS", "all").env("MOTE_BIN", root().join("target/release/mote"));
        let counts = &mut self.counts;
        let passed = run::follow_lines(&mut command, |line| {
            counts.note(line);
            let count = line.split_once("real program ").and_then(|(_, said)| said.split_whitespace().nth(1));
            if let Some(count) = count.and_then(|count| count.parse::<u64>().ok()) {
                (programs, instructions) = (programs + 1, instructions + count);
            }
        })?;
        self.size = "all".to_owned();
        self.found = format!("{instructions} instructions of {programs} programs as they were executed");
        Ok(passed)
    }

    /// Pictures of pages, into `target/pages`.
    fn pages(&mut self) -> anyhow::Result<bool> {
        if !tools::wanted(pages::BROWSER) {
            self.counts.skip(&format!("{} is not installed: nothing draws pages", pages::BROWSER));
            return Ok(true);
        }
        if !self.cargo(&["build", "--release", "-p", "mote-cli", "--bin", "mote"], &[], &[])? {
            return Ok(false);
        }
        let (mote, folder) = (root().join("target/release/mote"), root().join("target/pages"));
        let drawn = pages::draw(&mote, tools::guest_kernel().as_deref(), &folder)?;
        drawn.missing.iter().for_each(|why| self.counts.skip(why));
        drawn.wrong.iter().for_each(|why| println!("{why}"));
        self.size = format!("{} pictures", drawn.pictures);
        self.found = "pictures are in target/pages".to_owned();
        Ok(drawn.wrong.is_empty())
    }

    fn fuzz(&mut self) -> anyhow::Result<bool> {
        let targets = fuzz::targets(&root().join("fuzz"))?.len() as u64;
        // Two run at a time.
        let seconds = (self.time.as_secs() * 2 / targets.max(1)).max(1);
        self.size = format!("{targets} targets, {seconds} s each");
        self.follow(&mut test::xtask(&["fuzz", "--all", &seconds.to_string()]))
    }

    fn package(&mut self) -> anyhow::Result<bool> {
        self.size = "all that is published".to_owned();
        self.follow(&mut test::xtask(&["package"]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        let wish = understand(&["--only", "fuzz", "--hours", "0.5", "--write"]).unwrap();
        assert_eq!(wish, Wish { hours: 0.5, only: vec!["fuzz"], write: true });
        assert!(understand(&["--only", "nothing"]).unwrap_err().to_string().contains("torture-ring"));
        assert!(understand(&["--hours", "0"]).is_err());
        assert!(understand(&["fuzz"]).is_err());
    }

    #[test]
    fn the_time_is_shared() {
        assert_eq!(PARTS.iter().map(|part| part.percent).sum::<u64>(), 100);
    }
}
