//! Cases of the flow as texts: code, packets, and what they say. `BLESS=1` writes what is found into the files.
//!
//! A case begins with `== TITLE`. Its parts are lines behind `code` (ADDRESS: BYTES ; COMMENT, or CR3/ADDRESS for code
//! of one address space), `filter` (FIRST LAST), `errata` (names; without them, something else must be found),
//! `packets`, and `items`. Numbers are hexadecimal, except those of bits.

use mote_pt::errata::Errata;
use mote_pt::flow::{Event, Flow, Item};
use mote_pt::image::{Memory, Space};
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Packet, Tnt};
use std::path::Path;

#[derive(Default)]
struct Case<'t> {
    title: &'t str,
    /// Lines before the items, as they are.
    given: Vec<&'t str>,
    image: Memory<'t>,
    filter: Vec<std::ops::RangeInclusive<u64>>,
    errata: Errata,
    /// BranchEn is clear.
    is_without_branches: bool,
    packets: Vec<Result<Packet, ()>>,
    items: Vec<&'t str>,
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flow_cases").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut blessed = String::new();
    let mut wrong = Vec::new();
    for text in text.split("== ").skip(1) {
        let case = Case::parse(text);
        let found = case.run(case.errata);
        let is_needed = case.errata == Errata::default() || case.run(Errata::default()) != found;
        assert!(is_needed, "{name}: {}: the errata change nothing", case.title);
        blessed += &format!("== {}\n{}\nitems\n{}\n\n", case.title, case.given.join("\n"), found.join("\n"));
        if found != case.items {
            let (expected, found) = (case.items.join("\n"), found.join("\n"));
            wrong.push(format!("{name}: {}\nfound\n{found}\nexpected\n{expected}\n", case.title));
        }
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{}\n", blessed.trim_end())).unwrap();
    } else {
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn branches() {
    check("branches.txt");
}

#[test]
fn events() {
    check("events.txt");
}

#[test]
fn tracing() {
    check("tracing.txt");
}

#[test]
fn errata() {
    check("errata.txt");
}

#[test]
fn manual() {
    check("manual.txt");
}

#[test]
fn machines() {
    check("machines.txt");
}

#[test]
fn gaps() {
    check("gaps.txt");
}

impl<'t> Case<'t> {
    fn parse(text: &'t str) -> Self {
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut case = Case { title: lines.next().unwrap(), ..Case::default() };
        let mut part = "";
        for line in lines {
            match line {
                "code" | "filter" | "errata" | "packets" => part = line,
                "without branches" => case.is_without_branches = true,
                "items" => {
                    part = line;
                    continue;
                }
                line if part == "code" => case.add_code(line),
                line if part == "filter" => {
                    let (first, last) = line.split_once(' ').unwrap();
                    case.filter.push(hex(first)..=hex(last));
                }
                line if part == "errata" => {
                    case.errata = line.split(' ').fold(case.errata, |all, name| all.with(name).unwrap());
                }
                line if part == "packets" => case.packets.push(packet(line)),
                line => case.items.push(line),
            }
            if part != "items" {
                case.given.push(line);
            }
        }
        case
    }

    fn add_code(&mut self, line: &str) {
        let (place, bytes) = line.split_once(':').unwrap();
        let (space, address) = match place.split_once('/') {
            Some((cr3, address)) => (Space(hex(cr3)), address),
            None => (Space::ANY, place),
        };
        let bytes = bytes.split(';').next().unwrap().split_whitespace();
        let bytes: Vec<u8> = bytes.map(|byte| hex(byte) as u8).collect();
        self.image.add(space, hex(address), bytes).unwrap();
    }

    fn run(&self, errata: Errata) -> Vec<String> {
        let packets = self.packets.iter().enumerate().map(|(offset, &packet)| (offset as u64, packet));
        let flow = Flow::new(packets, &self.image).with_filter(self.filter.clone()).with_errata(errata);
        let flow = if self.is_without_branches { flow.without_branches() } else { flow };
        let lines: Vec<String> = flow.items().map(show).collect();
        let same = lines.chunk_by(|first, second| first == second);
        same.map(|same| match same.len() {
            1 => same[0].clone(),
            count => format!("{} ({count} times)", same[0]),
        })
        .collect()
    }
}

fn show(item: Item<mote_pt::flow::Block>) -> String {
    match item {
        Item::Code(block) => {
            let mode = block.mode.bits();
            let mode = if mode == 64 { String::new() } else { format!(", {mode}-bit") };
            let state = if block.is_speculative { ", speculative" } else { "" };
            let (start, end, count) = (block.start, block.end, block.instructions);
            format!("{start:x}..{end:x} {count} {:?}{mode}{state}", block.class)
        }
        Item::Event { offset, event: Event::Packet { packet, address } } => {
            let at = address.map(|address| format!(" at {address:x}")).unwrap_or_default();
            format!("packet {offset}{at}: {packet:x?}")
        }
        Item::Event { offset, event } => format!("event {offset}: {event:x?}"),
        Item::Gap(gap) => {
            let of = if gap.is_guest { " in a guest" } else { "" };
            format!("gap {}{of}: {}", gap.offset, gap.cause)
        }
    }
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text} is no number"))
}

