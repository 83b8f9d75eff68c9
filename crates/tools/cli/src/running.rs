//! What the verbs share that speak with a recording that runs.

use anyhow::bail;
use mote_daemon::control::{self, Request};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// Asks, and prints the answer.
pub(crate) fn ask(recording: &Path, request: &Request) -> anyhow::Result<ExitCode> {
    let directory = recording.display();
    match control::ask(recording, request) {
        Ok(answer) if answer.done => {
            let _ = writeln!(io::stdout(), "{}", answer.text);
            Ok(ExitCode::SUCCESS)
        }
        Ok(answer) => bail!("{}", answer.text),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            bail!("nobody records to {directory} now; give the directory of a `mote record` that runs")
        }
        Err(why) => bail!("cannot ask the recorder of {directory}: {why}"),
    }
}
