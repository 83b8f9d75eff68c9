//! The pool of speculations, step by step, and with threads that are killed.

mod support;

use mote_layout::record::{PREFIX_BYTES, split};
use mote_ring::reader::Channel;
use mote_ring::speculation::{Pool, Reader, Reaped, Refused, Sizes};
use mote_ring::writer::Payload;
use mote_ring::{Clock, Geometry, Mode, Record, Writer};
use mote_sys::mem::{Mapping, sealed_memfd};
use support::child;

const SIZES: Sizes = Sizes { slots: 4, slot_bytes: 4096 };
const GEOMETRY: Geometry =
    Geometry { cpus: 1, shared: 1, sub_bits: 12, count_bits: 1, mode: Mode::Discard, clock: Clock::Tsc };

fn memory() -> Mapping {
    let memfd = sealed_memfd(c"speculations", SIZES.bytes() as u64).expect("memory");
    Mapping::shared(&memfd, SIZES.bytes()).expect("address space")
}

fn writer() -> Writer {
    let channel = Channel::make(GEOMETRY, 0..2).expect("memory");
    Writer::map(channel.memfd(), GEOMETRY).expect("address space")
}

fn append(pool: &Pool<'_>, slot: u32, channel: &Writer, tid: u32, number: u64) -> Result<(), Refused> {
    let words = [number, 0];
    let payload = Payload::Words { from: words.as_ptr().cast(), len: 8 };
    // SAFETY: two words can be read.
    unsafe { pool.append(slot, channel, &Record { tag: 5, thread: tid, payload }) }
}

/// The numbers of a thread's records, which must be whole and in order of time.
fn numbers(records: &[u8], tid: u32) -> Vec<u64> {
    let mut last = 0;
    let mut record = |bytes: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (tag, time) = split(word(0));
        let thread = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
        assert!(tag == 5 && thread == tid && time >= std::mem::replace(&mut last, time));
        word(PREFIX_BYTES)
    };
    let (records, rest) = records.as_chunks::<{ PREFIX_BYTES + 8 }>();
    assert!(rest.is_empty());
    records.iter().map(|bytes| record(bytes)).collect()
}

#[test]
fn what_is_committed_comes_out_and_what_is_discarded_does_not() {
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let reader = Reader::new(pool);
    let mut records = vec![0; reader.room()];
    for round in 0..10 {
        let slot = pool.begin(7, 1, 100 + round).expect("a free slot");
        assert_eq!(pool.began(slot, 7), Some(100 + round));
        append(&pool, slot, &channel, 7, round).expect("room");
        append(&pool, slot, &channel, 7, round + 1).expect("room");
        assert_eq!(append(&pool, slot, &channel, 8, 0), Err(Refused::NotOpen));
        assert!(!pool.commit(slot, 8) && reader.take(&mut records).is_none());
        if round % 2 == 0 {
            assert!(pool.commit(slot, 7) && !pool.discard(slot, 7));
            let (committed, len) = reader.take(&mut records).expect("committed");
            assert_eq!((committed.tid, committed.pid), (7, 1));
            assert_eq!(numbers(&records[..len], 7), [round, round + 1]);
        } else {
            assert!(pool.discard(slot, 7));
        }
        assert_eq!(reader.take(&mut records), None);
        assert_eq!(append(&pool, slot, &channel, 7, 0), Err(Refused::NotOpen));
    }
}

#[test]
fn a_full_slot_and_a_full_pool_say_so() {
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let reader = Reader::new(pool);
    let slots: Vec<u32> = (1..=4).map(|tid| pool.begin(tid, 9, 0).expect("a free slot")).collect();
    assert_eq!(pool.begin(5, 9, 0), None);
    let appended =
        (0..1000).take_while(|number| append(&pool, slots[0], &channel, 1, *number).is_ok()).count();
    assert_eq!(appended, reader.room() / (PREFIX_BYTES + 8));
    assert_eq!(append(&pool, slots[0], &channel, 1, 0), Err(Refused::Full));
    assert_eq!(reader.reap(|pid, tid, _| pid == 9 && tid != 2), Reaped { open: 1, torn: 0 });
    let again = pool.begin(5, 9, 0).expect("thread 2 was taken for dead");
    assert_eq!(again, slots[1]);
    assert!(!pool.commit(slots[1], 2), "what was thread 2's is thread 5's");
    assert!(pool.commit(slots[0], 1) && pool.commit(again, 5));
    let mut records = vec![0; reader.room()];
    let taken: Vec<u32> = std::iter::from_fn(|| Some(reader.take(&mut records)?.0.tid)).collect();
    assert_eq!(taken.len(), 2);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let memory = memory();
    let one = Sizes { slots: 1, ..SIZES };
    let last = memory.len() / 64 * 64 - one.bytes();
    assert!(Pool::of(&memory, last, one).is_some());
    assert!(Pool::of(&memory, last + 64, one).is_none());
    assert!(Pool::of(&memory, 1, one).is_none());
    assert!(Pool::of(&memory, usize::MAX - 63, one).is_none());
    assert!(Pool::of(&memory, 0, Sizes { slot_bytes: 5000, ..one }).is_none());
}

#[test]
fn threads_speculate_at_the_same_time_and_nonsense_in_memory_harms_nobody() {
    let (memory, channel) = (memory(), writer());
    let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
    let committed = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=6u32)
            .map(|tid| {
                let (pool, channel) = (&pool, &channel);
                scope.spawn(move || {
                    let mut committed = 0;
                    for round in 0..20_000u64 {
                        let Some(slot) = pool.begin(tid, 1, 0) else { continue };
                        (0..3).for_each(|step| {
                            append(pool, slot, channel, tid, 3 * round + step).expect("room");
                        });
                        let done =
                            if round % 3 == 0 { pool.commit(slot, tid) } else { pool.discard(slot, tid) };
                        assert!(done);
                        committed += u64::from(round % 3 == 0);
                    }
                    committed
                })
            })
            .collect();
        let reader = Reader::new(pool);
        let mut records = vec![0; reader.room()];
        let mut taken = 0;
        while !threads.iter().all(|thread| thread.is_finished()) {
            while let Some((who, len)) = reader.take(&mut records) {
                let numbers = numbers(&records[..len], who.tid);
                assert!(numbers.len() == 3 && numbers[0].is_multiple_of(9) && numbers[2] == numbers[0] + 2);
                taken += 1;
            }
        }
        while reader.take(&mut records).is_some() {
            taken += 1;
        }
        let committed: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!(taken, committed);
        committed
    });
    assert!(committed > 0);
    child::passes(move || {
        // SAFETY: the mapping is of these bytes, and nothing else uses it in this child.
        unsafe { memory.base().write_bytes(0xfe, memory.len()) };
        let pool = Pool::of(&memory, 0, SIZES).expect("it fits");
        let reader = Reader::new(pool);
        let mut records = vec![0; 100];
        while let Some((_, len)) = reader.take(&mut records) {
            assert!(len <= 100);
        }
        reader.reap(|_, _, _| false);
    });
}
