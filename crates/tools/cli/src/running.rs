//! What the verbs share that speak with a recording that runs.

use crate::out;
use anyhow::bail;
use mote_daemon::control::{self, Request};
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

/// Asks, and prints the answer.
pub(crate) fn ask(recording: &Path, request: &Request) -> anyhow::Result<ExitCode> {
    let directory = recording.display();
    match control::ask(recording, request) {
        Ok(answer) if answer.done => {
            out::print(&format!("{}\n", answer.text))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(answer) => bail!("{}", answer.text),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            bail!("no recording is running in {directory}; give the directory of a running `mote record`")
        }
        Err(why) => bail!("cannot ask the recorder of {directory}: {why}"),
    }
}
