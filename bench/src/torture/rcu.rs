//! `torture rcu`: each flavour in each weather, and the ages of what readers saw.

use super::finding::{Finding, add};
use mote_reclaim::{Expedited, General, Library, Qsbr, Signal};
use std::time::Duration;
use support::round::{self, Verdict, Weather};
use support::subject::Subject;

#[path = "../../../lib/rcu/tests/support/mod.rs"]
mod support;

type Scenario = (&'static str, fn(Weather, Duration, u64) -> Verdict);

const FLAVORS: [Scenario; 5] = [
    (Qsbr::NAME, round::run::<Qsbr>),
    (General::NAME, round::run::<General>),
    (Expedited::NAME, round::run::<Expedited>),
    (Signal::NAME, round::run::<Signal>),
    (Library::NAME, round::run::<Library>),
];

/// Runs all flavours within `length`, and reports each.
pub(super) fn run(length: Duration, report: impl Fn(&Finding)) -> Finding {
    let share = length / (FLAVORS.len() * Weather::ALL.len()) as u32;
    let seed = mote_sys::tsc::count();
    let mut sum = Finding::default();
    for (name, round) in FLAVORS {
        for weather in Weather::ALL {
            let case = format!("{}/{name}", weather.name());
            let finding = finding(case, round(weather, share, seed));
            report(&finding);
            add(&mut sum, &finding);
        }
    }
    sum
}

fn finding(case: String, verdict: Verdict) -> Finding {
    let details = format!(
        "ages {:?}, {} updates, {} handlers, {} readers came, {} died inside, {} forks",
        verdict.ages,
        verdict.updates.iter().sum::<u64>(),
        verdict.in_handlers,
        verdict.lives,
        verdict.deaths_inside,
        verdict.forks
    );
    Finding {
        case,
        violations: verdict.violations,
        events: verdict.sections(),
        lost_counted: None,
        details,
        messages: verdict.messages,
    }
}
