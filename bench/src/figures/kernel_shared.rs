//! Reading a value that eBPF programs of the kernel share with a process: mapped, by bpf(2), and a plain load beside them.
//!
//! `table2` is laid out as table 2 of Sharma & Dagenais 2016: 1,000 reads, mean and standard deviation.

use super::Effort;
use super::figure::{Figure, Samples};
use super::stopwatch::{thread_ns, wall_ns};
use anyhow::Context;
use mote_sys::bpf::mapped::Mapped;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads of one row of the table.
const TABLE_READS: u64 = 1_000;
const PAGE: u32 = 4096;

/// Measures all ways in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let shared = match Mapped::create("mote_bench", PAGE) {
        Ok(shared) => shared,
        Err(why) => return Ok(absent(&format!("the kernel makes no map: {why}"))),
    };
    shared.store64(0, 42);
    let plain = AtomicU64::new(42);
    let (rounds, reads, tables) = effort.choose((7, 1_000_000, 200), (31, 20_000_000, 2_000));
    let ways = Ways { plain: &plain, shared: &shared };
    let mut samples = Samples::default();
    for round in 0..=rounds {
        for (way, fewer) in [("plain", 1), ("mapped", 1), ("syscall", 100)] {
            let count = reads / fewer;
            let begin = thread_ns();
            ways.read(way, count)?;
            let ns = (thread_ns() - begin) as f64 / count as f64;
            if round > 0 {
                samples.add(way, ns);
            }
        }
    }
    let mut figures: Vec<Figure> = ["plain", "mapped", "syscall"]
        .map(|way| Figure::new(&format!("map_read/{way}"), "ns", samples.of(way)))
        .into();
    figures.extend(table(&ways, tables)?);
    Ok(figures)
}

fn absent(why: &str) -> Vec<Figure> {
    ["plain", "mapped", "syscall"].map(|way| Figure::absent(&format!("map_read/{way}"), "ns", why)).into()
}

/// What is read.
struct Ways<'a> {
    plain: &'a AtomicU64,
    shared: &'a Mapped,
}

impl Ways<'_> {
    fn read(&self, way: &str, count: u64) -> anyhow::Result<u64> {
        match way {
            "baseline" => Ok(turns(count, || 0)),
            "plain" => Ok(turns(count, || self.plain.load(Ordering::Acquire))),
            "mapped" => Ok(turns(count, || self.shared.load64(0))),
            _ => self.by_system_call(count),
        }
    }

    fn by_system_call(&self, count: u64) -> anyhow::Result<u64> {
        let (map, mut value, mut sum) = (self.shared.map(), [0; PAGE as usize], 0u64);
        for _ in 0..count {
            map.lookup(&0u32.to_ne_bytes(), &mut value).context("bpf(2) reads no value")?;
            sum = sum.wrapping_add(u64::from(value[0]));
        }
        Ok(black_box(sum))
    }
}

/// The loop around each way; all have the same.
#[inline(always)]
fn turns(count: u64, mut read: impl FnMut() -> u64) -> u64 {
    let mut sum = 0u64;
    for _ in 0..count {
        sum = sum.wrapping_add(read());
        // Each turn reads again, and the loop stays.
        black_box(());
    }
    black_box(sum)
}

/// Table 2: time of 1,000 reads in microseconds, each row's mean with the standard deviation beside it.
fn table(ways: &Ways<'_>, rows: u64) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for way in ["baseline", "mapped", "syscall"] {
        ways.read(way, TABLE_READS)?;
        let mut times = Vec::new();
        for _ in 0..rows {
            let begin = wall_ns();
            ways.read(way, TABLE_READS)?;
            times.push((wall_ns() - begin) as f64 / 1_000.0);
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        figures.push(Figure::new(&format!("table2/{way}/mean"), "us", &[mean]));
        figures.push(Figure::new(&format!("table2/{way}/deviation"), "us", &[variance.sqrt()]));
    }
    Ok(figures)
}
