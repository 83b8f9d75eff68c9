//! What perf says of Intel PT (`AUXTRACE_INFO`), and how the time stamp counter becomes perf's time.
//!
//! Source: Linux 6.1, tools/perf/util/intel-pt.h, and `struct perf_event_mmap_page` in linux/perf_event.h.

use crate::record::Record;

/// `PERF_AUXTRACE_INTEL_PT`
pub const KIND: u32 = 1;

/// How the time stamp counter becomes nanoseconds of perf's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// `ns = zero + (tsc * mult >> shift)`.
    pub shift: u16,
    /// See `shift`; 0: not known.
    pub mult: u32,
    /// See `shift`.
    pub zero: u64,
}

impl Clock {
    /// That of a machine whose counter counts so many times a second, and whose clock is 0 with it.
    #[must_use]
    pub fn of_hz(hz: u64) -> Clock {
        Clock::of_rate(1_000_000_000, hz.max(1)).unwrap_or_default()
    }

    /// That of a machine whose counter counts so many ticks in so many nanoseconds, and whose clock is 0 with it;
    /// nothing where there are no ticks, or 2^32 nanoseconds and more for each.
    #[must_use]
    pub fn of_rate(ns: u64, ticks: u64) -> Option<Clock> {
        // As many bits as `mult` has room for.
        let mult = |shift: u16| u32::try_from((u128::from(ns) << shift).checked_div(ticks.into())?).ok();
        let (shift, mult) = (0..=32).rev().find_map(|shift| Some((shift, mult(shift)?)))?;
        Some(Clock { shift, mult, zero: 0 })
    }

    /// When the counter is `tsc`.
    #[must_use]
    pub fn nanoseconds(&self, tsc: u64) -> u64 {
        let shift = self.shift.min(63);
        let product = (u128::from(tsc) * u128::from(self.mult)) >> shift;
        self.zero.wrapping_add(product as u64)
    }

    /// What the counter is at this time: rounded down, so that what was made of a counter's value by
    /// [`Clock::nanoseconds`] is at most that value; 0 before it was 0. The counter may have begun before the kernel's
    /// clock: `zero` is below 0 then, in 64 bits.
    #[must_use]
    pub fn tsc(&self, nanoseconds: u64) -> u64 {
        let shift = self.shift.min(63);
        let since = nanoseconds.wrapping_sub(self.zero).cast_signed().max(0).cast_unsigned();
        let since = u128::from(since) << shift;
        (since / u128::from(self.mult.max(1))).try_into().unwrap_or(u64::MAX)
    }

    /// How often the counter counts in a second; 0 where it is not known.
    #[must_use]
    pub fn hz(&self) -> u64 {
        if self.mult == 0 {
            return 0;
        }
        ((1_000_000_000_u128 << self.shift.min(63)) / u128::from(self.mult)).try_into().unwrap_or(u64::MAX)
    }
}

/// What perf says of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The unit's number: that of the event's [`kind`](crate::Attribute::kind).
    pub unit: u32,
    /// The clock, where the kernel says it.
    pub clock: Option<Clock>,
    /// Which bit of [`config`](crate::Attribute::config) switches TSC packets on; 0: none.
    pub tsc_bit: u64,
    /// Which one return compression off.
    pub no_return_compression_bit: u64,
    /// 0: switches of threads are not recorded; 1: by sched_switch; 2: by `PERF_RECORD_SWITCH`; 3: of all CPUs.
    pub switches: u64,
    /// Memory was written over; pieces are snapshots.
    pub is_snapshot: bool,
    /// Memory is of CPUs, not of threads.
    pub per_cpu: bool,
    /// Which bit switches MTC packets on.
    pub mtc_bit: u64,
    /// Which bits are their period.
    pub mtc_period_bits: u64,
    /// Ticks of the TSC for each of the crystal clock: CPUID.15H, EBX and EAX; 0: not known.
    pub tsc_per_art: (u32, u32),
    /// Which bit switches CYC packets on.
    pub cyc_bit: u64,
    /// The TSC's frequency in 100 MHz; 0: not known.
    pub max_nonturbo_ratio: u64,
    /// The address filter.
    pub filter: String,
}

/// Words before the filter, as perf wrote them at first and since Linux 4.1, 4.3, 4.9.
const WORDS_MIN: usize = 10;
const WORDS_BEFORE_FILTER: usize = 17;

