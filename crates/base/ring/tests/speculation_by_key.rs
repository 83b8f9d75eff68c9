//! Speculations that go by a key, step by step, and with threads that keep, commit and discard at the same time.

mod support;

use mote_layout::record::{PREFIX_BYTES, split};
use mote_ring::reader::Channel;
use mote_ring::speculation::keyed::Key;
use mote_ring::speculation::{Pool, Reader, Reaped, Refused, Sizes};
use mote_ring::writer::Payload;
use mote_ring::{Clock, Geometry, Mode, Record, Writer};
use mote_sys::mem::{Mapping, sealed_memfd};
use std::sync::atomic::{AtomicU64, Ordering};
use support::child;

const SIZES: Sizes = Sizes { slots: 8, slot_bytes: 4096 };
const GEOMETRY: Geometry =
    Geometry { cpus: 1, shared: 1, sub_bits: 12, count_bits: 1, mode: Mode::Discard, clock: Clock::Tsc };
/// Keys of one process lead to at most so many speculations in a bucket of the index; it has 256.
const WAYS: usize = 8;

fn memory() -> Mapping {
    let memfd = sealed_memfd(c"speculations", SIZES.bytes() as u64).expect("memory");
    Mapping::shared(&memfd, SIZES.bytes()).expect("address space")
}

fn writer() -> Writer {
    let channel = Channel::make(GEOMETRY, 0..2).expect("memory");
    Writer::map(channel.memfd(), GEOMETRY).expect("address space")
}

/// Keeps a number aside under a key, if a speculation of it is open.
fn append(pool: &Pool<'_>, key: Key, channel: &Writer, thread: u32, number: u64) -> Result<(), Refused> {
    let speculation = pool.find(key).ok_or(Refused::NotOpen)?;
    let words = [number, 0];
    let payload = Payload::Words { from: words.as_ptr().cast(), len: 8 };
    // SAFETY: two words can be read.
    unsafe { pool.append_by(speculation, channel, &Record { tag: 5, thread, payload }) }
}

/// Threads and numbers of records, which must be whole and in order of time.
fn numbers(records: &[u8]) -> Vec<(u32, u64)> {
    let mut last = 0;
    let mut record = |bytes: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (tag, time) = split(word(0));
        assert!(tag == 5 && time >= std::mem::replace(&mut last, time), "{records:?}");
        (u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes")), word(PREFIX_BYTES))
    };
    let (records, rest) = records.as_chunks::<{ PREFIX_BYTES + 8 }>();
    assert!(rest.is_empty());
    records.iter().map(|bytes| record(bytes)).collect()
}

#[test]
fn a_key_is_the_same_in_every_thread_and_another_in_every_process() {
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let reader = Reader::new(pool);
    let mut records = vec![0; reader.room()];
    let key = Key::new(1, 0, 77);
    for round in 0..20 {
        assert_eq!((pool.find(key), append(&pool, key, &channel, 1, 0)), (None, Err(Refused::NotOpen)));
        let speculation = pool.begin_by(key, 100 + round).expect("a free slot");
        assert_eq!((pool.find(key), pool.began_by(speculation)), (Some(speculation), Some(100 + round)));
        for other in [Key::new(2, 0, 77), Key::new(1, 1, 77), Key::new(1, 0, 78)] {
            assert!(pool.find(other).is_none() && !pool.commit_by(other) && !pool.discard_by(other));
        }
        append(&pool, key, &channel, 7, round).expect("room");
        append(&pool, key, &channel, 8, round + 1).expect("room");
        assert_eq!(reader.take(&mut records), None);
        if round % 2 == 0 {
            assert!(pool.commit_by(key) && !pool.discard_by(key));
            let (committed, len) = reader.take(&mut records).expect("committed");
            assert_eq!((committed.tid, committed.pid), (0, 1));
            assert_eq!(numbers(&records[..len]), [(7, round), (8, round + 1)]);
        } else {
            assert!(pool.discard_by(key));
        }
        assert_eq!((reader.take(&mut records), pool.began_by(speculation)), (None, None));
    }
}

#[test]
fn keys_and_threads_share_the_slots() {
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let key = |number| Key::new(9, 0, number);
    let threads: Vec<u32> = (1..=4).map(|tid| pool.begin(tid, 9, 0).expect("a free slot")).collect();
    for number in 0..4 {
        assert!(pool.begin_by(key(number), 0).is_some());
    }
    assert!(
        pool.begin_by(key(4), 0).is_none() && pool.begin(5, 9, 0).is_none() && pool.find(key(4)).is_none()
    );
    let room = Reader::new(pool).room() / (PREFIX_BYTES + 8);
    assert_eq!((0..1000).take_while(|n| append(&pool, key(0), &channel, 1, *n).is_ok()).count(), room);
    assert_eq!(append(&pool, key(0), &channel, 1, 0), Err(Refused::Full));
    assert!(pool.discard(threads[0], 1) && pool.begin_by(key(4), 0).is_some());
    assert!(pool.discard_by(key(0)) && pool.begin(5, 9, 0).is_some());
    assert!((1..=4).all(|number| pool.find(key(number)).is_some()));
}

