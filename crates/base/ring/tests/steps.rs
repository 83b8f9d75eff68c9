//! Single steps of writing and reading, by both writers.

mod common;

use common::{Kind, Lab, Seen, bytes_of, kinds, read_all, records, small, stay};
use mote_layout::record::{FIELDS_MAX, PREFIX_BYTES};
use mote_loss::Cause;
use mote_ring::reader::{Channel, Chunk, Look};
use mote_ring::writer::Payload;
use mote_ring::{Clock, Geometry, Mode, Outcome, Record};
use std::sync::atomic::{AtomicUsize, Ordering};

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + seed) as u8).collect()
}

fn seen(thread: u32, payload: &[u8]) -> Seen {
    Seen { tag: payload.len() as u16, thread, payload: payload.to_vec() }
}

#[test]
fn what_is_written_is_read_whatever_its_length() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        for len in (0..300).chain(4000..=4096 - PREFIX_BYTES - 16) {
            let payload = bytes(len, len);
            let (left, right) = payload.split_at(len / 3);
            assert_eq!(lab.write(1, &payload), Outcome::Written, "{kind:?} {len}");
            assert_eq!(lab.write_parts(2, &[&[], left, &[], right]), Outcome::Written, "{kind:?} {len}");
            assert_eq!(read_all(&mut reader), [seen(1, &payload), seen(2, &payload)], "{kind:?} {len}");
        }
        assert_eq!(reader.lost(), [0; Cause::ALL.len()]);
    }
}

#[test]
fn a_full_ring_drops_and_counts_until_a_sub_buffer_is_released() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        let (count, lost) = lab.fill();
        assert_eq!(lost, Outcome::Lost(Cause::RingFull));
        assert_eq!(count, 4 * (4095 / 112), "four sub-buffers, none filled to the last byte");
        for _ in 0..9 {
            assert_eq!(lab.write(0, &[0; 100]), lost);
        }
        assert_eq!(reader.lost()[Cause::RingFull as usize], 10);
        // A small one would fit into the rest of the last sub-buffer, but would come after a loss there.
        assert_eq!(lab.write(0, &[0; 3]), lost);
        let Look::Ready(first) = reader.look() else { panic!("a whole sub-buffer") };
        assert_eq!(records(&bytes_of(&reader, first)).len(), 4095 / 112);
        assert_eq!(lab.write(0, &[0; 100]), lost, "not released yet");
        reader.release(first);
        let (more, _) = lab.fill();
        assert_eq!(more, 4095 / 112, "one sub-buffer, and nothing more");
        let rest = read_all(&mut reader);
        assert_eq!(rest.len() as u32, count - 36 + more);
        assert_eq!(reader.lost()[Cause::RingFull as usize], 13);
    }
}

/// Takes what is there, and returns for each chunk the numbers of its records, and what was lost before it.
fn numbers(reader: &mut mote_ring::reader::Reader<'_>, most: usize) -> Vec<(Vec<u32>, u64)> {
    let mut chunks = Vec::new();
    while chunks.len() < most
        && let Look::Ready(chunk) = reader.look()
    {
        let found = records(&bytes_of(reader, chunk));
        chunks.push((found.iter().map(|record| record.thread).collect(), chunk.lost));
        reader.release(chunk);
    }
    chunks
}

#[test]
fn what_a_full_ring_has_lost_lies_where_sub_buffers_meet() {
    for (kind, late) in kinds().into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        let mut chunks = Vec::new();
        let mut number = 0;
        let mut write = |count| {
            (0..count).for_each(|_| {
                let _ = lab.write(number, &bytes(number as usize % 200, 1));
                number += 1;
            });
        };
        for burst in [10, 1000, 3, 5000, 0, 700, 1, 1, 2000] {
            write(burst);
            // Not all, so that sub-buffers from before and after a loss are in the ring together.
            chunks.extend(numbers(&mut reader, if late { 2 } else { 1 }));
        }
        chunks.extend(numbers(&mut reader, usize::MAX));
        write(2);
        chunks.extend(numbers(&mut reader, usize::MAX));
        let (mut next, mut lost, mut gaps) = (0, 0, 0);
        for (numbers, before) in chunks {
            assert_eq!(
                u64::from(numbers[0]) - next,
                before - lost,
                "{kind:?}: missing before {}",
                numbers[0]
            );
            gaps += usize::from(before > lost);
            assert!(
                numbers.is_sorted_by(|a, b| a + 1 == *b),
                "{kind:?}: nothing is lost inside: {numbers:?}"
            );
            (next, lost) = (u64::from(*numbers.last().expect("a record")) + 1, before);
        }
        assert!(gaps >= 3, "{kind:?}: {gaps}");
        assert_eq!((next, lost), (u64::from(number), reader.lost()[Cause::RingFull as usize]), "{kind:?}");
    }
}

