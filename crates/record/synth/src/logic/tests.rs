//! Expected lists of packets, by hand from the SDM's sections (volume 3C, chapter 33).

use super::*;
use crate::options::Clock;
use mote_pt::digest::Digest;
use mote_pt::packet::Tnt;

/// No packet of time but CBR in PSB+.
pub(super) fn untimed() -> Options {
    Options { tsc: false, mtc: None, ..Options::default() }
}

pub(super) fn losing(instructions: Range<u64>) -> Options {
    Options { overflows: std::iter::once(instructions).collect(), ..untimed() }
}

/// One instruction of 4 bytes.
pub(super) fn one(start: u64, exit: Exit, to: u64) -> Fact<'static> {
    let digest = [start].into_iter().collect::<Digest>();
    Fact::Run(Run { start, lengths: &[4], digest, exit, to })
}

pub(super) fn jcc(start: u64, is_taken: bool) -> Fact<'static> {
    one(start, Exit::Conditional { is_taken }, start + 4)
}

fn made(options: &Options, facts: &[Fact<'_>]) -> Vec<Packet> {
    let mut generator = Generator::new(options.clone(), Vec::new()).expect("options");
    facts.iter().for_each(|fact| generator.fact(fact));
    generator.into_sink()
}

/// Behind the PSB+ with which all traces begin here, the enabling at 0x401000 and the disabling are not repeated in
/// the expected lists.
#[track_caller]
fn check(options: &Options, facts: &[Fact<'_>], expected: &[Packet]) {
    let mut all = vec![Fact::Enter(0x40_1000)];
    all.extend_from_slice(facts);
    let packets = made(options, &all);
    let begin = [Packet::Psb, Packet::Cbr(24), Packet::PsbEnd, MODE, Packet::TipPge(ip32(0x40_1000))];
    assert_eq!(&packets[..begin.len()], begin);
    assert_eq!(&packets[begin.len()..], expected);
}

pub(super) fn tnt(bits: u64, count: u8) -> Packet {
    Packet::Tnt(Tnt { bits, count, is_long: count > 6 })
}

pub(super) fn ip16(bits: u64) -> Ip {
    Ip { compression: Compression::Update16, bits }
}

pub(super) fn ip32(bits: u64) -> Ip {
    Ip { compression: Compression::Update32, bits }
}

pub(super) fn sext48(bits: u64) -> Ip {
    Ip { compression: Compression::Sext48, bits }
}

pub(super) const PGD: Packet = Packet::TipPgd(SUPPRESSED);

/// 33.4.2.1: 6 branches fill a packet, the first one is the highest bit; what is left is written when another packet
/// is.
#[test]
fn branches_fill_packets() {
    let mut facts: Vec<_> = (0..8).map(|i| jcc(0x40_1000 + 4 * i, i % 2 == 0)).collect();
    facts.push(one(0x40_1020, Exit::IndirectJump, 0x40_2000));
    facts.push(Fact::End);
    check(&untimed(), &facts, &[tnt(0b10_1010, 6), tnt(0b10, 2), Packet::Tip(ip16(0x2000))]);
}

/// 33.4.2.1: 47 branches in a long packet.
#[test]
fn long_packets_hold_47() {
    let facts: Vec<_> = (0..50).map(|i| jcc(0x40_1000, i == 0 || i == 49)).chain([Fact::End]).collect();
    let options = Options { long_tnt: true, ..untimed() };
    check(&options, &facts, &[tnt(1 << 46, 47), tnt(0b001, 3)]);
}

/// 33.2.1.1: direct jumps and calls, and what is no branch, write nothing; 33.2.1.2: indirect ones a TIP.
#[test]
fn only_what_code_does_not_say_is_written() {
    let facts = [
        one(0x40_1000, Exit::Plain, 0x40_1004),
        one(0x40_1004, Exit::Plain, 0x40_3000),
        one(0x40_3000, Exit::Call { back: 0x40_3004 }, 0x40_4000),
        one(0x40_4000, Exit::IndirectCall { back: 0x40_4004 }, 0x7f12_3456_7000),
        one(0x7f12_3456_7000, Exit::IndirectJump, 0x40_1000),
        one(0x40_1000, Exit::IndirectJump, 0xffff_8000_0000_0000),
    ];
    let expected = [
        Packet::Tip(sext48(0x7f12_3456_7000)),
        Packet::Tip(sext48(0x40_1000)),
        Packet::Tip(sext48(0x8000_0000_0000)),
    ];
    check(&untimed(), &facts, &expected);
}

/// 33.4.2.2, "Indirect Transfer Compression for Returns": a bit where the return's target is the call's next
/// instruction; TIP where it is not, or where compression is switched off.
#[test]
fn returns_are_compressed() {
    let facts = [
        one(0x40_1000, Exit::Call { back: 0x40_1004 }, 0x40_2000),
        one(0x40_2000, Exit::IndirectCall { back: 0x40_2004 }, 0x40_3000),
        one(0x40_3000, Exit::Return, 0x40_2004),
        one(0x40_2004, Exit::Return, 0x40_1004),
        // No call is left.
        one(0x40_1004, Exit::Return, 0x40_5000),
        // To another place than where the call would have it: the entry is used up all the same.
        one(0x40_5000, Exit::Call { back: 0x40_5004 }, 0x40_6000),
        one(0x40_6000, Exit::Return, 0x40_7000),
        one(0x40_7000, Exit::Return, 0x40_5004),
        Fact::End,
    ];
    let uncompressed = [0x3000, 0x2004, 0x1004, 0x5000, 0x7000, 0x5004].map(|bits| Packet::Tip(ip16(bits)));
    let [call, _, _, rest @ ..] = uncompressed;
    let compressed: Vec<_> = [call, tnt(0b11, 2)].into_iter().chain(rest).collect();
    check(&untimed(), &facts, &compressed);
    check(&Options { return_compression: false, ..untimed() }, &facts, &uncompressed);
}

/// 33.4.2.3: TIP packets wait for the TNT packet before them; an uncompressed return does not.
#[test]
fn addresses_are_deferred() {
    let options = Options { deferred_tips: true, ..untimed() };
    let facts = [
        one(0x40_1000, Exit::IndirectJump, 0x40_2000),
        jcc(0x40_2000, false),
        one(0x40_2004, Exit::IndirectJump, 0x50_0000),
        jcc(0x50_0000, true),
        one(0x50_0004, Exit::IndirectJump, 0x50_1000),
        jcc(0x50_1000, true),
        one(0x50_1004, Exit::Return, 0x50_2000),
        jcc(0x50_2000, true),
        one(0x50_2004, Exit::IndirectJump, 0x50_3000),
        Fact::Interrupt(0x50_3000),
    ];
    let expected = [
        Packet::Tip(ip16(0x2000)),
        tnt(0b011, 3),
        Packet::Tip(ip32(0x50_0000)),
        Packet::Tip(ip16(0x1000)),
        Packet::Tip(ip16(0x2000)),
        tnt(1, 1),
        Packet::Tip(ip16(0x3000)),
        Packet::Fup(ip16(0x3000)),
        PGD,
    ];
    check(&options, &facts, &expected);
}

/// 33.4.2.2: a call to the next instruction is none whose return is compressed.
#[test]
fn a_call_that_reads_its_address_is_no_call() {
    let facts =
        [one(0x40_1000, Exit::Call { back: 0x40_1004 }, 0x40_1004), one(0x40_1004, Exit::Return, 0x40_1004)];
    check(&untimed(), &facts, &[Packet::Tip(ip16(0x1004))]);
}

/// 33.4.2.2: 64 calls are remembered: of 65 nested ones the outermost returns by a TIP.
#[test]
fn only_64_calls_are_remembered() {
    let back = |i: u64| 0x40_1004 + 0x10 * i;
    let call = |i| one(back(i) - 4, Exit::Call { back: back(i) }, 0x40_9000);
    let mut facts: Vec<_> = (0..65).map(call).collect();
    facts.extend((0..65).rev().map(|i| one(0x40_9000, Exit::Return, back(i))));
    let mut expected = vec![tnt(0b11_1111, 6); 10];
    expected.extend([tnt(0b1111, 4), Packet::Tip(ip16(0x1004))]);
    check(&untimed(), &facts, &expected);
}

/// 33.7, cases 10c and 10b; 33.4.2.5: without the address, which is the kernel's. MODE.Exec is written once (10b).
#[test]
fn a_system_call_ends_and_begins_the_trace() {
    let facts = [
        jcc(0x40_1000, true),
        one(0x40_1004, Exit::System, 0),
        Fact::Enter(0x40_1008),
        one(0x40_1008, Exit::System, 0),
        Fact::End,
    ];
    check(&untimed(), &facts, &[tnt(1, 1), PGD, Packet::TipPge(ip16(0x1008)), PGD]);
}

/// 33.7, cases 11c and 13c; 33.4.2.6: FUP has the next instruction of an interrupt, the faulting one of a fault.
#[test]
fn an_interrupt_has_its_source() {
    let facts = [jcc(0x40_1000, false), Fact::Interrupt(0x40_1004), Fact::Enter(0x40_8000)];
    let expected = [tnt(0, 1), Packet::Fup(ip16(0x1004)), PGD, Packet::TipPge(ip16(0x8000))];
    check(&untimed(), &facts, &expected);
}

#[test]
fn interrupts_come_when_they_are_wished() {
    let options = Options { interrupt_every: Some(2), ..untimed() };
    let facts: Vec<_> = (0..3).map(|i| one(0x40_1000 + 4 * i, Exit::Plain, 0x40_1004 + 4 * i)).collect();
    let expected = [Packet::Fup(ip16(0x1008)), PGD, Packet::TipPge(ip16(0x1008))];
    check(&options, &facts, &expected);
}

/// 33.3.7: PSB+ has MODE.TSX, MODE.Exec and FUP where PacketEn is set. 33.4.2.2: after it addresses are compressed
/// against 0, and only calls after it are remembered.
#[test]
fn a_boundary_forgets() {
    let options = Options { psb_bytes: 256, ..untimed() };
    // Behind the first PSB: CBR 4, PSBEND 2, MODE.Exec 2, TIP.PGE 5 bytes; 81 TIP packets of 3 bytes make 256.
    let mut facts = vec![one(0x40_1000, Exit::Call { back: 0x40_1004 }, 0x40_2000)];
    facts.extend([one(0x40_2000, Exit::IndirectJump, 0x40_2000); 81]);
    facts.push(one(0x40_2000, Exit::Return, 0x40_1004));
    let mut expected = vec![Packet::Tip(ip16(0x2000)); 81];
    expected.extend([
        Packet::Psb,
        Packet::Cbr(24),
        Packet::ModeTsx { in_transaction: false, is_aborted: false },
        MODE,
        Packet::Fup(ip32(0x40_2000)),
        Packet::PsbEnd,
        Packet::Tip(ip16(0x1004)),
    ]);
    check(&options, &facts, &expected);
}

/// 33.3.8, 33.4.2.16: OVF, then FUP with the address at which packets begin again; no return after it is compressed by
/// a call before.
#[test]
fn an_overflow_in_the_program() {
    let options = losing(1..3);
    let facts = [
        one(0x40_1000, Exit::Call { back: 0x40_1004 }, 0x40_2000),
        jcc(0x40_2000, true),
        one(0x40_2004, Exit::IndirectJump, 0x40_2100),
        jcc(0x40_2100, true),
        one(0x40_2104, Exit::Return, 0x40_1004),
    ];
    let expected = [Packet::Ovf, Packet::Fup(sext48(0x40_2100)), tnt(1, 1), Packet::Tip(ip16(0x1004))];
    check(&options, &facts, &expected);
}

/// Where memory is full, not even that is said; the kernel switches tracing on anew (cases 2b and 10b).
#[test]
fn a_truncation_is_followed_by_a_begin() {
    let options = Options { truncations: std::iter::once(1..3).collect(), ..untimed() };
    let facts = [
        jcc(0x40_1000, true),
        jcc(0x40_1004, true),
        one(0x40_1008, Exit::IndirectJump, 0x40_2100),
        jcc(0x40_2100, false),
        Fact::End,
    ];
    let expected = [
        tnt(1, 1),
        Packet::Psb,
        Packet::Cbr(24),
        Packet::PsbEnd,
        MODE,
        Packet::TipPge(ip32(0x40_2100)),
        tnt(0, 1),
    ];
    check(&options, &facts, &expected);
}

/// 33.4.2.16: TIP.PGE where it ends in the kernel.
#[test]
fn an_overflow_that_ends_in_the_kernel() {
    let options = losing(1..2);
    let facts = [
        one(0x40_1000, Exit::Plain, 0x40_1004),
        one(0x40_1004, Exit::System, 0),
        Fact::Enter(0x40_1008),
        Fact::Interrupt(0x40_1008),
    ];
    let expected = [Packet::Ovf, Packet::TipPge(ip32(0x40_1008)), Packet::Fup(ip16(0x1008)), PGD];
    check(&options, &facts, &expected);
}

/// An instruction that no packet tells of is lost with what is behind it.
#[test]
fn losses_are_known() {
    let options = Options { overflows: vec![1..2, 4..5], ..untimed() };
    let mut generator = Generator::new(options, Vec::new()).expect("options");
    generator.fact(&Fact::Enter(0x40_1000));
    for i in 0..3 {
        generator.fact(&one(0x40_1000 + 4 * i, Exit::Plain, 0x40_1004 + 4 * i));
    }
    let lost = std::slice::from_ref(&(0..2));
    assert_eq!((generator.losses(), generator.reported(), generator.traced), (lost, 0, 1));
    (3..7).for_each(|i| generator.fact(&jcc(0x40_1000 + 4 * i, false)));
    assert_eq!((generator.losses(), generator.reported(), generator.traced), (&[0..2, 4..5][..], 4, 4));
}

/// 33.4.2.20: PTW, and FUP with FUPonPTW.
#[test]
fn data_is_written() {
    let facts = [
        one(0x40_1000, Exit::Plain, 0x40_1004),
        Fact::Data { ip: 0x40_1000, value: 77, is_wide: false },
        Fact::End,
    ];
    check(&untimed(), &facts, &[]);
    let ptw = |has_fup| Packet::Ptw { value: 77, is_wide: false, has_fup };
    let options = Options { ptwrite: true, ..untimed() };
    check(&options, &facts, &[ptw(false)]);
    let options = Options { ptwrite_fup: true, ..options };
    check(&options, &facts, &[ptw(true), Packet::Fup(ip16(0x1000))]);
}

/// Clocks: crystal 24 MHz, TSC and core 2.4 GHz, beginning at 1 ms; an instruction takes 10 µs.
pub(super) fn timed() -> Options {
    let clock = Clock { tick_ps: 10_000_000, kernel_ps: 0, start_ps: 1_000_000_000, ..Clock::default() };
    Options { mtc: Some(8), clock, ..Options::default() }
}

/// 33.3.7 and 33.4.2.13: TSC and TMA begin PSB+; 33.4.2.12: an MTC each time bit 8 of the crystal's count changes,
/// before the packets of what comes later.
#[test]
fn the_crystal_clock_is_written() {
    // 24000 ticks at the begin, 240 for an instruction: 24064 = 94 << 8, 24320 = 95 << 8, 24576 = 96 << 8.
    let facts = [Fact::Enter(0x40_1000), jcc(0x40_1000, true), jcc(0x40_1004, true), Fact::End];
    let expected = [
        Packet::Psb,
        Packet::Tsc(2_400_000),
        Packet::Tma { ctc: 24_000, fast: 0 },
        Packet::Cbr(24),
        Packet::PsbEnd,
        MODE,
        Packet::TipPge(ip32(0x40_1000)),
        Packet::Mtc(94),
        tnt(1, 1),
        Packet::Mtc(95),
        tnt(1, 1),
    ];
    assert_eq!(made(&timed(), &facts), expected);
}

/// 33.4.2.11: after a long sleep TSC and TMA, not MTC for all of it; a short wait has its MTC.
#[test]
fn sleep_ends_with_the_time() {
    let mut generator = Generator::new(timed(), Vec::new()).expect("options");
    generator.fact(&Fact::Enter(0x40_1000));
    generator.fact(&jcc(0x40_1000, true));
    generator.wait_until(2_000_000_000);
    assert_eq!(generator.now(), 2_000_000_000);
    generator.fact(&jcc(0x40_1004, false));
    generator.wait_until(2_015_000_000);
    generator.fact(&Fact::Interrupt(0x40_1008));
    generator.fact(&Fact::Enter(0x40_1008));
    generator.fact(&jcc(0x40_1008, false));
    let packets = generator.into_sink();
    // 48000 ticks at 2 ms; 188 << 8 is 48128, of which it is 5.3 us.
    let expected = [
        Packet::Mtc(94),
        tnt(1, 1),
        Packet::Tsc(4_800_000),
        Packet::Tma { ctc: 48_000, fast: 0 },
        Packet::Mtc(188),
        tnt(0, 1),
        Packet::Fup(ip16(0x1008)),
        PGD,
        Packet::TipPge(ip16(0x1008)),
        Packet::Mtc(189),
    ];
    assert_eq!(&packets[7..], expected);
}

/// 33.3.6.2: CYC before what is written has the cycles since the last one; of TNT those of its first branch; one for
/// what is written in one cycle.
#[test]
fn cycles_are_counted() {
    let options = Options { cyc: Some(0), tsc: false, mtc: None, ..timed() };
    let facts = [
        jcc(0x40_1000, true),
        jcc(0x40_1004, true),
        one(0x40_1008, Exit::IndirectJump, 0x40_1000),
        Fact::Interrupt(0x40_1000),
    ];
    let expected = [
        Packet::Cyc(24_000),
        tnt(0b11, 2),
        Packet::Cyc(48_000),
        Packet::Tip(ip16(0x1000)),
        Packet::Fup(ip16(0x1000)),
        PGD,
    ];
    check(&options, &facts, &expected);
    // CycThresh: fewer cycles than that are left to the next one.
    let options = Options { cyc: Some(30_000), ..options };
    let expected = [&[tnt(0b11, 2), Packet::Cyc(72_000)], &expected[3..]].concat();
    check(&options, &facts, &expected);
}

/// A guest's PSB+ has a VMCS packet (33.3.7).
#[test]
fn a_guest_has_its_vmcs() {
    let options = Options { vmcs: Some(0x1234_5000), ..untimed() };
    let packets = made(&options, &[Fact::Enter(0x40_1000)]);
    assert_eq!(packets[2], Packet::Vmcs(0x1234_5000));
}

/// Whatever comes in whatever order: packets that can be, and each loss said once.
#[test]
fn random_facts_make_packets_that_can_be() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..300 {
        let overflows = (0..next(4)).map(|i| 100 * i + next(50)..100 * i + 50 + next(50)).collect();
        let options = Options {
            return_compression: next(2) == 0,
            long_tnt: next(2) == 0,
            deferred_tips: next(2) == 0,
            mtc: (next(2) == 0).then_some(next(16) as u8),
            cyc: (next(2) == 0).then_some(next(40)),
            ptwrite: true,
            ptwrite_fup: next(2) == 0,
            psb_bytes: 256 + next(300),
            interrupt_every: (next(2) == 0).then(|| 1 + next(50)),
            overflows,
            ..Options::default()
        };
        let mut generator = Generator::new(options, Vec::new()).expect("options");
        for _ in 0..400 {
            let (at, to) = (next(u64::MAX), next(u64::MAX));
            generator.fact(&match next(12) {
                0 => Fact::Enter(to),
                1 => Fact::Interrupt(at),
                2 => Fact::Data { ip: at, value: to, is_wide: true },
                3 => one(at, Exit::System, to),
                4 => one(at, Exit::Return, to),
                5 => one(at, Exit::Call { back: at.wrapping_add(4) }, to),
                6 => one(at, Exit::IndirectJump, to),
                7 => one(at, Exit::Plain, to),
                _ => jcc(at & 0xffff, to % 2 == 0),
            });
        }
        generator.fact(&Fact::End);
        let (losses, bytes) = (generator.losses().len(), generator.bytes());
        let packets = generator.into_sink();
        let count = |wanted: fn(&Packet) -> bool| packets.iter().filter(|packet| wanted(packet)).count();
        assert_eq!(count(|packet| *packet == Packet::Ovf), losses);
        assert_eq!(count(|packet| *packet == Packet::Psb), count(|packet| *packet == Packet::PsbEnd));
        assert_eq!(packets.iter().map(bytes_of).sum::<u64>(), bytes);
        assert!(packets.iter().all(|packet| bytes_of(packet) > 0 && can_be(packet)));
    }
}

fn can_be(packet: &Packet) -> bool {
    match packet {
        Packet::Tnt(tnt) => {
            (1..=if tnt.is_long { 47 } else { 6 }).contains(&tnt.count) && tnt.bits >> tnt.count == 0
        }
        _ => true,
    }
}

/// The kernel, too: its begin is at 0xffffffff81000000, in the address space 0x1000.
#[track_caller]
fn check_kernel(options: &Options, facts: &[Fact<'_>], expected: &[Packet]) {
    let options = Options { kernel: true, ..options.clone() };
    let mut all = vec![Fact::Space(0x1000), Fact::Enter(KERNEL)];
    all.extend_from_slice(facts);
    let packets = made(&options, &all);
    let begin =
        [Packet::Psb, pip(0x1000), Packet::Cbr(24), Packet::PsbEnd, MODE, Packet::TipPge(sext48(KERNEL_48))];
    assert_eq!(&packets[..begin.len()], begin);
    assert_eq!(&packets[begin.len()..], expected);
}

pub(super) const KERNEL: u64 = 0xffff_ffff_8100_0000;
pub(super) const KERNEL_48: u64 = 0xffff_8100_0000;

pub(super) fn pip(cr3: u64) -> Packet {
    Packet::Pip { cr3, is_guest: false }
}

/// 33.7, cases 10e, 11e and 13e: where both sides of a far transfer are in context, it is a TIP, of an event behind the
/// FUP. The end is case 3b.
#[test]
fn far_transfers_are_targets_where_the_kernel_is_traced() {
    let facts = [
        jcc(KERNEL, true),
        one(KERNEL + 4, Exit::Far, 0x40_1000),
        one(0x40_1000, Exit::Plain, 0x40_1004),
        Fact::Interrupt(0x40_1004),
        Fact::Enter(KERNEL + 0x100),
        one(KERNEL + 0x100, Exit::Far, 0x40_1004),
        Fact::Interrupt(0x40_1004),
        Fact::End,
    ];
    let expected = [
        tnt(1, 1),
        Packet::Tip(sext48(0x40_1000)),
        Packet::Fup(ip16(0x1004)),
        Packet::Tip(sext48(KERNEL_48 + 0x100)),
        Packet::Tip(sext48(0x40_1004)),
        Packet::Fup(ip16(0x1004)),
        PGD,
    ];
    check_kernel(&untimed(), &facts, &expected);
}

/// 33.7, case 5d; 33.3.7: PSB+ has the address space, too, and does not come between an instruction and its PIP.
#[test]
fn address_spaces_are_named() {
    let mut facts = vec![one(KERNEL, Exit::Space { cr3: 0x2000 }, KERNEL + 4), jcc(KERNEL + 4, false)];
    facts.push(one(KERNEL + 8, Exit::Far, KERNEL));
    check_kernel(&untimed(), &facts, &[pip(0x2000), tnt(0, 1), Packet::Tip(ip16(0))]);

    let options = Options { psb_bytes: 256, ..untimed() };
    let facts: Vec<_> =
        (1..100).map(|number| one(KERNEL, Exit::Space { cr3: number << 12 }, KERNEL)).collect();
    let facts = [Fact::Space(0), Fact::Enter(KERNEL)].into_iter().chain(facts);
    let packets = made(&Options { kernel: true, ..options }, &facts.collect::<Vec<_>>());
    let places: Vec<_> = packets.iter().enumerate().filter(|(_, packet)| **packet == Packet::Psb).collect();
    assert!(places.len() > 2);
    for (at, _) in places.into_iter().skip(1) {
        assert_eq!(packets[at - 1], packets[at + 1], "the PIP before, and that of PSB+");
        assert!(matches!(packets[at + 1], Packet::Pip { .. }));
    }
}

/// Where packets are lost from an interrupt on, tracing goes on in its handler.
#[test]
fn a_handler_is_found_behind_an_overflow() {
    let facts = [
        one(KERNEL, Exit::Plain, KERNEL + 4),
        Fact::Interrupt(KERNEL + 4),
        Fact::Enter(KERNEL + 0x100),
        one(KERNEL + 0x100, Exit::Plain, KERNEL + 0x104),
        jcc(KERNEL + 0x104, true),
        Fact::Interrupt(KERNEL + 0x108),
        Fact::End,
    ];
    let expected =
        [Packet::Ovf, Packet::Fup(sext48(KERNEL_48 + 0x104)), tnt(1, 1), Packet::Fup(ip16(0x108)), PGD];
    check_kernel(&losing(1..2), &facts, &expected);
}
