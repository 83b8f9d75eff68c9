//! `mote pt diff`: paths of calls that one capture has and another has not, or with other instructions.

mod found;
mod json;
mod marks;
mod page;
mod text;

use super::gather;
use super::shown::{self, Format};
use crate::{cmd, out};
use found::{Found, Read};
use mote_hardware::paths::diff;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what another capture executes that this one does not: by paths of calls
///
/// A path is a function with those that have called it; it has the instructions that it executed itself. Of a path that
/// only one of both has, those behind it count with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt diff before after                   all of both
  mote pt diff before after --syscalls        what the kernel does in system calls
  mote pt diff before after --format json
  mote pt diff before after --html diff.html

Functions are the same where their names are. Threads count together.

Exit status: 0 there are differences, 1 there are none, 2 failed.")]
pub(super) struct Args {
    /// A capture, as of the other verbs
    #[arg(value_name = "A")]
    first: PathBuf,

    /// Another one
    #[arg(value_name = "B")]
    second: PathBuf,

    /// Only what the kernel does in system calls
    #[arg(long)]
    syscalls: bool,

    /// Show so many of the largest differences
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 40)]
    limit: usize,

    /// Leave out differences of fewer instructions
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    least: u64,

    /// Write a page with pictures into FILE, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// What to print: for people, or JSON objects
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut sides = [read(&args.first, args.syscalls)?, read(&args.second, args.syscalls)?];
    let files = sides.each_ref().map(Read::files);
    sides.iter_mut().for_each(|side| side.forget_all_but(&files));
    let mut differences = diff([sides[0].side(), sides[1].side()]);
    differences.retain(|one| one.more().unsigned_abs() >= u128::from(args.least));
    let paths = [&args.first, &args.second].map(|path| path.display().to_string());
    let found = Found { paths, is_of_syscalls: args.syscalls, limit: args.limit, sides, differences };
    out::print(&match args.format {
        Format::Text => text::page(&found),
        Format::Json => json::objects(&found).iter().map(|object| format!("{object}\n")).collect(),
    })?;
    if let Some(path) = &args.html {
        super::output::page(path, &page::page(&found))?;
    }
    Ok(if found.differences.is_empty() { cmd::NOTHING.into() } else { ExitCode::SUCCESS })
}

fn read(path: &std::path::Path, syscalls: bool) -> anyhow::Result<Read> {
    let input = shown::Input::whole(path);
    if !syscalls {
        let (functions, tree) = gather::whole(&input)?;
        return Ok(Read { functions, tree, calls: BTreeMap::new() });
    }
    let found = gather::syscalls(&input)?;
    anyhow::ensure!(
        !found.of.calls.is_empty(),
        "{} has no system call whose kernel side is known: mote pt record --kernel, or synth --engine system",
        path.display()
    );
    Ok(Read { functions: found.functions, tree: found.of.tree, calls: found.of.calls })
}
