//! Of `kernel`: thresholds, shared words, and the state of the thread, from code and from filters, each beside its
//! floor.
//!
//! The workload runs under a recorder with kernel events, so that all of it is there. What programs pay that are not
//! traced is measured here.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, workload};
use super::turns::{line, per_event, pin};
use anyhow::Context;
use mote::{SharedMap, Syscall, ThreadMap};
use mote_filter::Rule;
use nix::sched::sched_getcpu;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What filters do: the first and the third are the floors of those that follow.
const RULES: [&str; 4] = [
    "bench:field if v * 3 == 7",
    "bench:state if $kernel.switches * 3 == 7",
    "bench:flag do set bench",
    "bench:threshold do threshold write 200us",
];

/// Measures what a program pays for thresholds, for values that the kernel publishes, and for shared words.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let (rounds, turns) = effort.choose((7, 1_000_000), (21, 10_000_000));
    let mut lab = Lab::new()?;
    let mut samples = Samples::default();
    let rules: Result<Vec<Rule>, _> = RULES.iter().map(|text| Rule::parse(text)).collect();
    let rules = rules.map_err(|why| anyhow::anyhow!("a rule of the bench is wrong: {}", why.render()))?;
    let text = match lab.fly_with_kernel(rules, workload("cooperate", &[turns, rounds])?) {
        Ok(text) => text,
        Err(why) => return Ok(vec![Figure::absent("set_threshold/code", "ns", &format!("{why:#}"))]),
    };
    samples.read(&text, |case| Some(case.to_owned()))?;
    for _ in 0..rounds {
        samples.add("untraced", per_event(set, turns) - per_event(empty, turns));
    }
    let added = |case: &str, floor: &str| {
        let pairs = samples.of(case).iter().zip(samples.of(floor));
        pairs.map(|(value, floor)| value - floor).collect::<Vec<_>>()
    };
    let ratio = |case: &str, floor: &str| {
        let pairs = samples.of(case).iter().zip(samples.of(floor));
        pairs.map(|(value, floor)| value / floor).collect::<Vec<_>>()
    };
    Ok(vec![
        Figure::new("set_threshold/code", "ns", &added("set", "empty")),
        Figure::new("set_threshold/guard", "ns", &added("guard", "empty")),
        Figure::new("set_threshold/untraced", "ns", samples.of("untraced")),
        Figure::new("set_threshold/ebpf", "ns", &added("threshold_event", "flag_event")),
        Figure::new("set_threshold/event", "ns", samples.of("threshold_event")),
        Figure::new("state/filter", "ns", &added("state_event", "field_event")),
        Figure::new("state/event", "ns", samples.of("state_event")),
        Figure::new("state/code", "ns", &added("state", "empty")),
        Figure::new("map_read/plain", "ns", samples.of("plain")),
        Figure::new("map_read/mapped", "ns", samples.of("shared")),
        Figure::new("map_read/mapped/plain", "x", &ratio("shared", "plain")),
        Figure::new("shared/thread", "ns", &added("thread", "empty")),
    ])
}

/// What is measured, and its loop.
type Case = (&'static str, fn(u64));

/// The workload of [`run`]: each operation in a loop, beside empty loops and plain loads.
pub(super) fn work(turns: u64, rounds: u64) -> anyhow::Result<String> {
    pin(sched_getcpu()?)?;
    anyhow::ensure!(
        mote::set_threshold(Syscall::WRITE, Duration::from_millis(1)),
        "nobody looks at thresholds"
    );
    let cases: [Case; 11] = [
        ("empty", empty),
        ("set", set),
        ("guard", guard),
        ("plain", plain),
        ("shared", shared),
        ("thread", thread),
        ("state", state),
        ("field_event", field_event),
        ("state_event", state_event),
        ("flag_event", flag_event),
        ("threshold_event", threshold_event),
    ];
    SharedMap::open("bench", 1).context("no shared words")?;
    let mut text = String::new();
    for round in 0..=rounds {
        for (case, body) in cases {
            let ns = per_event(body, turns);
            if round > 0 {
                line(&mut text, case, ns);
            }
        }
    }
    Ok(text)
}

#[inline(never)]
fn empty(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

#[inline(never)]
fn set(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
        mote::set_threshold(Syscall::WRITE, Duration::from_micros(200));
    }
}

#[inline(never)]
fn guard(turns: u64) {
    for turn in 0..turns {
        let guard = mote::threshold(Syscall::WRITE, Duration::from_micros(200));
        black_box(turn);
        drop(guard);
    }
}

/// One load and an addition, of a word whose address is not known before. Nothing else: what is stored on the stack in
/// each turn may happen to lie in the same place of its page as the word, which costs more than the load.
#[inline(never)]
fn plain(turns: u64) {
    let word = AtomicU64::new(7);
    let words = black_box(std::slice::from_ref(&word));
    let mut sum = 0u64;
    for _ in 0..turns {
        sum = sum.wrapping_add(words.first().map_or(0, |word| word.load(Ordering::Relaxed)));
    }
    black_box(sum);
}

#[inline(never)]
fn shared(turns: u64) {
    let Ok(map) = SharedMap::open("bench", 1) else { return };
    let words = black_box(map.words());
    let mut sum = 0u64;
    for _ in 0..turns {
        sum = sum.wrapping_add(words.first().map_or(0, |word| word.load(Ordering::Relaxed)));
    }
    black_box(sum);
}

#[inline(never)]
fn thread(turns: u64) {
    let Ok(map) = ThreadMap::open("bench", 1) else { return };
    for turn in 0..turns {
        black_box(turn);
        black_box(map.get(0));
    }
}

#[inline(never)]
fn state(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
        black_box(mote::thread_state().map(|state| state.switches));
    }
}

#[inline(never)]
fn field_event(turns: u64) {
    for turn in 0..turns {
        mote::event!(bench::field, i: u64 = turn, v: u64 = turn + 5);
    }
}

#[inline(never)]
fn state_event(turns: u64) {
    for turn in 0..turns {
        mote::event!(bench::state, i: u64 = turn, v: u64 = turn + 5);
    }
}

#[inline(never)]
fn flag_event(turns: u64) {
    for turn in 0..turns {
        mote::event!(bench::flag, i: u64 = turn, v: u64 = turn + 5);
    }
}

#[inline(never)]
fn threshold_event(turns: u64) {
    for turn in 0..turns {
        mote::event!(bench::threshold, i: u64 = turn, v: u64 = turn + 5);
    }
}