#[test]
fn a_closed_sub_buffer_is_read_and_left_like_any_other() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        let (count, _) = lab.fill();
        let content = 3 * 4096 + 36 * 112;
        assert_eq!(
            (reader.written(), reader.backlog()),
            (content, content),
            "{kind:?}: not what was left free"
        );
        for _ in 0..3 {
            let Look::Ready(chunk) = reader.look() else { panic!("whole") };
            assert!(chunk.time_end.is_some());
            reader.release(chunk);
        }
        let Look::Ready(last) = reader.look() else { panic!("closed") };
        assert_eq!((last.to, last.time_end, last.lost), (content, None, 0), "{kind:?}");
        assert_eq!(records(&bytes_of(&reader, last)).len(), 36);
        reader.release(last);
        assert_eq!((reader.look(), reader.backlog(), reader.position()), (Look::Empty, 0, content));
        assert_eq!(lab.write(count, &[0; 100]), Outcome::Written, "{kind:?}");
        let Look::Ready(next) = reader.look() else { panic!("the next one") };
        assert_eq!((next.from, next.len(), next.lost), (4 * 4096, 112, 1), "{kind:?}");
        reader.release(next);
        assert_eq!((reader.look(), reader.backlog()), (Look::Empty, 0));
    }
}

/// Threads that write to one ring while it is read: at each gap the slots say what is missing of all of them together.
#[test]
fn threads_lose_together_what_the_gaps_say() {
    const EACH: u32 = 200_000;
    // The atomic writer first: the other one wants all threads on one CPU.
    for kind in kinds().into_iter().rev() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        let over = AtomicUsize::new(0);
        let mut chunks = Vec::new();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (lab, over) = (&lab, &over);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let _ = lab.write(thread << 24 | number, &bytes(20, 1));
                    }
                    over.fetch_add(1, Ordering::Release);
                });
            }
            while over.load(Ordering::Acquire) < 2 {
                chunks.extend(numbers(&mut reader, 1));
            }
        });
        chunks.extend(numbers(&mut reader, usize::MAX));
        chunks.push((vec![EACH, 1 << 24 | EACH], reader.lost()[Cause::RingFull as usize]));
        assert!(chunks.iter().any(|(_, lost)| *lost > 0), "{kind:?}");
        check_bounds(kind, &chunks);
    }
}

/// What was lost before a chunk is not less than what is missing before the last records in front of it, and not more
/// than what is missing before the first records behind it.
fn check_bounds(kind: Kind, chunks: &[(Vec<u32>, u64)]) {
    let split = |number: &u32| (*number as usize >> 24, u64::from(*number & 0xff_ffff));
    let mut behind = [0; 2];
    let mut most = Vec::new();
    for (numbers, _) in chunks.iter().rev() {
        numbers.iter().rev().map(split).for_each(|(thread, number)| behind[thread] = number);
        most.push(behind);
    }
    let (mut next, mut recorded) = ([0; 2], [0; 2]);
    for ((numbers, lost), most) in chunks.iter().zip(most.into_iter().rev()) {
        let sum = |numbers: [u64; 2]| (0..2).map(|thread| numbers[thread] - recorded[thread]).sum::<u64>();
        assert!(
            (sum(next)..=sum(most)).contains(lost),
            "{kind:?}: {lost}, not {} to {}",
            sum(next),
            sum(most)
        );
        for (thread, number) in numbers.iter().map(split) {
            recorded[thread] += 1;
            next[thread] = number + 1;
        }
    }
}

