//! Loops over one event, and over what an event cannot do without.

use mote_sys::tsc;
use std::hint::black_box;

/// The loop by itself.
#[inline(never)]
pub(super) fn empty(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

/// The reading of the clock by itself.
#[inline(never)]
pub(super) fn rdtsc_alone(turns: u64) {
    for _ in 0..turns {
        black_box(tsc::count());
    }
}

/// What an event cannot do without: the time, and three words in memory.
#[inline(never)]
pub(super) fn rdtsc_stores(turns: u64) {
    let mut record = [0; 3];
    for turn in 0..turns {
        record = [tsc::count(), turn, turn * 3];
        black_box(&mut record);
    }
    black_box(&record);
}

/// An event of two integers.
#[inline(never)]
pub(super) fn two_ints(events: u64) {
    for i in 0..events {
        mote::event!(bench::two_ints, i: i32 = i as i32, v: u64 = i * 3);
    }
}

/// An event without fields.
#[inline(never)]
pub(super) fn none(events: u64) {
    for _ in 0..events {
        mote::event!(bench::none);
    }
}

/// An event of nine texts of 3 bytes. The texts are read anew each time, as those of a real program are.
#[inline(never)]
pub(super) fn nine_strings(events: u64) {
    let texts = ["foo"; 9];
    for _ in 0..events {
        let [a, b, c, d, e, f, g, h, i] = black_box(&texts);
        mote::event!(
            bench::nine_strings,
            a: &str = a,
            b: &str = b,
            c: &str = c,
            d: &str = d,
            e: &str = e,
            f: &str = f,
            g: &str = g,
            h: &str = h,
            i: &str = i,
        );
    }
}
