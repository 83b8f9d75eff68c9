//! The atomic writer and the reader under random schedules, with more threads and records than `loom` can run through.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mote-trace-ring --test shuttle_ring`; `SCHEDULES=N` sets how
//! many.
#![cfg(shuttle)]

mod model;

use model::run;
use mote_ring::Mode;

/// Runs `body` under schedules that are random, and under some that change threads at few moments (Burckhardt et al.
/// 2010), which finds what needs a long delay of one thread.
fn explore(body: impl Fn() + Sync + Send + Clone + 'static) {
    let schedules = std::env::var("SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    shuttle::check_random(body.clone(), schedules);
    shuttle::check_pct(body.clone(), schedules, 3);
    shuttle::check_pct(body, schedules, 6);
}

const LISTS: [&[u16]; 4] = [
    &[101, 102, 103, 104, 105, 106, 107, 108, 109, 110],
    &[201, 202, 203, 204, 205, 206, 207, 208, 209, 210],
    &[301, 302, 303, 304, 305, 306, 307, 308, 309, 310],
    &[401, 402, 403, 404, 405, 406, 407, 408, 409, 410],
];

#[test]
fn what_is_emitted_is_read_or_counted() {
    explore(|| {
        let (found, refused, told) = run(Mode::Discard, &[1, 2], LISTS, 30);
        assert_eq!(refused, told, "losses are counted");
        assert_eq!(found.tags.len() as u64 + told, 42, "read or counted");
        assert_eq!(found.overwritten, 0);
        in_order(&found.tags);
    });
}

#[test]
fn a_flight_recorder_shows_whole_records_in_order() {
    explore(|| {
        let (found, refused, told) = run(Mode::Overwrite, &[1, 2], LISTS, 30);
        assert_eq!(refused, told, "losses are counted");
        assert!(found.tags.len() as u64 + told <= 42);
        in_order(&found.tags);
    });
}

/// Each thread's records come in the order in which it wrote them.
fn in_order(tags: &[u16]) {
    for thread in 1..=4 {
        let of_thread: Vec<_> = tags.iter().filter(|tag| **tag / 100 == thread).collect();
        assert!(of_thread.is_sorted(), "out of order: {of_thread:?}");
    }
}
