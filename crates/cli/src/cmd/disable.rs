//! `mote disable`: takes rules out of a recording that runs.

use crate::running;
use mote_daemon::control::Request;
use std::path::PathBuf;
use std::process::ExitCode;

/// Record fewer events while a recording runs
///
/// Takes away all rules with a pattern, those of `mote record` and of `mote enable`. Events that no rule records any more
/// cost nothing again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote disable ./trace 'net:*'

`mote status DIR` shows the rules of a recording.

Exit status: 0 done, 2 failed.")]
pub(crate) struct Args {
    /// The directory of the recording
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// Patterns, as they were given to record or enable
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    running::ask(&args.recording, &Request::Disable { patterns: args.patterns.clone() })
}
