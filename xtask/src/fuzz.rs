//! `cargo xtask fuzz TARGET [SECONDS]`: coverage-guided fuzzing on the stable toolchain.
//!
//! libFuzzer needs the compiler's coverage instrumentation, which LLVM has as a pass; only the sanitizers need
//! nightly. `--target` keeps the flags away from build scripts.

use crate::root;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

const HOST: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// Builds one target and runs it for `seconds`. The corpus stays in `fuzz/corpus`.
pub(crate) fn run(target: &str, seconds: u32) -> anyhow::Result<()> {
    let fuzz = root().join("fuzz");
    if !fuzz.join("targets").join(format!("{target}.rs")).is_file() {
        bail!("no such target; there are {}", targets(&fuzz)?.join(", "));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--target", HOST, "--bin", target])
        .current_dir(&fuzz)
        .env("RUSTFLAGS", FLAGS)
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        bail!("cannot build the target");
    }
    let corpus = fuzz.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).context("cannot make the corpus")?;
    let ran = Command::new(fuzz.join("target").join(HOST).join("release").join(target))
        .arg(format!("-max_total_time={seconds}"))
        .arg("-rss_limit_mb=2048")
        .arg(format!("-artifact_prefix={}/", corpus.display()))
        .arg(&corpus)
        .status()
        .context("cannot start the target")?;
    if !ran.success() {
        bail!("{target} has found something: the input lies in fuzz/corpus/{target}");
    }
    Ok(())
}

/// Names of all targets.
pub(crate) fn targets(fuzz: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(fuzz.join("targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
