//! What holds of a decoder for any bytes: for the tests of packets, and for the fuzzer.

use mote_pt::packet::{Damage, Decoder, Encoder, Item, Packet};
use mote_pt::time::{Clocks, Points};

const PSB: [u8; 16] = [2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82];
/// Where the bytes begin in their trace.
const BASE: u64 = 0xffff_0000;

/// Checks all of it.
pub(crate) fn check(bytes: &[u8]) {
    let items = read_one_by_one(bytes);
    let folded = Decoder::new(bytes, BASE).fold(Vec::new(), |mut items, item| {
        items.push(item);
        items
    });
    assert_eq!(folded, items, "fold");
    tile(bytes, &items);
    damage_ends_at_a_psb(&items);
    items.split(|item| item.what.is_err()).for_each(encode_again);
    sync(bytes);
    times(&items);
}

/// Times have bounds in their order, of packets that are there.
fn times(items: &[Item]) {
    let clocks = Clocks { tsc_per_art: Some((25, 2)), mtc: Some(3), cyc: Some(16), ..Clocks::default() };
    let known = Clocks { has_no_pauses: true, slip: 256, ..clocks.clone() };
    let known = known.with_bus((2_400_000_000, 1), 99_000_000..=101_000_000);
    for clocks in [Clocks::default(), clocks, known] {
        let mut last = None;
        for point in Points::new(items.iter().map(|item| (item.offset, item.what)), clocks) {
            let (low, high) = (point.span().low, point.span().high);
            assert!(low.is_some() || high.is_some(), "{point:?}");
            assert!(low.zip(high).is_none_or(|(low, high)| low <= high), "{point:?}");
            assert!(Some(point.offset) > last, "{point:?}");
            last = Some(point.offset);
        }
    }
}

fn read_one_by_one(bytes: &[u8]) -> Vec<Item> {
    let mut decoder = Decoder::new(bytes, BASE);
    let mut items = Vec::new();
    while let Some(item) = decoder.next() {
        assert_eq!(decoder.offset(), item.offset + item.length as u64);
        items.push(item);
    }
    assert_eq!(decoder.next(), None, "behind the end");
    items
}

/// Items lie side by side, and all bytes are in one.
fn tile(bytes: &[u8], items: &[Item]) {
    let mut offset = BASE;
    for item in items {
        assert_eq!(item.offset, offset);
        assert!(item.length > 0, "{item}");
        offset += item.length as u64;
    }
    assert_eq!(offset, BASE + bytes.len() as u64);
}

fn damage_ends_at_a_psb(items: &[Item]) {
    for (place, item) in items.iter().enumerate() {
        let next = items.get(place + 1);
        match item.what {
            Err(Damage::Truncated) => assert!(next.is_none() && item.length < 16, "{item}"),
            Err(_) => assert!(next.is_none_or(|next| next.what == Ok(Packet::Psb)), "{item}"),
            Ok(_) => (),
        }
    }
}

/// Packets in succession are the same when they are encoded and decoded again.
fn encode_again(items: &[Item]) {
    let mut encoder = Encoder::new();
    let mut expect = Vec::new();
    for item in items {
        let packet = item.what.expect("split at damage");
        let times = if packet == Packet::Pad { item.length } else { 1 };
        encoder.extend(std::iter::repeat_n(packet, times)).expect("what was decoded has bytes");
        expect.push((Ok(packet), times));
    }
    let times = |item: &Item| if item.what == Ok(Packet::Pad) { item.length } else { 1 };
    let again: Vec<_> = Decoder::new(encoder.bytes(), 0).map(|item| (item.what, times(&item))).collect();
    assert_eq!(again, expect);
}

/// A PSB is 16 bytes that no further pair follows, whichever way it is looked for.
fn sync(bytes: &[u8]) {
    let is_psb =
        |at: &usize| bytes[*at..].starts_with(&PSB) && !bytes[*at + PSB.len()..].starts_with(&PSB[..2]);
    let places: Vec<u64> = (0..bytes.len()).filter(is_psb).map(|at| at as u64).collect();
    let mut decoder = Decoder::new(bytes, 0);
    for place in &places {
        assert_eq!(decoder.sync_forward(), Some(*place));
        assert_eq!(decoder.sync_forward(), Some(*place), "it stays");
        assert_eq!(decoder.next().map(|item| (item.what, item.length)), Some((Ok(Packet::Psb), PSB.len())));
    }
    assert_eq!(decoder.sync_forward(), None);
    decoder.move_to_end();
    for place in places.iter().rev() {
        assert_eq!(decoder.sync_backward(), Some(*place));
    }
    assert_eq!(decoder.sync_backward(), None);
    // From within packets, too.
    for from in [bytes.len() / 3, bytes.len() / 2] {
        let mut decoder = Decoder::new(&bytes[from..], from as u64);
        let next = places.iter().find(|place| **place >= from as u64);
        assert_eq!(decoder.sync_forward(), next.copied());
    }
}
