//! From TSC, TMA and MTC to values of the time stamp counter (SDM 33.8.3.2).
//!
//! TMA says how many ticks a TSC was behind a tick of the crystal clock (ART), and the low 16 bits of that tick's
//! number. MTC has 8 bits of the number of a later one. The manual expects that no 256 MTC in succession are missing
//! (33.4.2.12), and so these bits tell which tick it is, unless packets were lost.

use super::bounds::Ticks;
use super::clocks::Clocks;

/// Bits of a TSC packet.
const TSC_BITS: u32 = 56;
/// Bits of the crystal clock's count in TMA.
const TMA_BITS: u32 = 16;
/// The most that its FastCounter counts: 9 bits.
const FAST_MAX: u64 = 511;
/// Bits of it in MTC.
const MTC_BITS: u32 = 8;
/// The highest MTCFreq (33.2.8.2).
const MTC_FREQUENCY_MAX: u8 = 15;

/// What an MTC packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mtc {
    /// When it was written.
    At(Ticks),
    /// It was then or later: packets are missing before it.
    NotBefore(u64),
}

/// The clocks' relation.
#[derive(Debug)]
pub(super) struct Crystal {
    /// TSC ticks per tick of the crystal clock, in lowest terms.
    ratio: Option<(u64, u64)>,
    shift: Option<u8>,
    /// The last TSC, in 64 bits.
    latest: u64,
    /// A TSC that TMA may follow.
    tsc: Option<u64>,
    base: Option<Base>,
}

/// A tick of the crystal clock whose time is known.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// The time of the tick.
    at: Ticks,
    /// Its number, the low `bits` of it.
    art: u64,
    bits: u32,
    /// Ticks from there to the last MTC.
    passed: u64,
    /// No packets were lost since.
    is_whole: bool,
}

impl Crystal {
    pub(super) fn new(clocks: &Clocks) -> Crystal {
        Crystal {
            ratio: clocks.tsc_per_art.and_then(lowest),
            shift: clocks.mtc.filter(|shift| *shift <= MTC_FREQUENCY_MAX),
            latest: clocks.begin,
            tsc: None,
            base: None,
        }
    }

    /// The 64 bits of which a TSC packet has the low 56: those nearest to the last one's.
    pub(super) fn tsc(&mut self, low: u64) -> u64 {
        let missing = low.wrapping_sub(self.latest) << (64 - TSC_BITS);
        let signed = missing as i64 >> (64 - TSC_BITS);
        let tsc = self.latest.checked_add_signed(signed).unwrap_or(low);
        (self.latest, self.tsc, self.base) = (tsc, Some(tsc), None);
        tsc
    }

    /// Another packet than TMA follows TSC, and so none will.
    pub(super) fn forget_tsc(&mut self) {
        self.tsc = None;
    }

    pub(super) fn tma(&mut self, ctc: u16, fast: u16) {
        let (Some(tsc), Some((numerator, denominator))) = (self.tsc.take(), self.ratio) else { return };
        let period = numerator.div_ceil(denominator);
        if period <= FAST_MAX && u64::from(fast) > period {
            // The next tick would have been before the TSC: some processors write that in guests (erratum SKZ84).
            return;
        }
        let high = tsc.saturating_sub(fast.into());
        let low = match denominator {
            // The counter has perhaps overflowed.
            _ if period > FAST_MAX => tsc.saturating_sub(period),
            1 => high,
            // Where a crystal tick is no whole number of TSC ticks, no manual says how the part is rounded.
            _ => high.saturating_sub(1),
        };
        let at = Ticks { low, high };
        self.base = Some(Base { at, art: ctc.into(), bits: TMA_BITS, passed: 0, is_whole: true });
    }

