//! Readers in signal handlers, wherever they interrupt a reader or an updater of the same thread.

use mote_reclaim::*;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

const GONE: u64 = 0;

/// A value that is scribbled over before it is freed.
struct Live(AtomicU64);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.store(GONE, SeqCst);
    }
}

struct World {
    library: Rcu<Live, Library>,
    expedited: Rcu<Live, Expedited>,
    general: Rcu<Live, General>,
    signal: Rcu<Live, Signal>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| World {
    library: Rcu::new(Live(AtomicU64::new(1))),
    expedited: Rcu::new(Live(AtomicU64::new(1))),
    general: Rcu::new(Live(AtomicU64::new(1))),
    signal: Rcu::new(Live(AtomicU64::new(1))),
});
static IN_HANDLERS: AtomicU64 = AtomicU64::new(0);
static VIOLATIONS: AtomicU64 = AtomicU64::new(0);

fn look(live: &Live) {
    if live.0.load(SeqCst) == GONE {
        VIOLATIONS.fetch_add(1, SeqCst);
    }
}

fn look_at_all() {
    let guard = library::read();
    look(WORLD.library.dereference(&guard));
    if let Some(guard) = Expedited::try_read() {
        look(WORLD.expedited.dereference(&guard));
    }
    if let Some(guard) = General::try_read() {
        look(WORLD.general.dereference(&guard));
    }
    if let Some(guard) = Signal::try_read() {
        look(WORLD.signal.dereference(&guard));
    }
    look(WORLD.library.dereference(&guard));
}

extern "C" fn handler(_: i32) {
    look_at_all();
    let _ = start_poll::<Library>().is_done();
    IN_HANDLERS.fetch_add(1, SeqCst);
}

#[test]
fn handlers_read_inside_readers_and_updaters() {
    LazyLock::force(&WORLD);
    // SAFETY: the handler only reads under guards and adds to atomics.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as usize) };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (reader_id, reader_there) = std::sync::mpsc::channel();
        let (updater_id, updater_there) = std::sync::mpsc::channel();
        let stop = &stop;
        scope.spawn(move || {
            let _threads = (
                Thread::<Expedited>::register().unwrap(),
                Thread::<General>::register().unwrap(),
                Thread::<Signal>::register().unwrap(),
            );
            // SAFETY: the thread's own id.
            reader_id.send(unsafe { libc::pthread_self() }).unwrap();
            while !stop.load(SeqCst) {
                look_at_all();
            }
        });
        scope.spawn(move || {
            // SAFETY: the thread's own id.
            updater_id.send(unsafe { libc::pthread_self() }).unwrap();
            let mut number = 2;
            while !stop.load(SeqCst) {
                drop(WORLD.library.swap(Live(AtomicU64::new(number))).synchronize());
                drop(WORLD.expedited.swap(Live(AtomicU64::new(number))).synchronize());
                drop(WORLD.general.swap(Live(AtomicU64::new(number))).synchronize());
                drop(WORLD.signal.swap(Live(AtomicU64::new(number))).synchronize());
                number += 1;
            }
        });
        let targets = [reader_there.recv().unwrap(), updater_there.recv().unwrap()];
        while IN_HANDLERS.load(SeqCst) < 5_000 {
            for target in targets {
                // SAFETY: both threads run until `stop`.
                unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
            }
            thread::yield_now();
        }
        stop.store(true, SeqCst);
    });
    assert_eq!(VIOLATIONS.load(SeqCst), 0);
}

#[test]
fn a_threads_first_section_may_be_in_a_handler() {
    LazyLock::force(&WORLD);
    for _ in 0..200 {
        // SAFETY: the handler only reads under guards and adds to atomics.
        unsafe { libc::signal(libc::SIGUSR2, handler as *const () as usize) };
        let fresh = thread::spawn(|| {
            // SAFETY: sends to the calling thread.
            unsafe { libc::raise(libc::SIGUSR2) };
            look_at_all();
        });
        fresh.join().unwrap();
    }
    synchronize::<Library>();
    assert_eq!(VIOLATIONS.load(SeqCst), 0);
}
