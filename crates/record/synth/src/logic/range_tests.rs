//! Filtering by address: expected lists of packets, by hand from the SDM's sections (volume 3C, chapter 33).

use super::tests::{KERNEL, KERNEL_48, PGD, ip16, ip32, jcc, losing, one, pip, sext48, timed, tnt, untimed};
use super::*;

/// Only 0x401000 to 0x402000 is traced, and 0x405000 to 0x406000 stops it.
fn ranges() -> Ranges {
    let mut ranges = Ranges::default();
    ranges.add(false, 0x40_1000..0x40_2000);
    ranges.add(true, 0x40_5000..0x40_6000);
    ranges
}

/// The same as [`check`], with these ranges. Returns how many instructions were traced.
#[track_caller]
fn check_ranges(options: &Options, facts: &[Fact<'_>], expected: &[Packet]) -> u64 {
    let mut generator = Generator::new(options.clone(), Vec::new()).expect("options");
    generator.set_ranges(ranges());
    generator.fact(&Fact::Enter(0x40_1000));
    let mut traced = 0;
    for fact in facts {
        traced += u64::from(matches!(fact, Fact::Run(_)) && generator.is_tracing());
        generator.fact(fact);
    }
    assert!(generator.traced == traced || !options.overflows.is_empty());
    let packets = generator.into_sink();
    assert_eq!(&packets[5..], expected);
    traced
}

fn pgd(ip: Ip) -> Packet {
    Packet::TipPgd(ip)
}

/// 33.2.4.3, 33.2.5.5, 33.4.2.5: the address of what is outside is told, but for a conditional branch (7e, 7f); nothing
/// of what is executed there. What is next in memory is no branch.
#[test]
fn ranges_are_left_and_entered_by_branches() {
    let facts = [
        jcc(0x40_1000, true),
        one(0x40_1004, Exit::Conditional { is_taken: true }, 0x40_3000),
        jcc(0x40_3000, true),
        one(0x40_3004, Exit::IndirectJump, 0x40_4000),
        one(0x40_4000, Exit::Plain, 0x40_1100),
        // Direct jump, direct call, indirect call, return.
        one(0x40_1100, Exit::Plain, 0x40_3000),
        one(0x40_3000, Exit::Return, 0x40_1200),
        one(0x40_1200, Exit::Call { back: 0x40_1204 }, 0x40_3000),
        one(0x40_3000, Exit::Return, 0x40_1204),
        one(0x40_1204, Exit::IndirectCall { back: 0x40_1208 }, 0x40_4000),
        one(0x40_4000, Exit::Conditional { is_taken: true }, 0x40_1ffc),
        // Over the end, where it goes on up to the next branch that is taken; and into it.
        one(0x40_1ffc, Exit::Plain, 0x40_2000),
        jcc(0x40_2000, false),
        one(0x40_2004, Exit::Return, 0x40_0ffc),
        one(0x40_0ffc, Exit::Plain, 0x40_1000),
        one(0x40_1000, Exit::IndirectJump, 0x40_1000),
    ];
    let expected = [
        tnt(1, 1),
        PGD,
        Packet::TipPge(ip16(0x1100)),
        pgd(ip16(0x3000)),
        Packet::TipPge(ip16(0x1200)),
        pgd(ip16(0x3000)),
        Packet::TipPge(ip16(0x1204)),
        pgd(ip16(0x4000)),
        Packet::TipPge(ip16(0x1ffc)),
        tnt(0, 1),
        pgd(ip16(0x0ffc)),
        Packet::TipPge(ip16(0x1000)),
    ];
    assert_eq!(check_ranges(&untimed(), &facts, &expected), 8);
}

/// 33.4.2.2: no return is compressed over what was not traced, whoever has called there.
#[test]
fn returns_are_not_compressed_over_code_that_is_not_traced() {
    let facts = [
        one(0x40_1000, Exit::Call { back: 0x40_1004 }, 0x40_1100),
        one(0x40_1100, Exit::Call { back: 0x40_1104 }, 0x40_3000),
        one(0x40_3000, Exit::Return, 0x40_1104),
        one(0x40_1104, Exit::Return, 0x40_1004),
        one(0x40_1004, Exit::Call { back: 0x40_1008 }, 0x40_1200),
        one(0x40_1200, Exit::Return, 0x40_1008),
        Fact::Interrupt(0x40_1008),
    ];
    let expected = [
        pgd(ip16(0x3000)),
        Packet::TipPge(ip16(0x1104)),
        Packet::Tip(ip16(0x1004)),
        tnt(1, 1),
        Packet::Fup(ip16(0x1008)),
        PGD,
    ];
    check_ranges(&untimed(), &facts, &expected);
}

/// What the kernel returns to is in a range, or not (10b, 11a); interrupts are told where tracing is on.
#[test]
fn the_kernel_returns_to_ranges() {
    let facts = [
        one(0x40_1000, Exit::System, 0),
        Fact::Enter(0x40_3000),
        one(0x40_3000, Exit::System, 0),
        Fact::Enter(0x40_1004),
        Fact::Interrupt(0x40_1004),
        Fact::Enter(0x40_3000),
        Fact::Interrupt(0x40_3000),
        Fact::End,
    ];
    let expected = [PGD, Packet::TipPge(ip16(0x1004)), Packet::Fup(ip16(0x1004)), PGD];
    check_ranges(&untimed(), &facts, &expected);
}

/// 33.2.4.3, "TraceStop": TIP.PGD where tracing was on, TraceStop, and not one packet more, of time neither.
#[test]
fn regions_stop_tracing() {
    let facts = [
        one(0x40_1000, Exit::IndirectJump, 0x40_5000),
        jcc(0x40_5000, false),
        one(0x40_5004, Exit::IndirectJump, 0x40_1000),
        one(0x40_1000, Exit::IndirectJump, 0x40_1000),
        Fact::Interrupt(0x40_1000),
        Fact::Enter(0x40_1000),
        Fact::End,
    ];
    assert_eq!(check_ranges(&untimed(), &facts, &[pgd(ip16(0x5000)), Packet::TraceStop]), 1);
    // From what is not traced; by a conditional branch; by an event.
    let facts = [
        one(0x40_1000, Exit::IndirectJump, 0x40_3000),
        one(0x40_3000, Exit::Conditional { is_taken: true }, 0x40_5ffc),
        Fact::Interrupt(0x40_5ffc),
    ];
    check_ranges(&untimed(), &facts, &[pgd(ip16(0x3000)), Packet::TraceStop]);
    let facts = [one(0x40_1000, Exit::Conditional { is_taken: true }, 0x40_5000)];
    check_ranges(&untimed(), &facts, &[PGD, Packet::TraceStop]);
    let facts = [Fact::Interrupt(0x40_1000), Fact::Enter(0x40_5000)];
    check_ranges(&untimed(), &facts, &[Packet::Fup(ip16(0x1000)), PGD, Packet::TraceStop]);
}

/// 33.2.4.3: a region that was met while packets were lost stops tracing behind OVF. What was not traced is not lost.
#[test]
fn regions_stop_behind_an_overflow() {
    let facts = [
        one(0x40_1000, Exit::Plain, 0x40_1004),
        one(0x40_1004, Exit::IndirectJump, 0x40_5000),
        one(0x40_5000, Exit::IndirectJump, 0x40_1000),
        one(0x40_1000, Exit::IndirectJump, 0x40_1000),
    ];
    check_ranges(&losing(1..3), &facts, &[Packet::Ovf, Packet::TraceStop]);
    let facts = [
        one(0x40_1000, Exit::Plain, 0x40_3000),
        one(0x40_3000, Exit::Plain, 0x40_3004),
        one(0x40_3004, Exit::IndirectJump, 0x40_1100),
        jcc(0x40_1100, true),
        Fact::Interrupt(0x40_1104),
    ];
    let behind = [Packet::TipPge(ip32(0x40_1100)), tnt(1, 1), Packet::Fup(ip16(0x1104)), PGD];
    let expected = [&[pgd(ip16(0x3000)), Packet::Ovf], &behind[..]].concat();
    check_ranges(&losing(1..2), &facts, &expected);
}

/// 33.3.7: PSB+ has no FUP where tracing is off; time goes on (33.4.1: MTC depends on TriggerEn only).
#[test]
fn time_and_boundaries_go_on_outside_of_ranges() {
    let mut options = timed();
    options.psb_bytes = 256;
    let mut facts = vec![one(0x40_1000, Exit::Plain, 0x40_3000)];
    facts.extend((0..200).map(|_| jcc(0x40_3000, false)));
    let mut generator = Generator::new(options, Vec::new()).expect("options");
    generator.set_ranges(ranges());
    [Fact::Enter(0x40_1000)].iter().chain(&facts).for_each(|fact| generator.fact(fact));
    let packets = generator.into_sink();
    let behind = packets.iter().position(|packet| matches!(packet, Packet::TipPgd(_))).expect("it ends");
    let behind = &packets[behind + 1..];
    assert!(behind.contains(&Packet::Psb) && behind.iter().any(|packet| matches!(packet, Packet::Mtc(_))));
    assert!(
        behind.iter().all(|packet| !matches!(packet, Packet::Fup(_) | Packet::Tnt(_) | Packet::TipPge(_)))
    );
}

/// The kernel, too: events and far transfers out of ranges and into them (10d, 11d, 11b), and PIP outside (5f).
#[test]
fn events_lead_out_of_ranges_and_into_them() {
    let mut ranges = Ranges::default();
    ranges.add(false, KERNEL..KERNEL + 0x1000);
    let mut generator = Generator::new(Options { kernel: true, ..untimed() }, Vec::new()).expect("options");
    generator.set_ranges(ranges);
    for fact in [
        Fact::Space(0x1000),
        Fact::Enter(KERNEL),
        Fact::Interrupt(KERNEL),
        Fact::Enter(KERNEL + 0x2000),
        one(KERNEL + 0x2000, Exit::Space { cr3: 0x2000 }, KERNEL + 0x2004),
        one(KERNEL + 0x2004, Exit::Far, KERNEL + 8),
        one(KERNEL + 8, Exit::Far, 0x40_1000),
        Fact::Interrupt(0x40_1000),
        Fact::Enter(KERNEL + 16),
        Fact::Interrupt(KERNEL + 16),
        Fact::End,
    ] {
        generator.fact(&fact);
    }
    let expected = [
        Packet::Fup(ip16(0)),
        pgd(ip16(0x2000)),
        pip(0x2000),
        Packet::TipPge(ip16(8)),
        pgd(sext48(0x40_1000)),
        Packet::TipPge(sext48(KERNEL_48 + 16)),
        Packet::Fup(ip16(16)),
        PGD,
    ];
    assert_eq!(&generator.into_sink()[6..], expected);
}