#[test]
fn a_part_of_a_sub_buffer_can_be_read_but_frees_no_space() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        assert_eq!(reader.look(), Look::Empty);
        assert_eq!(lab.write(7, b"first"), Outcome::Written);
        let Look::Ready(chunk) = reader.look() else { panic!("one record") };
        assert_eq!(chunk, Chunk { from: 0, to: 17, time_end: None, lost: 0 });
        assert_eq!(reader.look(), Look::Ready(chunk), "looking changes nothing");
        assert_eq!(reader.backlog(), 17);
        reader.release(chunk);
        assert_eq!((reader.look(), reader.backlog(), reader.position()), (Look::Empty, 0, 17));
        let (count, _) = lab.fill();
        assert_eq!(count, 36 * 4 - 1 + u32::from(4095 % 112 >= 17), "the sub-buffer is not free yet");
        let Look::Ready(rest) = reader.look() else { panic!("the rest") };
        assert_eq!(rest.from, 17);
        assert!(rest.time_end.is_some(), "the writers have left it");
        reader.release(rest);
        assert_eq!(reader.position(), 4096);
        assert_eq!(lab.fill().0, 36);
    }
}

#[test]
fn a_sub_buffer_with_nothing_more_in_it_is_stepped_over() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        for round in 0..20 {
            assert_eq!(lab.write(round, &[1; 3000]), Outcome::Written);
            assert_eq!(read_all(&mut reader).len(), 1);
        }
        assert_eq!(lab.reader().lost(), [0; Cause::ALL.len()]);
    }
}

#[test]
fn what_is_too_big_is_counted() {
    for kind in kinds() {
        for sub_bits in [12, 15, 17] {
            let lab = Lab::new(kind, Geometry { sub_bits, ..small(Mode::Discard) });
            let mut reader = lab.reader();
            let max = FIELDS_MAX.min((1 << sub_bits) - PREFIX_BYTES - 16);
            let payload = bytes(max + 1, 3);
            assert_eq!(lab.write_parts(1, &[&payload]), Outcome::Lost(Cause::TooBig));
            assert_eq!(lab.write_parts(1, &[&payload[..max]]), Outcome::Written);
            // In the ring of whatever CPU the thread was on.
            let all: u64 = (0..lab.channel.geometry().rings())
                .filter_map(|ring| lab.channel.reader(ring))
                .map(|reader| reader.lost()[Cause::TooBig as usize])
                .sum();
            assert_eq!(all, 1);
            let Look::Ready(chunk) = reader.look() else { panic!("one record") };
            assert_eq!(bytes_of(&reader, chunk)[PREFIX_BYTES..], payload[..max]);
            reader.release(chunk);
        }
    }
}

#[test]
fn an_overwriting_ring_keeps_the_newest() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Overwrite));
        let mut reader = lab.reader();
        let count = 1000;
        for number in 0..count {
            assert_eq!(lab.write(number, &bytes(100, number as usize)), Outcome::Written);
        }
        let Look::Overwritten(gone) = reader.look() else { panic!("it has lapped many times") };
        assert_eq!(gone, reader.position());
        assert_eq!(gone % 4096, 0);
        let rest = read_all(&mut reader);
        assert!(rest.len() > 2 * 36 && rest.len() <= 4 * 36, "{} records", rest.len());
        for (record, number) in rest.iter().rev().zip((0..count).rev()) {
            assert_eq!(*record, seen(number, &bytes(100, number as usize)));
        }
        assert_eq!(reader.lost(), [0; Cause::ALL.len()]);
    }
}

#[test]
fn a_copy_that_was_lapped_is_refused() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Overwrite));
        let mut reader = lab.reader();
        // Into the second sub-buffer, so that the first is whole.
        (0..40).for_each(|number| assert_eq!(lab.write(number, &[1; 100]), Outcome::Written));
        let Look::Ready(chunk) = reader.look() else { panic!("whole") };
        let mut into = vec![0; chunk.len()];
        // Up to the last byte of the ring it is good.
        (40..144).for_each(|number| assert_eq!(lab.write(number, &[2; 100]), Outcome::Written));
        assert!(reader.copy(chunk, &mut into), "{kind:?}");
        assert_eq!(lab.write(144, &[3; 100]), Outcome::Written);
        assert!(!reader.copy(chunk, &mut into), "{kind:?}: the writers are in it");
        reader.release(chunk);
        assert_eq!(reader.position(), 4096);
        assert_eq!(records(&into_chunk(&mut reader)).len(), 36);
    }
}

