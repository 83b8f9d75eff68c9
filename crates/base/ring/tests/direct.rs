//! The shortest way of small records: what it writes is what the general way would have written.

mod common;

use common::{Kind, Lab, Seen, read_all, small};
use mote_ring::direct::{Piece, Row};
use mote_ring::{Direct, Mode, Outcome};
use mote_sync::{rseq, thread};

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
            if unsafe { to.write_pieces::<Three>(pieces.as_ptr()) } {
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
        let written = unsafe { to.write_pieces::<Three>(pieces.as_ptr()) };
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
