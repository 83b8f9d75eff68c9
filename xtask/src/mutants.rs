//! `cargo xtask mutants`: puts errors into the code itself, one at a time, and runs loom on it, which has to find them.
//!
//! The errors are rows of `models/mutants.txt`. They are made in a copy of the tree, in `target/mutants`.

use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{fs, io};

/// Builds of the mutants share the libraries of others with the models of the code.
const TARGET: &str = "target/loom";

/// Seconds after which a run is given up.
const SECONDS_MAX: &str = "900";

/// One error.
#[derive(Debug, PartialEq, Eq)]
struct Mutant<'t> {
    /// Loom is to find it.
    is_found: bool,
    /// Crate and test.
    by: (&'t str, &'t str),
    title: &'t str,
    /// File, and the function from whose beginning on the text is looked for.
    place: (&'t str, &'t str),
    text: &'t str,
    instead: &'t str,
}

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
enum Test {
    Passed,
    Failed,
}

/// Runs those of which the title or the crate has `word` in it; all of them without one.
pub(crate) fn chore(root: &Path, word: Option<&str>) -> anyhow::Result<()> {
    let rows = rows(root)?;
    let all = parse(&rows)?;
    let is_asked_for = |mutant: &&Mutant<'_>| {
        word.is_none_or(|word| mutant.title.contains(word) || mutant.by.0.contains(word))
    };
    let chosen: Vec<&Mutant<'_>> = all.iter().filter(is_asked_for).collect();
    if chosen.is_empty() {
        bail!("no error has `{}` in its title or crate", word.unwrap_or_default());
    }
    try_all(root, &chosen, Vec::new())
}

/// Runs the first that each test has to find. That the tests pass on the code as it is must have been seen before.
pub(crate) fn some(root: &Path) -> anyhow::Result<()> {
    let rows = rows(root)?;
    let all = parse(&rows)?;
    let mut chosen: Vec<&Mutant<'_>> = Vec::new();
    for mutant in all.iter().filter(|mutant| mutant.is_found) {
        if !chosen.iter().any(|other| other.by == mutant.by) {
            chosen.push(mutant);
        }
    }
    let sound = chosen.iter().map(|mutant| mutant.by).collect();
    try_all(root, &chosen, sound)
}

fn rows(root: &Path) -> anyhow::Result<String> {
    fs::read_to_string(root.join("models/mutants.txt")).context("cannot read models/mutants.txt")
}

/// Tries mutants. `sound` are the tests that are known to pass on the code as it is; the others are run on it first.
fn try_all<'t>(
    root: &Path,
    chosen: &[&Mutant<'t>],
    mut sound: Vec<(&'t str, &'t str)>,
) -> anyhow::Result<()> {
    let tree = root.join("target/mutants/tree");
    copy(root, &tree)?;
    println!("| error in the code | result | time (s) |\n|---|---|---|");
    let mut wrong = 0;
    for mutant in chosen {
        if !sound.contains(&mutant.by) {
            if test(&tree, mutant.by)? == Test::Failed {
                bail!("{} fails without any error put into the code: there is nothing to find", mutant.by.1);
            }
            sound.push(mutant.by);
        }
        let began = Instant::now();
        let found = try_one(&tree, mutant).with_context(|| mutant.title.to_owned())?;
        let verdict = match (found, mutant.is_found) {
            (true, true) => "INJECT",
            (false, false) => "FNEG",
            (true, false) => "INJECT, was thought to be harmless",
            (false, true) => "FNEG, must be found",
        };
        wrong += u64::from(found != mutant.is_found);
        println!("| {} | {verdict} | {:.0} |", mutant.title, began.elapsed().as_secs_f64());
    }
    println!(
        "test result: {}. {} passed; {wrong} failed",
        if wrong == 0 { "ok" } else { "FAILED" },
        chosen.len() as u64 - wrong
    );
    if wrong > 0 {
        bail!("{wrong} errors in the code did not show as they must");
    }
    Ok(())
}

fn parse(rows: &str) -> anyhow::Result<Vec<Mutant<'_>>> {
    let rows = rows.lines().filter(|row| !row.starts_with('#') && !row.trim().is_empty());
    rows.map(|row| one(row).with_context(|| format!("models/mutants.txt: `{row}`"))).collect()
}

