//! `mote snapshot`: writes down what a flight recorder holds.

use crate::{out, running};
use mote_daemon::control::Request;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write down what a running flight recorder holds, while it goes on
///
/// The snapshot is a recording of its own beside the first: DIR.snapshot-1, DIR.snapshot-2, and so on. A filter can ask
/// for one too (`mote record --on 'PATTERN if EXPR do snapshot'`), as can the signal SIGUSR2 to the recorder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote record --mode overwrite -o ./trace -- ./server &
  mote snapshot ./trace

Exit status: 0 done, 2 failed.")]
pub(crate) struct Args {
    /// The directory of the recording
    #[arg(value_name = "DIR")]
    recording: PathBuf,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    running::ask(&args.recording, &Request::Snapshot, out::width())
}
