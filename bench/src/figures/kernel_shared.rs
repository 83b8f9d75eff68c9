//! Reading a value that eBPF programs of the kernel share with a process, by bpf(2) and mapped.
//!
//! `table2` is laid out as table 2 of Sharma & Dagenais 2016: 1,000 reads, mean and standard deviation.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::stopwatch::{thread_ns, wall_ns};
use anyhow::Context;
use mote_sys::bpf::mapped::Mapped;
use std::hint::black_box;

/// Reads of one row of the table.
const TABLE_READS: u64 = 1_000;
/// Bytes of the value: a word.
const BYTES: u32 = 8;

/// Measures a read by system call, and the table.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let shared = match Mapped::create("mote_bench", BYTES) {
        Ok(shared) => shared,
        Err(why) => {
            return Ok(vec![Figure::absent(
                "map_read/syscall",
                "ns",
                &format!("the kernel makes no map: {why}"),
            )]);
        }
    };
    shared.store64(0, 42);
    let (rounds, reads, rows) = effort.choose((7, 10_000, 200), (31, 200_000, 2_000));
    let mut samples = Samples::default();
    for round in 0..=rounds {
        let begin = thread_ns();
        by_system_call(&shared, reads)?;
        if round > 0 {
            samples.add("syscall", (thread_ns() - begin) as f64 / reads as f64);
        }
    }
    let mut figures = vec![Figure::new("map_read/syscall", "ns", samples.of("syscall"))];
    figures.extend(row("baseline", rows, || {
        (0..TABLE_READS).for_each(|turn| {
            black_box(turn);
        });
        Ok(())
    })?);
    figures.extend(row("mapped", rows, || {
        (0..TABLE_READS).for_each(|_| {
            black_box(shared.load64(0));
        });
        Ok(())
    })?);
    figures.extend(row("syscall", rows, || by_system_call(&shared, TABLE_READS))?);
    Ok(figures)
}

fn by_system_call(shared: &Mapped, count: u64) -> anyhow::Result<()> {
    let (map, mut value) = (shared.map(), [0; BYTES as usize]);
    for _ in 0..count {
        map.lookup(&0u32.to_ne_bytes(), &mut value).context("bpf(2) reads no value")?;
        black_box(value);
    }
    Ok(())
}

/// A row of the table: microseconds of 1,000 reads, mean and standard deviation of `rows` times.
fn row(way: &str, rows: u64, mut reads: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<[Figure; 2]> {
    reads()?;
    let mut times = Vec::new();
    for _ in 0..rows {
        let begin = wall_ns();
        reads()?;
        times.push((wall_ns() - begin) as f64 / 1_000.0);
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
    let figure = |what: &str, value: f64| Figure::new(&format!("table2/{way}/{what}"), "us", &[value]);
    Ok([figure("mean", mean), figure("deviation", variance.sqrt())])
}
