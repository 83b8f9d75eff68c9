//! What a person can ask of a recording that runs: other rules, a snapshot, how it is; and how it is asked.
//!
//! A recording's directory has a link, `mote/control`, to a socket in the recorder's own directory. One connection is
//! one request and one answer, each a line of JSON ([`server`]). Recorders ask one another, too. Which recorder is
//! asked is known before anything is sent: the link leads wherever who made it likes.

pub(crate) mod join;
pub(crate) mod server;

use crate::registration::principal;
use crate::registration::sockets;
use mote_filter::{Form, Rule};
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Wait};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The link's name in the recording's inner directory, and the socket's in the recorder's.
pub(crate) const NAME: &str = sockets::CONTROL;
/// Longest request: a filter may be long.
pub(crate) const REQUEST_MAX: usize = 1 << 20;
/// How often a recorder is asked that hangs up without a word.
const TRIES: usize = 3;
/// How long a person's program waits for the answer: attaching to hundreds of events of the kernel takes its time.
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
        /// Functions that are to have probes, too, in all processes that are recorded.
        #[serde(default)]
        functions: Vec<String>,
        /// Functions whose calls have to be around those of the others.
        #[serde(default)]
        under: Vec<String>,
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
    Status {
        /// Columns of the terminal of the command that asks, where there is one.
        #[serde(default)]
        columns: Option<u16>,
    },
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
        let (_, form) = form.ok_or_else(|| {
            format!("there is no kind of rule called '{}': use the same mote for both", self.form)
        })?;
        Rule::of(*form, &self.pattern, &self.source).map_err(|why| why.render())
    }
}

/// The version of requests and answers. Another one is refused, whichever side is older.
pub const VERSION: u32 = 1;

/// A request or an answer with its version, as it goes over the socket.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    /// The version.
    mote: u32,
    #[serde(flatten)]
    what: T,
}

/// The line of a request.
///
/// # Errors
/// What is wrong with it, for a person.
pub(crate) fn understand(line: &[u8]) -> Result<Request, String> {
    parse(line, "request")
}

fn parse<T: DeserializeOwned>(line: &[u8], what: &str) -> Result<T, String> {
    /// All versions have this.
    #[derive(Deserialize)]
    struct Version {
        mote: Option<u32>,
    }
    let malformed = |why| format!("cannot understand the {what}: {why}");
    let Version { mote } = serde_json::from_slice(line).map_err(malformed)?;
    if mote != Some(VERSION) {
        let theirs = mote.map_or("none".to_owned(), |version| version.to_string());
        return Err(format!(
            "the {what} has version {theirs} of mote's control protocol, not {VERSION}: use the same mote for both"
        ));
    }
    serde_json::from_slice(line).map(|Versioned { what, .. }| what).map_err(malformed)
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub done: bool,
    /// What there is to say, for a person.
    pub text: String,
}

/// Asks the recorder of a recording: one of ours, of root's, or, when we are root, of the recording's owner.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] and [`io::ErrorKind::ConnectionRefused`] when nobody records there (any more);
/// [`io::ErrorKind::PermissionDenied`] when it is somebody else's; others as they come.
pub fn ask(recording: &Path, request: &Request) -> io::Result<Answer> {
    // The socket's own path is short; that of the link may be longer than an address.
    let socket = std::fs::read_link(recording.join(mote_journal::DIRECTORY).join(NAME))?;
    let (trust, owner) = (principal::trust(), std::fs::metadata(recording)?.uid());
    ask_at(&socket, request, |uid| trust.asks(uid, owner), None)
}

/// Asks the recorder behind a socket if that is a `wanted` user's; a descriptor may go beside the request.
pub(crate) fn ask_at(
    socket: &Path,
    request: &Request,
    wanted: impl Fn(u32) -> bool,
    beside: Option<&Fd>,
) -> io::Result<Answer> {
    let line = line_of(request)?;
    for _ in 1..TRIES {
        match ask_once(socket, &line, &wanted, beside) {
            // It has hung up before it had the whole line: nothing was done.
            Ok(answer) if answer.is_empty() => {}
            Err(why) if matches!(why.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
            answer => return answer_in(&answer?),
        }
    }
    answer_in(&ask_once(socket, &line, &wanted, beside)?)
}

fn answer_in(line: &[u8]) -> io::Result<Answer> {
    parse(line, "answer").map_err(io::Error::other)
}

/// The line that is the answer; empty when there was none.
fn ask_once(
    socket: &Path,
    line: &str,
    wanted: impl Fn(u32) -> bool,
    beside: Option<&Fd>,
) -> io::Result<Vec<u8>> {
    let (mut stream, _) = sockets::call(socket, wanted)?;
    let until = Instant::now() + ANSWER_PATIENCE;
    stream.set_write_timeout(Some(ANSWER_PATIENCE))?;
    let fds: Vec<i32> = beside.into_iter().map(Fd::raw).collect();
    let (first, rest) = line.as_bytes().split_at(1);
    let sent = socket::send(stream.as_raw_fd(), first, &fds, Wait::Yes);
    sent.map_err(|why| io::Error::from_raw_os_error(why.0))?;
    stream.write_all(rest)?;
    let mut answer = Vec::new();
    // However slowly it speaks: in all it has so much time, and so many bytes.
    while !answer.contains(&b'\n') && answer.len() <= REQUEST_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => answer.extend_from_slice(piece.get(..len).unwrap_or(&[])),
            Err(why) if matches!(why.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(answer)
}

/// A request or an answer as it goes over the socket.
pub(crate) fn line_of(what: &impl Serialize) -> io::Result<String> {
    let mut line = serde_json::to_string(&Versioned { mote: VERSION, what })?;
    line.push('\n');
    Ok(line)
}
