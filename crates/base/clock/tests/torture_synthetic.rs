//! The synthetic clock on a counter that wraps every 65536 ticks, read by threads and by a timer's
//! signal handler that interrupts the updater anywhere, also in the middle of an update.
//!
//! Only the updater's thread advances time, so time stands still while it is preempted, and the
//! condition on the period of updates holds by construction, on a loaded machine too. Readers may
//! be preempted for as long as the scheduler likes.
#![cfg(not(loom))]

use mote_clock::synthetic::Synthetic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const START: u64 = 0xabcd_0000;
static CLOCK: Synthetic<16> = Synthetic::new(START);
static TRUTH: AtomicU64 = AtomicU64::new(START);

static WRONG: AtomicU64 = AtomicU64::new(0);
static BACKWARDS: AtomicU64 = AtomicU64::new(0);
static IN_UPDATE: AtomicBool = AtomicBool::new(false);
static NESTED_READS: AtomicU64 = AtomicU64::new(0);
static NESTED_IN_UPDATE: AtomicU64 = AtomicU64::new(0);
static NESTED_ROUNDS: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Reads once, compares with the true time of the same reading; returns the time and the rounds.
fn check_read() -> (u64, u64) {
    let (mut truth, mut rounds) = (0, 0);
    let read = CLOCK.read(|| {
        truth = TRUTH.load(SeqCst);
        rounds += 1;
        truth & 0xffff
    });
    WRONG.fetch_add(u64::from(read != truth), Relaxed);
    (read, rounds)
}

extern "C" fn on_timer(_signal: libc::c_int) {
    let (_, rounds) = check_read();
    // On the updater's own thread the figure's reading has no delay, and must be right as well.
    let truth = TRUTH.load(SeqCst);
    WRONG.fetch_add(u64::from(CLOCK.read_bounded(|| truth) != truth), Relaxed);
    NESTED_READS.fetch_add(1, Relaxed);
    NESTED_ROUNDS.fetch_add(rounds, Relaxed);
    NESTED_IN_UPDATE.fetch_add(u64::from(IN_UPDATE.load(Relaxed)), Relaxed);
}

/// A timer that sends `SIGUSR1` to the calling thread every 50 us.
fn start_timer() -> libc::timer_t {
    // SAFETY: an all-zero sigaction is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_timer as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is valid, and the handler only touches atomics.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) }, 0);

    // SAFETY: an all-zero sigevent is valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGUSR1;
    // SAFETY: gettid has no conditions.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: both pointers are valid for the call.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
    assert_eq!(made, 0);
    let every = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    let spec = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: `timer` was just made, `spec` is valid.
    assert_eq!(unsafe { libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) }, 0);
    timer
}

/// Time passes in uneven steps, with an update after at most 0x7000 ticks.
fn run_updater(until: impl Fn() -> bool) {
    let mut step = 1;
    while !until() {
        let mut since_update = 0;
        while since_update < 0x6000 {
            step = (step * 5 + 1) & 0xfff;
            since_update += step;
            TRUTH.fetch_add(step, SeqCst);
        }
        IN_UPDATE.store(true, Relaxed);
        let now = CLOCK.update(|| {
            // Long enough that the timer often finds the updater here.
            (0..50).for_each(|_| std::hint::spin_loop());
            TRUTH.load(SeqCst)
        });
        IN_UPDATE.store(false, Relaxed);
        WRONG.fetch_add(u64::from(now != TRUTH.load(SeqCst)), Relaxed);
    }
}

fn run_reader() -> u64 {
    let (mut last, mut reads) = (0, 0);
    while !STOP.load(Relaxed) {
        let (now, _) = check_read();
        BACKWARDS.fetch_add(u64::from(now < last), Relaxed);
        (last, reads) = (now, reads + 1);
    }
    reads
}

#[test]
fn reads_are_exact_in_threads_and_in_handlers() {
    let readers = [(); 2].map(|()| thread::spawn(run_reader));
    let timer = start_timer();
    let start = Instant::now();
    run_updater(|| {
        let enough = NESTED_IN_UPDATE.load(Relaxed) >= 100;
        start.elapsed() > Duration::from_secs(if enough { 1 } else { 20 })
    });
    // SAFETY: `timer` is ours and not deleted yet.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    STOP.store(true, Relaxed);
    let reads: u64 = readers.map(|reader| reader.join().unwrap()).iter().sum();

    let wraps = (TRUTH.load(SeqCst) - START) >> 16;
    let nested = NESTED_READS.load(Relaxed);
    let in_update = NESTED_IN_UPDATE.load(Relaxed);
    eprintln!("{reads} reads over {wraps} wraps; {nested} in handlers, {in_update} inside updates");
    assert!(wraps > 100 && reads > 0 && in_update > 0, "nothing was put to the test");
    assert_eq!(NESTED_ROUNDS.load(Relaxed), nested, "a handler never needs a second round");
    assert_eq!((WRONG.load(Relaxed), BACKWARDS.load(Relaxed)), (0, 0), "wrong, backwards");
}
