//! What a person can ask of a recording that runs: other rules, a snapshot, how it is.
//!
//! A recording's directory has a link, `mote/control`, to a socket in the recorder's own directory. One connection is one request
//! and one answer, each a line of JSON.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The link's name in the recording's inner directory, and the socket's in the recorder's.
pub(crate) const NAME: &str = "control";
/// Longest request: a filter may be long.
const REQUEST_MAX: u64 = 1 << 20;
/// How long the loop waits for a person's program that has connected and says nothing.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// These rules from now on, beside those that there are; one with the pattern of another takes its place.
    Enable {
        /// As `mote record --on` takes them.
        rules: Vec<String>,
    },
    /// No rule with one of these patterns any more.
    Disable {
        /// The patterns, as they were given.
        patterns: Vec<String>,
    },
    /// What the flight recorder holds is to be written down.
    Snapshot,
    /// How it is.
    Status,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub done: bool,
    /// What there is to say, for a person.
    pub text: String,
}

/// Where requests come in.
pub(crate) struct Control {
    pub(crate) listener: UnixListener,
    link: PathBuf,
}

impl Control {
    /// Listens in the recorder's own directory, and links to that from the recording's.
    pub(crate) fn open(own: &Path, recording: &Path) -> Result<Control, Error> {
        let failed = |why| Error::Loop { what: "listen for requests", why };
        let listener = UnixListener::bind(own.join(NAME)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let link = recording.join(mote_journal::DIRECTORY).join(NAME);
        symlink(own.join(NAME), &link).map_err(failed)?;
        Ok(Control { listener, link })
    }

    /// Serves one request, if somebody has connected.
    pub(crate) fn serve(&self, answer: impl FnOnce(Request) -> Answer) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let answer = match read_line(&stream) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(request) => answer(request),
                Err(why) => Answer { done: false, text: format!("the request is not understood: {why}") },
            },
            Err(_) => return,
        };
        // Who asks and does not wait for the answer has none.
        let _ = write_line(&stream, &answer);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
    }
}

/// Asks the recorder of a recording.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] and [`io::ErrorKind::ConnectionRefused`] when nobody records there (any more); others as they come.
pub fn ask(recording: &Path, request: &Request) -> io::Result<Answer> {
    // The socket's own path is short; that of the link may be longer than an address.
    let socket = std::fs::read_link(recording.join(mote_journal::DIRECTORY).join(NAME))?;
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write_line(&stream, request)?;
    Ok(serde_json::from_str(&read_line(&stream)?)?)
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    Ok(line)
}

fn write_line(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}
