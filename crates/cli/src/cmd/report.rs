//! `mote report`: sums up a recording.
use std::process::ExitCode;
/// Sum up a recording
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
/// Sums up.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
