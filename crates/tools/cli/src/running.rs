//! What the verbs share that speak with a recording that runs.

use crate::out;
use anyhow::bail;
use mote_daemon::control::{self, Request};
use mote_words::wrapped;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

/// Asks, and prints the answer, in lines of so many columns where there is a limit.
pub(crate) fn ask(recording: &Path, request: &Request, width: Option<usize>) -> anyhow::Result<ExitCode> {
    let directory = recording.display();
    match control::ask(recording, request) {
        Ok(answer) if answer.done => {
            let text = wrapped(&answer.text, width.unwrap_or(usize::MAX), 6);
            out::print(&format!("{text}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(answer) => bail!("{}", answer.text),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            bail!("no recording is running in {directory}; give the directory of a running `mote record`")
        }
        Err(why) => bail!("cannot ask the recorder of {directory}: {why}"),
    }
}
