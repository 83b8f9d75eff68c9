//! What one event of `tracing` costs: run it alone, and as `mote record -- event_cost`. Prints nanoseconds, the
//! median of nine.

use std::hint::black_box;
use std::time::Instant;

const EVENTS: u64 = 200_000;

fn main() {
    mote_tracing::init();
    let mut runs: Vec<f64> = (0..9).map(|_| run()).collect();
    runs.sort_by(f64::total_cmp);
    let how = if mote_tracing::layer().is_some() { "recorded" } else { "not recorded" };
    println!("{:.1} ns an event of two integers, {how}", runs[runs.len() / 2]);
}

fn run() -> f64 {
    let start = Instant::now();
    for number in 0..EVENTS {
        tracing::info!(number = black_box(number), twice = black_box(2 * number));
    }
    start.elapsed().as_nanos() as f64 / EVENTS as f64
}
