//! How far time had come at packets: what decides which version of code counts, where notes have times.

use mote_pt::packet::{Decoder, Packet};
use mote_pt::time::{self, Clocks};

/// Where in a part the packets tell a time, and which: the least that it may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    all: Vec<(u64, u64)>,
    /// The first one that is not before the offset that was asked for last: the next one is near.
    next: usize,
}

impl Points {
    /// Those of packets.
    pub(crate) fn of(packets: Decoder<'_>, clocks: Clocks) -> Points {
        let items = packets.map(|item| (item.offset, item.what));
        // There are too many CYC, for what they would say here.
        let packets = items.filter(|(_, packet)| !matches!(packet, Ok(Packet::Cyc(_))));
        let points = time::Points::new(packets, clocks);
        Points { all: points.filter_map(|point| Some((point.offset, point.span().low?))).collect(), next: 0 }
    }

    /// The time that was told last before an offset, and the next one behind it.
    pub(crate) fn around(&mut self, offset: u64) -> [Option<u64>; 2] {
        let is_before = |at: usize| self.all.get(at).is_some_and(|(of, _)| *of < offset);
        let mut next = self.next;
        while is_before(next) {
            next += 1;
        }
        while next > 0 && !is_before(next - 1) {
            next -= 1;
        }
        self.next = next;
        let time = |at: usize| self.all.get(at).map(|(_, time)| *time);
        [next.checked_sub(1).and_then(time), time(next)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_pt::packet::Encoder;

    #[test]
    fn times_are_those_of_the_packets() {
        let mut encoder = Encoder::new();
        let mut at = Vec::new();
        // 100 ticks a crystal tick; MTC each 8: at counts 0x3608, 0x3610, and 0x3600 + 8 * 256.
        for packet in [
            Packet::Psb,
            Packet::Tsc(1_000_000),
            Packet::Tma { ctc: 0x3600, fast: 50 },
            Packet::PsbEnd,
            Packet::Mtc(0xc1),
            Packet::Mtc(0xc2),
            Packet::Mtc(0xc0),
            Packet::Tsc(1_500_000),
            // Without a TMA nobody knows at which count that was.
            Packet::Mtc(0xc1),
        ] {
            at.push(encoder.bytes().len() as u64);
            let _ = encoder.push(packet).expect("a packet");
        }
        let clocks = Clocks { mtc: Some(3), tsc_per_art: Some((100, 1)), ..Clocks::default() };
        let mut points = Points::of(Decoder::new(encoder.bytes(), 0), clocks);
        let first = 1_000_000 - 50;
        assert_eq!(points.around(0), [None, Some(1_000_000)]);
        assert_eq!(points.around(at[4]), [Some(1_000_000), Some(first + 800)]);
        assert_eq!(points.around(at[5]), [Some(first + 800), Some(first + 1600)]);
        assert_eq!(points.around(at[7]), [Some(first + 8 * 100 * 256), Some(1_500_000)]);
        assert_eq!(points.around(u64::MAX), [Some(1_500_000), None]);
        // Back again.
        assert_eq!(points.around(at[5]), [Some(first + 800), Some(first + 1600)]);
        // Where there is no ratio, TSC packets are all.
        let mut points = Points::of(Decoder::new(encoder.bytes(), 0), Clocks::default());
        assert_eq!(points.around(at[5]), [Some(1_000_000), Some(1_500_000)]);
    }
}