    /// When an MTC was; nothing where that cannot be known.
    pub(super) fn mtc(&mut self, value: u8) -> Option<Mtc> {
        let (base, shift, (numerator, denominator)) = (self.base.as_mut()?, self.shift?, self.ratio?);
        let value = u64::from(value) << shift;
        // Before the first MTC only the bits of TMA are known (perf: `intel_pt_fixup_last_mtc`).
        let modulus = 1 << base.bits.min(u32::from(shift) + MTC_BITS);
        let delta = value.wrapping_sub(base.art) & (modulus - 1);
        let is_first = base.passed == 0;
        if is_first && delta > modulus - (1 << shift) {
            // Of the tick before the TSC: it was written late, or 256 are missing. It says nothing new.
            return None;
        }
        base.passed = base.passed.checked_add(delta)?;
        (base.art, base.bits) = (value, u32::from(shift) + MTC_BITS);
        // The same one again: 256 are missing, or none.
        base.is_whole &= delta != 0 || is_first;
        let product = u128::from(base.passed) * u128::from(numerator);
        let least = u64::try_from(product / u128::from(denominator)).ok()?;
        let most = u64::try_from(product.div_ceil(denominator.into())).ok()?;
        let (low, high) = (base.at.low.checked_add(least)?, base.at.high.checked_add(most)?);
        Some(if base.is_whole { Mtc::At(Ticks { low, high }) } else { Mtc::NotBefore(low) })
    }

    /// Packets were lost, for an unknown time.
    pub(super) fn lose(&mut self) {
        self.tsc = None;
        if let Some(base) = &mut self.base {
            base.is_whole = false;
        }
    }
}

