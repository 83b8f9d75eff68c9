//! A simulated kernel slews its clock; the time line through samples of it must stay close.

use mote_clock::{Conversion, Cursor, Disorder, Sample, Timeline};

const TSC_HZ: u64 = 2_100_000_000;
const EPOCH_NS: u64 = 1_790_000_000_000_000_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn within(&mut self, most: i64) -> i64 {
        self.below(2 * most as u64 + 1) as i64 - most
    }
}

/// The kernel's timekeeper: from `ticks` on, `ns = (shifted_ns + (now - ticks) * mult) >> SHIFT`.
#[derive(Clone, Copy)]
struct Era {
    ticks: u64,
    shifted_ns: u128,
    mult: u64,
}

const SHIFT: u32 = 32;

/// The multiplier for a clock that runs `ppb` parts in 10^9 fast.
fn mult(ppb: i64) -> u64 {
    let nominal = (1_000_000_000_u128 << SHIFT) / u128::from(TSC_HZ);
    (nominal as i128 * (1_000_000_000 + i128::from(ppb)) / 1_000_000_000) as u64
}

struct Kernel(Vec<Era>);

impl Kernel {
    fn boot(ticks: u64, ppb: i64) -> Kernel {
        Kernel(vec![Era { ticks, shifted_ns: 77_000_000_000 << SHIFT, mult: mult(ppb) }])
    }

    /// From `ticks` on the clock is `ppb` fast.
    fn change_rate(&mut self, ticks: u64, ppb: i64) {
        let shifted_ns = self.shifted(ticks);
        self.0.push(Era { ticks, shifted_ns, mult: mult(ppb) });
    }

    fn shifted(&self, ticks: u64) -> u128 {
        let era = self.0.iter().rev().find(|era| era.ticks <= ticks).unwrap();
        era.shifted_ns + u128::from(ticks - era.ticks) * u128::from(era.mult)
    }

    fn monotonic_ns(&self, ticks: u64) -> u64 {
        (self.shifted(ticks) >> SHIFT) as u64
    }

    /// A sample whose bracket was `2 * error_ns` wide and whose true error is anything below.
    fn sample(&self, ticks: u64, random: &mut Random) -> Sample {
        let error_ns = 15 + random.below(25);
        let monotonic_ns = self.monotonic_ns(ticks).wrapping_add_signed(random.within(15));
        Sample { ticks, monotonic_ns, realtime_ns: EPOCH_NS + monotonic_ns, error_ns }
    }

    fn samples(&self, from: u64, every: u64, count: u64, random: &mut Random) -> Vec<Sample> {
        (0..count).map(|n| self.sample(from + n * every, random)).collect()
    }
}

/// The greatest difference between time line and kernel at 20 moments per sample; checks on the
/// way that time never runs backwards and that a cursor says the same.
fn worst_ns(kernel: &Kernel, samples: &[Sample], random: &mut Random) -> u64 {
    let timeline = Timeline::new(samples, TSC_HZ).unwrap();
    let mut cursor = Cursor::new(timeline);
    let (from, to) = (samples[0].ticks, samples[samples.len() - 1].ticks);
    let mut moments: Vec<u64> = (0..samples.len() * 20).map(|_| from + random.below(to - from)).collect();
    moments.sort_unstable();
    let (mut worst, mut last) = (0, 0);
    for ticks in moments {
        let ns = timeline.monotonic_ns(ticks);
        assert_eq!(cursor.monotonic_ns(ticks), ns);
        assert!(ns >= last, "time runs backwards at {ticks}");
        last = ns;
        worst = worst.max(ns.abs_diff(kernel.monotonic_ns(ticks)));
    }
    worst
}

/// Steady NTP: the rate changes by up to 1.5 ppm in each second, at a random moment.
#[test]
fn steady_ntp_sampled_each_second_stays_within_a_microsecond() {
    let mut overall = 0;
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut ppb = random.within(100_000);
        let mut kernel = Kernel::boot(0, ppb);
        let start = 5 * TSC_HZ;
        for second in 0..60 {
            ppb += random.within(1_500);
            kernel.change_rate(start + second * TSC_HZ + random.below(TSC_HZ), ppb);
        }
        let samples = kernel.samples(start, TSC_HZ, 60, &mut random);
        let worst = worst_ns(&kernel, &samples, &mut random);
        assert!(worst <= 1_000, "seed {seed}: {worst} ns");
        overall = overall.max(worst);
    }
    eprintln!("1.5 ppm steps, samples each second: at most {overall} ns off");
}

/// `adjtime`: the clock runs 500 ppm fast or slow for some seconds, then as before. A chord alone
/// would be off by up to 12.5 us.
#[test]
fn an_adjtime_slew_sampled_ten_times_a_second_stays_within_a_microsecond() {
    let mut overall = 0;
    for seed in 0..50 {
        let mut random = Random(seed);
        let every = TSC_HZ / 10;
        let base = random.within(50_000);
        let mut kernel = Kernel::boot(0, base);
        let mut at = TSC_HZ;
        for turn in 0..20 {
            at += 3 * every + random.below(TSC_HZ);
            let slew = if turn % 2 == 0 { 500_000 } else { 0 };
            kernel.change_rate(at, base + if seed % 2 == 0 { slew } else { -slew });
        }
        let samples = kernel.samples(TSC_HZ / 2, every, at / every, &mut random);
        let worst = worst_ns(&kernel, &samples, &mut random);
        assert!(worst <= 1_000, "seed {seed}: {worst} ns");
        overall = overall.max(worst);
    }
    eprintln!("500 ppm steps, samples each 100 ms: at most {overall} ns off");
}

