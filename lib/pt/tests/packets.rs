//! Packets as bytes, and what a decoder makes of them: the tables of `packets.txt` and `packets_perf.txt`.

use mote_pt::errata::Errata;
use mote_pt::packet::ip::Ip;
use mote_pt::packet::{Decoder, Encoder, Item, Packet};

const BY_HAND: &str = include_str!("packets.txt");
const OF_PERF: &str = include_str!("packets_perf.txt");

/// The rows of a table: what stands between bars, with the row as it is for messages.
fn rows(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| (line, line.split('|').map(str::trim).collect()))
}

fn bytes(text: &str) -> Vec<u8> {
    let byte = |digits| u8::from_str_radix(digits, 16).expect("a byte in hexadecimal");
    text.split_whitespace().map(byte).collect()
}

/// An item without its offset.
fn text(item: &Item) -> String {
    match item.what {
        Ok(Packet::Pad) if item.length > 1 => format!("PAD x {}", item.length),
        Ok(packet) => packet.to_string(),
        Err(damage) => format!("damage {damage:?}"),
    }
}

fn check(line: &str, pieces: &[Vec<u8>], expect: &[&str]) {
    let all = pieces.concat();
    let items: Vec<Item> = Decoder::new(&all, 0x1000).collect();
    assert_eq!(items.iter().map(text).collect::<Vec<_>>(), expect, "{line}");
    let mut offset = 0x1000;
    for (item, piece) in items.iter().zip(pieces) {
        assert_eq!((item.offset, item.length), (offset, piece.len()), "{line}");
        offset += piece.len() as u64;
    }
}

#[test]
fn packets_by_hand() {
    for (line, columns) in rows(BY_HAND) {
        let [_, pieces, expect] = columns[..] else { panic!("{line}") };
        let pieces: Vec<Vec<u8>> = pieces.split('/').map(bytes).collect();
        let expect: Vec<&str> = expect.split(" / ").collect();
        check(line, &pieces, &expect);
    }
}

/// Packets are read by one way in the middle of a trace, and by another one at its end.
#[test]
fn packets_by_hand_with_more_behind() {
    for (line, columns) in rows(BY_HAND) {
        let [_, pieces, expect] = columns[..] else { panic!("{line}") };
        if expect.contains("damage") || expect.contains("BBP") {
            continue;
        }
        let mut pieces: Vec<Vec<u8>> = pieces.split('/').map(bytes).collect();
        let mut expect: Vec<&str> = expect.split(" / ").collect();
        pieces.extend(std::iter::repeat_n(vec![0x06], 20));
        expect.extend(["TNT branches=T"; 20]);
        check(line, &pieces, &expect);
    }
}

/// What is decoded without damage is encoded to the same bytes, but for what the manual reserves, and for CYC packets
/// with more bytes than they need.
#[test]
fn packets_by_hand_are_encoded() {
    let mut count = 0;
    for (line, columns) in rows(BY_HAND) {
        let all = bytes(&columns[1].replace('/', " "));
        let items: Vec<Item> = Decoder::new(&all, 0).collect();
        if items.iter().any(|item| item.what.is_err()) {
            continue;
        }
        let mut encoder = Encoder::new();
        for item in &items {
            let packet = item.what.expect("no damage");
            let times = if packet == Packet::Pad { item.length } else { 1 };
            encoder.extend(std::iter::repeat_n(packet, times)).expect("it was decoded");
        }
        let again: Vec<Item> = Decoder::new(encoder.bytes(), 0).collect();
        let packets = |items: &[Item]| items.iter().map(|item| item.what).collect::<Vec<_>>();
        assert_eq!(packets(&again), packets(&items), "{line}");
        count += usize::from(encoder.bytes() == all);
    }
    assert!(count > 100, "only {count} rows have the same bytes");
}

#[test]
fn a_trace_cut_anywhere_ends_in_a_truncated_packet() {
    for (line, columns) in rows(BY_HAND) {
        let all = bytes(&columns[1].replace('/', " "));
        let whole: Vec<Item> = Decoder::new(&all, 0).collect();
        if whole.iter().any(|item| item.what.is_err()) {
            continue;
        }
        for cut in 0..all.len() {
            let items: Vec<Item> = Decoder::new(&all[..cut], 0).collect();
            let mut expect: Vec<Item> = Vec::new();
            for item in &whole {
                let left = (cut as u64).saturating_sub(item.offset).min(item.length as u64) as usize;
                let is_whole = left == item.length || item.what == Ok(Packet::Pad);
                let what = if is_whole { item.what } else { Err(mote_pt::packet::Damage::Truncated) };
                expect.extend((left > 0).then_some(Item { length: left, what, ..*item }));
            }
            assert_eq!(items, expect, "{cut} bytes of: {line}");
        }
    }
}

