//! Threads and processes, some of them killed at any instruction, use the same maps: nothing hangs, no entry is there
//! twice, no count is wrong by more than what the killed ones were at.

mod common;

use common::{insns, load, map, shape, shared_map};
use mote_bpf::helper::{RINGBUF_DISCARD, RINGBUF_OUTPUT, RINGBUF_RESERVE, RINGBUF_SUBMIT};
use mote_bpf::op::{Cond, Size};
use mote_bpf::{MapKind, Reg};
use mote_vm::{Cursor, Map, Next, Program, Setup, Update};
use std::collections::HashMap;
use std::time::Duration;

fn sums(map: &Map) -> HashMap<u64, u64> {
    let (mut cursor, mut key, mut value) = (Cursor::default(), [0; 8], [0; 8]);
    let mut sums = HashMap::new();
    while map.next(&mut cursor, &mut key, &mut value) {
        let twice = sums.insert(u64::from_le_bytes(key), u64::from_le_bytes(value));
        assert!(twice.is_none(), "an entry is there twice");
    }
    sums
}

#[test]
fn threads_that_add_lose_nothing() {
    const THREADS: u64 = 8;
    const TURNS: u64 = 100_000;
    let map = map(&shape(MapKind::Hash, 8, 8, 300));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for turn in 0..TURNS {
                    map.add(&((turn * (thread + 1)) % 256).to_le_bytes(), 0, 1).expect("there is room");
                }
            });
        }
    });
    assert_eq!(sums(&map).values().sum::<u64>(), THREADS * TURNS);
    assert_eq!((map.dropped(), map.lost()), (0, 0));
}

/// Each thread inserts, changes and deletes; a value always tells its key, or another thread's entry was touched.
#[test]
fn threads_that_insert_and_delete_see_whole_entries() {
    for kind in [MapKind::Hash, MapKind::LruHash] {
        let map = map(&shape(kind, 8, 8, 64));
        let wrong = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let wrong = &wrong;
                scope.spawn(move || {
                    let mut value = [0; 8];
                    let mut random = thread + 1;
                    for _ in 0..60_000 {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let key = (random % 40).to_le_bytes();
                        match random >> 32 & 3 {
                            // Only made, never changed: so no value is written into a node that became another's.
                            0 | 1 => _ = map.update(&key, &key, Update::New),
                            2 => _ = map.delete(&key),
                            _ => {
                                if map.lookup(&key, &mut value).is_ok() && value != key {
                                    wrong.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                                }
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(wrong.into_inner(), 0, "{kind:?}: a lookup gave another entry's value");
        assert!(sums(&map).iter().all(|(key, value)| key == value));
        assert_eq!(map.lost(), 0);
    }
}

/// Forks a child that works until it is killed.
fn child(mut work: impl FnMut()) -> libc::pid_t {
    // SAFETY: the child only works on the map, without allocating, until it dies.
    match unsafe { libc::fork() } {
        0 => loop {
            work();
        },
        pid => pid,
    }
}

fn kill(pid: libc::pid_t) {
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // SAFETY: as above; no status is wanted.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

#[test]
fn killed_processes_leave_a_map_that_works() {
    const ROUNDS: u64 = 150;
    let map = shared_map(&shape(MapKind::Hash, 8, 8, 4096));
    let mut random = 5u64;
    for round in 0..ROUNDS {
        let pids = [1u64, 2, 3].map(|salt| {
            let mut state = round * 31 + salt;
            child(move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = (state >> 40 & 511).to_le_bytes();
                match state >> 61 {
                    0..=2 => _ = map.delete(&key),
                    _ => _ = map.add(&key, 0, 1),
                }
            })
        });
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros(300 + (random >> 53)));
        pids.into_iter().for_each(kill);
    }
    let lost = map.lost();
    println!("{} processes killed: {lost} of 4096 entries lost, {} did not fit", 3 * ROUNDS, map.dropped());
    assert!(lost <= 3 * ROUNDS, "a killed process leaves at most one entry behind");
    assert!(sums(&map).keys().all(|key| *key < 512));
    // All that is not lost is still to be had, and every operation works.
    (0..512u64).for_each(|key| _ = map.delete(&key.to_le_bytes()));
    assert!(sums(&map).is_empty());
    let fit = (0..5000u64).filter(|key| map.add(&key.to_le_bytes(), 0, 1).is_ok()).count() as u64;
    assert_eq!(fit, 4096 - lost);
}

#[test]
fn killed_processes_leave_an_lru_that_works() {
    let map = shared_map(&shape(MapKind::LruHash, 8, 8, 256));
    for round in 0..60u64 {
        let pids = [1u64, 2].map(|salt| {
            let mut state = round * 17 + salt;
            child(move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                _ = map.add(&(state >> 44).to_le_bytes(), 0, 1);
            })
        });
        std::thread::sleep(Duration::from_micros(700));
        pids.into_iter().for_each(kill);
    }
    let lost = map.lost();
    println!("120 processes killed: {lost} of 256 entries lost, {} did not fit", map.dropped());
    assert!(lost <= 120);
    (0..1000u64).for_each(|key| map.add(&key.to_le_bytes(), 0, 1).expect("others give way"));
}

/// A program that writes a record of word 0 (its words: length in bytes, number, number...): by reserve (and `turns` of
/// a loop before it is submitted) or by output.
fn writer(ring: Map, turns: i32) -> Program {
    let program = insns(|b| {
        let (out, by_output) = (b.label(), b.label());
        b.mov(Reg::R6, Reg::R1);
        b.load(Size::DW, Reg::R7, Reg::R6, 0);
        b.store(Size::DW, Reg::R10, -16, Reg::R7);
        b.store(Size::DW, Reg::R10, -8, Reg::R7);
        b.map(Reg::R1, 0);
        b.branch(Cond::Set, Reg::R7, 1, by_output);
        b.mov(Reg::R2, 24);
        b.mov(Reg::R3, 0);
        b.call(RINGBUF_RESERVE);
        b.branch(Cond::Eq, Reg::R0, 0, out);
        b.store(Size::DW, Reg::R0, 0, Reg::R7);
        b.store(Size::DW, Reg::R0, 8, Reg::R7);
        // Some time, in which it may be killed.
        b.mov(Reg::R1, turns);
        let again = b.here();
        b.sub(Reg::R1, 1);
        b.branch(Cond::Ne, Reg::R1, 0, again);
        b.store(Size::DW, Reg::R0, 16, Reg::R7);
        b.mov(Reg::R1, Reg::R0);
        b.mov(Reg::R2, 0);
        let keep = b.label();
        b.branch(Cond::Set, Reg::R7, 2, keep);
        b.call(RINGBUF_DISCARD);
        b.jump(out);
        b.bind(keep);
        b.call(RINGBUF_SUBMIT);
        b.jump(out);
        b.bind(by_output);
        b.mov(Reg::R2, Reg::R10);
        b.add(Reg::R2, -16);
        b.mov(Reg::R3, 16);
        b.mov(Reg::R4, 0);
        b.call(RINGBUF_OUTPUT);
        b.bind(out);
        b.mov(Reg::R0, 0);
        b.exit();
    });
    load(&program, Setup { maps: &[ring], ..Setup::default() })
}

/// A record's number: the same word, two or three times. None if it is torn.
fn number_of(record: &[u8]) -> Option<u64> {
    let words: Vec<_> =
        record.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("whole words"))).collect();
    let first = *words.first()?;
    let len = if first & 1 == 0 { 3 } else { 2 };
    (words.len() == len && words.iter().all(|word| *word == first)).then_some(first)
}

#[test]
fn records_of_threads_come_out_whole_and_in_order() {
    let ring = map(&shape(MapKind::RingBuffer, 0, 0, 1 << 16));
    let program = writer(ring, 100);
    let (threads, turns) = (4u64, 40_000u64);
    let mut got = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let program = &program;
                scope.spawn(move || {
                    for turn in 0..turns {
                        let context = [thread << 32 | turn];
                        // SAFETY: the context lasts.
                        unsafe { program.run(context.as_ptr() as u64, 0) }.expect("no fault");
                    }
                })
            })
            .collect();
        let mut consumer = ring.consumer().expect("a ring buffer");
        let (mut buffer, mut last) = ([0; 64], [None; 4]);
        loop {
            let is_over = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
            match consumer.next(&mut buffer) {
                Next::Record(len) => {
                    let number = number_of(&buffer[..len]).expect("whole");
                    let (thread, turn) = ((number >> 32) as usize, number & 0xffff_ffff);
                    assert!(last[thread].replace(turn).is_none_or(|before| before < turn));
                    got += 1;
                }
                Next::Empty if is_over => break,
                Next::Empty | Next::Busy(_) => std::hint::spin_loop(),
                other => panic!("{other:?}"),
            }
        }
    });
    // A quarter is discarded on purpose; the rest arrives or is counted. (What is dropped may be one of the discarded.)
    let kept = threads * turns * 3 / 4;
    println!("{got} records of {kept}, {} did not fit", ring.dropped());
    assert!(got > 0 && got <= kept && got + ring.dropped() >= kept);
}

