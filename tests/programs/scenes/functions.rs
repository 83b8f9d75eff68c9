//! Functions that record their own calls as probes of functions do: one event when each returns, `f:NAME`, with its
//! duration.

use crate::words::Words;
use std::future::Future;
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

#[mote::probe]
fn leaf() {
    std::thread::sleep(PAUSE);
}

#[mote::probe("Tree::grow", depth: u32 = depth, name: &str = name)]
fn grow(depth: u32, name: &str) -> u32 {
    leaf();
    if depth == 0 { 0 } else { 1 + grow(depth - 1, name) }
}

/// Ends in two ways.
#[mote::probe(word: &str = word)]
fn number(word: &'static str) -> Result<u32, std::num::ParseIntError> {
    let number = word.parse()?;
    Ok(number)
}

#[mote::probe]
async fn later() -> u32 {
    std::future::ready(5).await
}

/// `attributed`: functions that record their calls themselves.
pub(crate) fn attributed(_: &Words) {
    assert_eq!(grow(2, "oak"), 2);
    assert_eq!((number("7").ok(), number("x").ok()), (Some(7), None));
    let mut waiting = std::pin::pin!(later());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), std::task::Poll::Ready(5));
}