/// The bound that the module promises for any number of changes: twice that of the chord.
#[test]
fn wild_rates_stay_within_twice_the_bound_of_the_chord() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut kernel = Kernel::boot(0, 0);
        let mut at = 0;
        for _ in 0..200 {
            at += 1 + random.below(TSC_HZ / 10);
            kernel.change_rate(at, random.within(100_000));
        }
        let samples = kernel.samples(1, TSC_HZ / 10, at / (TSC_HZ / 10), &mut random);
        let worst = worst_ns(&kernel, &samples, &mut random);
        // 200 ppm between the extremes, 0.1 s apart; and the errors of the samples.
        assert!(worst <= 2 * 200 * 100_000 / 4 / 1_000 + 100, "seed {seed}: {worst} ns");
    }
}

#[test]
fn beyond_the_ends_the_line_goes_on_at_the_mean_rate() {
    let mut random = Random(3);
    let kernel = Kernel::boot(0, 20_000);
    let samples = kernel.samples(3 * TSC_HZ, TSC_HZ / 10, 40, &mut random);
    let timeline = Timeline::new(&samples, 0).unwrap();
    for ticks in [2 * TSC_HZ, 3 * TSC_HZ - 1, 8 * TSC_HZ] {
        let off = timeline.monotonic_ns(ticks).abs_diff(kernel.monotonic_ns(ticks));
        assert!(off <= 100, "{off} ns at {ticks}");
    }
    // All the way out: no panic, and still no step back.
    let ends = [0, samples[0].ticks, samples[39].ticks, 1 << 63, u64::MAX];
    let times = ends.map(|ticks| timeline.monotonic_ns(ticks));
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn one_sample_and_a_frequency_make_a_line() {
    let sample = [Sample { ticks: 500, monotonic_ns: 1_000, realtime_ns: 9_000, error_ns: 0 }];
    let timeline = Timeline::new(&sample, 500_000_000).unwrap();
    let times = [0, 499, 500, 501].map(|ticks| timeline.monotonic_ns(ticks));
    assert_eq!(times, [0, 998, 1_000, 1_002]);
    assert_eq!(timeline.realtime_ns(501), 9_002);
}

#[test]
fn a_wall_clock_that_is_set_does_not_bend_the_line() {
    let at = |ticks, offset| Sample { ticks, monotonic_ns: ticks, realtime_ns: ticks + offset, error_ns: 0 };
    let samples = [at(1_000, 50), at(2_000, 1_000_000), at(3_000, 7)];
    let timeline = Timeline::new(&samples, 0).unwrap();
    assert_eq!([900, 1_500, 2_500, 9_000].map(|t| timeline.realtime_ns(t)), [950, 1_550, 2_550, 9_050]);
}

#[test]
fn disorder_is_refused_with_its_place() {
    let at = |ticks, monotonic_ns| Sample { ticks, monotonic_ns, ..Sample::default() };
    let refused = |samples: &[Sample]| Timeline::new(samples, 0).err();
    assert_eq!(refused(&[]), Some(Disorder::Empty));
    assert_eq!(refused(&[at(1, 1)]), Some(Disorder::Frequency(0)));
    assert_eq!(refused(&[at(1, 1), at(2, 2), at(2, 3)]), Some(Disorder::Ticks(2)));
    assert_eq!(refused(&[at(1, 5), at(2, 4)]), Some(Disorder::Monotonic(1)));
    assert_eq!(refused(&[at(1, 0), at(2, u64::MAX)]), Some(Disorder::Monotonic(1)));
    assert_eq!(Disorder::Ticks(2).to_string(), "clock sample 2: the counter did not advance");
}

/// Samples come out of files: whatever they hold, nothing panics and time does not run backwards.
#[test]
fn hostile_samples_do_no_harm() {
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let shrink = random.below(60);
        let mut samples = [(); 6].map(|()| Sample {
            ticks: random.next() >> shrink,
            monotonic_ns: random.next() >> random.below(64),
            realtime_ns: random.next() >> random.below(64),
            error_ns: random.next(),
        });
        samples.sort_unstable_by_key(|sample| sample.ticks);
        let mut times = samples.map(|sample| sample.monotonic_ns);
        times.sort_unstable();
        for (sample, ns) in samples.iter_mut().zip(times) {
            sample.monotonic_ns = ns;
        }
        let _ = Conversion::fit(&samples).map(|line| line.worst_deviation_ns(&samples));
        let Ok(timeline) = Timeline::new(&samples, 0) else { continue };
        let mut moments = [(); 200].map(|()| random.next() >> random.below(64));
        for (moment, sample) in moments.iter_mut().zip(samples.iter().flat_map(|s| [s; 3])) {
            *moment = sample.ticks.wrapping_add_signed(random.within(1));
        }
        moments.sort_unstable();
        let times = moments.map(|ticks| timeline.realtime_ns(ticks));
        assert!(times.is_sorted(), "seed {seed}");
    }
}
