//! Random packets are encoded and decoded again; damaged bytes give damage, and nothing worse.

#[path = "packets_support/generate.rs"]
mod generate;
mod packets_support;

use generate::{packet, trace};
use mote_pt::packet::ip::{Compression, Ip, LastIp};
use mote_pt::packet::{Damage, Decoder, Encoder, Item, Packet, Tnt, Unfit};
use packets_support::check;
use proptest::collection::vec;
use proptest::prelude::*;

fn encoded(packets: &[Packet]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.extend(packets.iter().copied()).expect("they fit");
    encoder.into_bytes()
}

/// Bytes of PSB, BBP, PAD, BIP and TIP.
const SPECIAL: [u8; 9] = [0x02, 0x82, 0x82, 0x02, 0x63, 0x80, 0x00, 0x04, 0xcd];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded(packets in trace()) {
        let bytes = encoded(&packets);
        let mut decoded = Vec::new();
        for item in Decoder::new(&bytes, 0) {
            let packet = item.what.expect("no damage");
            let times = if packet == Packet::Pad { item.length } else { 1 };
            decoded.extend(std::iter::repeat_n(packet, times));
        }
        prop_assert_eq!(decoded, packets);
        check(&bytes);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }

    /// Bytes of which PSBs and blocks are made: more of what is special.
    #[test]
    fn special_bytes(bytes in vec(prop::sample::select(&SPECIAL[..]), 0..200)) {
        check(&bytes);
    }

    /// Pairs of a PSB, more and fewer than it has, between other packets.
    #[test]
    fn runs_of_pairs(runs in vec((0..30usize, any::<bool>(), packet()), 0..10)) {
        let mut bytes = Vec::new();
        for (pairs, is_odd, packet) in runs {
            bytes.extend([0x02, 0x82].repeat(pairs));
            bytes.extend(is_odd.then_some(0x02));
            bytes.extend(encoded(&[packet]));
        }
        check(&bytes);
    }

    #[test]
    fn bytes_that_change_are_damage_up_to_the_next_psb(
        packets in trace(), places in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let mut bytes = encoded(&packets);
        bytes.extend(encoded(&[Packet::Psb, Packet::PsbEnd]));
        for (place, value) in places {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        check(&bytes);
    }

    /// A reader of one half and one of the other half know the same as a reader of both, where the second begins at a
    /// PSB.
    #[test]
    fn halves(before in trace(), behind in trace()) {
        let first = encoded(&before);
        let second = encoded(&[vec![Packet::Psb], behind].concat());
        let both = [&first[..], &second[..]].concat();
        let whole: Vec<Item> = Decoder::new(&both, 0).collect();
        let halves: Vec<Item> =
            Decoder::new(&first, 0).chain(Decoder::new(&second, first.len() as u64)).collect();
        prop_assert_eq!(whole, halves);
    }

    #[test]
    fn a_trace_that_lost_bytes_goes_on_at_the_next_psb(
        before in trace(), lost in any::<prop::sample::Index>(), behind in vec(packet(), 0..20)
    ) {
        let before = encoded(&before);
        let behind = encoded(&[vec![Packet::Psb, Packet::PsbEnd], behind].concat());
        let cut = lost.index(before.len() + 1);
        let bytes = [&before[..cut], &behind[..]].concat();
        check(&bytes);
        // All packets of the second part are there, whatever was left of the first.
        let expect: Vec<Result<Packet, Damage>> = Decoder::new(&behind, 0).map(|item| item.what).collect();
        let items: Vec<Result<Packet, Damage>> = Decoder::new(&bytes, 0).map(|item| item.what).collect();
        prop_assert_eq!(&items[items.len() - expect.len()..], &expect[..]);
    }

    #[test]
    fn addresses_are_compressed_as_they_are_read(addresses in vec(any::<(u64, u8)>(), 1..50)) {
        let (mut writer, mut reader) = (LastIp::default(), LastIp::default());
        for (address, shift) in addresses {
            let address = address >> (shift % 64);
            let bytes = encoded(&[Packet::Tip(writer.compress(address))]);
            let Some(Ok(Packet::Tip(ip))) = Decoder::new(&bytes, 0).next().map(|item| item.what) else {
                panic!("no TIP");
            };
            prop_assert_eq!(reader.update(ip), Some(address));
        }
    }
}

