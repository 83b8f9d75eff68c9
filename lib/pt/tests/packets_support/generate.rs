//! Random packets and traces.

use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Packet, Tnt};
use proptest::collection::vec;
use proptest::prelude::*;

fn low(bits: u32) -> impl Strategy<Value = u64> {
    // Small values and wide ones alike.
    (any::<u64>(), 0..bits).prop_map(move |(value, less)| value >> (64 - bits) >> less)
}

fn tnt() -> impl Strategy<Value = Tnt> {
    let of = |most: u8, is_long: bool| {
        (1..=most, any::<u64>()).prop_map(move |(count, bits)| Tnt {
            bits: bits & ((1 << count) - 1),
            count,
            is_long,
        })
    };
    prop_oneof![of(6, false), of(47, true)]
}

fn ip() -> impl Strategy<Value = Ip> {
    let of = |compression, bits| any::<u64>().prop_map(move |ip| Ip { compression, bits: ip >> (64 - bits) });
    prop_oneof![
        Just(Ip { compression: Compression::Suppressed, bits: 0 }),
        of(Compression::Update16, 16),
        of(Compression::Update32, 32),
        of(Compression::Sext48, 48),
        of(Compression::Update48, 48),
        of(Compression::Full, 64),
    ]
}

/// Any packet but the items of a block, and TNT packets that look like one.
pub(crate) fn packet() -> impl Strategy<Value = Packet> {
    prop_oneof![
        8 => tnt().prop_map(Packet::Tnt),
        4 => ip().prop_map(Packet::Tip),
        4 => low(64).prop_map(Packet::Cyc),
        8 => prop_oneof![ip().prop_map(Packet::TipPge), ip().prop_map(Packet::TipPgd), ip().prop_map(Packet::Fup)],
        4 => Just(Packet::Pad),
        4 => state(),
        4 => time(),
        4 => power(),
        4 => event(),
    ]
}

fn state() -> impl Strategy<Value = Packet> {
    let mode = (0..3u8, any::<bool>()).prop_map(|(size, interrupts)| Packet::ModeExec {
        is_64_bit: size == 0,
        is_32_bit: size == 1,
        interrupts,
    });
    let tsx =
        (0..3u8).prop_map(|state| Packet::ModeTsx { in_transaction: state == 0, is_aborted: state == 1 });
    prop_oneof![
        Just(Packet::Psb),
        Just(Packet::PsbEnd),
        Just(Packet::TraceStop),
        Just(Packet::Ovf),
        (low(47), any::<bool>()).prop_map(|(cr3, is_guest)| Packet::Pip { cr3: cr3 << 5, is_guest }),
        low(40).prop_map(|base| Packet::Vmcs(base << 12)),
        mode,
        tsx,
    ]
}

fn time() -> impl Strategy<Value = Packet> {
    prop_oneof![
        low(56).prop_map(Packet::Tsc),
        any::<u8>().prop_map(Packet::Mtc),
        any::<u8>().prop_map(Packet::Cbr),
        (any::<u16>(), 0..512u16).prop_map(|(ctc, fast)| Packet::Tma { ctc, fast }),
        any::<u64>().prop_map(Packet::Mnt),
    ]
}

fn power() -> impl Strategy<Value = Packet> {
    prop_oneof![
        any::<bool>().prop_map(|has_fup| Packet::Exstop { has_fup }),
        (any::<u8>(), 0..4u8).prop_map(|(hints, extensions)| Packet::Mwait { hints, extensions }),
        (0..16u8, 0..16u8, any::<bool>()).prop_map(|(c_state, sub_state, is_hardware)| Packet::Pwre {
            c_state,
            sub_state,
            is_hardware
        }),
        (0..16u8, 0..16u8, 0..16u8).prop_map(|(last, deepest, reason)| Packet::Pwrx {
            last,
            deepest,
            reason
        }),
    ]
}

fn event() -> impl Strategy<Value = Packet> {
    prop_oneof![
        (any::<u64>(), any::<bool>()).prop_map(|(value, has_fup)| Packet::Ptw {
            value,
            is_wide: true,
            has_fup
        }),
        (any::<u32>(), any::<bool>()).prop_map(|(value, has_fup)| Packet::Ptw {
            value: value.into(),
            is_wide: false,
            has_fup
        }),
        (0..32u8, any::<u8>(), any::<bool>()).prop_map(|(kind, vector, has_fup)| Packet::Cfe {
            kind,
            vector,
            has_fup
        }),
        (0..64u8, any::<u64>()).prop_map(|(kind, value)| Packet::Evd { kind, value }),
        (any::<u8>(), any::<bool>(), any::<Option<u16>>(), any::<bool>()).prop_map(
            |(triggers, is_multiple, instructions, has_fup)| Packet::Trig {
                triggers,
                is_multiple,
                instructions,
                has_fup
            }
        ),
    ]
}

/// A packet by itself, or a whole block.
fn piece() -> impl Strategy<Value = Vec<Packet>> {
    let block = (any::<bool>(), 0..32u8, vec((0..32u8, any::<u64>()), 0..5), any::<bool>());
    let block = block.prop_map(|(is_short, kind, items, has_fup)| {
        let width = if is_short { 32 } else { 0 };
        let items = items.into_iter().map(|(id, value)| Packet::Bip { id, value: value >> width });
        let begin = std::iter::once(Packet::Bbp { is_short, kind });
        begin.chain(items).chain([Packet::Bep { has_fup }]).collect()
    });
    prop_oneof![20 => packet().prop_map(|packet| vec![packet]), 1 => block]
}

/// Packets, as they may be in succession.
pub(crate) fn trace() -> impl Strategy<Value = Vec<Packet>> {
    vec(piece(), 0..60).prop_map(|pieces| pieces.concat())
}
