//! Intel's libipt makes of random and of damaged traces what we make of them.
//!
//! Where the two differ is said in [`is_known`]. Debian's libipt 2.0.5 has no CFE, EVD, TRIG, BBP, BIP and BEP: of
//! these the tables of `packets.txt` and of perf are the test.

#[path = "packets_support/generate.rs"]
mod generate;

use mote_pt::packet::ip::Ip;
use mote_pt::packet::{Damage, Decoder, Encoder, Item, Packet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/packets_libipt.c");
const TRACES: usize = 3000;
/// `pte_bad_opc`, `pte_bad_packet`, `pte_eos`.
const ERRORS: [(&str, Error); 3] = [("4", Error::Opcode), ("5", Error::Packet), ("7", Error::End)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Error {
    Opcode,
    Packet,
    End,
}

#[test]
fn libipt_reads_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("libipt");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).args([SOURCE, "-lipt"]).output();
    if !built.is_ok_and(|built| built.status.success()) {
        mote_skip::skip("no C compiler, or no libipt: apt-get install gcc libipt-dev");
        return;
    }
    let traces = traces();
    let said = run(&program, folder.path(), &traces);
    let mut answers = said.split("trace\n").skip(1);
    let mut compared = 0;
    for bytes in &traces {
        compared += compare(bytes, answers.next().expect("an answer for each trace"));
    }
    assert!(compared > 15 * TRACES, "only {compared} packets were compared");
}

