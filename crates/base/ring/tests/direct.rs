//! The shortest way of small records: what it writes is what the general way would have written.

mod common;

use common::{Kind, Lab, Seen, bytes_of, read_all, small, stay};
use mote_layout::record::{PREFIX_BYTES, split};
use mote_ring::direct::{Piece, Row, Shape};
use mote_ring::reader::Look;
use mote_ring::timing::{Noted, Noting, Now};
use mote_ring::{Direct, Mode, Outcome};
use mote_sync::{rseq, thread};
use std::cell::Cell;

/// What the threads of these tests are called.
const THREAD: u32 = 77;

struct Three;

impl Row for Three {
    const COUNT: usize = 3;
}

/// A channel for good, as `Direct` asks for; `None` where there are no restartable sequences.
fn lab(mode: Mode) -> Option<&'static Lab> {
    if !rseq::find() {
        mote_skip::skip("the shortest way: the C library has registered no restartable sequences");
        return None;
    }
    thread::set_id(THREAD);
    Some(Box::leak(Box::new(Lab::new(Kind::Rseq, small(mode)))))
}

/// Fields of these lengths, and the bytes that they are together.
fn three(lens: [usize; 3], seed: usize) -> ([Piece; 3], Vec<u8>) {
    let mut bytes = Vec::new();
    let pieces = lens.map(|len| {
        let mut word = [0; 8];
        word[..len]
            .iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = (seed * 31 + at * 7 + len) as u8 | 1);
        bytes.extend(&word[..len]);
        Piece { value: u64::from_le_bytes(word), len: len as u64 }
    });
    (pieces, bytes)
}

/// Writes `bytes` by the general way.
fn write_otherwise(to: Direct, bytes: &[u8]) -> Outcome {
    let mut words = [0u64; 4];
    for (word, some) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..some.len()].copy_from_slice(some);
        *word = u64::from_le_bytes(whole);
    }
    // SAFETY: the words are there.
    unsafe { to.write_otherwise(words.as_ptr().cast(), bytes.len()) }
}

#[test]
fn pieces_of_every_length_follow_one_another_at_every_place() {
    let Some(lab) = lab(Mode::Discard) else { return };
    let mut reader = lab.reader();
    let (mut straight, mut otherwise) = (0, 0);
    let mut expect = Vec::new();
    // The first records of a round move the others to places that they had not before.
    for round in 0..23 {
        for number in 0..round + 9 * 9 * 9 {
            let lens = [number % 9, number / 9 % 9, number / 81 % 9];
            let (pieces, bytes) = three(lens, number + round);
            let to = Direct::to(&lab.writer, bytes.len() as u16).expect("sequences, and the TSC");
            // SAFETY: three pieces, of 8 bytes at most.
            if unsafe { to.write_pieces::<Three>(Now, pieces.as_ptr()) } {
                straight += 1;
            } else {
                otherwise += 1;
                assert_eq!(write_otherwise(to, &bytes), Outcome::Written);
            }
            expect.push(Seen { tag: bytes.len() as u16, thread: THREAD, payload: bytes });
            if expect.len() == 100 {
                assert_eq!(read_all(&mut reader), expect, "{lens:?} in round {round}");
                expect.clear();
            }
        }
    }
    println!("{straight} straight on, {otherwise} at the end of a sub-buffer");
    assert!(otherwise >= 23 && straight > 50 * otherwise, "{straight} {otherwise}");
}

#[test]
fn pieces_keep_away_from_the_next_sub_buffer() {
    let Some(lab) = lab(Mode::Overwrite) else { return };
    let to = Direct::to(&lab.writer, 3).expect("sequences, and the TSC");
    let (pieces, bytes) = three([1, 1, 1], 5);
    let bytes_of = 1 << lab.channel.geometry().sub_bits;
    let record = mote_layout::record::PREFIX_BYTES + bytes.len();
    let mut taken = 0;
    // Room is asked for three pieces of 8 bytes, which is more than what the stores reach.
    for at in (0..bytes_of).step_by(record) {
        // SAFETY: as above.
        let written = unsafe { to.write_pieces::<Three>(Now, pieces.as_ptr()) };
        if !written {
            assert!(at == 0 || at + record + 21 >= bytes_of, "room at {at}");
            if at > 0 {
                break;
            }
            assert_eq!(write_otherwise(to, &bytes), Outcome::Written);
        } else {
            assert!(at + record + 21 < bytes_of, "a store behind the end at {at}");
        }
        taken += 1;
    }
    assert!(taken > 250, "{taken}");
}

