//! What a person can ask of a recording that runs: other rules, a snapshot, how it is.
//!
//! A recording's directory has a link, `mote/control`, to a socket in the recorder's own directory. One connection is one request
//! and one answer, each a line of JSON. Recorders ask one another, too.

use crate::error::Error;
use crate::trust::Trust;
use mote_filter::{Form, Rule};
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Wait};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The link's name in the recording's inner directory, and the socket's in the recorder's.
pub(crate) const NAME: &str = "control";
/// Longest request: a filter may be long.
const REQUEST_MAX: u64 = 1 << 20;
/// How long the loop waits for a person's program that has connected and says nothing. That one asks again, [`TRIES`] times: on a busy machine it may have had no
/// CPU meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
const TRIES: usize = 20;
/// How long that program waits for the answer: attaching to hundreds of events of the kernel takes its time.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// These rules from now on, beside those that there are; one with the pattern of another takes its place.
    Enable {
        /// Those about events of programs.
        rules: Vec<Given>,
        /// Those about events of the kernel.
        kernel: Vec<Given>,
    },
    /// No rule with one of these patterns any more; where there is none, no rule about their events.
    Disable {
        /// The patterns.
        patterns: Vec<String>,
        /// Those of kernel events.
        kernel: Vec<String>,
    },
    /// What the flight recorder holds is to be written down.
    Snapshot,
    /// How it is.
    Status,
    /// Another recorder wants a process of this recording, too; its mailbox comes beside the line.
    Join {
        /// The process.
        pid: i32,
        /// Where the other recorder is (`mote_wire::ENVIRONMENT`).
        place: String,
    },
}

/// A rule as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    form: String,
    pattern: String,
    source: String,
}

/// The forms, by their names in requests.
const FORMS: [(&str, Form); 5] = [
    ("on", Form::Whole),
    ("record", Form::Record),
    ("filter", Form::Filter),
    ("count", Form::Count),
    ("hist", Form::Histogram),
];

impl Given {
    /// A rule, as it was written.
    pub fn of(rule: &Rule) -> Given {
        let named = FORMS.iter().find(|(_, form)| *form == rule.form());
        let form = named.map_or("on", |(name, _)| name).to_owned();
        Given { form, pattern: rule.pattern().to_owned(), source: rule.source().to_owned() }
    }

    /// The rule.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub(crate) fn rule(&self) -> Result<Rule, String> {
        let form = FORMS.iter().find(|(name, _)| *name == self.form);
        let (_, form) = form.ok_or_else(|| format!("'{}' is no form of a rule", self.form))?;
        Rule::of(*form, &self.pattern, &self.source).map_err(|why| why.render())
    }
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
    pub(crate) fn serve(&self, answer: impl FnOnce(Request, Option<Fd>) -> Answer) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if !socket::peer(stream.as_raw_fd()).is_ok_and(|who| Trust::find().obeys(who.uid)) {
            return;
        }
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let answer = match read_request(&stream) {
            Ok((line, beside)) => match serde_json::from_str(&line) {
                Ok(request) => answer(request, beside),
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
    ask_at(&socket, request, None)
}

/// Asks the recorder behind a socket; a descriptor may go beside the request.
pub(crate) fn ask_at(socket: &Path, request: &Request, beside: Option<&Fd>) -> io::Result<Answer> {
    let line = line_of(request)?;
    for _ in 1..TRIES {
        match ask_once(socket, &line, beside) {
            // It has hung up before it had the whole line: nothing was done.
            Ok(answer) if answer.is_empty() => {}
            Err(why) if matches!(why.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
            answer => return Ok(serde_json::from_str(&answer?)?),
        }
    }
    Ok(serde_json::from_str(&ask_once(socket, &line, beside)?)?)
}

/// The line that is the answer; empty when there was none.
fn ask_once(socket: &Path, line: &str, beside: Option<&Fd>) -> io::Result<String> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let fds: Vec<i32> = beside.into_iter().map(Fd::raw).collect();
    let (first, rest) = line.as_bytes().split_at(1);
    socket::send(stream.as_raw_fd(), first, &fds, Wait::Yes).map_err(failed)?;
    (&stream).write_all(rest)?;
    read_line(&stream)
}

fn failed(why: mote_sys::Errno) -> io::Error {
    io::Error::from_raw_os_error(why.0)
}

/// A request, and the descriptor that came with its first byte.
fn read_request(stream: &UnixStream) -> io::Result<(String, Option<Fd>)> {
    let mut first = [0];
    let received = socket::receive(stream.as_raw_fd(), &mut first, Wait::Yes).map_err(failed)?;
    let beside = received.fds.into_iter().flatten().next();
    let rest = read_line(stream)?;
    Ok((format!("{}{rest}", char::from(first[0])), beside))
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    Ok(line)
}

fn write_line(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    stream.write_all(line_of(what)?.as_bytes())
}

fn line_of(what: &impl Serialize) -> io::Result<String> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    Ok(line)
}
