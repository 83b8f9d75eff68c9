//! A program with events and spans of `tracing`, whose number is known: run it as `mote record -- spans [ROUNDS]`.
//!
//! Prints how many mote events it has made when all of them are recorded.

use tracing::{debug, error, info, info_span, trace, warn};

/// Events that one call of [`round`] makes.
const EVENTS_IN_ROUND: usize = 17;

fn main() {
    mote_tracing::init();
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || (0..rounds).for_each(|number| round(thread, number)));
        }
    });
    println!("{}", threads * rounds * EVENTS_IN_ROUND);
}

/// A span in a span, with events of each type of field.
fn round(thread: usize, number: usize) {
    // New, enter: 2.
    let request = info_span!("request", thread, number, path = "/index.html", status = tracing::field::Empty);
    let inside = request.enter();
    // Events: 5.
    info!(name: "accepted", port = 80_u16, secure = number.is_multiple_of(2), "a connection from {thread}");
    debug!(ratio = number as f64 / 4.0, offset = -(number as i64), what = ?Some(number));
    warn!(target: "app::cache", key = %number, "miss");
    trace!(bytes = &b"\x01\x02"[..], wide = u128::MAX);
    error!(
        error = &std::io::Error::from_raw_os_error(2) as &dyn std::error::Error,
        long = "x".repeat(1000),
        "failed"
    );
    // New, enter, exit, close: 4.
    info_span!("parse", length = number).in_scope(|| ());
    // Record: 1.
    request.record("status", 200);
    // New, follows, close: 3.
    let reply = info_span!("reply");
    reply.follows_from(&request);
    drop(reply);
    // Exit, close: 2.
    drop(inside);
    drop(request);
}
