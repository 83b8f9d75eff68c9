//! `torture ring`: scenarios by each writer in each mode.

use super::finding::{Finding, add};
use std::time::Duration;
use support::round;
use support::scenario::Case;
use support::tally::Tally;

#[path = "../../../crates/base/ring/tests/support/mod.rs"]
mod support;

/// A round has one channel with sizes of its own.
const ROUND: Duration = Duration::from_millis(400);

/// Runs all scenarios within `length`, and reports each.
pub(super) fn run(length: Duration, report: impl Fn(&Finding)) -> Finding {
    let rseq = mote_sync::rseq::find();
    if !rseq {
        mote_skip::skip("the rseq writer: the C library has registered no restartable sequences");
    }
    let cases = Case::all(rseq);
    let share = length / cases.len() as u32;
    let seed = mote_sys::tsc::count();
    let mut sum = Finding::default();
    for (number, case) in (0..).zip(cases) {
        let tally = round::run_for(case, share, share.min(ROUND), seed ^ number);
        let finding = finding(&case.name(), tally);
        report(&finding);
        add(&mut sum, &finding);
    }
    sum
}

fn finding(case: &str, tally: Tally) -> Finding {
    let details = format!(
        "{} emitted in {} rounds, {} by handlers inside a record, {} processes killed, \
         {} of their threads inside a record, {} torn",
        tally.emitted, tally.rounds, tally.nested, tally.kills, tally.killed_inside, tally.torn
    );
    Finding {
        case: case.to_owned(),
        violations: tally.violations,
        events: tally.events,
        lost_counted: Some(tally.lost_counted),
        details,
        messages: tally.messages,
    }
}
