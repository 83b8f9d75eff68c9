//! `mote status`: how a recording is that runs.

use crate::{out, running};
use mote_daemon::control::Request;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a running recording records, and what it has so far
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote status ./trace

Exit status: 0 it runs, 2 it does not.")]
pub(crate) struct Args {
    /// The directory of the recording
    #[arg(value_name = "DIR")]
    recording: PathBuf,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let width = out::width();
    let columns = width.and_then(|width| u16::try_from(width).ok());
    running::ask(&args.recording, &Request::Status { columns }, width)
}