fn one(row: &str) -> anyhow::Result<Mutant<'_>> {
    let mut parts = row.splitn(4, '|').map(str::trim);
    let (Some(by), Some(title), Some(place), Some(change)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        bail!("four parts with | between them are expected")
    };
    let mut words = by.split_whitespace();
    let is_found = match words.next() {
        Some("@find") => true,
        Some("@miss") => false,
        _ => bail!("@find or @miss is expected"),
    };
    let (Some(package), Some(test)) = (words.next(), words.next()) else {
        bail!("crate and test are expected")
    };
    let (file, item) = place.split_once(',').context("file and function are expected")?;
    let (text, instead) = change.split_once("=>").context("what stands in the place of what is expected")?;
    let place = (file.trim(), item.trim());
    Ok(Mutant { is_found, by: (package, test), title, place, text: text.trim(), instead: instead.trim() })
}

/// Copies what git knows of, or would; files that are as they were stay untouched, for cargo.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-co", "--exclude-standard"]).current_dir(root);
    let files = String::from_utf8(git.output().context("cannot run git")?.stdout)?;
    for file in files.lines() {
        let (from, to) = (root.join(file), tree.join(file));
        let bytes = match fs::read(&from) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", from.display())),
        };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(tree))?;
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// Makes the error, runs the test, takes it back. Returns whether it was found.
fn try_one(tree: &Path, mutant: &Mutant<'_>) -> anyhow::Result<bool> {
    let file = tree.join(mutant.place.0);
    let code = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::write(&file, mutate(&code, mutant)?)?;
    let tested = test(tree, mutant.by);
    fs::write(&file, &code)?;
    Ok(tested? == Test::Failed)
}

/// The code with the error in it.
fn mutate(code: &str, mutant: &Mutant<'_>) -> anyhow::Result<String> {
    let item = mutant.place.1;
    let begins = ["(", "<"].iter().filter_map(|next| code.find(&format!("fn {item}{next}"))).min();
    let (before, function) = code.split_at(begins.with_context(|| format!("there is no function {item}"))?);
    if !function.contains(mutant.text) {
        bail!("`{}` is not in {item} any more", mutant.text);
    }
    Ok(before.to_owned() + &function.replacen(mutant.text, mutant.instead, 1))
}

/// Runs a test under loom.
fn test(tree: &Path, (package, test): (&str, &str)) -> anyhow::Result<Test> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new("timeout");
    command.args([
        "-s",
        "KILL",
        SECONDS_MAX,
        &cargo,
        "test",
        "--profile",
        "explored",
        "-p",
        package,
        "--test",
        test,
    ]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", crate::workspace::root().join(TARGET));
    let output = command.current_dir(tree).stdin(Stdio::null()).output().context("cannot run cargo")?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("test result: ok. 0 passed") {
        bail!("{package} has no tests in {test} under loom");
    }
    // What loom says of threads that sleep for ever may come while it unwinds, and then the test aborts.
    let has_failed = ["test result: FAILED", "panicked at"].iter().any(|mark| said.contains(mark));
    match (output.status.success(), has_failed) {
        (true, _) => Ok(Test::Passed),
        (false, true) => Ok(Test::Failed),
        (false, false) => {
            let lines: Vec<&str> = said.lines().collect();
            let last = lines.get(lines.len().saturating_sub(10)..).unwrap_or_default();
            bail!("no verdict of the test ({}): {}", output.status, last.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "@find mote-a loom_a | a: release | a.rs, two | Release => Relaxed";

    #[test]
    fn a_row_is_read_and_made() {
        let mutant = one(ROW).unwrap();
        assert_eq!((mutant.is_found, mutant.by, mutant.title), (true, ("mote-a", "loom_a"), "a: release"));
        let code = "fn one() { Release }\nfn two() { Release; Release }\n";
        assert_eq!(mutate(code, &mutant).unwrap(), "fn one() { Release }\nfn two() { Relaxed; Release }\n");
    }

    #[test]
    fn an_error_that_has_no_place_any_more_is_told() {
        let mutant = one(ROW).unwrap();
        assert!(mutate("fn two() {}", &mutant).unwrap_err().to_string().contains("not in two any more"));
        assert!(
            mutate("fn three() { Release }", &mutant).unwrap_err().to_string().contains("no function two")
        );
        assert!(one("@find mote-a | x").is_err());
    }

    #[test]
    fn the_rows_fit_the_code() {
        let root = crate::workspace::root();
        let rows = fs::read_to_string(root.join("models/mutants.txt")).unwrap();
        for mutant in parse(&rows).unwrap() {
            let code = fs::read_to_string(root.join(mutant.place.0)).unwrap();
            mutate(&code, &mutant).unwrap_or_else(|error| panic!("{}: {error}", mutant.title));
        }
    }
}