fn into_chunk(reader: &mut mote_ring::reader::Reader<'_>) -> Vec<u8> {
    let Look::Ready(chunk) = reader.look() else { panic!("whole") };
    bytes_of(reader, chunk)
}

#[test]
fn a_part_that_was_read_may_be_lapped_too() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Overwrite));
        let mut reader = lab.reader();
        assert_eq!(lab.write(0, &[1; 100]), Outcome::Written);
        assert_eq!(read_all(&mut reader).len(), 1);
        (0..500).for_each(|number| assert_eq!(lab.write(number, &[1; 100]), Outcome::Written));
        assert!(matches!(reader.look(), Look::Overwritten(gone) if gone % 4096 == 4096 - 112));
        let rest: Vec<_> = read_all(&mut reader).iter().map(|record| record.thread).collect();
        assert!(rest.len() > 2 * 36, "{} records", rest.len());
        assert!(rest.iter().copied().eq(500 - rest.len() as u32..500));
    }
}

#[test]
fn without_a_ring_of_its_cpu_a_thread_writes_to_a_shared_one() {
    if !kinds().contains(&Kind::Rseq) {
        return;
    }
    let lab = Lab::new(Kind::Rseq, Geometry { cpus: 0, shared: 2, ..small(Mode::Discard) });
    assert_eq!(lab.write(5, b"x"), Outcome::NotHere);
    let payload = [0u8; 8];
    let record = Record { tag: 8, thread: 5, payload: Payload::Words { from: payload.as_ptr(), len: 8 } };
    // SAFETY: the payload is one whole word.
    assert_eq!(unsafe { lab.writer.write(record) }, Outcome::Written);
    let mut reader = lab.channel.reader(1).expect("thread 5 writes to shared ring 5 modulo 2");
    assert!(reader.is_shared());
    assert_eq!(read_all(&mut reader), [seen(5, &payload)]);
    assert!(lab.channel.reader(2).is_none());
}

#[test]
fn a_time_from_the_future_does_not_hold_up_a_thread() {
    if !kinds().contains(&Kind::Rseq) {
        return;
    }
    let lab = Lab::new(Kind::Rseq, Geometry { clock: Clock::Monotonic, ..small(Mode::Discard) });
    assert_eq!(lab.write(1, b"now"), Outcome::Written);
    // `last_time` is the second control word.
    lab.scribble(8, u64::MAX);
    assert_eq!(lab.write(1, b"then"), Outcome::NotHere);
    lab.scribble(8, 0);
    assert_eq!(lab.write(1, b"again"), Outcome::Written);
    assert_eq!(read_all(&mut lab.reader()), [seen(1, b"now"), seen(1, b"again")]);
}

/// A writer that was killed between reserve and commit, as `pos` shows it.
fn tear(lab: &Lab, at: u64) {
    lab.scribble(0, at + 112);
}

#[test]
fn a_torn_sub_buffer_is_given_up_and_what_it_held_is_counted() {
    let lab = Lab::new(Kind::Atomic, small(Mode::Discard));
    let mut reader = lab.reader();
    assert_eq!(reader.give_up(), None);
    (0..3).for_each(|number| assert_eq!(lab.write(number, &[1; 100]), Outcome::Written));
    assert_eq!(read_all(&mut reader).len(), 3);
    assert_eq!(reader.give_up(), None);
    tear(&lab, 3 * 112);
    (4..9).for_each(|number| assert_eq!(lab.write(number, &[1; 100]), Outcome::Written));
    assert_eq!(reader.look(), Look::Empty);
    let (count, lost) = lab.fill();
    assert_eq!((count, lost), (4 * 36 - 9, Outcome::Lost(Cause::RingFull)));
    assert_eq!(reader.look(), Look::Empty, "left, and never whole");
    // 36 fit: 3 were handed out, 1 was never finished.
    assert_eq!(reader.give_up(), Some(32));
    assert_eq!(reader.position(), 4096);
    assert_eq!(read_all(&mut reader).len(), 3 * 36);
    assert_eq!(reader.give_up(), None);
    assert_eq!(lab.fill(), (0, Outcome::Lost(Cause::Busy)), "the torn one is never entered again");
}