/// Runs so long that anything but linear time would be noticed.
#[test]
fn long_runs() {
    let pairs = [0x02, 0x82].repeat(1 << 17);
    for bytes in [
        pairs.clone(),
        [&[0x06, 0x05][..], &pairs, &[0x06]].concat(),
        [&pairs[..], &[0x02, 0x82, 0x02, 0x83]].concat(),
        [&pairs[1..], &[0x05]].concat(),
        [0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x05].repeat(1 << 15),
        vec![0; 1 << 18],
        vec![0xff; 1 << 18],
        vec![0x05; 1 << 18],
    ] {
        check(&bytes);
    }
}

fn check_unfit(packet: Packet, expect: Unfit) {
    let mut encoder = Encoder::new();
    assert_eq!(encoder.push(packet), Err(expect));
    assert!(encoder.bytes().is_empty(), "nothing was appended");
}

#[test]
fn packets_without_bytes_are_refused() {
    let bits = |field, value, mask| Unfit::Bits { field, value, mask };
    let update16 = Ip { compression: Compression::Update16, bits: 0x1_0000 };
    check_unfit(Packet::Tip(update16), bits("IP payload", 0x1_0000, 0xffff));
    check_unfit(Packet::Tsc(1 << 56), bits("TSC", 1 << 56, (1 << 56) - 1));
    check_unfit(Packet::Tma { ctc: 0, fast: 512 }, bits("FastCounter", 512, 511));
    check_unfit(Packet::Pip { cr3: 0x1008, is_guest: false }, bits("CR3", 0x1008, 0xf_ffff_ffff_ffe0));
    check_unfit(Packet::Vmcs(0x800), bits("VMCS base", 0x800, 0xf_ffff_ffff_f000));
    check_unfit(Packet::Bbp { is_short: true, kind: 32 }, bits("BBP type", 32, 31));
    check_unfit(Packet::Tnt(Tnt { bits: 2, count: 1, is_long: false }), bits("TNT", 2, 1));
    for (count, most, is_long) in
        [(0, 6, false), (7, 6, false), (0, 47, true), (48, 47, true), (255, 47, true)]
    {
        check_unfit(Packet::Tnt(Tnt { bits: 0, count, is_long }), Unfit::Branches { count, most });
    }
    check_unfit(Packet::ModeExec { is_64_bit: true, is_32_bit: true, interrupts: false }, Unfit::Mode);
    check_unfit(Packet::ModeTsx { in_transaction: true, is_aborted: true }, Unfit::Mode);
    check_unfit(Packet::Bip { id: 0, value: 0 }, Unfit::NoBlock);
    let wide = Packet::Ptw { value: 1 << 32, is_wide: false, has_fup: false };
    check_unfit(wide, bits("PTW payload", 1 << 32, 0xffff_ffff));
}

#[test]
fn a_tnt_packet_in_a_block_must_not_look_like_an_item() {
    let tnt = |bits| Packet::Tnt(Tnt { bits, count: 3, is_long: false });
    let mut encoder = Encoder::new();
    encoder.push(Packet::Bbp { is_short: true, kind: 1 }).expect("it fits");
    assert_eq!(encoder.push(tnt(0b110)), Err(Unfit::InBlock));
    assert_eq!(encoder.push(tnt(0b111)), Ok(1), "its lowest bits are no item's; it ends the block");
    assert_eq!(encoder.push(tnt(0b110)), Ok(1));
    assert_eq!(encoder.push(Packet::Bip { id: 0, value: 0 }), Err(Unfit::NoBlock));
}

#[test]
fn errors_say_what_is_wrong() {
    let text = |bytes: &[u8]| Decoder::new(bytes, 0x20).next().expect("an item").to_string();
    for (bytes, expect) in [
        (
            &[0x05][..],
            "00000020  damage of 1 bytes: no packet begins with byte 05; decoding goes on at the next PSB",
        ),
        (
            &[0x99, 0x40],
            "00000020  damage of 2 bytes: a MODE packet has the unknown leaf 2; decoding goes on at the next PSB",
        ),
        (&[0x59], "00000020  damage of 1 bytes: the trace ends in the middle of a packet"),
        (&[0, 0, 0], "00000020  PAD x 3"),
        (&[0x59, 7], "00000020  MTC ctc=0x7"),
    ] {
        assert_eq!(text(bytes), expect);
    }
    let unfit = Unfit::Bits { field: "TSC", value: 0x100, mask: 0xff };
    assert_eq!(unfit.to_string(), "TSC is 0x100, and the packet holds 0xff of it");
}
