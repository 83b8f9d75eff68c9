//! `spans`: what spans and events of the crate `tracing` cost: recorded by mote, beside the registry of
//! tracing-subscriber with a layer that does nothing, and beside a program without a subscriber.
//!
//! Each runs in a process of its own, because a program has one global subscriber; they take turns.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, workload};
use super::turns::{Case, in_turns};
use anyhow::Context;
use mote_filter::Rule;
use std::hint::black_box;
use tracing::{info, info_span, subscriber};
use tracing_subscriber::layer::SubscriberExt;

/// Turns of a case in a round.
const TURNS: u64 = 20_000;

/// The subscribers, by the number that the workload takes.
const SUBSCRIBERS: [(&str, Option<&'static str>); 3] =
    [("mote", None), ("registry", Some("registry")), ("off", Some("off"))];

const CASES: [Case; 5] = [
    ("new_close", new_close),
    ("enter_exit", enter_exit),
    ("whole", whole),
    ("event_in_span", event_in_span),
    ("event_alone", event_alone),
];

/// Measures all of them in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut samples = Samples::default();
    for _ in 0..effort.choose(3, 9) {
        for (number, (name, _)) in SUBSCRIBERS.iter().enumerate() {
            let command = workload("spans", &[number as u64, TURNS, effort.choose(3, 9)])?;
            let text = lab.fly_by(vec![Rule::record("bench:*")], command)?;
            samples.read(&text, |case| Some(format!("{name} {case}")))?;
        }
    }
    let figure = |case: &str, name: &str, peer: Option<&'static str>| {
        let figure = Figure::new(case, "ns", samples.of(&format!("{name} {case}")));
        match peer {
            Some(peer) => figure.of_peer(peer),
            None => figure,
        }
    };
    Ok(CASES.iter().flat_map(|(case, _)| SUBSCRIBERS.map(|(name, peer)| figure(case, name, peer))).collect())
}

/// A layer that does nothing.
struct Nothing;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Nothing {}

/// The workload: all cases with a subscriber.
pub(super) fn work(which: u64, turns: u64, rounds: u64) -> anyhow::Result<String> {
    let done = match which {
        0 => subscriber::set_global_default(tracing_subscriber::registry().with(mote_tracing::layer())),
        1 => subscriber::set_global_default(tracing_subscriber::registry().with(Nothing)),
        _ => Ok(()),
    };
    done.context("the program has a subscriber already")?;
    in_turns(&CASES, turns, rounds)
}

fn new_close(turns: u64) {
    for number in 0..turns {
        drop(black_box(info_span!(target: "bench", "short", number = black_box(number))));
    }
}

fn enter_exit(turns: u64) {
    let span = info_span!(target: "bench", "long", number = black_box(1_u64));
    for _ in 0..turns {
        drop(black_box(span.enter()));
    }
}

fn whole(turns: u64) {
    for number in 0..turns {
        let span = info_span!(target: "bench", "request", number = black_box(number));
        drop(black_box(span.enter()));
    }
}

fn event_in_span(turns: u64) {
    let span = info_span!(target: "bench", "around", number = black_box(1_u64));
    let _inside = span.enter();
    for number in 0..turns {
        info!(name: "inside", target: "bench", number = black_box(number), twice = black_box(2 * number));
    }
}

fn event_alone(turns: u64) {
    for number in 0..turns {
        info!(name: "alone", target: "bench", number = black_box(number), twice = black_box(2 * number));
    }
}