/// Bytes that mean something else where a processor has an erratum: its name, the bytes, and both meanings.
const ERRATA: &str = "
# OVF behind the first byte of a CYC
skd007 | ff 02 f3               | CYC cycles=63 / CYC cycles=30                        | OVF
skd007 | 07 02 f3 06            | CYC cycles=32 / CYC cycles=30 / TNT branches=T       | OVF / TNT branches=T
skd007 | 03 07 02 f3 02 f3      | CYC cycles=0 / CYC cycles=32 / CYC cycles=30 / OVF   | CYC cycles=0 / OVF / OVF
# Something else stands there
skd007 | 07 02 06               | CYC cycles=32 / TNT branches=T                       | =
skd007 | 03 02 f3               | CYC cycles=0 / OVF                                   | =
skd007 | 07 03 02 f3            | CYC cycles=4128 / CYC cycles=30                      | =
skd007 | 2d 07 02 f3            | TIP ip=0x207 form=update16 / CYC cycles=30           | =
# TMA with reserved bits, and a byte more
skz84 | 02 73 34 12 00 56 02 ff 06 | TMA ctc=0x1234 fast=0x56 / CYC cycles=127           | PAD x 8 / TNT branches=T
skz84 | 02 73 34 12 00 56 01 06 | TMA ctc=0x1234 fast=0x156 / TNT branches=T             | =
";

#[test]
fn errata_have_other_packets() {
    for (line, columns) in rows(ERRATA) {
        let [name, all, without, with] = columns[..] else { panic!("{line}") };
        let errata = Errata::default().with(name).expect("it is known");
        let found = |all: &[u8], errata| -> String {
            let items = Decoder::new(all, 0).with_errata(errata);
            let texts: Vec<String> = items.clone().map(|item| text(&item)).collect();
            let folded = items.fold(Vec::new(), |mut texts, item| {
                texts.push(text(&item));
                texts
            });
            assert_eq!(texts, folded, "{line}");
            texts.join(" / ")
        };
        // At the end of a trace, and in its middle.
        for behind in [0, 20] {
            let all = [bytes(all), vec![0x06; behind]].concat();
            let and = " / TNT branches=T".repeat(behind);
            assert_eq!(found(&all, Errata::default()), format!("{without}{and}"), "{line}");
            let with = if with == "=" { without } else { with };
            assert_eq!(found(&all, errata), format!("{with}{and}"), "{line}");
        }
    }
}

