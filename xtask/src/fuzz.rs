//! `cargo xtask fuzz TARGET [SECONDS]`: coverage-guided fuzzing on the stable toolchain.
//!
//! libFuzzer needs the compiler's coverage instrumentation, which LLVM has as a pass; only the sanitizers need
//! nightly. `--target` keeps the flags away from build scripts.

use crate::workspace::{cargo, host, root};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, Stdio};

const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// For how long each target runs with the tests, in seconds.
pub(crate) const BRIEFLY: u32 = 4;

/// The profile of targets that run for long, and of those that run so briefly that building them takes longer.
const LONG: &str = "release";
const BRIEF: &str = "brief";

/// How the targets are built that run for so many seconds.
fn profile(seconds: u32) -> &'static str {
    if seconds > BRIEFLY { LONG } else { BRIEF }
}

/// Builds one target and runs it for `seconds`, beginning with what is in `fuzz/seeds`. What it finds worth keeping
/// stays in `fuzz/corpus`.
pub(crate) fn run(target: &str, seconds: u32) -> anyhow::Result<()> {
    let fuzz = root().join("fuzz");
    if !fuzz.join("targets").join(format!("{target}.rs")).is_file() {
        bail!("no such target; there are {}", targets(&fuzz)?.join(", "));
    }
    build(&fuzz, profile(seconds), &["--bin", target])?;
    one(&fuzz, target, seconds, Stdio::inherit())
}

/// Builds all targets, and runs each for `seconds`, two at a time, beginning with its seeds.
pub(crate) fn all(root: &Path, seconds: u32) -> anyhow::Result<()> {
    let fuzz = root.join("fuzz");
    build(&fuzz, profile(seconds), &["--bins"])?;
    let targets = targets(&fuzz)?;
    let run = |some: &[String]| -> Vec<String> {
        let errors = some.iter().filter_map(|target| {
            let found = one(&fuzz, target, seconds, Stdio::null()).err();
            println!("{target}: {}", if found.is_none() { "nothing found" } else { "something found" });
            found
        });
        errors.map(|error| format!("{error:#}")).collect()
    };
    let (first, second) = targets.split_at(targets.len() / 2);
    let found = std::thread::scope(|scope| {
        let beside = scope.spawn(|| run(second));
        let mut found = run(first);
        found.extend(beside.join().unwrap_or_else(|_| vec!["a fuzzing thread has failed".to_owned()]));
        found
    });
    if found.is_empty() {
        println!("{} targets ran for {seconds} s each and found nothing", targets.len());
        return Ok(());
    }
    bail!("{}", found.join("\n"))
}

fn build(fuzz: &Path, profile: &str, what: &[&str]) -> anyhow::Result<()> {
    let built = cargo()
        .args(["build", "--profile", profile, "--target", &host()?])
        .args(what)
        .current_dir(fuzz)
        .env("RUSTFLAGS", FLAGS)
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        bail!("the fuzzer's targets cannot be built");
    }
    Ok(())
}

/// Runs a target that is built.
fn one(fuzz: &Path, target: &str, seconds: u32, said: Stdio) -> anyhow::Result<()> {
    let corpus = fuzz.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).context("cannot make the corpus")?;
    let seeds = Some(fuzz.join("seeds").join(target)).filter(|seeds| seeds.is_dir());
    let ran = Command::new(fuzz.join("target").join(host()?).join(profile(seconds)).join(target))
        .arg(format!("-max_total_time={seconds}"))
        .arg("-rss_limit_mb=2048")
        .arg(format!("-artifact_prefix={}/", corpus.display()))
        // What is new goes to the first.
        .arg(&corpus)
        .args(seeds)
        .stdin(Stdio::null())
        .stderr(said)
        .status()
        .context("cannot start the target")?;
    if !ran.success() {
        bail!(
            "{target} has found something: the input lies in fuzz/corpus/{target}; run: cargo xtask fuzz {target}"
        );
    }
    Ok(())
}

/// Names of all targets, sorted: the files in `fuzz/targets`.
pub(crate) fn targets(fuzz: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(fuzz.join("targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