#[test]
fn keys_join_and_leave() {
    let memory = memory();
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let key = |number| Key::new(9, 0, number);
    let speculation = pool.begin_by(key(0), 0).expect("a free slot");
    for number in 1..500 {
        assert!(pool.join(key(number), speculation));
    }
    assert!((0..500).all(|number| pool.find(key(number)) == Some(speculation)));
    (0..100).for_each(|number| pool.leave(key(number)));
    let found: Vec<u64> = (0..500).filter(|number| pool.find(key(*number)).is_some()).collect();
    assert_eq!(found, std::iter::once(0).chain(100..500).collect::<Vec<_>>(), "the first key stays");
    assert!(pool.commit_by(key(300)), "each key ends it");
    assert!((0..500).all(|number| pool.find(key(number)).is_none()));
    // The index fills up, says so, and has room again when the speculation has ended.
    let again = pool.begin_by(key(0), 0).expect("a free slot");
    let joined = (1..100_000).take_while(|number| pool.join(key(*number), again)).count();
    assert!((WAYS * 256 / 4..WAYS * 256).contains(&joined), "{joined}");
    assert!(pool.discard_by(key(0)) && pool.begin_by(key(joined as u64 + 1), 0).is_some());
}

#[test]
fn what_a_dead_process_has_left_is_freed() {
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let reader = Reader::new(pool);
    for (pid, value) in [(1, 5), (2, 5), (2, 6)] {
        pool.begin_by(Key::new(pid, 0, value), 0).expect("a free slot");
    }
    append(&pool, Key::new(2, 0, 6), &channel, 1, 0).expect("room");
    assert!(pool.commit_by(Key::new(2, 0, 6)));
    assert_eq!(reader.reap(|pid, tid, _| pid == tid && pid == 1), Reaped { open: 1, torn: 0 });
    assert!(pool.find(Key::new(1, 0, 5)).is_some() && pool.find(Key::new(2, 0, 5)).is_none());
    let mut records = vec![0; reader.room()];
    assert!(reader.take(&mut records).is_some(), "what was committed is taken all the same");
}

#[test]
fn threads_share_keys_and_nothing_is_torn() {
    const KEYS: u64 = 3;
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let key = |number: u64| Key::new(1, 0, number % KEYS);
    let kept = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4u32)
            .map(|tid| {
                let (pool, channel, kept) = (&pool, &channel, &kept);
                scope.spawn(move || {
                    for round in 0..30_000u64 {
                        let mine = key(round / 7);
                        if round % 7 == 0 && pool.find(mine).is_none() {
                            let _ = pool.begin_by(mine, 0);
                        }
                        kept.fetch_add(
                            append(pool, mine, channel, tid, round).is_ok().into(),
                            Ordering::Relaxed,
                        );
                        match round % 21 {
                            20 => drop(pool.commit_by(mine)),
                            13 => drop(pool.discard_by(mine)),
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        let reader = Reader::new(pool);
        let mut records = vec![0; reader.room()];
        let mut taken = 0;
        let mut take = || {
            while let Some((_, len)) = reader.take(&mut records) {
                let numbers = numbers(&records[..len]);
                taken += numbers.len();
                let mut last = [0; 5];
                for (thread, round) in numbers {
                    let before = std::mem::replace(&mut last[thread as usize], round + 1);
                    assert!(before <= round, "a thread's records are in its order");
                }
            }
        };
        while !threads.iter().all(|thread| thread.is_finished()) {
            take();
        }
        take();
        assert!(taken > 0);
    });
    assert!(kept.into_inner() > 0);
    // All slots come back: nothing was left half written.
    (0..KEYS).for_each(|number| _ = pool.discard_by(key(number)));
    assert_eq!((0..100).filter(|number| pool.begin_by(Key::new(5, 0, *number), 0).is_some()).count(), 8);
}

#[test]
fn nonsense_in_memory_harms_nobody() {
    let (memory, channel) = (memory(), writer());
    child::passes(move || {
        for byte in [0xff, 0xfe, 0x05, 0x02] {
            // SAFETY: the mapping is of these bytes, and nobody else uses it in this child.
            unsafe { memory.base().write_bytes(byte, memory.len()) };
            let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
            for number in 0..1000 {
                let key = Key::new(1, 0, number);
                let _ = (pool.begin_by(key, 0), append(&pool, key, &channel, 1, 0));
                pool.leave(key);
                let _ = (pool.commit_by(key), pool.discard_by(key));
            }
            let reader = Reader::new(pool);
            let mut records = vec![0; 100];
            while let Some((_, len)) = reader.take(&mut records) {
                assert!(len <= 100);
            }
            reader.reap(|_, _, _| false);
        }
    });
}
