//! The server where requests come in: one connection is one request and one answer, each a line of JSON.
//!
//! No visitor is waited for. Each has a state of its own: its request is read as it comes, and its answer written
//! as it is taken, however slowly. It has so many bytes and so much time, and each user so many visitors. What cannot
//! be answered at once is answered later, under the [`Ticket`] of its request ([`Server::answer`]).

use crate::control::{self, Answer, NAME, REQUEST_MAX, Request, line_of};
use crate::error::Error;
use crate::output::folder::Folder;
use crate::registration::sockets::Sockets;
use mote_session::Ticket;
use mote_session::trust::Trust;
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Wait};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Visitors at the same time, and of one user.
const VISITORS_MAX: usize = 32;
const VISITORS_OF_USER: usize = 16;
/// How long a visitor may take for its request, and to take its answer; on a busy machine a program may have no CPU for
/// long.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an answer may be in the making.
const MAKING: Duration = Duration::from_secs(600);
/// Read at once, and in one turn of one visitor.
const PIECE: usize = 8 << 10;
const PIECES: usize = 8;

/// Where requests come in.
pub(crate) struct Server {
    trust: Trust,
    listener: UnixListener,
    /// Where the link is.
    inner: Folder,
    visitors: Vec<Visitor>,
    tickets: u64,
}

struct Visitor {
    ticket: Ticket,
    uid: u32,
    stream: UnixStream,
    stage: Stage,
    /// Not longer in this stage.
    until: Instant,
}

enum Stage {
    /// Its request is coming in, with a descriptor beside it.
    Asking { line: Vec<u8>, beside: Option<Fd> },
    /// The answer is in the making.
    Waiting,
    /// The answer is going out: what is left of it.
    Hearing { left: Vec<u8> },
}

/// What a visitor's turn came to.
enum Turn {
    Stays,
    Asks(Vec<u8>, Option<Fd>),
    Goes,
}

impl Server {
    /// Listens in the recorder's own directory, and links to that from the recording's.
    pub(crate) fn open(sockets: &Sockets, trust: Trust, inner: &Folder) -> Result<Server, Error> {
        let failed = |why| Error::Loop { what: "listen for requests", why };
        let listener = sockets.listen(NAME, |path| UnixListener::bind(path)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        socket::pass_credentials(listener.as_raw_fd()).map_err(|why| failed(of_errno(why)))?;
        inner.link(NAME, &sockets.path().join(NAME)).map_err(failed)?;
        Ok(Server { trust, listener, inner: inner.clone(), visitors: Vec::new(), tickets: 0 })
    }

    /// What to wait for.
    pub(crate) fn polled(&self) -> impl Iterator<Item = libc::pollfd> {
        // A visitor for whom there is no room waits outside.
        let has_room = self.visitors.len() < VISITORS_MAX;
        let listener = if has_room { self.listener.as_raw_fd() } else { -1 };
        let visitors = self.visitors.iter().map(|visitor| {
            let events = match visitor.stage {
                Stage::Asking { .. } => libc::POLLIN,
                // That it has gone is told in any case.
                Stage::Waiting => 0,
                Stage::Hearing { .. } => libc::POLLOUT,
            };
            (visitor.stream.as_raw_fd(), events)
        });
        std::iter::once((listener, libc::POLLIN)).chain(visitors).map(|(fd, events)| libc::pollfd {
            fd,
            events,
            revents: 0,
        })
    }

    /// Lets visitors in, and gives each a turn. Returns the requests that are whole; each waits for its answer
    /// ([`Server::answer`]).
    pub(crate) fn serve(&mut self) -> Vec<(Ticket, Request, Option<Fd>)> {
        self.let_in();
        let trust = self.trust;
        let mut requests = Vec::new();
        self.visitors.retain_mut(|visitor| match visitor.turn(trust) {
            Turn::Stays => Instant::now() < visitor.until,
            Turn::Goes => false,
            Turn::Asks(line, beside) => match control::understand(&line) {
                Ok(request) => {
                    requests.push((visitor.ticket, request, beside));
                    visitor.enter(Stage::Waiting, MAKING)
                }
                Err(text) => visitor.hear(&Answer { done: false, text }),
            },
        });
        requests
    }

    /// Gives the answer to a request that was served before. A visitor that has not waited for it gets none.
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: &Answer) {
        let is_it = |visitor: &Visitor| visitor.ticket == ticket && matches!(visitor.stage, Stage::Waiting);
        if let Some(at) = self.visitors.iter().position(is_it)
            && !self.visitors.get_mut(at).is_some_and(|visitor| visitor.hear(answer))
        {
            self.visitors.swap_remove(at);
        }
    }