#[test]
fn a_torn_record_in_the_newest_sub_buffer_is_given_up() {
    let lab = Lab::new(Kind::Atomic, small(Mode::Discard));
    let mut reader = lab.reader();
    (0..3).for_each(|number| assert_eq!(lab.write(number, &[1; 100]), Outcome::Written));
    tear(&lab, 3 * 112);
    assert_eq!(reader.look(), Look::Empty);
    assert_eq!(reader.give_up(), Some(3));
    assert_eq!((reader.give_up(), reader.look()), (None, Look::Empty));
    assert_eq!(reader.position(), 4 * 112);
}

#[test]
fn an_unfinished_record_is_never_overwritten() {
    let lab = Lab::new(Kind::Atomic, small(Mode::Overwrite));
    tear(&lab, 0);
    let (count, lost) = lab.fill();
    assert_eq!((count, lost), (4 * 36 - 1, Outcome::Lost(Cause::Busy)));
    assert_eq!(lab.reader().lost()[Cause::Busy as usize], 1);
}

/// Threads that meet at the end of a sub-buffer lose nothing: the ring holds all that they write.
#[test]
fn nothing_is_lost_where_sub_buffers_meet() {
    let geometry = Geometry { count_bits: 12, ..small(Mode::Overwrite) };
    let lab = Lab::new(Kind::Atomic, geometry);
    let each = (geometry.ring_bytes() - (1 << 20)) as u32 / 40 / 4;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let lab = &lab;
            scope.spawn(move || {
                let lost = (0..each).filter(|_| lab.write(thread, &[0; 24]) != Outcome::Written).count();
                assert_eq!(lost, 0, "of {each}");
            });
        }
    });
    assert_eq!(read_all(&mut lab.reader()).len() as u32, each * 4);
}

#[test]
fn a_chunk_goes_to_a_file_with_its_header() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        let mut reader = lab.reader();
        (0..40).for_each(|number| assert_eq!(lab.write(number, &bytes(100, 1)), Outcome::Written));
        let Look::Ready(chunk) = reader.look() else { panic!("whole") };
        let file = mote_sys::mem::sealed_memfd(c"file", 8192).expect("memory");
        let written = reader.write_to(chunk, b"header", &file, 10).expect("written");
        assert_eq!(written, 6 + chunk.len());
        let mut back = vec![0; 8192];
        mote_sys::fd::read_at(&file, &mut back, 0).expect("read");
        assert_eq!(&back[10..16], b"header");
        assert_eq!(&back[16..16 + chunk.len()], bytes_of(&reader, chunk));
    }
}

#[test]
fn a_chunk_that_nobody_handed_out_reads_no_other_memory() {
    let geometry = Geometry { cpus: 0, ..small(Mode::Discard) };
    let channel = Channel::make(geometry, 0..1).expect("memory");
    let reader = channel.reader(0).expect("a ring");
    let mut into = vec![0xaa; 1 << 20];
    let last = geometry.ring_bytes() - 8;
    reader.copy(Chunk { from: last, to: last + (1 << 20), time_end: None, lost: 0 }, &mut into);
    assert!(into[..8].iter().all(|byte| *byte == 0) && into[8..].iter().all(|byte| *byte == 0xaa));
    let backwards = Chunk { from: 100, to: 10, time_end: None, lost: 0 };
    assert_eq!(backwards.len(), 0);
    assert!(reader.copy(backwards, &mut into));
}

#[test]
fn threads_that_stay_know_their_ring() {
    if kinds().contains(&Kind::Rseq) {
        assert_eq!(Some(stay()), mote_sync::rseq::cpu_hint());
    }
}
