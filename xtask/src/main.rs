//! Chores of the project: `cargo xtask test` passes all the tests, `cargo xtask tidy` checks the house.
#![forbid(unsafe_code)]

mod as_user;
mod fuzz;
mod install;
mod models;
mod mutants;
mod plan;
mod test;
mod tidy;

use anyhow::bail;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask test [--quick]   everything that must pass before a change lands; --quick leaves out torture and fuzzing
cargo xtask tidy             the checks of the project's structure alone
cargo xtask fuzz [TARGET [SECONDS]]   fuzzes what reads what others wrote; without a target lists them; --all: each for some seconds
cargo xtask models [--long] [NAME]   the models of the lock-free parts, by spin; --check: is the code still theirs; --bless NAME
cargo xtask mutants [WORD]   errors that are put into the code itself, which loom has to find
cargo xtask install          the Debian packages that the tests need";

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
        ["test"] => test::all(test::Depth::Full),
        ["test", "--quick"] => test::all(test::Depth::Quick),
        ["tidy"] => tidy::check(&root()),
        ["fuzz"] => {
            println!("{}", fuzz::targets(&root().join("fuzz"))?.join("\n"));
            Ok(())
        }
        ["fuzz", "--all"] => fuzz::briefly(&root()),
        ["fuzz", target] => fuzz::run(target, 60),
        ["fuzz", target, seconds] => fuzz::run(target, seconds.parse()?),
        ["models", words @ ..] => models::chore(&root(), words),
        ["mutants"] => mutants::chore(&root(), None),
        ["mutants", word] => mutants::chore(&root(), Some(word)),
        ["install"] => install::packages(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("no such chore\n{USAGE}"),
    }
}

/// The cargo that runs us.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The project's root, above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}