/// A packet as perf keeps it: kind, `count`, `payload`. Of what is reserved perf keeps all, and we nothing.
fn of_perf(packet: &Packet) -> (&'static str, u64, u64) {
    let with_ip = |kind, ip: Ip| (kind, ip.compression as u64, ip.bits);
    let with_fup = |has_fup: bool, with, without| if has_fup { with } else { without };
    match *packet {
        Packet::Pad => ("PAD", 0, 0),
        Packet::Psb => ("PSB", 0, 0),
        Packet::PsbEnd => ("PSBEND", 0, 0),
        Packet::Tnt(tnt) => ("TNT", tnt.count.into(), tnt.bits),
        Packet::Tip(ip) => with_ip("TIP", ip),
        Packet::TipPge(ip) => with_ip("TIP_PGE", ip),
        Packet::TipPgd(ip) => with_ip("TIP_PGD", ip),
        Packet::Fup(ip) => with_ip("FUP", ip),
        Packet::Pip { cr3, is_guest } => ("PIP", 0, cr3 >> 4 | u64::from(is_guest)),
        Packet::ModeExec { is_64_bit, is_32_bit, interrupts } => {
            let bits = u64::from(is_64_bit) | u64::from(is_32_bit) << 1 | u64::from(interrupts) << 2;
            ("MODE_EXEC", bits, if is_64_bit { 64 } else { 16 << u64::from(is_32_bit) })
        }
        Packet::ModeTsx { in_transaction, is_aborted } => {
            ("MODE_TSX", 0, u64::from(in_transaction) | u64::from(is_aborted) << 1)
        }
        Packet::TraceStop => ("TRACESTOP", 0, 0),
        Packet::Cbr(ratio) => ("CBR", 0, ratio.into()),
        Packet::Tsc(tsc) => ("TSC", 0, tsc),
        Packet::Mtc(ctc) => ("MTC", 0, ctc.into()),
        Packet::Tma { ctc, fast } => ("TMA", fast.into(), ctc.into()),
        Packet::Cyc(cycles) => ("CYC", 0, cycles),
        Packet::Vmcs(base) => ("VMCS", 5, base >> 12),
        Packet::Ovf => ("OVF", 0, 0),
        Packet::Mnt(payload) => ("MNT", 0, payload),
        Packet::Ptw { value, is_wide, has_fup } => {
            (with_fup(has_fup, "PTWRITE_IP", "PTWRITE"), is_wide.into(), value)
        }
        Packet::Exstop { has_fup } => (with_fup(has_fup, "EXSTOP_IP", "EXSTOP"), 0, 0),
        Packet::Mwait { hints, extensions } => ("MWAIT", 0, u64::from(hints) | u64::from(extensions) << 32),
        Packet::Pwre { c_state, sub_state, is_hardware } => {
            let states = u64::from(c_state) << 12 | u64::from(sub_state) << 8;
            ("PWRE", 0, states | u64::from(is_hardware) << 7)
        }
        Packet::Pwrx { last, deepest, reason } => {
            ("PWRX", 0, u64::from(deepest) | u64::from(last) << 4 | u64::from(reason) << 8)
        }
        Packet::Bbp { is_short, kind } => ("BBP", is_short.into(), kind.into()),
        Packet::Bip { id, value } => ("BIP", id.into(), value),
        Packet::Bep { has_fup } => (with_fup(has_fup, "BEP_IP", "BEP"), 0, 0),
        Packet::Cfe { kind, vector, has_fup } => {
            (with_fup(has_fup, "CFE_IP", "CFE"), kind.into(), vector.into())
        }
        Packet::Evd { kind, value } => ("EVD", kind.into(), value),
        _ => ("?", 0, 0),
    }
}

/// The bits of perf's payload that the manual does not reserve.
fn not_reserved(kind: &str) -> u64 {
    match kind {
        "MWAIT" => 0x3_0000_00ff,
        "PWRE" => 0xff80,
        "PWRX" => 0xfff,
        _ => u64::MAX,
    }
}

/// What makes a decoder be in a block, and the one that it is in, by the length of the item that follows.
const BLOCKS: [(&str, &[u8], usize); 3] =
    [("none", &[], 1), ("short", &[2, 0x63, 0x80], 5), ("wide", &[2, 0x63, 0], 9)];

fn check_perf(line: &str, columns: &[&str]) {
    let [packet, before, kind, count, payload, after] = columns[..] else { panic!("{line}") };
    let of = |name| BLOCKS.iter().find(|block| block.0 == name).expect("a block");
    let (packet, (_, begin, _), (_, _, item)) = (bytes(packet), of(before), of(after));
    let all = [begin, &packet[..], &[4, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let mut items = Decoder::new(&all, 0).skip(usize::from(!begin.is_empty()));
    let first = items.next().expect("an item");
    assert_eq!(first.length, packet.len(), "{line}");
    let payload = u64::from_str_radix(payload.trim_start_matches("0x"), 16).expect("hexadecimal");
    let expect = (kind, count.parse().expect("a number"), payload & not_reserved(kind));
    assert_eq!(of_perf(&first.what.expect("a packet")), expect, "{line}");
    assert_eq!(items.next().map(|item| item.length), Some(*item), "the block after: {line}");
}

#[test]
fn packets_of_perf() {
    let mut count = 0;
    for (line, columns) in rows(OF_PERF) {
        // Packets are joined to the PAD that follows by perf, and PADs in succession to one item by us.
        check_perf(line, &columns);
        count += 1;
    }
    assert_eq!(count, 120);
}

/// Kinds that leave a block as it is, by perf's `ctx_unchanged`.
const LEAVE_A_BLOCK: [&str; 11] =
    ["PAD", "CBR", "TSC", "MTC", "TMA", "CYC", "MNT", "EXSTOP", "EXSTOP_IP", "PWRE", "PWRX"];

#[test]
fn timing_and_power_packets_leave_a_block() {
    for (line, columns) in rows(OF_PERF).filter(|(_, columns)| LEAVE_A_BLOCK.contains(&columns[2])) {
        for block in ["short", "wide"] {
            let mut columns = columns.clone();
            (columns[1], columns[5]) = (block, block);
            check_perf(line, &columns);
        }
    }
}
