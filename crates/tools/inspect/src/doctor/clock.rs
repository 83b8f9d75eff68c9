//! The trace clock.

use super::finding::Finding;
use mote_clock::{Sample, Source, quick_pair};

/// Which clock stamps events.
pub(super) fn source() -> Finding {
    const WHAT: &str = "trace clock";
    let choice = Source::choose(None);
    match choice.source {
        Source::Tsc => Finding::ok(WHAT, choice.to_string()),
        _ => Finding::warn(
            WHAT,
            format!("{choice}; an event costs about 20 ns more"),
            "boot with tsc=reliable or ask for the tsc clock, if the machine's counters are known to agree",
        ),
    }
}

/// How far the clock strays from the kernel's while it is predicted from what was.
pub(super) fn agreement() -> Finding {
    const WHAT: &str = "clock agreement";
    const SPAN_NS: u64 = 20_000_000;
    const WANTED_NS: u64 = 1_000;
    const TRIES: usize = 3;
    let source = Source::choose(None).source;
    let mut best = u64::MAX;
    let mut error = 0;
    for _ in 0..TRIES {
        let [first, second] = quick_pair(source, SPAN_NS);
        let [_, third] = quick_pair(source, SPAN_NS);
        let Some(strayed) = strayed_ns(&first, &second, &third) else { continue };
        if strayed < best {
            (best, error) = (strayed, third.error_ns);
        }
        if best < WANTED_NS {
            break;
        }
    }
    let found =
        format!("{best} ns off CLOCK_MONOTONIC after {} ms (measured to {error} ns)", SPAN_NS / 1_000_000);
    match best {
        u64::MAX => Finding::warn(
            WHAT,
            "the clock stands still",
            "run mote doctor again; if the clock still stands, report it",
        ),
        0..WANTED_NS => Finding::ok(WHAT, found),
        _ => Finding::warn(
            WHAT,
            found,
            "run again on an idle machine; on a virtual one, look at the host's load",
        ),
    }
}

/// The distance between the third sample and the line through the first two, in nanoseconds.
fn strayed_ns(first: &Sample, second: &Sample, third: &Sample) -> Option<u64> {
    let ticks = i128::from(second.ticks) - i128::from(first.ticks);
    let nanos = i128::from(second.monotonic_ns) - i128::from(first.monotonic_ns);
    let since = i128::from(third.ticks) - i128::from(second.ticks);
    let predicted = i128::from(second.monotonic_ns) + (since * nanos).checked_div(ticks)?;
    u64::try_from((predicted - i128::from(third.monotonic_ns)).unsigned_abs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straying_is_the_distance_to_the_line() {
        let at = |ticks, monotonic_ns| Sample { ticks, monotonic_ns, ..Sample::default() };
        assert_eq!(strayed_ns(&at(0, 0), &at(300, 100), &at(900, 300)), Some(0));
        assert_eq!(strayed_ns(&at(0, 0), &at(300, 100), &at(900, 307)), Some(7));
        assert_eq!(strayed_ns(&at(5, 0), &at(5, 100), &at(900, 307)), None);
    }
}
