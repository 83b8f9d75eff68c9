//! Programs that go on until they are told to end, so that recordings can come and go.

use crate::words::Words;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_: i32) {
    OVER.store(true, Ordering::Relaxed);
}

/// Has SIGTERM end the program in an orderly way, and says that it is there.
pub(crate) fn begin() {
    // SAFETY: the handler stores to an atomic, and nothing else.
    unsafe { libc::signal(libc::SIGTERM, end as extern "C" fn(i32) as libc::sighandler_t) };
    println!("pid {}", std::process::id());
}

pub(crate) fn is_over() -> bool {
    OVER.load(Ordering::Relaxed)
}

/// `steady THREADS PAUSE`: threads that emit a hundred events and then pause for so many microseconds, until SIGTERM.
pub(crate) fn steady(words: &Words) {
    let (threads, pause) = (words.number(0), Duration::from_micros(words.number(1)));
    begin();
    let work = |who: u64| {
        let mut seq = 0;
        while !is_over() {
            for _ in 0..100 {
                mote::event!(e2e::steady, who: u64 = who, seq: u64 = seq);
                seq += 1;
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        seq
    };
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let named = |who| std::thread::Builder::new().name(format!("steady-{who}"));
        let threads: Vec<_> = (0..threads)
            .map(|who| named(who).spawn_scoped(scope, move || work(who)).expect("a thread"))
            .collect();
        println!("started 1");
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    println!("emitted {}", counts.iter().sum::<u64>());
    counts.iter().enumerate().for_each(|(who, count)| println!("thread-{who} {count}"));
}

/// `family PROGRAM`: a child every few milliseconds, of which every second one becomes the program with `count 5`,
/// until SIGTERM. Says when each has ended.
pub(crate) fn family(words: &Words) {
    begin();
    println!("started 1");
    let mut round = 0u64;
    while !is_over() {
        mote::event!(e2e::round, round: u64 = round);
        // SAFETY: this program has one thread beside the agent's.
        match unsafe { fork() }.expect("fork") {
            ForkResult::Parent { child } => drop(waitpid(child, None)),
            ForkResult::Child => {
                (0..10u64).for_each(|seq| mote::event!(e2e::forked, who: u64 = round, seq: u64 = seq));
                if round.is_multiple_of(2) {
                    let status = Command::new(words.text(0)).args(["count", "5"]).output();
                    assert!(status.is_ok_and(|output| output.status.success()));
                }
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) };
            }
        }
        println!("round {round}");
        round += 1;
        std::thread::sleep(Duration::from_millis(3));
    }
    println!("rounds {round}");
}

/// Emits before it is traced, waits until it is, and emits again.
pub(crate) fn late() {
    let emit = |seq: u64| mote::event!(e2e::early, seq: u64 = seq);
    (0..100).for_each(emit);
    println!("early {}", u8::from(mote::is_traced()));
    let until = Instant::now() + Duration::from_secs(60);
    while !mote::is_traced() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    for seq in 0..100u64 {
        mote::event!(e2e::late, seq: u64 = seq);
    }
}
