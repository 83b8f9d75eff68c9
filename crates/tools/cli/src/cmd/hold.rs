//! `mote __hold`: becomes a command, once a recorder has let it.

use anyhow::Context;
use mote_sys::{process, thread};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Stop, and become a command when continued
///
/// For recorders that put probes into a command's functions before its first instruction.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote __hold MOTE_SESSION=... ./app --port 80    becomes ./app once SIGCONT has come")]
pub(crate) struct Args {
    /// A variable for its environment: NAME=VALUE
    variable: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (name, value) = args.variable.split_once('=').context("a variable has a value")?;
    let (program, words) = args.command.split_first().context("which command?")?;
    // A recorder that dies meanwhile does not leave the command stopped.
    let recorder = process::parent();
    let cannot = |why| anyhow::anyhow!("cannot stop: {why}");
    process::signal_at_parents_end(libc::SIGCONT).map_err(cannot)?;
    if process::parent() == recorder {
        thread::send_signal(process::pid(), process::tid(), libc::SIGSTOP).map_err(cannot)?;
    }
    process::signal_at_parents_end(0).map_err(cannot)?;
    let why = Command::new(program).args(words).env(name, value).exec();
    say!("cannot run {}: {why}", program.display());
    Ok(ExitCode::from(127))
}
