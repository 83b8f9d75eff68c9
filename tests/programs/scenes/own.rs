//! Programs that use mote for themselves: their own switches and probes, and quick text.

use crate::sites;
use crate::words::Words;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events that take probes.
mod http {
    mote::tracepoint! {
        /// A request was answered.
        pub request_done in own { seq: u64, path: &str }
        /// The same, in a child.
        pub in_child in own { seq: u64 }
    }
}

static CHECKS: mote::Switch = mote::Switch::new();
static OTHERS: mote::Switch = mote::Switch::new();

/// Its only site.
#[inline(never)]
fn request(seq: u64) {
    mote::emit!(http::request_done, seq, "/index");
}

/// `probed N`: N events, of which one probe sees all, and another one, that comes and goes, half.
pub(crate) fn probed(words: &Words) {
    let (all, half) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (sum, count) = (all.clone(), half.clone());
    let connection = http::request_done
        .connect(move |seq, path| {
            let is_right = path == "/index";
            sum.fetch_add(if is_right { seq } else { u64::MAX / 2 }, Ordering::Relaxed);
        })
        .expect("it connects");
    let mut second = None;
    let emitted = words.number(0);
    for seq in 0..emitted {
        if seq % 10 == 0 {
            let count = count.clone();
            let probe = move |_: u64, _: &str| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            second = Some(http::request_done.connect(probe).expect("it connects"));
        }
        request(seq);
        if seq % 10 == 4 {
            second.take().into_iter().for_each(mote::Connection::disconnect);
        }
    }
    connection.disconnect();
    request(emitted);
    println!(
        "emitted {}\nsum {}\nhalf {}",
        emitted + 1,
        all.load(Ordering::Relaxed),
        half.load(Ordering::Relaxed)
    );
}

/// Says that it has a probe connected, emits until the recorder has gone, and how its sites are then.
pub(crate) fn outlive() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let connection = http::request_done.connect(|_, _| {
        CALLS.fetch_add(1, Ordering::Relaxed);
    });
    let connection = connection.expect("it connects");
    println!("pid {}\nstarted 1", std::process::id());
    let until = Instant::now() + crate::words::PATIENCE;
    let mut seq = 0;
    let on = || sites::nops().0 - sites::nops().1;
    while on() > 1 && Instant::now() < until {
        request(seq);
        mote::event!(own::beside, seq: u64 = seq);
        seq += 1;
        std::thread::sleep(Duration::from_micros(200));
    }
    let left = on();
    for _ in 0..100 {
        request(seq);
        seq += 1;
    }
    let missed = seq - CALLS.load(Ordering::Relaxed);
    connection.disconnect();
    request(seq);
    println!("left {left}\nmissed {missed}\nsurplus {}", CALLS.load(Ordering::Relaxed) - (seq - missed));
    println!("emitted {seq}\non-at-end {}", on());
}

/// `flip N [PATH]`: turns switches N times, and for as long as there is nothing at this path, beside threads that go
/// through their sites and emit events, and counts what those saw that cannot be.
pub(crate) fn flip(words: &Words) {
    let (turns, wrong, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    println!("pid {}\nstarted 1", std::process::id());
    OTHERS.set(true).expect("it can be turned");
    std::thread::scope(|scope| {
        for who in 0..2u64 {
            let (turns, wrong, over) = (&turns, &wrong, &over);
            scope.spawn(move || {
                let mut seq = 0u64;
                while !over.load(Ordering::Relaxed) {
                    // Even turns: nothing is being turned. On in every other one of these.
                    let before = turns.load(Ordering::SeqCst);
                    let (is_on, is_off) = (mote::is_on!(CHECKS), !mote::is_on!(OTHERS));
                    let after = turns.load(Ordering::SeqCst);
                    let expected = before % 4 == 2;
                    let counts = before == after && before % 2 == 0;
                    wrong.fetch_add(
                        u64::from(counts && (is_on != expected || is_off != expected)),
                        Ordering::Relaxed,
                    );
                    mote::event!(own::turning, who: u64 = who, seq: u64 = seq);
                    seq += 1;
                    if seq.is_multiple_of(64) {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
            });
        }
        let is_over = || words.text(1).is_empty() || std::path::Path::new(words.text(1)).exists();
        for turn in (0..).take_while(|turn| *turn < words.number(0) || !is_over()) {
            turns.fetch_add(1, Ordering::SeqCst);
            let is_on = turn % 2 == 0;
            mote::flip(&[(&CHECKS, is_on), (&OTHERS, !is_on)]).expect("they can be turned");
            turns.fetch_add(1, Ordering::SeqCst);
        }
        over.store(true, Ordering::Relaxed);
    });
    println!("wrong {}", wrong.load(Ordering::Relaxed));
}

/// `flip-and-fork N`: N children of a process whose threads turn a switch and connect probes all the time. Each child
/// finds its switch whole, turns it itself, and has its probe called.
pub(crate) fn flip_and_fork(words: &Words) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let mut failed = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut is_on = false;
            while !over.load(Ordering::Relaxed) {
                is_on = !is_on;
                CHECKS.set(is_on).expect("it can be turned");
                let probe = |_: u64, _: &str| {
                    std::hint::black_box(CHECKS.is_on());
                };
                http::request_done.connect(probe).expect("it connects").disconnect();
            }
        });
        let connection = http::in_child.connect(|_| {
            CALLS.fetch_add(1, Ordering::Relaxed);
        });
        for seq in 0..words.number(0) {
            // SAFETY: the child does nothing that needs another thread.
            let child = unsafe { nix::unistd::fork() }.expect("a child");
            match child {
                nix::unistd::ForkResult::Child => {
                    let is_whole = mote::is_on!(CHECKS) == CHECKS.is_on();
                    let turns = [true, false, true].into_iter().all(|is_on| {
                        CHECKS.set(is_on).is_ok() && mote::is_on!(CHECKS) == is_on && CHECKS.is_on() == is_on
                    });
                    let before = CALLS.load(Ordering::Relaxed);
                    mote::emit!(http::in_child, seq);
                    let is_called = CALLS.load(Ordering::Relaxed) == before + 1;
                    let mine = http::request_done.connect(|_, _| {
                        CALLS.fetch_add(1, Ordering::Relaxed);
                    });
                    request(seq);
                    let is_connected = CALLS.load(Ordering::Relaxed) == before + 2;
                    mine.expect("it connects").disconnect();
                    let ends = mote::wait_for_probes();
                    let good = is_whole && turns && is_called && is_connected && ends;
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(i32::from(!good)) };
                }
                nix::unistd::ForkResult::Parent { child } => {
                    let status = nix::sys::wait::waitpid(child, None).expect("our child");
                    failed += u64::from(status != nix::sys::wait::WaitStatus::Exited(child, 0));
                }
            }
        }
        connection.expect("it connects").disconnect();
        over.store(true, Ordering::Relaxed);
    });
    println!("failed {failed}");
}

/// Quick text, of which some is cut. Prints how often an argument was made.
pub(crate) fn notes() {
    let made = std::cell::Cell::new(0);
    let argument = |value: u64| {
        made.set(made.get() + 1);
        value
    };
    mote::note!("plain");
    mote::note!("{} and {:>5.1}", argument(17), 2.5);
    let (name, long) = ("captured", "é".repeat(400));
    mote::note!("{name} {{}}");
    mote::note!("a{long}");
    println!("made {}", made.get());
}
