//! Threads that take connections from a queue.

use super::events;
use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A connection that waits for a thread.
struct Job {
    connection: u64,
    stream: TcpStream,
    since: Instant,
}

/// What the threads share.
#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    more: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

/// The threads.
pub(super) struct Pool {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads, which call `serve` with the number and the stream of each connection.
    pub(super) fn start(
        workers: u32,
        serve: impl Fn(u64, TcpStream) + Send + Clone + 'static,
    ) -> io::Result<Pool> {
        let queue = Arc::new(Queue::default());
        let mut pool = Pool { queue: Arc::clone(&queue), workers: Vec::new() };
        for worker in 0..workers {
            let (queue, serve) = (Arc::clone(&queue), serve.clone());
            let run = move || {
                while let Some(job) = queue.next() {
                    work(worker, job, &serve);
                }
            };
            pool.workers.push(thread::Builder::new().name(format!("worker-{worker}")).spawn(run)?);
        }
        Ok(pool)
    }

    /// Queues a connection.
    pub(super) fn add(&self, connection: u64, stream: TcpStream) {
        let mut jobs = self.queue.lock();
        jobs.waiting.push_back(Job { connection, stream, since: Instant::now() });
        mote::emit!(events::job_queued, connection, jobs.waiting.len() as u32);
        drop(jobs);
        self.queue.more.notify_one();
    }

    /// Lets the threads finish what is queued, and waits for them.
    pub(super) fn stop(self) {
        self.queue.lock().closed = true;
        self.queue.more.notify_all();
        for worker in self.workers {
            let _ = worker.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next connection; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        let waits = |jobs: &mut Jobs| jobs.waiting.is_empty() && !jobs.closed;
        let jobs = self.more.wait_while(self.lock(), waits);
        jobs.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }
}

fn work(worker: u32, job: Job, serve: &impl Fn(u64, TcpStream)) {
    mote::emit!(events::job_begin, job.connection, worker, nanos(job.since));
    let start = Instant::now();
    serve(job.connection, job.stream);
    mote::emit!(events::job_end, job.connection, worker, nanos(start));
}

/// Nanoseconds since `start`.
pub(super) fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