impl Info {
    /// Reads the words of [`Record::AuxtraceInfo`]; those that an old perf has not written are 0.
    #[must_use]
    pub fn read(words: &[u64]) -> Option<Info> {
        if words.len() < WORDS_MIN {
            return None;
        }
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let has_zero = word(4) & 0xff != 0;
        let clock = Clock { shift: word(1) as u16, mult: word(2) as u32, zero: word(3) };
        Some(Info {
            unit: word(0) as u32,
            clock: Some(clock).filter(|clock| has_zero && clock.mult != 0),
            tsc_bit: word(5),
            no_return_compression_bit: word(6),
            switches: word(7),
            is_snapshot: word(8) != 0,
            per_cpu: word(9) != 0,
            mtc_bit: word(10),
            mtc_period_bits: word(11),
            tsc_per_art: (word(12) as u32, word(13) as u32),
            cyc_bit: word(14),
            max_nonturbo_ratio: word(15),
            filter: filter(words),
        })
    }

    /// The record.
    #[must_use]
    pub fn write(&self) -> Record {
        let clock = self.clock.unwrap_or_default();
        let len = self.filter.len() as u64;
        let mut words = vec![
            self.unit.into(),
            clock.shift.into(),
            clock.mult.into(),
            clock.zero,
            self.clock.is_some().into(),
            self.tsc_bit,
            self.no_return_compression_bit,
            self.switches,
            self.is_snapshot.into(),
            self.per_cpu.into(),
            self.mtc_bit,
            self.mtc_period_bits,
            self.tsc_per_art.0.into(),
            self.tsc_per_art.1.into(),
            self.cyc_bit,
            self.max_nonturbo_ratio,
            len,
        ];
        let mut bytes = self.filter.as_bytes().to_vec();
        let filled = if len == 0 { 0 } else { (bytes.len() + 1).next_multiple_of(8) };
        bytes.resize(filled, 0);
        words.extend(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        Record::AuxtraceInfo { kind: KIND, words }
    }

    /// MTCFreq in an event's [`config`](crate::Attribute::config).
    #[must_use]
    pub fn mtc_period(&self, config: u64) -> Option<u8> {
        let is_on = self.mtc_bit != 0 && config & self.mtc_bit != 0;
        let shift = self.mtc_period_bits.trailing_zeros() & 63;
        is_on.then(|| ((config & self.mtc_period_bits) >> shift) as u8)
    }
}

fn filter(words: &[u64]) -> String {
    let len = words.get(WORDS_BEFORE_FILTER - 1).copied().unwrap_or(0);
    let bytes: Vec<u8> = words.iter().skip(WORDS_BEFORE_FILTER).flat_map(|word| word.to_le_bytes()).collect();
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        let clock = Clock::of_hz(2_400_000_000);
        assert_eq!((clock.nanoseconds(2_400_000_000), clock.hz()), (999_999_999, 2_400_000_000));
        for clock in
            [clock, Clock { shift: 10, mult: 427, zero: u64::MAX - 3 }, Clock { zero: 1 << 60, ..clock }]
        {
            for tsc in [0, 1, 77, 1 << 33, 1 << 52] {
                let back = clock.tsc(clock.nanoseconds(tsc));
                // The clock's steps are coarser or finer than the counter's.
                let is_near = back <= tsc && tsc - back <= 1 + (1 << clock.shift) / u64::from(clock.mult);
                assert!(is_near, "{clock:?} {tsc} {back}");
            }
        }
        assert_eq!(Clock { zero: 1 << 60, ..clock }.tsc(5), 0, "it had not begun");
        assert_eq!(Clock::of_rate(5_000_000_000, 12_000_000_000), Some(clock));
        assert_eq!([(1, 0), (1 << 32, 1)].map(|(ns, ticks)| Clock::of_rate(ns, ticks)), [None; 2]);
        assert_eq!(Clock::default().hz(), 0);
        assert_eq!(Clock::default().tsc(5), 5);
    }

    #[test]
    fn what_perf_says_is_read_and_written() {
        let info = Info {
            unit: 8,
            clock: Some(Clock { shift: 10, mult: 427, zero: 12345 }),
            tsc_bit: 0x400,
            no_return_compression_bit: 0x800,
            switches: 2,
            is_snapshot: true,
            per_cpu: true,
            mtc_bit: 0x200,
            mtc_period_bits: 0x3c000,
            tsc_per_art: (300, 2),
            cyc_bit: 2,
            max_nonturbo_ratio: 36,
            filter: "filter 0x10/0x20@/bin/a".to_owned(),
        };
        let Record::AuxtraceInfo { kind, words } = info.write() else { panic!("not this one") };
        assert_eq!((kind, words.len()), (KIND, WORDS_BEFORE_FILTER + 3));
        assert_eq!(Info::read(&words), Some(info.clone()));
        assert_eq!(info.mtc_period(0x300_e601), Some(3));
        assert_eq!(info.mtc_period(0x401), None);
        // Of Linux 4.0.
        let old = Info::read(&words[..10]).expect("enough");
        assert_eq!((old.per_cpu, old.mtc_bit, old.filter.as_str()), (true, 0, ""));
        assert_eq!(Info::read(&words[..9]), None);
    }
}
