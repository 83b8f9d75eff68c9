//! A processor's time from its packets: the host's time-stamp counter (SDM 3C, 33.8.3).
//!
//! TSC packets of a guest have the guest's counter, with the offset and the factor that its VMM chooses (33.5.2.1).
//! The crystal clock (ART) knows nothing of guests, so that TMA and MTC go on in them; from these it is learned what a
//! guest's counter has more than the host's, and then its TSC packets tell the time, too. Where there are TSC packets
//! only, times in a guest are those of the last one before it.

/// What a processor's clocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// MTCFreq: MTC packets have bits N to N + 7 of the crystal clock's count; at most 15.
    pub mtc: u8,
    /// Ticks of the time-stamp counter by those of the crystal clock, as numerator and denominator (CPUID.15H).
    pub tsc_per_art: (u32, u32),
    /// Time-stamp counter, in Hz.
    pub tsc_hz: Option<u64>,
}

/// How much of the crystal clock's count a TMA packet has.
const TMA_BITS: u8 = 16;
/// The bus clock, of which CBR counts multiples.
const BUS_HZ: u64 = 100_000_000;
/// A TSC packet has 56 bits.
const TSC_BITS: u32 = 56;
const TSC_MASK: u64 = (1 << TSC_BITS) - 1;

/// A processor's time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    rates: Option<Rates>,
    /// The time-stamp counter at the last packet of time.
    now: Option<u64>,
    /// When cycles were counted from: the last MTC packet, before which there is a CYC packet.
    base: u64,
    /// Core cycles since then.
    cycles: u64,
    /// CBR.
    core_ratio: u8,
    /// The last TSC packet's value, while TMA may follow.
    before_tma: Option<u64>,
    anchor: Option<Anchor>,
    /// MTC packets come: TMA is written only where they do (33.4.2.13).
    has_mtc: bool,
}

/// A moment at which both clocks are known, and how far the crystal clock has come since.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// The time-stamp counter at the tick: the host's, or that of a guest.
    tsc: u64,
    is_guest: bool,
    /// The low bits of the crystal clock's count then.
    count: u16,
    /// Its ticks since then.
    since: u64,
    /// The last MTC packet since.
    mtc: Option<u8>,
}

/// What a packet says of the time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Passed {
    /// Nothing is missing, as far as this can be known.
    All,
    /// MTC packets should have come, and have not.
    Silence,
    /// The counter has gone back: this is the trace of another clock.
    Back,
}

impl Clock {
    /// A clock that has seen nothing. Without rates, TSC packets are all that tells the time.
    #[must_use]
    pub fn new(rates: Option<Rates>) -> Clock {
        let is_good = |rates: &Rates| rates.mtc <= 15 && rates.tsc_per_art.0 > 0 && rates.tsc_per_art.1 > 0;
        let mut rates = rates.filter(is_good);
        if let Some(Rates { tsc_per_art: (numerator, denominator), .. }) = &mut rates
            && numerator.is_multiple_of(*denominator)
        {
            // Most ratios are whole numbers: a division less for each MTC packet.
            (*numerator, *denominator) = (*numerator / *denominator, 1);
        }
        Clock { rates, ..Clock::default() }
    }