#[test]
fn killed_writers_leave_a_ring_buffer_that_works() {
    let ring = shared_map(&shape(MapKind::RingBuffer, 0, 0, 8192));
    let program = writer(ring, 200_000);
    let mut consumer = ring.consumer().expect("a ring buffer");
    let (mut buffer, mut whole, mut abandoned) = ([0; 64], 0u64, 0u64);
    // On a busy machine those that are killed soon may not have begun: later ones live longer.
    for round in 0..1000u64 {
        if round >= 150 && whole > 0 && abandoned > 0 {
            break;
        }
        let pids = [0u64, 1].map(|salt| {
            let (program, mut number) = (&program, round << 40 | salt << 32);
            child(move || {
                number += 2;
                let context = [number];
                // SAFETY: the context lasts.
                let _ = unsafe { program.run(context.as_ptr() as u64, 0) };
            })
        });
        let end = std::time::Instant::now() + Duration::from_micros(1500 + 500 * round.saturating_sub(100));
        let mut alive = Some(pids);
        loop {
            if std::time::Instant::now() > end {
                alive.take().into_iter().flatten().for_each(kill);
            }
            match consumer.next(&mut buffer) {
                Next::Record(len) => {
                    number_of(&buffer[..len]).expect("whole");
                    whole += 1;
                }
                Next::Empty | Next::Busy(_) if alive.is_some() => {}
                Next::Busy(_) => {
                    abandoned += 1;
                    consumer.abandon();
                }
                Next::Empty => break,
                other => panic!("{other:?}"),
            }
        }
    }
    println!(
        "300 writers and more killed: {whole} whole records, {abandoned} given up, {} did not fit",
        ring.dropped()
    );
    assert!(whole > 0 && abandoned > 0 && abandoned <= 2000);
}
