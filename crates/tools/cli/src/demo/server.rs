//! The demo's server: accepts connections, returns requests.
//!
//! | path | answer |
//! |---|---|
//! | `/documents/N` | a document |
//! | `/digests/N` | its digest in hexadecimal digits |
//! | `/search/WORD` | how often a word occurs in all of them: slow |

use super::content::{Content, digest};
use super::events;
use super::message::{Method, Request, read_request, write_response};
use super::pool::{Pool, nanos};
use std::borrow::Cow;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A request that takes longer than this is slow.
const SLOW_NANOS: u64 = 1_000_000;
/// How long to wait for a client's next request.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
pub(super) struct Server {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    acceptor: JoinHandle<()>,
}

impl Server {
    /// Starts a server with that many threads on a free port of the loopback interface.
    pub(super) fn start(workers: u32) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let content = Arc::new(Content::new());
        let pool = Pool::start(workers, move |connection, stream| serve(connection, &stream, &content))?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let accept = move || {
            accept(&listener, &pool, &stop);
            pool.stop();
        };
        let acceptor = thread::Builder::new().name("acceptor".to_owned()).spawn(accept)?;
        Ok(Server { address, stopping, acceptor })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what has been asked, and ends.
    pub(super) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        let _ = self.acceptor.join();
    }
}

fn accept(listener: &TcpListener, pool: &Pool, stopping: &AtomicBool) {
    for (connection, stream) in (0..).zip(listener.incoming()) {
        if stopping.load(Ordering::Acquire) {
            return;
        }
        if let Ok(stream) = stream {
            let port = stream.peer_addr().map_or(0, |peer| peer.port());
            mote::emit!(events::connection_accepted, connection, port);
            pool.add(connection, stream);
        }
    }
}

/// Returns the requests of one connection.
fn serve(connection: u64, stream: &TcpStream, content: &Content) {
    let mut requests = 0;
    let ended = talk(connection, stream, content, &mut requests);
    if let Err(error) = ended {
        mote::emit!(events::request_bad, connection, &error.to_string());
    }
    mote::emit!(events::connection_closed, connection, requests);
}

fn talk(connection: u64, mut stream: &TcpStream, content: &Content, requests: &mut u32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let start = Instant::now();
        let number = *requests;
        *requests += 1;
        mote::emit!(events::request_start, connection, number, request.method, &request.path);
        let (status, body) = answer(&request, content);
        let bytes = write_response(&mut stream, request.method, status, digest(&body), &body)?;
        let taken = nanos(start);
        mote::emit!(events::request_done, connection, number, status, bytes, taken);
        if taken > SLOW_NANOS {
            mote::emit!(events::request_slow, connection, number, &request.path, taken);
        }
        if !request.keep {
            break;
        }
    }
    Ok(())
}

/// Status and body for a request.
fn answer<'c>(request: &Request, content: &'c Content) -> (u16, Cow<'c, [u8]>) {
    if request.method == Method::Other {
        return (405, Cow::Borrowed(b"only GET and HEAD"));
    }
    let (kind, what) = request.path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let found = match kind {
        "documents" => what.parse().ok().and_then(|number| content.body(number)).map(Cow::Borrowed),
        "digests" => {
            let digest = what.parse().ok().and_then(|number| content.digest(number));
            digest.map(|digest| Cow::Owned(format!("{digest:016x}").into_bytes()))
        }
        "search" => Some(Cow::Owned(content.search(what).to_string().into_bytes())),
        _ => None,
    };
    found.map_or((404, Cow::Borrowed(b"no such document")), |body| (200, body))
}