    /// The time-stamp counter; `None` as long as no packet has told it.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Option<u64> {
        let now = self.now?;
        Some(if self.cycles == 0 { now } else { now.max(self.base.saturating_add(self.ticks_of_cycles())) })
    }

    /// Whether cycles tell the time since the last packet of time.
    #[must_use]
    pub(super) fn is_exact(&self) -> bool {
        self.cycles > 0 && self.core_ratio > 0 && self.rates.is_some_and(|rates| rates.tsc_hz.is_some())
    }

    fn ticks_of_cycles(&self) -> u64 {
        let hz = self.rates.and_then(|rates| rates.tsc_hz).filter(|_| self.core_ratio > 0);
        let core = u128::from(BUS_HZ) * u128::from(self.core_ratio.max(1));
        hz.map_or(0, |hz| (u128::from(self.cycles) * u128::from(hz) / core) as u64)
    }

    /// Packets are missing: what the time is, is not known until a TSC packet.
    pub fn lose(&mut self) {
        let Clock { rates, core_ratio, has_mtc, .. } = *self;
        *self = Clock { rates, core_ratio, has_mtc, ..Clock::default() };
    }

    /// CYC: so many cycles of the core have passed.
    #[inline]
    pub fn cyc(&mut self, cycles: u64) {
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// CBR: the core's clock, in 100 MHz.
    pub fn cbr(&mut self, ratio: u8) {
        if self.core_ratio != ratio {
            self.base = self.base.saturating_add(self.ticks_of_cycles());
            self.cycles = 0;
            self.core_ratio = ratio;
        }
    }

    /// TSC, of the host.
    pub fn tsc(&mut self, low: u64) -> Passed {
        let tsc = self.extended(low);
        self.before_tma = Some(tsc);
        let passed = match (self.now, self.now()) {
            (_, Some(now)) if tsc < now && now - tsc > self.slack() => Passed::Back,
            (Some(last), _) if self.is_silent(tsc.saturating_sub(last)) => Passed::Silence,
            _ => Passed::All,
        };
        match self.now().filter(|_| passed != Passed::Back) {
            // The next CYC packet counts from before this one, if the clocks have not stopped meanwhile.
            Some(now) if tsc.saturating_sub(now) <= self.slack() => self.now = Some(now.max(tsc)),
            _ => self.set(tsc),
        }
        passed
    }

    /// TMA, behind a TSC packet of the host. Where the time was a guest's since [`Clock::lose_to`], returns what that
    /// guest's counter has more than the host's.
    pub fn tma(&mut self, count: u16, fast: u16) -> Option<u64> {
        self.has_mtc = true;
        let tsc = self.before_tma.take()?.saturating_sub(u64::from(fast));
        let before = self.anchor.replace(Anchor { tsc, is_guest: false, count, since: 0, mtc: None });
        let (guest, rates) = (before.filter(|before| before.is_guest)?, self.rates?);
        let ahead = u64::from(count.wrapping_sub(guest.count).wrapping_sub(guest.since as u16));
        let is_close = ahead <= 2 << rates.mtc;
        is_close.then(|| guest.at(guest.since + ahead, rates).wrapping_sub(tsc) & TSC_MASK)
    }

    /// Packets are missing, and TSC and TMA of a guest follow: from when the host tells its time, the guest's is known.
    pub fn lose_to(&mut self, tsc: u64, (count, fast): (u16, u16)) {
        self.lose();
        self.has_mtc = true;
        let tsc = tsc.saturating_sub(fast.into());
        self.anchor = Some(Anchor { tsc, is_guest: true, count, since: 0, mtc: None });
    }

    /// TSC and TMA of a guest, whose counter has `offset` more than the host's, where that is known.
    ///
    /// TMA tells the time as long as MTC packets come; `offset` is what has to be added then. With an offset the time
    /// is told after a silence, too, if the crystal clock agrees: a counter that has another speed has no offset.
    pub fn guest(&mut self, offset: &mut Option<u64>, tsc: u64, (count, fast): (u16, u16)) -> Passed {
        let anchor = self.anchor.filter(|anchor| !anchor.is_guest);
        let (Some(rates), Some(anchor)) = (self.rates, anchor) else { return Passed::All };
        if let Some(ahead) = *offset {
            let host = self.extended(tsc.wrapping_sub(ahead) & TSC_MASK);
            let since = art(host.saturating_sub(u64::from(fast) + anchor.tsc), rates);
            let differs = count.wrapping_sub(anchor.count).wrapping_sub(since as u16);
            if matches!(differs, 0 | 1 | 0xffff) {
                let passed = self.tsc(host & TSC_MASK);
                let _ = self.tma(count, fast);
                return passed;
            }
            *offset = None;
        }
        let here = anchor.count.wrapping_add(anchor.since as u16);
        let ahead = u64::from(count.wrapping_sub(here));
        if (1..=2 << rates.mtc).contains(&u64::from(here.wrapping_sub(count))) {
            // An MTC packet that was written before is ahead of it.
            return Passed::All;
        }
        if ahead > 2 << rates.mtc {
            return Passed::Silence;
        }
        let host = anchor.at(anchor.since.saturating_add(ahead), rates).saturating_add(fast.into());
        *offset = Some(tsc.wrapping_sub(host) & TSC_MASK);
        self.now = Some(self.now().map_or(host, |now| now.max(host)));
        Passed::All
    }

    /// A value of 56 bits as one of 64, the next one from now on; from the past if that is nearer.
    fn extended(&self, low: u64) -> u64 {
        let Some(now) = self.now() else { return low };
        let ahead = low.wrapping_sub(now) & TSC_MASK;
        // Half of what the packet holds is years: what seems to be more lies before.
        if ahead >> (TSC_BITS - 1) == 0 { now.saturating_add(ahead) } else { low }
    }

    /// Takes in an MTC packet.
    #[inline]
    pub fn mtc(&mut self, value: u8) {
        let (Some(rates), Some(anchor)) = (self.rates, &mut self.anchor) else { return };
        let shift = u32::from(rates.mtc);
        let ahead = match anchor.mtc {
            Some(last) => value.wrapping_sub(last),
            None => {
                // Of what TMA has, 16 - N bits are in the packet, too.
                let mask = 0xff_u8 >> shift.saturating_sub(u32::from(TMA_BITS - 8)).min(7);
                let known = (anchor.count.wrapping_add(anchor.since as u16) >> shift) as u8;
                let ahead = value.wrapping_sub(known) & mask;
                if ahead > mask / 2 && mask > 3 {
                    // It is of a tick before TMA's.
                    return;
                }
                ahead
            }
        };
        let begun = (u64::from(anchor.count) + anchor.since) >> shift;
        let tick = begun.saturating_add(ahead.into()) << shift;
        anchor.since = anchor.since.max(tick.saturating_sub(anchor.count.into()));
        anchor.mtc = Some(value);
        self.has_mtc = true;
        if anchor.is_guest {
            return;
        }
        let tsc = anchor.at(anchor.since, rates);
        self.set(self.now().map_or(tsc, |now| now.max(tsc)));
    }

    #[inline]
    fn set(&mut self, tsc: u64) {
        (self.now, self.base, self.cycles) = (Some(tsc), tsc, 0);
    }

    /// The longest time from one packet of time to the next one while the clocks run, if that is known.
    #[must_use]
    pub(super) fn period(&self) -> Option<u64> {
        self.rates.filter(|_| self.has_mtc).map(period)
    }

    /// How far the clocks may differ from one another: the time of an MTC packet, and what is rounded.
    fn slack(&self) -> u64 {
        self.rates.map_or(0, |rates| 2 * period(rates))
    }

    /// Whether MTC packets should have come in so many ticks since the last packet of time.
    fn is_silent(&self, ticks: u64) -> bool {
        self.period().is_some_and(|period| ticks > 2 * period)
    }
}

