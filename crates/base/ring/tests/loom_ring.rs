//! The atomic writer and the reader in all interleavings and memory orders of a small ring, by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mote-trace-ring --test loom_ring`
#![cfg(loom)]

mod model;

use model::run;
use mote_ring::Mode;

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(body);
}

#[test]
fn two_writers_and_a_reader_across_a_sub_buffer() {
    explore(3, || {
        // Two records are there; of the next ones some enter the second sub-buffer.
        let (found, refused, told) = run(Mode::Discard, &[1, 2], [&[11], &[21]], 2);
        assert_eq!((found.tags.len(), refused, told), (4, 0, 0));
    });
}

#[test]
fn a_full_ring_loses_exactly_what_it_counts() {
    explore(3, || {
        // Six records fill both sub-buffers: there is room only when the reader has been there.
        let (found, refused, told) = run(Mode::Discard, &[1, 2, 3, 4, 5, 6], [&[11], &[21]], 2);
        assert_eq!(refused, told, "losses are counted");
        assert_eq!(found.tags.len() as u64 + told, 8, "written or counted");
    });
}

/// A full ring that is read meanwhile: sub-buffers are closed and entered, and what each says of the losses before it
/// is what was lost.
#[test]
fn a_gap_has_what_was_lost_in_it() {
    explore(2, || {
        let (found, refused, told) = run(Mode::Discard, &[1, 2, 3, 4, 5, 6], [&[11, 12], &[21, 22]], 2);
        assert_eq!(refused, told, "losses are counted");
        assert_eq!(found.tags.len() as u64 + told, 10, "written or counted");
    });
}

#[test]
fn a_flight_recorder_never_shows_a_torn_record() {
    explore(3, || {
        let (found, refused, told) = run(Mode::Overwrite, &[1, 2, 3, 4, 5, 6], [&[11], &[21]], 2);
        assert_eq!(refused, told);
        assert!(found.tags.len() as u64 <= 8 - told);
        let newest = [11, 21].iter().filter(|tag| found.tags.contains(tag)).count() as u64;
        assert_eq!(newest + told, 2, "the newest are there, or counted");
    });
}

#[test]
fn a_writer_that_stops_for_a_lap_keeps_its_bytes() {
    explore(2, || {
        let (found, refused, told) = run(Mode::Overwrite, &[], [&[11], &[21, 22, 23, 24, 25, 26, 27]], 0);
        assert_eq!(refused, told, "who finds it busy counts the loss");
        assert!(found.tags.len() as u64 + told <= 8);
    });
}
