//! One run: spin makes a checker of the model, the C compiler builds it, and it searches all states.

use super::header::{Expect, Run};
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All states were visited, and no error was found.
    Nothing,
    /// An error was found.
    Error,
    /// Bounds of memory or depth cut the search: it says nothing.
    Cut(String),
}

impl End {
    /// The reason, for a person.
    pub(super) fn why(&self) -> &str {
        match self {
            End::Nothing => "the checker found no error",
            End::Error => "the checker found an error",
            End::Cut(why) => why,
        }
    }
}

/// What a search came to, and what it cost.
#[derive(Clone, Debug)]
pub(super) struct Result {
    pub(super) end: End,
    pub(super) states: u64,
    pub(super) mebibytes: f64,
    pub(super) seconds: f64,
}

/// Whether `spin -V` can be run.
pub(super) fn is_there() -> bool {
    Command::new("spin").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Makes one run in `folder`, which is made anew.
///
/// # Errors
/// A model that spin does not understand; programs that cannot be started.
pub(super) fn check(model: &Path, run: &Run, folder: &Path) -> anyhow::Result<Result> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let called = || format!("{}, {}", model.display(), run.title);
    let mut spin = Command::new("spin");
    spin.arg("-a").args(&run.defines).arg(model).current_dir(folder);
    output(spin).with_context(called)?;
    if !folder.join("pan.c").is_file() {
        bail!("{}: spin made no checker", called());
    }
    // What stops at the first error is not worth optimising.
    let is_short = run.is_small || matches!(run.expect, Expect::Find | Expect::Reach);
    let optimise = if is_short { "-O0" } else { "-O2" };
    let mut compiler = Command::new("cc");
    compiler
        .args([optimise, "-w"])
        .args(run.compile_flags())
        .args(["-o", "pan", "pan.c"])
        .current_dir(folder);
    output(compiler).with_context(called)?;
    let mut pan = Command::new(folder.join("pan"));
    pan.args(run.pan_flags()).current_dir(folder);
    let text = output(pan).with_context(called)?;
    let result = understand(&text).with_context(called)?;
    let _ = fs::remove_file(folder.join("pan"));
    Ok(result)
}

/// What a program prints. Checkers end with any status.
fn output(mut command: Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !name.ends_with("pan") {
        bail!("{name} failed: {}", text.lines().take(5).collect::<Vec<_>>().join("; "));
    }
    Ok(text)
}

/// Reads the checker's report.
fn understand(text: &str) -> anyhow::Result<Result> {
    let number =
        |line: Option<&str>| line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let line = |mark: &str| text.lines().find(|line| line.contains(mark));
    let errors = line("errors: ")
        .and_then(|line| line.rsplit("errors: ").next()?.trim().parse::<u64>().ok())
        .with_context(|| format!("no report: {}", text.lines().take(3).collect::<Vec<_>>().join("; ")))?;
    let cut = ["max search depth too small", "reached -DMEMLIM", "out of memory", "VECTORSZ"]
        .into_iter()
        .find_map(|mark| line(mark).map(str::to_owned));
    let end = match (errors, cut) {
        (1.., _) => End::Error,
        (0, Some(why)) => End::Cut(why),
        (0, None) => End::Nothing,
    };
    Ok(Result {
        end,
        states: number(line("states, stored")).unwrap_or(0.0) as u64,
        mebibytes: number(line("total actual memory usage")).unwrap_or(0.0),
        seconds: line("elapsed time")
            .and_then(|line| number(line.split("elapsed time ").nth(1)))
            .unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "State-vector 148 byte, depth reached 8139, errors: 0\n  1151069 states, stored\n  188.486\ttotal actual memory usage\npan: elapsed time 1.25 seconds\n";
        let result = understand(text).unwrap();
        assert_eq!((result.end, result.states), (End::Nothing, 1_151_069));
        assert_eq!((result.mebibytes, result.seconds), (188.486, 1.25));
    }

    #[test]
    fn a_search_that_was_cut_is_no_proof() {
        let text = "error: max search depth too small\nState-vector 148 byte, errors: 0\n";
        assert!(matches!(understand(text).unwrap().end, End::Cut(_)));
        assert_eq!(understand("depth 1, errors: 1\n").unwrap().end, End::Error);
        assert!(understand("Segmentation fault").is_err());
    }
}
