//! Writers that are interrupted, moved, stopped and killed lose nothing that is not counted, and tear nothing.
//!
//! The short form of `mote-bench torture ring`: every scenario for a moment. `TORTURE_MS` sets the milliseconds for
//! each.

mod support;

use std::time::Duration;
use support::child;
use support::round;
use support::scenario::Case;

#[test]
fn nothing_is_torn_doubled_out_of_order_or_lost_uncounted() {
    let length = std::env::var("TORTURE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let only = std::env::var("TORTURE_CASE").unwrap_or_default();
    child::passes(|| {
        let rseq = mote_sync::rseq::find();
        if !rseq {
            mote_skip::skip("the rseq writer: the C library has registered no restartable sequences");
        }
        let mut violations = 0;
        for (number, case) in Case::all(rseq).into_iter().enumerate() {
            if !case.name().contains(&only) {
                continue;
            }
            // On a busy machine the writers may not come to anything in the time: then they have more.
            let run = |length| {
                let length = Duration::from_millis(length);
                round::run_for(case, length, length.max(Duration::from_millis(300)), number as u64 + 1)
            };
            let tally = [10, 100].iter().fold(run(length), |tally, longer| match tally.events {
                0 => run(length * longer),
                _ => tally,
            });
            println!(
                "{:32} {:9} emitted {:9} read {:9} lost {:5} torn {:6} nested {:4} kills {:3} inside {} violations",
                case.name(),
                tally.emitted,
                tally.events,
                tally.lost_counted,
                tally.torn,
                tally.nested,
                tally.kills,
                tally.killed_inside,
                tally.violations
            );
            tally.messages.iter().for_each(|message| println!("  {message}"));
            assert!(tally.events > 0, "{}: nothing was read", case.name());
            violations += tally.violations;
        }
        assert_eq!(violations, 0);
    });
}
