//! No reader sees what is older than one grace period, whatever befalls readers and updaters.
//!
//! The short form of `mote-bench torture rcu`: each flavour for a moment. `TORTURE_MS` sets the milliseconds for each.

mod support;

use mote_reclaim::{Expedited, General, Library, Qsbr, Signal};
use std::time::Duration;
use support::round::{self, Verdict, Weather};
use support::subject::Subject;

/// A flavour and its torture, which returns the violations.
type Case = (&'static str, fn(Duration) -> u64);

fn torture<S: Subject>(length: Duration) -> u64 {
    let one = |weather: Weather| {
        let verdict: Verdict = round::run::<S>(weather, length / 2, 1);
        println!("{:6} {:10} {verdict:?}", weather.name(), S::NAME);
        verdict.violations
    };
    Weather::ALL.into_iter().map(one).sum()
}

#[test]
fn readers_see_ages_of_zero_and_one_only() {
    let length = std::env::var("TORTURE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let length = Duration::from_millis(length);
    let only = std::env::var("TORTURE_CASE").unwrap_or_default();
    let cases: [Case; 5] = [
        (Qsbr::NAME, torture::<Qsbr>),
        (General::NAME, torture::<General>),
        (Expedited::NAME, torture::<Expedited>),
        (Signal::NAME, torture::<Signal>),
        (Library::NAME, torture::<Library>),
    ];
    let chosen = cases.iter().filter(|(name, _)| name.contains(&only));
    let violations: u64 = chosen.map(|(_, torture)| torture(length)).sum();
    assert_eq!(violations, 0);
}