/// Random traces, traces with bytes changed, traces that were cut, pairs of PSBs, and any bytes.
fn traces() -> Vec<Vec<u8>> {
    let encoded = |packets: Vec<Packet>| {
        let mut encoder = Encoder::new();
        encoder.extend(packets).expect("they fit");
        encoder.into_bytes()
    };
    // What libipt does not know would end most comparisons early.
    let whole = || {
        generate::trace().prop_map(|trace| trace.into_iter().filter(libipt_knows).collect()).prop_map(encoded)
    };
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let changed = (whole(), changes).prop_map(|(mut bytes, changes)| {
        bytes.push(0);
        for (place, value) in changes {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        bytes
    });
    let cut = (whole(), any::<prop::sample::Index>()).prop_map(|(mut bytes, at)| {
        bytes.truncate(at.index(bytes.len() + 1));
        bytes
    });
    let runs = vec((0..20usize, any::<bool>(), generate::packet()), 0..6).prop_map(move |runs| {
        let run = |(pairs, is_odd, packet): (usize, bool, Packet)| {
            [[0x02, 0x82].repeat(pairs), vec![0x02; is_odd.into()], encoded(vec![packet])].concat()
        };
        runs.into_iter().flat_map(run).collect::<Vec<u8>>()
    });
    let any_bytes = vec(any::<u8>(), 0..100);
    let trace = prop_oneof![4 => whole(), 2 => changed, 1 => cut, 1 => runs, 2 => any_bytes];
    let mut runner = TestRunner::deterministic();
    let one = |_| trace.new_tree(&mut runner).expect("a trace").current();
    (0..TRACES).map(one).collect()
}

fn libipt_knows(packet: &Packet) -> bool {
    match packet {
        Packet::Cfe { .. } | Packet::Evd { .. } | Packet::Trig { .. } => false,
        Packet::Bbp { .. } | Packet::Bip { .. } | Packet::Bep { .. } => false,
        Packet::Cyc(cycles) => cycles >> 61 == 0,
        _ => true,
    }
}

fn run(program: &Path, folder: &Path, traces: &[Vec<u8>]) -> String {
    let with_length = |bytes: &Vec<u8>| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    let path = folder.join("traces");
    std::fs::write(&path, traces.iter().flat_map(with_length).collect::<Vec<u8>>()).expect("writable");
    let output = Command::new(program).arg(&path).output().expect("it was built");
    assert!(output.status.success(), "the program for libipt: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Compares up to the first difference that is known, and where PSBs are; returns how many packets were the same.
fn compare(bytes: &[u8], said: &str) -> usize {
    let mut items = Decoder::new(bytes, 0);
    let mut same = 0;
    let mut lines = said.lines();
    // How many PADs of a run libipt still has to say.
    let mut padding = 0;
    for line in lines.by_ref() {
        if padding > 0 {
            assert!(line.ends_with(" 1 PAD"), "{line}: {bytes:02x?}");
            padding -= 1;
            continue;
        }
        let item = items.next();
        if let Some(item) = item.filter(|item| item.what == Ok(Packet::Pad)) {
            padding = item.length - 1;
        }
        let ours = item.as_ref().and_then(text);
        if ours.as_deref().is_some_and(|ours| ours == line) {
            same += 1;
            continue;
        }
        assert!(is_known(item, line, bytes), "ours: {item:?}, libipt: {line}, of {bytes:02x?}");
        break;
    }
    syncs(bytes, said);
    same
}

/// What libipt does another way.
fn is_known(ours: Option<Item>, line: &str, bytes: &[u8]) -> bool {
    let length = bytes.len();
    let Some(ours) = ours else { return line == format!("error {length} 7") };
    let error = ERRORS.iter().find(|(code, _)| line == format!("error {} {code}", ours.offset));
    let is_at = |kind: &str| line.starts_with(&format!("{} ", ours.offset)) && line.contains(kind);
    match (ours.what, error.map(|(_, error)| *error)) {
        // The same, where bytes are damaged. Of a packet that is cut off libipt looks at nothing but its length.
        (Err(Damage::Truncated), Some(Error::End)) => true,
        (Err(Damage::UnknownOpcode(_) | Damage::UnknownExtension(_)), Some(Error::Opcode)) => true,
        (Err(Damage::UnknownSecondExtension(_)), Some(Error::Opcode)) => true,
        (Err(Damage::Reserved(_) | Damage::LongCyc | Damage::BadPsb), Some(Error::Packet)) => true,
        (Err(Damage::Reserved(_) | Damage::LongCyc | Damage::BadPsb), Some(Error::End)) => {
            length < ours.offset as usize + 16
        }
        // It does not know CFE, EVD, BBP, BEP and TRIG.
        (Ok(_) | Err(Damage::Truncated), Some(Error::Opcode)) => {
            matches!(bytes[ours.offset as usize..], [0x02, 0x13 | 0x53 | 0x63 | 0x33 | 0xb3, ..] | [0xd9, ..])
        }
        // It has no room for the highest 3 bits.
        (Ok(Packet::Cyc(_)), Some(Error::Packet)) => ours.length == 10,
        // It wants reserved bits to be 0, which the manual does not promise.
        (Ok(Packet::Tma { .. }), Some(Error::Packet)) => true,
        // It lets pass what has no meaning.
        (Err(Damage::Reserved(_)), None) => is_at("MODE.Exec 1 1") || is_at("MODE.TSX 1 1"),
        // Of more than 8 pairs the first 8 are its PSB, the last 8 ours.
        (Err(Damage::BadPsb), None) => is_at("PSB"),
        _ => false,
    }
}

/// PSBs, forwards and backwards. Backwards libipt does not come past a run of pairs that is longer than a PSB.
fn syncs(bytes: &[u8], said: &str) {
    let mut decoder = Decoder::new(bytes, 0);
    let forwards = std::iter::from_fn(|| {
        let psb = decoder.sync_forward()?;
        decoder.next();
        Some(psb)
    });
    check_syncs(&forwards.collect::<Vec<_>>(), said, "forward", bytes);
    decoder.move_to_end();
    let backwards = std::iter::from_fn(|| decoder.sync_backward());
    check_syncs(&backwards.collect::<Vec<_>>(), said, "backward", bytes);
}

fn check_syncs(ours: &[u64], said: &str, name: &str, bytes: &[u8]) {
    let line = said.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    let (offsets, ends_early) = match line.strip_suffix(" again") {
        Some(offsets) => (offsets, true),
        None => (line, false),
    };
    let theirs: Vec<u64> =
        offsets.split_whitespace().map(|offset| offset.parse().expect("an offset")).collect();
    let is_same = if ends_early { ours.starts_with(&theirs) } else { ours == theirs };
    assert!(is_same, "{name}: {ours:?}, libipt:{line}, of {bytes:02x?}");
}

/// A packet as `packets_libipt.c` says it; `None` for damage, and for what libipt does not know.
fn text(item: &Item) -> Option<String> {
    let with_ip = |kind, ip: Ip| format!("{kind} {} {:x}", ip.compression as u8, ip.bits);
    let packet = match item.what.ok()? {
        Packet::Pad => return Some(format!("{} 1 PAD", item.offset)),
        Packet::Psb => "PSB".into(),
        Packet::PsbEnd => "PSBEND".into(),
        Packet::TraceStop => "TraceStop".into(),
        Packet::Ovf => "OVF".into(),
        Packet::Fup(ip) => with_ip("FUP", ip),
        Packet::Tip(ip) => with_ip("TIP", ip),
        Packet::TipPge(ip) => with_ip("TIP.PGE", ip),
        Packet::TipPgd(ip) => with_ip("TIP.PGD", ip),
        Packet::Tnt(tnt) => format!("TNT-{} {} {:x}", if tnt.is_long { 64 } else { 8 }, tnt.count, tnt.bits),
        Packet::ModeExec { is_64_bit, is_32_bit, .. } => {
            format!("MODE.Exec {} {}", u8::from(is_64_bit), u8::from(is_32_bit))
        }
        Packet::ModeTsx { in_transaction, is_aborted } => {
            format!("MODE.TSX {} {}", u8::from(in_transaction), u8::from(is_aborted))
        }
        Packet::Pip { cr3, is_guest } => format!("PIP {cr3:x} {}", u8::from(is_guest)),
        Packet::Vmcs(base) => format!("VMCS {base:x}"),
        Packet::Cbr(ratio) => format!("CBR {ratio}"),
        Packet::Tsc(tsc) => format!("TSC {tsc:x}"),
        Packet::Tma { ctc, fast } => format!("TMA {ctc:x} {fast:x}"),
        Packet::Mtc(ctc) => format!("MTC {ctc:x}"),
        Packet::Cyc(cycles) => format!("CYC {cycles:x}"),
        Packet::Mnt(payload) => format!("MNT {payload:x}"),
        Packet::Exstop { has_fup } => format!("EXSTOP {}", u8::from(has_fup)),
        Packet::Mwait { hints, extensions } => format!("MWAIT {hints:x} {extensions:x}"),
        Packet::Pwre { c_state, sub_state, .. } => format!("PWRE {c_state} {sub_state}"),
        Packet::Pwrx { last, deepest, reason } => {
            format!("PWRX {last} {deepest} {} {} {}", reason & 1, reason >> 2 & 1, reason >> 3)
        }
        Packet::Ptw { value, is_wide, has_fup } => {
            format!("PTW {value:x} {} {}", u8::from(is_wide), u8::from(has_fup))
        }
        _ => return None,
    };
    Some(format!("{} {} {packet}", item.offset, item.length))
}
