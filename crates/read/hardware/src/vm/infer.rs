//! What MTC packets mean, from the packets themselves, where nobody says it.
//!
//! A TMA packet has the crystal clock's count, and the MTC packet behind it the next one of bits N to N + 7: that is so
//! for the right MTCFreq each time, for others by chance. Between two TMA packets the MTC packets tell how far the
//! crystal clock has come, and the TSC packets how far the time-stamp counter has, where both are the host's.

use super::clock::Rates;
use mote_pt::packet::{Decoder, Packet};

/// How often MTC has to agree with TMA before it is believed.
const SEEN_MIN: u32 = 8;
/// How many ratios are enough.
const RATIOS_MAX: usize = 256;
/// The highest MTCFreq.
const MTC_MAX: u8 = 15;

/// A TMA packet, with the TSC packet before it.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// The time-stamp counter at the crystal clock's tick.
    tsc: u64,
    count: u16,
}

/// Finds the rates of a stream's clocks; `None` if its packets do not tell them. How fast they are in Hz is never told.
#[must_use]
pub fn infer(bytes: &[u8]) -> Option<Rates> {
    let mut decoder = Decoder::new(bytes, 0);
    decoder.sync_forward()?;
    let mtc = mtc_freq(decoder.clone())?;
    let mut ratios = ratios(decoder, mtc);
    ratios.sort_unstable();
    let median = *ratios.get(ratios.len() / 2)?;
    // Ratios are whole or half numbers on most processors (CPUID.15H has EAX = 2).
    let halves = (median * 2 + SCALE / 2) / SCALE;
    let is_half = (median * 2).abs_diff(halves * SCALE) <= SCALE / 100;
    let tsc_per_art = if is_half { (halves, 2) } else { (median, SCALE) };
    let tsc_per_art = (u32::try_from(tsc_per_art.0).ok()?, u32::try_from(tsc_per_art.1).ok()?);
    (tsc_per_art.0 > 0).then_some(Rates { mtc, tsc_per_art, tsc_hz: None })
}

/// Ratios are counted in parts of so many.
const SCALE: u64 = 100_000;

/// The lowest MTCFreq with which all MTC packets behind TMA agree: those above it agree, too, the more often the less
/// of the count they have in common.
fn mtc_freq(packets: Decoder<'_>) -> Option<u8> {
    let mut disagreed = [0_u32; MTC_MAX as usize + 1];
    let (mut seen, mut last) = (0_u32, None);
    for item in packets {
        match item.what {
            Ok(Packet::Tma { ctc, .. }) => last = Some(ctc),
            Ok(Packet::Mtc(value)) => {
                let Some(ctc) = last.take() else { continue };
                seen += 1;
                for (freq, count) in (0_u32..).zip(&mut disagreed) {
                    let mask = 0xff_u8 >> freq.saturating_sub(8).min(7);
                    let ahead = value.wrapping_sub((ctc >> freq) as u8) & mask;
                    *count += u32::from(ahead > 1);
                }
            }
            Ok(Packet::Ovf) | Err(_) => last = None,
            Ok(_) => {}
        }
    }
    // What rests lets one MTC packet be later.
    let lowest = disagreed.iter().position(|count| *count <= seen / 16);
    lowest.filter(|_| seen >= SEEN_MIN).and_then(|freq| u8::try_from(freq).ok())
}

/// Ticks of the time-stamp counter in one of the crystal clock, from one TMA of the host to the next, in parts of
/// [`SCALE`].
fn ratios(packets: Decoder<'_>, mtc: u8) -> Vec<u64> {
    let mut reader = Ratios { mtc, ..Ratios::default() };
    for item in packets {
        reader.read(item.what.ok());
        if reader.found.len() >= RATIOS_MAX {
            break;
        }
    }
    reader.found
}

#[derive(Debug, Default)]
struct Ratios {
    mtc: u8,
    tsc: Option<u64>,
    /// In PSB+: what TSC and TMA have said there. PIP may come behind.
    in_psb: bool,
    pending: Option<Moment>,
    is_host: bool,
    /// The last moment of the host, and the periods of MTC since.
    from: Option<Moment>,
    periods: u64,
    last: Option<u8>,
    found: Vec<u64>,
}

impl Ratios {
    fn read(&mut self, packet: Option<Packet>) {
        match packet {
            Some(Packet::Psb) => self.in_psb = true,
            Some(Packet::Pip { is_guest, .. }) => self.is_host = !is_guest,
            Some(Packet::Tsc(tsc)) => self.tsc = Some(tsc),
            Some(Packet::Mtc(value)) => {
                self.periods += u64::from(self.last.map_or(1, |last| value.wrapping_sub(last)));
                self.last = Some(value);
            }
            Some(Packet::Tma { ctc, fast }) => {
                let tsc = self.tsc.take().map(|tsc| tsc.wrapping_sub(fast.into()));
                self.pending = tsc.map(|tsc| Moment { tsc, count: ctc });
                self.last = None;
            }
            Some(Packet::PsbEnd) => self.in_psb = false,
            Some(Packet::Ovf) | None => {
                *self = Ratios { mtc: self.mtc, found: std::mem::take(&mut self.found), ..Ratios::default() }
            }
            Some(_) => {}
        }
        if !self.in_psb
            && let Some(to) = self.pending.take()
            && self.is_host
        {
            let from = self.from.replace(to).filter(|_| self.periods > 1);
            self.found.extend(from.and_then(|from| ratio(from, to, self.periods << self.mtc)));
            self.periods = 0;
        }
    }
}

fn ratio(from: Moment, to: Moment, about: u64) -> Option<u64> {
    // What MTC packets say is as exact as their period, and TMA has the low 16 bits.
    let low = u64::from(to.count.wrapping_sub(from.count));
    let art = about + u64::from((low as u16).wrapping_sub(about as u16));
    let art = if art > about + 0x8000 { art - 0x1_0000 } else { art };
    let ticks = to.tsc.checked_sub(from.tsc)?;
    ticks.checked_mul(SCALE)?.checked_div(art)
}