/// Ticks of the time-stamp counter from one MTC packet to the next one.
fn period(rates: Rates) -> u64 {
    ticks(1 << rates.mtc, rates)
}

/// Ticks of the time-stamp counter in so many of the crystal clock.
#[inline]
fn ticks(art: u64, rates: Rates) -> u64 {
    let (numerator, denominator) = (u64::from(rates.tsc_per_art.0), u64::from(rates.tsc_per_art.1));
    match art.checked_mul(numerator) {
        Some(product) if denominator <= 1 => product,
        Some(product) => product / denominator,
        None => (u128::from(art) * u128::from(numerator) / u128::from(denominator.max(1))) as u64,
    }
}

/// Ticks of the crystal clock in so many of the time-stamp counter.
fn art(ticks: u64, rates: Rates) -> u64 {
    let (numerator, denominator) = rates.tsc_per_art;
    (u128::from(ticks) * u128::from(denominator) / u128::from(numerator.max(1))) as u64
}

impl Anchor {
    #[inline]
    fn at(&self, since: u64, rates: Rates) -> u64 {
        self.tsc.saturating_add(ticks(since, rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(mtc: u8) -> Rates {
        Rates { mtc, tsc_per_art: (100, 1), tsc_hz: Some(2_400_000_000) }
    }

    /// A clock that was told its time at tick `count` of the crystal clock, which was `100 * count`.
    fn begun(mtc: u8, count: u64) -> Clock {
        let mut clock = Clock::new(Some(rates(mtc)));
        assert_eq!(clock.tsc(100 * count + 40), Passed::All);
        assert_eq!(clock.tma(count as u16, 40), None);
        clock
    }

    #[test]
    fn mtc_goes_on_where_tsc_has_begun() {
        for shift in 0..=15_u8 {
            let first = 0x12_3456_7891_u64;
            let mut clock = begun(shift, first);
            for tick in 1..700 {
                let art = ((first >> shift) + tick) << shift;
                clock.mtc((art >> shift) as u8);
                assert_eq!(clock.now(), Some(100 * art), "MTCFreq {shift}, tick {tick}");
            }
        }
    }

    #[test]
    fn a_guest_has_another_counter() {
        let (mut clock, mut offset) = (begun(3, 8000), None);
        clock.mtc((8008 >> 3) as u8);
        assert_eq!(clock.guest(&mut offset, 5, (8011, 7)), Passed::All);
        assert_eq!((clock.now(), offset), (Some(801_107), Some(5_u64.wrapping_sub(801_107) & TSC_MASK)));
        // Half a millisecond without MTC: how long it was is known by the offset, if it is one.
        let mut other = Some(77);
        assert_eq!(clock.clone().guest(&mut other, 5, (20_000, 0)), Passed::Silence);
        assert_eq!(clock.guest(&mut offset, 5 + 2_000_000 - 801_107, (20_000, 0)), Passed::Silence);
        assert_eq!((clock.now(), other), (Some(2_000_000), None));
    }

    #[test]
    fn the_host_tells_a_guests_time() {
        let mut clock = begun(3, 8000);
        clock.lose_to(5_000, (8011, 7));
        clock.mtc((8016 >> 3) as u8);
        assert_eq!(clock.now(), None);
        assert_eq!(clock.tsc(801_850), Passed::All);
        // 8018 is 7 ticks of the crystal clock after 8011.
        assert_eq!(clock.tma(8018, 50), Some((5_000 - 7 + 700_u64).wrapping_sub(801_800) & TSC_MASK));
    }

    #[test]
    fn cycles_count_between_packets_of_time() {
        let mut clock = begun(3, 8000);
        clock.cbr(12);
        clock.cyc(50);
        assert_eq!(clock.now(), Some(800_140));
        clock.mtc((8008 >> 3) as u8);
        assert_eq!(clock.now(), Some(800_800));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut clock = begun(3, 8000);
        clock.mtc((8008 >> 3) as u8);
        assert_eq!(clock.tsc(801_600), Passed::All);
        assert_eq!(clock.tma(8016, 0), None);
        clock.mtc((8016 >> 3) as u8);
        assert_eq!(clock.tsc(900_000), Passed::Silence);
        assert_eq!(clock.tsc(100_000), Passed::Back);
        assert_eq!(clock.now(), Some(100_000));
        clock.lose();
        assert_eq!(clock.now(), None);
        clock.mtc(3);
        assert_eq!(clock.now(), None);
    }

    #[test]
    fn the_counter_has_more_bits_than_the_packet() {
        let mut clock = Clock::new(None);
        assert_eq!(clock.tsc((1 << 56) - 5), Passed::All);
        assert_eq!(clock.tsc(10), Passed::All);
        assert_eq!(clock.now(), Some((1 << 56) + 10));
    }
}
