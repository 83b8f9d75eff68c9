//! Programs that share memory with filters, with other processes, and with the kernel's side.

use crate::words::Words;
use mote::{SharedMap, Syscall, ThreadMap};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// `shared-words N`: events 0 to N-1, each with its number modulo 3 in word 1 of `turn`, and modulo 4 in the thread's
/// word `phase`.
pub(crate) fn shared_words(words: &Words) {
    let turn = SharedMap::open("turn", 2).expect("words");
    let phase = ThreadMap::open("phase", 1).expect("words");
    println!("shared {}", u64::from(turn.is_shared() && phase.is_shared()));
    for seq in 0..words.number(0) {
        turn.set(1, seq % 3);
        phase.set(0, seq % 4);
        mote::event!(e2e::count, seq: u64 = seq);
    }
}

/// `share-add N`: N children of fork, and one that is another program, add to a word; prints what it comes to.
pub(crate) fn share_add(words: &Words) {
    let sum = SharedMap::open("sum", 1).expect("words");
    let children: Vec<_> = (0..words.number(0))
        .map(|_| {
            // SAFETY: one thread, and the child only adds and ends.
            match unsafe { fork() }.expect("fork") {
                ForkResult::Child => {
                    for _ in 0..1000 {
                        sum.fetch_add(0, 1);
                    }
                    std::process::exit(0);
                }
                ForkResult::Parent { child } => child,
            }
        })
        .collect();
    for child in children {
        waitpid(child, None).expect("it ends");
    }
    let program = std::env::current_exe().expect("a path");
    let status = std::process::Command::new(program).arg("share-once").status().expect("it starts");
    println!("other {}\nsum {}", u64::from(status.success()), sum.get(0).unwrap_or(0));
}

/// `share-once`: adds 5 to the word.
pub(crate) fn share_once() {
    let sum = SharedMap::open("sum", 1).expect("words");
    sum.fetch_add(0, 5);
    mote::event!(e2e::count, seq: u64 = 0);
}

/// `share-too-much`: what cannot be had is refused, and what was had goes on.
pub(crate) fn share_too_much() {
    let first = SharedMap::open("first", 4).expect("words");
    let refused = [
        SharedMap::open("first", 1 << 16).is_err(),
        SharedMap::open("all", 1 << 17).is_err(),
        SharedMap::open("", 1).is_err(),
        SharedMap::open(&"x".repeat(65), 1).is_err(),
        ThreadMap::open("wide", 193).is_err(),
    ];
    let opened = (0..).map_while(|at| SharedMap::open(&format!("name{at}"), 1).ok()).count();
    first.set(3, 7);
    let again = SharedMap::open("first", 4).expect("it is known");
    println!("refused {}\nopened {opened}", refused.into_iter().filter(|refused| *refused).count());
    println!("word {}", again.get(3).unwrap_or(0));
    mote::event!(e2e::count, seq: u64 = 0);
}

/// `slots N`: N threads at a time, each with a word of its own.
pub(crate) fn slots(words: &Words) {
    let map = ThreadMap::open("own", 1).expect("words");
    let count = words.number(0) as usize;
    let (all_there, all_seen) = (Arc::new(Barrier::new(count + 1)), Arc::new(Barrier::new(count + 1)));
    let had = Arc::new(AtomicU64::new(0));
    mote::set_process_threshold(Syscall::READ, Duration::from_millis(1));
    let threads: Vec<_> = (0..count)
        .map(|seq| {
            let (all_there, all_seen, had) = (all_there.clone(), all_seen.clone(), had.clone());
            let run = move || {
                had.fetch_add(map.set(0, 1).into(), Ordering::Relaxed);
                // Any number of times, with a slot or not.
                for _ in 0..3000 {
                    mote::set_threshold(Syscall::WRITE, Duration::from_micros(50));
                }
                mote::event!(e2e::count, seq: u64 = seq as u64);
                all_there.wait();
                all_seen.wait();
            };
            std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread")
        })
        .collect();
    all_there.wait();
    println!("had {}\nsum {}", had.load(Ordering::Relaxed), map.sum(0));
    all_seen.wait();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    // Their slots can be had again.
    let again = std::thread::spawn(move || map.set(0, 1)).join().expect("it ends");
    println!("again {}", u64::from(again));
}

