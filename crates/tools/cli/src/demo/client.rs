//! The demo's load: clients that ask always the same, and check the answers.

use super::content::{self, DOCUMENTS, Dice};
use super::message::{Method, Response, read_response, write_request};
use super::pool::nanos;
use super::{Load, events};
use anyhow::Context;
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Requests on one connection before the client makes another.
const ON_CONNECTION: u64 = 40;
/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Who asks whom, and how much.
pub(super) struct Plan {
    pub(super) address: SocketAddr,
    pub(super) clients: u32,
    pub(super) load: Load,
    pub(super) start: Instant,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Returns by status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Bytes of bodies.
    pub(super) bytes: u64,
    /// Returns that were not what they should have been.
    pub(super) wrong: u64,
}

impl Tally {
    /// Returns.
    pub(super) fn requests(&self) -> u64 {
        self.statuses.values().sum()
    }

    fn add(mut self, other: Tally) -> Tally {
        other
            .statuses
            .into_iter()
            .for_each(|(status, count)| *self.statuses.entry(status).or_default() += count);
        self.bytes += other.bytes;
        self.wrong += other.wrong;
        self
    }
}

/// Runs the clients, each on its thread, to the end of the load.
pub(super) fn run(plan: &Plan) -> anyhow::Result<Tally> {
    let tallies: io::Result<Vec<Tally>> = thread::scope(|scope| {
        let start = |client| {
            thread::Builder::new()
                .name(format!("client-{client}"))
                .spawn_scoped(scope, move || ask(plan, client))
        };
        let started: io::Result<Vec<_>> = (0..plan.clients).map(start).collect();
        let ended = started?
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a client died"))));
        ended.collect()
    });
    Ok(tallies.context("the demo's clients failed")?.into_iter().fold(Tally::default(), Tally::add))
}

/// One client: every so manieth request of the load is its own.
fn ask(plan: &Plan, client: u32) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut own = (u64::from(client)..plan.load.requests).step_by(plan.clients as usize).peekable();
    let in_time = || plan.start.elapsed() < plan.load.limit;
    while own.peek().is_some() && in_time() {
        let stream = TcpStream::connect(plan.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(&stream);
        for left in (0..ON_CONNECTION).rev() {
            let Some(request) = own.next() else { break };
            // In time and on time: the last one of a connection says so.
            let keep = left > 0 && own.peek().is_some() && in_time();
            one(&mut tally, client, request, &stream, &mut reader, keep)?;
            if !keep {
                break;
            }
        }
    }
    Ok(tally)
}

/// One request and its answer.
fn one(
    tally: &mut Tally,
    client: u32,
    request: u64,
    mut stream: &TcpStream,
    reader: &mut BufReader<&TcpStream>,
    keep: bool,
) -> io::Result<()> {
    let (method, path) = choose(request);
    let start = Instant::now();
    mote::emit!(events::request_sent, client, request, &path);
    write_request(&mut stream, method, &path, keep)?;
    let response = read_response(reader, method)?;
    mote::emit!(
        events::response_received,
        client,
        request,
        response.status,
        response.body.len() as u64,
        nanos(start)
    );
    if let Err(reason) = check(method, &path, &response) {
        tally.wrong += 1;
        mote::emit!(events::response_wrong, client, request, reason);
    }
    *tally.statuses.entry(response.status).or_default() += 1;
    tally.bytes += response.body.len() as u64;
    Ok(())
}

/// The request with this number: most want a small document, a few want work, some are wrong.
fn choose(request: u64) -> (Method, String) {
    let mut dice = Dice::new(request);
    let small = dice.below(8);
    let any = dice.below(u64::from(DOCUMENTS));
    match dice.below(100) {
        0..60 => (Method::Get, format!("/documents/{small}")),
        60..75 => (Method::Get, format!("/documents/{any}")),
        75..88 => (Method::Get, format!("/digests/{any}")),
        88..93 => (Method::Head, format!("/documents/{any}")),
        93..95 => (Method::Get, format!("/search/{}", content::word(any))),
        95..99 => (Method::Get, format!("/documents/{}", u64::from(DOCUMENTS) + any)),
        _ => (Method::Other, format!("/documents/{any}")),
    }
}

/// Whether the answer is that of the request.
fn check(method: Method, path: &str, response: &Response) -> Result<(), &'static str> {
    let document = path.strip_prefix("/documents/").and_then(|number| number.parse::<u32>().ok());
    let expected = match (method, document) {
        (Method::Other, _) => 405,
        (_, Some(number)) if number >= DOCUMENTS => 404,
        _ => 200,
    };
    if response.status != expected {
        return Err("the answer's status is not the expected one");
    }
    if method == Method::Get && response.body.len() as u64 != response.len {
        return Err("the answer's body was cut short");
    }
    if method == Method::Get && response.tag != Some(content::digest(&response.body)) {
        return Err("the answer's body does not match its digest");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_has_everything_and_mostly_small_documents() {
        let mut kinds: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for request in 0..4000 {
            let (method, path) = choose(request);
            let kind = path.split('/').nth(1).unwrap_or_default().to_owned();
            *kinds.entry((method.name(), kind)).or_default() += 1;
        }
        let count = |method, kind: &str| kinds.get(&(method, kind.to_owned())).copied().unwrap_or(0);
        assert!(count("GET", "documents") > 2800, "{kinds:?}");
        assert!(
            count("GET", "search") > 40
                && count("HEAD", "documents") > 100
                && count("DELETE", "documents") > 10
        );
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let right =
            || Response { status: 200, tag: Some(content::digest(b"ab")), len: 2, body: b"ab".to_vec() };
        assert_eq!(check(Method::Get, "/documents/1", &right()), Ok(()));
        assert!(check(Method::Get, "/documents/48", &right()).is_err());
        assert!(check(Method::Get, "/documents/1", &Response { tag: Some(1), ..right() }).is_err());
        assert!(check(Method::Get, "/documents/1", &Response { len: 3, ..right() }).is_err());
        assert!(check(Method::Other, "/documents/1", &Response { status: 405, ..right() }).is_ok());
    }
}