/// `-` is no address, `16:1234` one of which 16 bits are written, `s48:` one of 48 bits that are extended by their
/// sign.
fn ip(text: &str) -> Ip {
    match text.split_once(':') {
        Some(("16", bits)) => Ip { compression: Compression::Update16, bits: hex(bits) },
        Some(("32", bits)) => Ip { compression: Compression::Update32, bits: hex(bits) },
        Some(("48", bits)) => Ip { compression: Compression::Update48, bits: hex(bits) },
        Some(("s48", bits)) => Ip { compression: Compression::Sext48, bits: hex(bits) },
        _ if text == "-" => Ip { compression: Compression::Suppressed, bits: 0 },
        _ => Ip { compression: Compression::Full, bits: hex(text) },
    }
}

fn packet(line: &str) -> Result<Packet, ()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let has_fup = words.last() == Some(&"fup");
    let number = |index: usize| hex(words[index]);
    Ok(match words[0] {
        "damage" => return Err(()),
        "pad" => Packet::Pad,
        "psb" => Packet::Psb,
        "psbend" => Packet::PsbEnd,
        "tnt" => {
            let bits = u64::from_str_radix(words[1], 2).unwrap();
            Packet::Tnt(Tnt { bits, count: words[1].len() as u8, is_long: words[1].len() > 6 })
        }
        "tip" => Packet::Tip(ip(words[1])),
        "tip.pge" => Packet::TipPge(ip(words[1])),
        "tip.pgd" => Packet::TipPgd(ip(words[1])),
        "fup" => Packet::Fup(ip(words[1])),
        "pip" => Packet::Pip { cr3: number(1), is_guest: words.len() > 2 },
        "mode" => {
            let (is_64_bit, is_32_bit) = (words[1] == "64", words[1] == "32");
            Packet::ModeExec { is_64_bit, is_32_bit, interrupts: words.len() > 2 }
        }
        "tsx" => Packet::ModeTsx { in_transaction: words[1] == "begin", is_aborted: words[1] == "abort" },
        "ovf" => Packet::Ovf,
        "stop" => Packet::TraceStop,
        "vmcs" => Packet::Vmcs(number(1)),
        "ptw" => Packet::Ptw { value: number(1), is_wide: true, has_fup },
        "exstop" => Packet::Exstop { has_fup },
        "mwait" => Packet::Mwait { hints: number(1) as u8, extensions: 0 },
        "pwre" => Packet::Pwre { c_state: number(1) as u8, sub_state: 0, is_hardware: false },
        "pwrx" => Packet::Pwrx { last: number(1) as u8, deepest: 0, reason: 0 },
        "cfe" => Packet::Cfe { kind: number(1) as u8, vector: number(2) as u8, has_fup },
        "evd" => Packet::Evd { kind: number(1) as u8, value: number(2) },
        "bep" => Packet::Bep { has_fup },
        "cbr" => Packet::Cbr(number(1) as u8),
        "mtc" => Packet::Mtc(number(1) as u8),
        "mnt" => Packet::Mnt(number(1)),
        "trig" => Packet::Trig { triggers: number(1) as u8, is_multiple: false, instructions: None, has_fup },
        "tsc" => Packet::Tsc(number(1)),
        "cyc" => Packet::Cyc(number(1)),
        word => panic!("{word} is no packet"),
    })
}

/// A reader knows by other means than packets when another process runs: by the time, for instance.
#[test]
fn the_address_space_can_be_set_between_packets() {
    let mut image = Memory::new();
    image.add(Space(1), 0x1000, &[0x74, 0xfe][..]).unwrap(); // je 1000
    image.add(Space(2), 0x1000, &[0x90, 0x74, 0xfd][..]).unwrap(); // nop; je 1000
    let tnt = Packet::Tnt(Tnt { bits: 1, count: 1, is_long: false });
    let packets = [Packet::Psb, Packet::Fup(ip("1000")), Packet::PsbEnd, tnt, Packet::Tsc(7), tnt, tnt];
    let mut instructions = Flow::new(packets.map(|packet| (0, Ok::<_, ()>(packet))).into_iter(), &image);
    instructions.set_space(Space(1));
    let mut instructions = instructions.instructions();
    let mut lengths = Vec::new();
    while let Some(item) = instructions.next() {
        match item {
            Item::Code(insn) => lengths.push(insn.len),
            Item::Event { event: Event::Packet { packet: Packet::Tsc(7), .. }, .. } => {
                instructions.set_space(Space(2));
            }
            _ => {}
        }
    }
    assert_eq!(lengths, [2, 1, 2, 1, 2]);
}
