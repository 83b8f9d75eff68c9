//! The demo program of `mote demo`: a web server on the loopback interface, and the clients that load it.
//!
//! It does a real job in a small way, and carries mote events as a program of your own could:
//!
//! | module | job | provider |
//! |---|---|---|
//! | `events` | declares the events of all of them | |
//! | `server` | accepts connections, returns requests | `http` |
//! | `pool` | the threads that do it, and the queue before them | `pool` |
//! | `content` | the documents that it serves | `content` |
//! | `message` | HTTP/1.1 as far as it is needed | |
//! | `client` | the load, and whether the answers are right | `client` |
//!
//! `slowest` looks at a recording of it.

mod client;
mod content;
mod events;
mod message;
mod pool;
mod server;
pub(crate) mod slowest;

use anyhow::Context;
use std::time::{Duration, Instant};

/// How much work to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Requests of all clients together.
    pub(crate) requests: u64,
    /// No new request after this time.
    pub(crate) limit: Duration,
}

/// Threads that answer.
const WORKERS: u32 = 4;
/// Threads that ask: more, so that connections have to queue.
const CLIENTS: u32 = 6;

/// Serves the load, and says in one line how it went.
///
/// # Errors
/// No socket or thread is to be had, or an answer was wrong.
pub(crate) fn run(load: Load) -> anyhow::Result<String> {
    let start = Instant::now();
    let server = server::Server::start(WORKERS).context("cannot start the demo's server on 127.0.0.1")?;
    let address = server.address();
    let plan = client::Plan { address, clients: CLIENTS, load, start };
    let tally = client::run(&plan);
    server.stop();
    let tally = tally?;
    let statuses: Vec<String> =
        tally.statuses.iter().map(|(status, count)| format!("{count} x {status}")).collect();
    let line = format!(
        "{} requests ({}) of {CLIENTS} clients by {WORKERS} threads in {} ms, {} KiB",
        tally.requests(),
        statuses.join(", "),
        start.elapsed().as_millis(),
        tally.bytes >> 10
    );
    anyhow::ensure!(tally.wrong == 0, "{line}; {} wrong", tally.wrong);
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_served_as_it_was_asked_for() {
        let limit = Duration::from_secs(60);
        let line = run(Load { requests: 300, limit }).expect("served");
        assert!(line.starts_with("300 requests ("), "{line}");
        assert!(line.contains("x 200") && line.contains("x 404") && line.contains("x 405"), "{line}");
        // The mix depends on nothing but the number of requests.
        let mix = |line: &str| line.split(')').next().map(str::to_owned);
        assert_eq!(mix(&run(Load { requests: 300, limit }).expect("served")), mix(&line));
    }

    #[test]
    fn no_time_is_no_load() {
        let line = run(Load { requests: 1000, limit: Duration::ZERO }).expect("served");
        assert!(line.starts_with("0 requests"), "{line}");
    }
}