    fn let_in(&mut self) {
        while self.visitors.len() < VISITORS_MAX {
            let Ok((stream, _)) = self.listener.accept() else { return };
            let Ok(peer) = socket::peer(stream.as_raw_fd()) else { continue };
            let known = self.visitors.iter().filter(|visitor| visitor.uid == peer.uid).count();
            if !self.trust.obeys(peer.uid)
                || known >= VISITORS_OF_USER
                || stream.set_nonblocking(true).is_err()
            {
                continue;
            }
            self.tickets += 1;
            self.visitors.push(Visitor {
                ticket: Ticket(self.tickets),
                uid: peer.uid,
                stream,
                stage: Stage::Asking { line: Vec::new(), beside: None },
                until: Instant::now() + PATIENCE,
            });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let over = Answer { done: false, text: "the recording has ended in the meantime".to_owned() };
        let waiting = self.visitors.iter_mut().filter(|visitor| matches!(visitor.stage, Stage::Waiting));
        for visitor in waiting {
            let _ = visitor.hear(&over);
        }
        self.inner.remove(NAME);
    }
}

impl Visitor {
    /// Reads or writes what can be without waiting.
    fn turn(&mut self, trust: Trust) -> Turn {
        match &mut self.stage {
            Stage::Asking { line, beside } => match read(&self.stream, line, beside, trust) {
                Read::Whole => Turn::Asks(std::mem::take(line), beside.take()),
                Read::Part => Turn::Stays,
                Read::Nothing => Turn::Goes,
            },
            Stage::Waiting if has_gone(&self.stream) => Turn::Goes,
            Stage::Waiting => Turn::Stays,
            Stage::Hearing { left } => match write(&self.stream, left) {
                true => Turn::Stays,
                false => Turn::Goes,
            },
        }
    }

    /// Begins to give it its answer; false when that is done, or the visitor has gone.
    fn hear(&mut self, answer: &Answer) -> bool {
        let mut left = line_of(answer).unwrap_or_default().into_bytes();
        write(&self.stream, &mut left) && self.enter(Stage::Hearing { left }, PATIENCE)
    }

    fn enter(&mut self, stage: Stage, patience: Duration) -> bool {
        (self.stage, self.until) = (stage, Instant::now() + patience);
        true
    }
}

enum Read {
    /// The whole line is there.
    Whole,
    /// More is to come.
    Part,
    /// No more is to come, or it is not to be listened to.
    Nothing,
}

/// Reads what has come of a line, up to its end; what comes behind that is nobody's.
fn read(stream: &UnixStream, line: &mut Vec<u8>, beside: &mut Option<Fd>, trust: Trust) -> Read {
    for _ in 0..PIECES {
        let mut piece = [0; PIECE];
        let received = match socket::receive(stream.as_raw_fd(), &mut piece, Wait::No) {
            Ok(received) => received,
            Err(mote_sys::Errno(libc::EAGAIN | libc::EINTR)) => return Read::Part,
            Err(_) => return Read::Nothing,
        };
        // The process that has connected need not be the one that speaks.
        let is_obeyed = received.sender.is_some_and(|sender| trust.obeys(sender.uid));
        if received.len == 0 || !is_obeyed {
            return Read::Nothing;
        }
        if beside.is_none() {
            *beside = received.fds.into_iter().flatten().next();
        }
        let piece = piece.get(..received.len).unwrap_or(&[]);
        let end = piece.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(piece.get(..end.unwrap_or(piece.len())).unwrap_or(&[]));
        match end {
            Some(_) => return Read::Whole,
            None if line.len() > REQUEST_MAX => return Read::Nothing,
            None => {}
        }
    }
    Read::Part
}

/// Writes what can be written; false when nothing is left, or the visitor has gone.
fn write(mut stream: &UnixStream, left: &mut Vec<u8>) -> bool {
    while !left.is_empty() {
        match stream.write(left) {
            Ok(0) => return false,
            Ok(written) => drop(left.drain(..written)),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return why.kind() == ErrorKind::WouldBlock,
        }
    }
    false
}

fn has_gone(stream: &UnixStream) -> bool {
    let mut polled = [libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 }];
    socket::wait_any(&mut polled, 0).is_ok_and(|count| count > 0)
}

fn of_errno(why: mote_sys::Errno) -> io::Error {
    io::Error::from_raw_os_error(why.0)
}
