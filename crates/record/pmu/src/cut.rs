//! The last packets before an event: from the PSB at or before the time that they are wanted from, up to the event.

use mote_clock::extend::nearest;
use mote_pt::errata::Errata;
use mote_pt::packet::{Decoder, Packet};
use mote_pt::time::{Clocks, Points};
use std::ops::Range;

/// Bits of a time that TSC packets have (SDM 3C, 33.4.2.11).
const TSC_BITS: u32 = 56;

/// Packets from a PSB on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Which bytes.
    pub(crate) bytes: Range<usize>,
    /// The time of the PSB: what the packets are about was executed then or later.
    pub(crate) from: u64,
}

/// Which of the packets of a stream are of the time `wanted`, a time stamp counter: from the last PSB on that is not
/// behind its begin, or, where that is lost, from the first one on; up to the first packet that says that it is later
/// than the end. Nothing where no PSB is before the end, or none has a time.
///
/// # Cost
/// Linear in the bytes from the begin on; those before are not read.
pub(crate) fn cut(bytes: &[u8], wanted: &Range<u64>, clocks: &Clocks, errata: Errata) -> Option<Cut> {
    let (begin, from) = begin(bytes, wanted, errata).filter(|(_, from)| *from <= wanted.end)?;
    let end = end(&bytes[begin..], wanted.end, clocks, errata).map_or(bytes.len(), |end| begin + end);
    Some(Cut { bytes: begin..end, from })
}

/// The PSB, and its time.
fn begin(bytes: &[u8], wanted: &Range<u64>, errata: Errata) -> Option<(usize, u64)> {
    let mut decoder = Decoder::new(bytes, 0).with_errata(errata);
    decoder.move_to_end();
    let mut first = None;
    while let Some(psb) = decoder.sync_backward() {
        let Some(time) = time_of(decoder.clone(), wanted.end) else { continue };
        first = Some((psb as usize, time));
        if time <= wanted.start {
            break;
        }
    }
    first
}

/// The time of the PSB that is next.
fn time_of(decoder: Decoder<'_>, about: u64) -> Option<u64> {
    let header = decoder.take_while(|item| !matches!(item.what, Ok(Packet::PsbEnd) | Err(_)));
    let mut times = header.filter_map(|item| match item.what {
        Ok(Packet::Tsc(tsc)) => Some(nearest(about, tsc, TSC_BITS)),
        _ => None,
    });
    times.next()
}

