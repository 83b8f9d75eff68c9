//! The table of threads' names: many that leave theirs, one that takes them, and some that are killed.

#[path = "support/child.rs"]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod child;

use mote_ring::reader::Channel;
use mote_ring::threads::{ENTRIES, ThreadName};
use mote_ring::{Clock, Geometry, Mode};
use std::time::{Duration, Instant};

fn channel() -> Channel {
    let geometry =
        Geometry { cpus: 0, shared: 1, sub_bits: 12, count_bits: 1, mode: Mode::Discard, clock: Clock::Tsc };
    Channel::make(geometry, 0..1).expect("memory")
}

/// A name all of which follows from two numbers.
fn name(pid: u32, tid: u32) -> ThreadName {
    let word = (u128::from(pid) << 64) | (u128::from(tid) * 0x9e37_79b9_7f4a_7c15);
    ThreadName { tid, pid, time: u64::from(tid) << 32 | u64::from(pid), comm: word.to_le_bytes() }
}

#[test]
fn names_come_out_in_order_and_a_full_table_says_so() {
    let channel = channel();
    let table = channel.threads();
    assert_eq!(table.pop(), None);
    assert!(!table.skip());
    for lap in 0..3u32 {
        for tid in 0..ENTRIES as u32 {
            assert!(table.push(&name(lap, tid)));
        }
        assert!(!table.push(&name(9, 9)));
        assert_eq!(table.nameless(), lap + 1);
        assert!(!table.skip(), "the oldest has its name");
        for tid in 0..ENTRIES as u32 {
            assert_eq!(table.pop(), Some(name(lap, tid)));
        }
        assert_eq!(table.pop(), None);
    }
}

#[test]
fn many_leave_names_and_one_takes_them() {
    let channel = channel();
    let table = channel.threads();
    let each = 20_000;
    std::thread::scope(|scope| {
        for pid in 1..5 {
            scope.spawn(move || {
                for tid in 0..each {
                    while !table.push(&name(pid, tid)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0; 5];
        while next[1..] != [each; 4] {
            let Some(taken) = table.pop() else {
                std::thread::yield_now();
                continue;
            };
            assert_eq!(taken, name(taken.pid, next[taken.pid as usize]));
            next[taken.pid as usize] += 1;
        }
    });
    assert_eq!(table.pop(), None);
}

/// Processes that are killed while they leave names: those behind get through, once the consumer has passed over what
/// was never finished.
#[test]
fn a_killed_process_holds_up_nobody_for_long() {
    child::passes(|| {
        let channel = channel();
        let table = channel.threads();
        let (begin, least, most) = (Instant::now(), Duration::from_millis(1500), Duration::from_secs(60));
        let (taken, mut skipped) = (std::cell::Cell::new(0u64), 0);
        let mut last = [0u32; 4];
        let mut round = 0;
        let mut take = || {
            while let Some(got) = table.pop() {
                let who = (got.pid % 4) as usize;
                assert_eq!(got, name(got.pid, got.tid), "whole");
                let order = got.pid / 4 * 1_000_000 + got.tid;
                assert!(order > last[who], "in order, and once");
                last[who] = order;
                taken.set(taken.get() + 1);
            }
        };
        // On a busy machine the processes may not come to much before they are killed.
        while begin.elapsed() < least || taken.get() <= 1000 && begin.elapsed() < most {
            round += 1;
            let pids = [0, 1, 2].map(|who| {
                child::start(|| {
                    for tid in 1..1_000_000 {
                        let _ = table.push(&name(round * 4 + who, tid));
                    }
                })
            });
            let until = Instant::now() + Duration::from_micros(300 + u64::from(round) * 7 % 1000);
            while Instant::now() < until {
                take();
            }
            for pid in pids {
                child::kill(pid, libc::SIGKILL);
            }
            for pid in pids {
                child::wait(pid);
            }
            take();
            while table.skip() {
                skipped += 1;
                take();
            }
        }
        let taken = taken.get();
        println!("{taken} names taken, {skipped} passed over in {round} rounds");
        assert!(table.push(&name(2, 2)));
        assert_eq!(table.pop(), Some(name(2, 2)), "the table is whole");
        assert!(taken > 1000);
    });
}