/// A fraction in lowest terms; nothing if it is none.
fn lowest((numerator, denominator): (u32, u32)) -> Option<(u64, u64)> {
    let (mut a, mut b) = (numerator, denominator);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (numerator != 0 && denominator != 0).then(|| (u64::from(numerator / a), u64::from(denominator / a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crystal(ratio: (u32, u32), mtc: u8) -> Crystal {
        Crystal::new(&Clocks { tsc_per_art: Some(ratio), mtc: Some(mtc), ..Clocks::default() })
    }

    fn at(tick: u64) -> Option<Mtc> {
        Some(Mtc::At(Ticks { low: tick, high: tick }))
    }

    /// SDM 33.8.3.2: CTC of the MTC less that of TMA, times P, behind TSC less FastCounter.
    #[test]
    fn mtc_is_related_by_tma() {
        let mut crystal = crystal((200, 2), 3);
        assert_eq!(crystal.mtc(5), None);
        assert_eq!(crystal.tsc(1_000_040), 1_000_040);
        assert_eq!(crystal.mtc(5), None);
        crystal.tma(0x1234, 40);
        // 0x1234 is 4 ticks behind 0x1230, whose bits 3 to 10 are 0x46.
        assert_eq!(crystal.mtc(0x47), at(1_000_000 + 4 * 100));
        assert_eq!(crystal.mtc(0x48), at(1_000_000 + 12 * 100));
        // Some are missing; then the 8 bits wrap.
        assert_eq!(crystal.mtc(0x50), at(1_000_000 + 76 * 100));
        assert_eq!(crystal.mtc(0x02), at(1_000_000 + (0x1800 + 0x10 - 0x1234) * 100));
    }

    #[test]
    fn the_tick_of_the_tsc_itself_may_follow() {
        let mut crystal = crystal((100, 1), 3);
        crystal.tsc(5000);
        crystal.tma(0x18, 0);
        assert_eq!(crystal.mtc(3), at(5000));
        crystal.tsc(5040);
        crystal.tma(0x19, 40);
        assert_eq!(crystal.mtc(3), None, "of the tick before");
        assert_eq!(crystal.mtc(4), at(5000 + 700));
    }

    /// MTCFreq above 8: TMA does not have all bits of MTC (33.4.2.13).
    #[test]
    fn bits_that_tma_lacks_follow_from_the_first_mtc() {
        let mut crystal = crystal((10, 1), 12);
        crystal.tsc(1 << 40);
        crystal.tma(0xf800, 0);
        assert_eq!(crystal.mtc(0xa0), at((1 << 40) + 0x800 * 10));
        assert_eq!(crystal.mtc(0xa1), at((1 << 40) + 0x1800 * 10));
        assert_eq!(crystal.mtc(0xb3), at((1 << 40) + 0x1_3800 * 10));
    }

    /// A crystal tick of 12.5 TSC ticks.
    #[test]
    fn a_ratio_with_a_part_has_bounds() {
        let mut crystal = crystal((25, 2), 0);
        crystal.tsc(1000);
        crystal.tma(7, 4);
        assert_eq!(crystal.mtc(8), Some(Mtc::At(Ticks { low: 995 + 12, high: 996 + 13 })));
        assert_eq!(crystal.mtc(9), Some(Mtc::At(Ticks { low: 995 + 25, high: 996 + 25 })));
    }

    /// FastCounter counts to 511 (33.4.2.13): with longer periods it overflows.
    #[test]
    fn a_fast_counter_that_overflows_has_bounds() {
        let mut crystal = crystal((1000, 1), 0);
        crystal.tsc(100_700);
        crystal.tma(7, 188);
        assert_eq!(crystal.mtc(8), Some(Mtc::At(Ticks { low: 100_700, high: 101_512 })));
    }

    /// Erratum SKZ84: where a guest's counter has another offset or rate.
    #[test]
    fn a_fast_counter_beyond_the_period_is_not_believed() {
        let mut crystal = crystal((100, 1), 0);
        crystal.tsc(5000);
        crystal.tma(7, 101);
        assert_eq!(crystal.mtc(8), None);
        crystal.tsc(6000);
        crystal.tma(9, 100);
        assert_eq!(crystal.mtc(10), at(6000));
    }

    #[test]
    fn behind_lost_packets_mtc_is_a_lower_bound() {
        let mut crystal = crystal((100, 1), 0);
        crystal.tsc(1000);
        crystal.tma(0, 0);
        crystal.lose();
        assert_eq!(crystal.mtc(3), Some(Mtc::NotBefore(1300)));
        assert_eq!(crystal.mtc(4), Some(Mtc::NotBefore(1400)));
        crystal.tsc(90_000);
        crystal.tma(5, 0);
        assert_eq!(crystal.mtc(6), at(90_100));
        assert_eq!(crystal.mtc(6), Some(Mtc::NotBefore(90_100)), "none or 256 later");
    }

    #[test]
    fn tma_belongs_to_its_tsc() {
        let mut crystal = crystal((100, 1), 0);
        crystal.tsc(1000);
        crystal.forget_tsc();
        crystal.tma(0, 0);
        assert_eq!(crystal.mtc(1), None);
        crystal.tsc(1000);
        crystal.tma(0, 0);
        crystal.tsc(2000);
        assert_eq!(crystal.mtc(1), None, "the last TSC had no TMA");
    }

    /// 33.4.2.11: the low 7 bytes.
    #[test]
    fn a_tsc_has_56_bits() {
        let clocks = |begin| Crystal::new(&Clocks { begin, ..Clocks::default() });
        let wrap = 1 << 56;
        assert_eq!(clocks(0).tsc(5), 5);
        assert_eq!(clocks(3 * wrap + 7).tsc(5), 3 * wrap + 5);
        assert_eq!(clocks(3 * wrap - 7).tsc(5), 3 * wrap + 5);
        assert_eq!(clocks(3 * wrap + 7).tsc(wrap - 5), 3 * wrap - 5);
        assert_eq!(clocks(7).tsc(wrap - 5), wrap - 5, "there is nothing below 0");
        let mut crystal = clocks(0);
        assert_eq!([wrap - 1, 1, 2].map(|low| crystal.tsc(low)), [wrap - 1, wrap + 1, wrap + 2]);
    }
}