/// Where the first packet ends that is later than `until`; of one in PSB+, where the PSB begins. Nothing where there is
/// none.
fn end(bytes: &[u8], until: u64, clocks: &Clocks, errata: Errata) -> Option<usize> {
    let decoder = |bytes| Decoder::new(bytes, 0).with_errata(errata);
    let packets = decoder(bytes).map(|item| (item.offset, item.what));
    let clocks = Clocks { begin: until, ..clocks.clone() };
    let mut points = Points::new(packets, clocks);
    let offset = points.find(|point| point.span().low > Some(until))?.offset;
    let mut before = decoder(bytes.get(..usize::try_from(offset).ok()?)?);
    before.move_to_end();
    let psb = before.sync_backward()? as usize;
    let mut is_header = true;
    for item in decoder(&bytes[psb..]) {
        is_header &= !matches!(item.what, Ok(Packet::PsbEnd) | Err(_));
        if psb as u64 + item.offset == offset {
            return Some(if is_header { psb } else { psb + item.offset as usize + item.length });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_pt::packet::{Encoder, Tnt};

    const BEGIN: u64 = 3 << 56;
    const BRANCH: Packet = Packet::Tnt(Tnt { bits: 1, count: 1, is_long: false });

    /// A PSB with a time, if it has one.
    fn psb(time: Option<u64>) -> Vec<Packet> {
        let tsc = time.map(|time| Packet::Tsc((BEGIN + time) & (u64::MAX >> 8)));
        [Packet::Psb].into_iter().chain(tsc).chain([Packet::PsbEnd]).collect()
    }

    /// Packets, with where each begins, and where they end.
    fn encode(packets: &[Packet]) -> (Vec<u8>, Vec<usize>) {
        let mut encoder = Encoder::new();
        let mut at = Vec::new();
        for packet in packets {
            at.push(encoder.bytes().len());
            let _ = encoder.push(*packet).expect("a packet");
        }
        at.push(encoder.bytes().len());
        (encoder.bytes().to_vec(), at)
    }

    /// PSB at 100, 200, ... 900, with two branches behind each.
    fn regular() -> (Vec<u8>, Vec<usize>) {
        let packets = (1..10).flat_map(|number| [psb(Some(100 * number)), vec![BRANCH, BRANCH]].concat());
        let (bytes, at) = encode(&packets.collect::<Vec<_>>());
        (bytes, at.into_iter().step_by(5).collect())
    }

    fn check(bytes: &[u8], wanted: Range<u64>, expect: Option<(Range<usize>, u64)>) {
        let wanted = BEGIN + wanted.start..BEGIN + wanted.end;
        let found = cut(bytes, &wanted, &Clocks::default(), Errata::default());
        let expect = expect.map(|(bytes, from)| Cut { bytes, from: BEGIN + from });
        assert_eq!(found, expect, "{wanted:?}");
    }

    #[test]
    fn packets_begin_at_the_psb_before() {
        let (bytes, at) = regular();
        for (wanted, from, to) in [
            (450..550, 4, 6),
            // At the very time of a PSB it is that one.
            (400..500, 4, 6),
            (399..499, 3, 5),
            // What is earlier is lost.
            (50..250, 1, 3),
            // The memory ends before.
            (850..2000, 8, 10),
            (950..2000, 9, 10),
        ] {
            check(&bytes, wanted, Some((at[from - 1]..at[to - 1], 100 * from as u64)));
        }
        // All is later.
        check(&bytes, 10..99, None);
        check(&[], 10..99, None);
        // The memory was written over in the middle of a packet, and what is being written is cut off.
        let (cut_off, gone) = (&bytes[at[2] + 7..at[8] + 9], at[2] + 7);
        check(cut_off, 250..650, Some((at[3] - gone..at[6] - gone, 400)));
    }

    #[test]
    fn packets_end_at_the_first_time_behind_the_event() {
        let later = |tsc| Packet::Tsc((BEGIN + tsc) & (u64::MAX >> 8));
        let packets = [
            psb(Some(100)),
            vec![BRANCH, later(150), BRANCH, later(250), BRANCH],
            psb(Some(300)),
            vec![BRANCH],
        ];
        let (bytes, at) = encode(&packets.concat());
        // Behind the packet that says that what follows is later.
        for (until, end) in [(100, 5), (149, 5), (150, 7), (249, 7), (250, 8), (299, 8), (300, 12), (400, 12)]
        {
            check(&bytes, 90..until, Some((0..at[end], 100)));
        }
    }

    #[test]
    fn the_crystal_clock_counts_too() {
        let packets = [
            vec![Packet::Psb, Packet::Tsc(1_000_000), Packet::Tma { ctc: 0x3600, fast: 0 }, Packet::PsbEnd],
            // Each is 800 ticks.
            vec![BRANCH, Packet::Mtc(0xc1), BRANCH, Packet::Mtc(0xc2), BRANCH],
        ];
        let (bytes, at) = encode(&packets.concat());
        let clocks = Clocks { mtc: Some(3), tsc_per_art: Some((100, 1)), ..Clocks::default() };
        for (until, end) in [(1_000_799, 6), (1_000_800, 8), (1_001_600, 9)] {
            let found = cut(&bytes, &(900_000..until), &clocks, Errata::default());
            assert_eq!(found, Some(Cut { bytes: 0..at[end], from: 1_000_000 }), "{until}");
        }
    }

    #[test]
    fn a_psb_without_a_time_is_no_begin() {
        let packets = [psb(Some(100)), vec![BRANCH], psb(None), vec![BRANCH], psb(Some(300)), vec![BRANCH]];
        let (bytes, at) = encode(&packets.concat());
        check(&bytes, 250..290, Some((0..at[7], 100)));
        let (bytes, _) = encode(&[psb(None), vec![BRANCH]].concat());
        check(&bytes, 250..290, None);
    }
}