struct TwoWords;

impl Shape for TwoWords {
    const LEN: usize = 16;
    const SECOND_AT: usize = 8;
}

/// A position at the last byte of a sub-buffer says that it is closed: no record may end there.
#[test]
fn no_record_ends_where_a_position_says_that_the_sub_buffer_is_closed() {
    let (pieces, bytes) = three([8, 8, 8], 5);
    let words = bytes.as_ptr().cast::<u8>();
    type Way<'w> = &'w dyn Fn(Direct) -> bool;
    let ways: [(usize, Way<'_>); 5] = [
        (0, &|to| to.write_none(Now)),
        (16, &|to| to.write_two::<TwoWords>(Now, 1, 2)),
        // SAFETY: 16 bytes.
        (16, &|to| unsafe { to.write_packed(1, 2, 16) }),
        // SAFETY: three pieces, of 8 bytes.
        (24, &|to| unsafe { to.write_pieces::<Three>(Now, pieces.as_ptr()) }),
        // SAFETY: there are 24 bytes.
        (24, &|to| unsafe { to.write_words(words, 24) }),
    ];
    for (len, write) in ways {
        for short_of in 0..=2 {
            let Some(lab) = lab(Mode::Discard) else { return };
            let to = |len: usize| Direct::to(&lab.writer, len as u16).expect("sequences, and the TSC");
            stay();
            let room = PREFIX_BYTES + len + short_of;
            let before = vec![7; (1 << lab.channel.geometry().sub_bits) - room - PREFIX_BYTES];
            assert_eq!(lab.write(0, &before), Outcome::Written);
            let at_first = write(to(len));
            assert!(short_of == 2 || !at_first, "{len} bytes with {short_of} more to the end");
            assert_eq!(write_otherwise(to(3), &[0; 3]), Outcome::Written);
            let written = 2 + usize::from(at_first);
            assert_eq!(
                read_all(&mut lab.reader()).len(),
                written,
                "{len} bytes with {short_of} more to the end"
            );
        }
    }
}

/// The times of all records that are there, of no fields.
fn times(lab: &Lab) -> Vec<u64> {
    let mut reader = lab.reader();
    let mut times = Vec::new();
    while let Look::Ready(chunk) = reader.look() {
        let bytes = bytes_of(&reader, chunk);
        times.extend(bytes.chunks(PREFIX_BYTES).map(|record| {
            let (header, _) = record.split_first_chunk().expect("a whole prefix");
            split(u64::from_le_bytes(*header)).1
        }));
        reader.release(chunk);
    }
    times
}

#[test]
fn two_rings_have_one_time_unless_something_came_between() {
    let (Some(one), Some(other)) = (lab(Mode::Discard), lab(Mode::Discard)) else { return };
    let to = |lab: &'static Lab| Direct::to(&lab.writer, 5).expect("sequences, and the TSC");
    let (to_one, to_other) = (to(one), to(other));
    stay();
    assert_eq!(write_otherwise(to_one, &[]), Outcome::Written, "the first sub-buffer is entered");
    assert_eq!(write_otherwise(to_other, &[]), Outcome::Written);

    let mut shared = 0;
    for _ in 0..50 {
        let moment = Cell::new(to_other.look());
        assert!(to_one.write_none(Noting(&moment)));
        shared += usize::from(to_other.write_none(Noted(&moment)));
    }
    let moment = Cell::new(to_other.look());
    assert!(to_one.write_none(Noting(&moment)));
    assert!(to_other.write_none(Now), "what comes between");
    assert!(!to_other.write_none(Noted(&moment)), "an earlier time than the last one");

    let (first, second) = (times(one), times(other));
    assert_eq!((first.len(), second.len(), shared), (52, 52, 50));
    assert_eq!(first[1..51], second[1..51]);
    assert!(second.is_sorted(), "{second:?}");
}

#[test]
fn a_time_of_another_ring_is_not_taken() {
    let (Some(one), Some(other)) = (lab(Mode::Discard), lab(Mode::Discard)) else { return };
    let to = |lab: &'static Lab| Direct::to(&lab.writer, 5).expect("sequences, and the TSC");
    stay();
    for lab in [one, other] {
        assert_eq!(write_otherwise(to(lab), &[]), Outcome::Written);
    }
    // As when rings were exchanged in between: the position is the same, and the ring is another one.
    let moment = Cell::new(to(one).look());
    assert!(!to(other).write_none(Noted(&moment)));
}
