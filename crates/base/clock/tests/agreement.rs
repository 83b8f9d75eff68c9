//! The time line against this machine's kernel: at random moments of a second, converted ticks
//! agree with `CLOCK_MONOTONIC` within a microsecond.
//!
//! Nothing here depends on how fast the machine is: each reading is judged against the width of
//! its own bracket, and a reading that was preempted has a wide one.

use mote_clock::{
    Conversion, SAMPLE_INTERVAL_NS, Sample, Source, Timeline, frequency_error_ppb, frequency_hz, quick_pair,
};
use mote_sys::time::{ClockId, clock_gettime, sleep};

/// Ticks, with monotonic time right before and right after.
struct Reading {
    before_ns: u64,
    ticks: u64,
    after_ns: u64,
}

impl Reading {
    fn take(source: Source) -> Reading {
        let before_ns = clock_gettime(ClockId::Monotonic);
        let ticks = source.ticks();
        Reading { before_ns, ticks, after_ns: clock_gettime(ClockId::Monotonic) }
    }

    /// How far `ns` lies outside the bracket.
    fn outside_ns(&self, ns: u64) -> u64 {
        self.before_ns.saturating_sub(ns).max(ns.saturating_sub(self.after_ns))
    }
}

/// Samples for a second as the consumer does, with readings at odd moments between.
fn record(source: Source) -> (Vec<Sample>, Vec<Reading>) {
    let (mut samples, mut readings) = (vec![Sample::take(source)], Vec::new());
    let mut pause_ns = 1_234_567;
    while samples.len() < 11 {
        pause_ns = pause_ns * 48_271 % 7_000_003;
        let _ = sleep(pause_ns);
        readings.push(Reading::take(source));
        let last = samples[samples.len() - 1];
        if clock_gettime(ClockId::Monotonic) - last.monotonic_ns >= SAMPLE_INTERVAL_NS {
            samples.push(Sample::take(source));
        }
    }
    (samples, readings)
}

fn agrees(source: Source) {
    let (samples, readings) = record(source);
    let line = Conversion::fit(&samples).unwrap();
    let timeline = Timeline::new(&samples, line.freq_hz()).unwrap();

    let error_ns = samples.iter().map(|sample| sample.error_ns).max().unwrap();
    let mut off_ns: Vec<u64> = Vec::new();
    for reading in &readings {
        let ns = timeline.monotonic_ns(reading.ticks);
        off_ns.push(ns.abs_diff(reading.before_ns.midpoint(reading.after_ns)));
        let outside_ns = reading.outside_ns(ns);
        assert!(
            outside_ns <= 1_000 + error_ns,
            "{source}: {outside_ns} ns outside the bracket, samples good to {error_ns} ns"
        );
    }
    off_ns.sort_unstable();
    let (median_ns, most_ns) = (off_ns[off_ns.len() / 2], off_ns[off_ns.len() - 1]);
    eprintln!(
        "{source}: {} readings, median {median_ns} ns off, at most {most_ns} ns; \
         {} Hz, linear at most {} ns off; samples good to {error_ns} ns",
        readings.len(),
        line.freq_hz(),
        line.worst_deviation_ns(&samples),
    );
    let mut widths_ns: Vec<u64> = readings.iter().map(|r| r.after_ns - r.before_ns).collect();
    widths_ns.sort_unstable();
    assert!(median_ns <= 1_000 + error_ns + widths_ns[widths_ns.len() / 2]);
}

#[test]
fn the_tsc_agrees_with_the_kernel() {
    let choice = Source::choose(None);
    eprintln!("{choice}");
    if choice.source != Source::Tsc {
        mote_skip::skip(format_args!("the kernel does not trust the tsc: {choice}"));
        return;
    }
    agrees(Source::Tsc);
}

#[test]
fn the_fallback_agrees_with_the_kernel() {
    agrees(Source::Monotonic);
}

#[test]
fn the_quick_estimate_is_as_good_as_it_says() {
    let source = Source::choose(None).source;
    let quick = quick_pair(source, 20_000_000);
    let long = [quick[0], quick_pair(source, 500_000_000)[1]];
    let [quick_hz, long_hz] = [&quick, &long].map(|p| frequency_hz(&p[0], &p[1]).unwrap());
    let bound_ppb = frequency_error_ppb(&quick[0], &quick[1]) + frequency_error_ppb(&long[0], &long[1]);
    let off_ppb = u128::from(quick_hz.abs_diff(long_hz)) * 1_000_000_000 / u128::from(long_hz);
    eprintln!("{quick_hz} Hz in 20 ms, {long_hz} Hz in 0.5 s: {off_ppb} ppb, bound {bound_ppb} ppb");
    // The kernel may slew in between: 500 ppm at most.
    assert!(off_ppb <= u128::from(bound_ppb) + 500_000);
}