/// `state N`: N times it sleeps a little, and tells what the kernel says of it. Thresholds are set around, and after
/// fork.
pub(crate) fn state(words: &Words) {
    let looked = mote::set_threshold(Syscall::READ, Duration::from_millis(5));
    for seq in 0..words.number(0) {
        mote::event!(e2e::count, seq: u64 = seq);
        // The first event of a pair is behind a sleep, the second is not.
        mote::event!(e2e::again, seq: u64 = seq);
        std::thread::sleep(Duration::from_millis(2));
    }
    let state = mote::thread_state();
    println!("published {}\nlooked {}", u64::from(state.is_some()), u64::from(looked));
    let state = state.unwrap_or_default();
    println!("switches {}\noffcpu {}\nsyscalls {}", state.switches, state.offcpu_ns, state.syscalls);
    {
        let _inner = mote::threshold(Syscall::READ, Duration::from_micros(200));
        println!("inside {}", mote::thread_threshold(Syscall::READ).map_or(0, |ns| ns.as_nanos()));
        // SAFETY: one thread.
        match unsafe { fork() }.expect("fork") {
            ForkResult::Child => {
                let of_parent = mote::thread_threshold(Syscall::READ);
                // Until it has an area of its own, and after.
                let published = (0..20_000).any(|_| {
                    std::thread::sleep(Duration::from_millis(5));
                    mote::thread_state().is_some_and(|state| (1..100_000).contains(&state.switches))
                });
                let kept = mote::thread_threshold(Syscall::READ) == of_parent;
                println!("child_published {}\nchild_kept {}", u64::from(published), u64::from(kept));
                println!("child_inside {}", of_parent.map_or(0, |ns| ns.as_nanos()));
                std::process::exit(0);
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).expect("it ends");
            }
        }
    }
    println!("outside {}", mote::thread_threshold(Syscall::READ).map_or(0, |ns| ns.as_nanos()));
    println!("open {}", u64::from(mote::open_kernel(Duration::from_millis(1), mote::Scope::Thread)));
}

/// `slow-calls N [code]`: N times it sleeps inside of a function, whose beginning and end are events, and outside. With
/// `code` the function itself says what is slow.
pub(crate) fn slow_calls(words: &Words) {
    let pause = Duration::from_millis(3);
    let sleep = mote::syscall!(clock_nanosleep);
    for seq in 0..words.number(0) {
        {
            let by_code = words.text(1) == "code";
            let _slow = by_code.then(|| mote::threshold(sleep, Duration::from_millis(1)));
            mote::event!(e2e::enter, seq: u64 = seq);
            std::thread::sleep(pause);
            mote::event!(e2e::leave, seq: u64 = seq);
        }
        std::thread::sleep(pause);
    }
}

/// `ask N code long|short`: asks for its state until it gets it, or for so long; then as `slow-calls`.
pub(crate) fn ask(words: &Words) {
    let wait = Duration::from_millis(5);
    let looks = if words.text(2) == "long" { 20_000 } else { 20 };
    let published = (0..looks).any(|_| {
        std::thread::sleep(wait);
        mote::thread_state().is_some()
    });
    let before = mote::thread_state();
    println!("published {}", u64::from(published && before.is_some()));
    slow_calls(words);
    let after = mote::thread_state().unwrap_or_default();
    println!("switches {}", after.switches - before.unwrap_or_default().switches);
}

/// `scribble-area N`: writes nonsense all over the memory that it shares, and goes on with N events.
pub(crate) fn scribble_area(words: &Words) {
    let map = ThreadMap::open("own", 1).expect("words");
    let shared = SharedMap::open("words", 1).expect("words");
    map.set(0, 1);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    let mut areas = 0;
    for line in maps.lines() {
        if !["mote-area", "mote-shared", "bpf-map"].iter().any(|name| line.contains(name)) {
            continue;
        }
        let range = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let at = |text| usize::from_str_radix(text, 16).expect("a number");
        let (start, end) = (at(range.0), at(range.1));
        for page in (start..end).step_by(8) {
            let word: *mut u64 = std::ptr::with_exposed_provenance_mut(page);
            // SAFETY: a mapping that is shared with others, of which nobody believes a word.
            unsafe { word.write_volatile((page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) };
        }
        areas += 1;
    }
    println!("areas {areas}");
    for seq in 0..words.number(0) {
        mote::set_threshold(Syscall::READ, Duration::from_micros(seq));
        map.set(0, seq);
        shared.set(0, seq);
        let _ = (mote::thread_state(), mote::open_kernel(Duration::from_millis(1), mote::Scope::System));
        mote::event!(e2e::count, seq: u64 = seq);
    }
    std::thread::spawn(|| mote::set_threshold(Syscall::READ, None)).join().expect("it ends");
}
