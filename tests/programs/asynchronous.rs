//! Tasks that go from thread to thread, with spans of the crate tracing: `asynchronous HOW TASKS`, HOW being what the
//! program does about its subscriber: `init`, `layer`, `before` (its own, then `init`), `after` (`init`, an event, its
//! own).
//!
//! Prints how many events its own subscriber has seen.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use tracing::{Instrument, debug, info, info_span, subscriber, warn};
use tracing_subscriber::layer::SubscriberExt;

/// Threads that poll; a task that is not done goes to the next one. The events of a task are three polls apart: they
/// are on different threads.
const THREADS: usize = 4;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

static SEEN: AtomicUsize = AtomicUsize::new(0);

/// The program's own way to look at events.
struct Own;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Own {
    fn on_event(&self, _: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let tasks = words.get(2).and_then(|tasks| tasks.parse().ok()).unwrap_or(10);
    let own = || tracing_subscriber::registry().with(Own);
    match words.get(1).map(String::as_str) {
        Some("init") => assert!(mote_tracing::init()),
        Some("layer") => {
            subscriber::set_global_default(own().with(mote_tracing::layer())).expect("the only one")
        }
        Some("before") => {
            subscriber::set_global_default(own()).expect("the only one");
            assert!(!mote_tracing::init());
        }
        Some("after") => {
            assert!(mote_tracing::init());
            info!(name: "early", target: "app", number = 1);
            subscriber::set_global_default(own()).expect("init gives way");
        }
        _ => panic!("usage: asynchronous init|layer|before|after [TASKS]"),
    }
    run((0..tasks).map(|number| Box::pin(request(number)) as Task).collect());
    println!("seen {}", SEEN.load(Ordering::Relaxed));
}

/// Two events, in a span and in one inside it; it is polled five times.
fn request(number: u64) -> impl Future<Output = ()> {
    async move {
        warn!(name: "begin", target: "app", number);
        again(2).await;
        let step = async {
            again(1).await;
            debug!(name: "inside", target: "app", number);
            again(1).await;
        };
        step.instrument(info_span!(target: "app", "step", of = number)).await;
    }
    .instrument(info_span!(target: "app", "request", number))
}

/// Waits to be polled so many times.
async fn again(mut times: u32) {
    std::future::poll_fn(|_| {
        let left = times.checked_sub(1);
        times = left.unwrap_or(0);
        if left.is_some() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Polls all tasks until they are done, each time on another thread.
fn run(tasks: Vec<Task>) {
    let left = AtomicUsize::new(tasks.len());
    let (senders, receivers): (Vec<Sender<Option<Task>>>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    for (task, sender) in tasks.into_iter().zip(senders.iter().cycle()) {
        sender.send(Some(task)).expect("it listens");
    }
    std::thread::scope(|scope| {
        for (index, receiver) in receivers.into_iter().enumerate() {
            let (senders, left) = (&senders, &left);
            scope.spawn(move || poll_all(&receiver, &senders[(index + 1) % THREADS], senders, left));
        }
    });
}

fn poll_all(
    mine: &Receiver<Option<Task>>,
    next: &Sender<Option<Task>>,
    all: &[Sender<Option<Task>>],
    left: &AtomicUsize,
) {
    let mut context = Context::from_waker(Waker::noop());
    while let Ok(Some(mut task)) = mine.recv() {
        if task.as_mut().poll(&mut context).is_pending() {
            next.send(Some(task)).expect("it listens");
            continue;
        }
        drop(task);
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            all.iter().for_each(|sender| drop(sender.send(None)));
        }
    }
}
