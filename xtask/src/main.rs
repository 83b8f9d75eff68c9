//! Chores of the project: `cargo xtask test` passes all the tests, `cargo xtask tidy` checks the house.
#![forbid(unsafe_code)]

mod claims;
mod fuzz;
mod install;
mod models;
mod mutants;
mod package;
mod plan;
mod run;
mod soak;
mod test;
mod tidy;
mod tools;
mod units;
mod unprivileged;
mod workspace;

use anyhow::bail;
use std::process::ExitCode;
use workspace::root;

const USAGE: &str = "\
cargo xtask test             everything that must pass before a change lands
cargo xtask test --quick     under 5 minutes once it is built: format, lints, structure, and, in the build that checks,
                             all unit tests and the end-to-end tests that take less than 10 seconds
cargo xtask test --only WORD of these the steps that have WORD in their names, which are printed as they begin
cargo xtask tidy             the checks of the project's structure alone
cargo xtask soak [--hours N] [--only PART]... [--write]
                             what is long for being long, for N hours (4) in all; --write: results to docs/FIGURES.md.
                             Parts: torture-ring, torture-patch, torture-functions, torture-rcu, models, mutants, loom,
                             schedules, programs, real-programs, fuzz, package
cargo xtask fuzz [TARGET [SECONDS]]
                             fuzzes what reads data that others wrote; without a target, lists them
cargo xtask fuzz --all [SECONDS]
                             every target in turn, two at a time (4 s each)
cargo xtask models [--long] [NAME]
                             the models of the lock-free parts, by spin; --new: those that have not passed before;
                             --check: is the code still theirs; --bless NAME: it is
cargo xtask mutants [WORD]   errors that are put into the code itself, which loom has to find
cargo xtask package          builds the packages as they would be published; installs `mote` and uses it
cargo xtask install --prefix DIR
                             builds mote, and installs it below DIR: command, manual pages, completions, libmote
cargo xtask tools            the Debian packages that the tests need";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without the backtrace that anyhow would add.
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            eprintln!("xtask: {}", causes.join(": "));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => test::all(test::Depth::Full, None),
        ["test", "--quick"] => test::all(test::Depth::Quick, None),
        ["test", "--only", step] => test::all(test::Depth::Full, Some(step)),
        ["tidy"] => tidy::check(&root()),
        ["fuzz"] => {
            println!("{}", fuzz::targets(&root().join("fuzz"))?.join("\n"));
            Ok(())
        }
        ["fuzz", "--all"] => fuzz::all(&root(), fuzz::BRIEFLY),
        ["fuzz", "--all", seconds] => fuzz::all(&root(), seconds.parse()?),
        ["fuzz", target] => fuzz::run(target, 60),
        ["fuzz", target, seconds] => fuzz::run(target, seconds.parse()?),
        ["models", words @ ..] => models::chore(&root(), words),
        ["mutants"] => mutants::chore(&root(), None),
        ["mutants", word] => mutants::chore(&root(), Some(word)),
        ["package"] => package::check(&root()),
        ["soak", words @ ..] => soak::chore(words),
        ["install", words @ ..] => install::chore(&root(), words),
        ["tools"] => tools::packages(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("no such chore\n{USAGE}"),
    }
}
