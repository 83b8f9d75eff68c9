//! Functions that record their own calls as probes of functions do: one event when each returns, `f:NAME`, with its
//! duration.

use crate::Words;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between what has to be told apart: far more than from the end of a call to its event.
const PAUSE: Duration = Duration::from_millis(2);

/// Most nanoseconds between the end of a call and its event.
static LATE: AtomicU64 = AtomicU64::new(0);

/// Runs the body of a function, and records its call. Returns what the body does, and how long it took.
macro_rules! called {
    ($name:ident, $body:expr) => {{
        let begin = Instant::now();
        std::thread::sleep(PAUSE);
        let inside: u64 = $body;
        std::thread::sleep(PAUSE);
        let end = Instant::now();
        let duration = (end - begin).as_nanos() as u64;
        mote::event!(f::$name, duration: u64 = duration, inside: u64 = inside);
        LATE.fetch_max(end.elapsed().as_nanos() as u64, Ordering::Relaxed);
        duration
    }};
}

fn token() -> u64 {
    called!(token, 0)
}

/// Calls itself so many times, each in the one before, and `token` at last.
fn parse(depth: u64) -> u64 {
    called!(parse, if depth > 0 { parse(depth - 1) } else { token() })
}

fn serve() -> u64 {
    called!(serve, parse(1) + token() + token())
}

/// `functions THREADS N`: each thread serves N times: serve { parse { parse { token } }, token, token }. Prints how
/// late an event came at most, in microseconds.
pub(crate) fn functions(words: &Words) {
    let times = words.number(1);
    let threads = (0..words.number(0)).map(|_| {
        std::thread::spawn(move || {
            for _ in 0..times {
                mote::event!(app::begin);
                serve();
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("it ends"));
    println!("late_us {}", LATE.load(Ordering::Relaxed) / 1000);
}
