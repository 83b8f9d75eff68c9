//! Points of time by hand, from the SDM's sections; and whatever packets come, nothing goes wrong.

#[path = "flow_support/random.rs"]
mod random;

use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Packet, Tnt};
use mote_pt::time::{Clocks, Points};
use random::Random;

const TNT: Packet = Packet::Tnt(Tnt { bits: 1, count: 1, is_long: false });
const TIP: Packet = Packet::Tip(Ip { compression: Compression::Update16, bits: 0x1234 });
const FUP: Packet = Packet::Fup(Ip { compression: Compression::Update16, bits: 0x1234 });
const PGD: Packet = Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 });

/// A crystal tick of 100 TSC ticks, an MTC each 8 of them; at ratio 24, a cycle is a tick.
fn clocks() -> Clocks {
    let clocks = Clocks {
        tsc_per_art: Some((200, 2)),
        mtc: Some(3),
        cyc: Some(0),
        has_no_pauses: true,
        ..Clocks::default()
    };
    clocks.with_bus((2_400_000_000, 1), 100_000_000..=100_000_000)
}

fn points(clocks: Clocks, packets: &[Packet]) -> Vec<String> {
    let packets = packets.iter().enumerate().map(|(at, packet)| (at as u64, Ok::<_, ()>(*packet)));
    let shown = |bound: Option<u64>| bound.map_or("?".to_owned(), |bound| bound.to_string());
    Points::new(packets, clocks)
        .map(|point| {
            let binds = if point.binds() { " binds" } else { "" };
            format!("{} {}..{}{binds}", point.offset, shown(point.span().low), shown(point.span().high))
        })
        .collect()
}

#[track_caller]
fn check(clocks: Clocks, packets: &[Packet], expected: &[&str]) {
    assert_eq!(points(clocks, packets), expected);
}

/// PSB+ at TSC 1,000,040, 40 ticks behind crystal tick 0x1230.
fn begin(ratio: u8) -> Vec<Packet> {
    vec![
        Packet::Psb,
        Packet::Tsc(1_000_040),
        Packet::Tma { ctc: 0x1230, fast: 40 },
        Packet::Cbr(ratio),
        Packet::PsbEnd,
    ]
}

fn after(ratio: u8, more: &[Packet]) -> Vec<Packet> {
    [&begin(ratio), more].concat()
}

#[test]
fn without_packets_of_time_there_is_none() {
    check(clocks(), &[Packet::Psb, Packet::Cbr(24), Packet::PsbEnd, TNT, TIP, Packet::Pad], &[]);
    // Cycles alone have no beginning, and MTC none without TSC and TMA.
    let packets = [Packet::Psb, Packet::PsbEnd, Packet::Cyc(5), TNT, Packet::Mtc(3), Packet::Cyc(70), TIP];
    check(clocks(), &packets, &[]);
}

/// 33.4.2.11: what is behind it was executed later.
#[test]
fn tsc_is_a_time() {
    let packets = [Packet::Psb, Packet::Tsc(500), Packet::PsbEnd, TNT, Packet::Psb, Packet::Tsc(900)];
    check(Clocks::default(), &packets, &["1 500..500", "5 900..900"]);
    // It may be written late (perf: `tsc_slip`), and then time does not run backwards.
    let late = Clocks { slip: Clocks::SLIP, ..Clocks::default() };
    check(late.clone(), &packets, &["1 500..756", "5 900..1156"]);
    check(late, &[Packet::Tsc(500), Packet::Tsc(450)], &["0 500..756", "1 500..706"]);
    // Somebody has set the counter.
    check(
        Clocks::default(),
        &[Packet::Tsc(500_000), TNT, Packet::Tsc(450)],
        &["0 500000..500000", "2 450..450"],
    );
}

/// Erratum SKL168: a CYC directly before a PSB may be missing, and so cycles up to its TSC are more than were counted.
#[test]
fn cycles_are_not_measured_over_a_psb_that_may_have_cost_one() {
    let more =
        [TNT, Packet::Cyc(1000), TIP, Packet::Psb, Packet::Cyc(1000), Packet::Tsc(1_004_040), Packet::PsbEnd];
    let measured = ["1 1000040..1000040", "6 1002036..1002044 binds"];
    let clocks = Clocks { bus: None, ..clocks() };
    let found = points(clocks.clone(), &after(24, &more));
    assert_eq!(found[..2], measured, "{found:?}");
    let found = points(Clocks { loses_cyc: true, ..clocks }, &after(24, &more));
    assert_eq!(found[1], "6 1000040..1004040 binds", "{found:?}");
}

/// 33.4.2.12 and 33.8.3.2.
#[test]
fn mtc_is_a_time_by_tma() {
    let more = [TNT, Packet::Mtc(0x47), TNT, Packet::Mtc(0x49)];
    let expected = ["1 1000040..1000040", "6 1000800..1000800", "8 1002400..1002400"];
    check(clocks(), &after(24, &more), &expected);
    // What is needed for it is not known.
    let first = ["1 1000040..1000040"];
    check(Clocks { mtc: None, ..clocks() }, &after(24, &more), &first);
    check(Clocks { tsc_per_art: None, ..clocks() }, &after(24, &more), &first);
    let [psb, tsc, _, rest @ ..] = &begin(24)[..] else { panic!() };
    check(clocks(), &[&[*psb, *tsc][..], rest, &more].concat(), &first);
}

/// 33.3.6.2: what is directly behind a CYC is of its cycle. At ratio 24 a cycle is a tick: within the cycle before and
/// that behind.
#[test]
fn cyc_is_a_time_by_cbr() {
    let more = [Packet::Cyc(10), TNT, Packet::Cyc(20), TIP, Packet::Cyc(5), FUP, PGD];
    let expected = [
        "1 1000040..1000040",
        "5 1000049..1000052 binds",
        "7 1000069..1000072 binds",
        // A FUP has no CYC of its own: it may be of another packet of the event.
        "9 1000074..1000077",
    ];
    check(clocks(), &after(24, &more), &expected);
    // A cycle of two ticks.
    let expected = ["1 1000040..1000040", "5 1000058..1000063 binds", "7 1000098..1000103 binds"];
    check(clocks(), &after(12, &more[..4]), &expected);
    // A CYC that stands alone (33.4.2.14): the next one is behind it.
    let more = [Packet::Cyc(1000), Packet::Cyc(0), TNT];
    let expected = ["1 1000040..1000040", "5 1001039..1001042", "6 1001039..1001042 binds"];
    check(clocks(), &after(24, &more), &expected);
    // The ratio, or the bus clock, is not known: later than what is before it.
    let low = ["1 1000040..1000040", "5 1000040..?", "6 1000040..? binds"];
    check(Clocks { bus: None, ..clocks() }, &after(24, &more), &low);
    let without = [Packet::Psb, Packet::Tsc(1_000_040), Packet::PsbEnd, Packet::Pad, Packet::Pad];
    check(clocks(), &[&without[..], &more].concat(), &low);
}

/// Between two MTC it is measured how long cycles are: here 2 ticks, in 400 of them.
#[test]
fn cyc_is_a_time_between_two_mtc() {
    let unknown = Clocks { bus: None, ..clocks() };
    let more = [
        Packet::Cyc(380),
        Packet::Mtc(0x47),
        Packet::Cyc(100),
        TNT,
        Packet::Cyc(300),
        Packet::Mtc(0x48),
        Packet::Cyc(7),
        TNT,
    ];
    let expected = [
        "1 1000040..1000040",
        "5 1000797..1000800",
        "6 1000800..1000800",
        "7 1000997..1001003 binds",
        "9 1001597..1001600",
        "10 1001600..1001600",
        "11 1001600..? binds",
    ];
    check(unknown.clone(), &after(24, &more), &expected);
    // Not if it is another length in between, or if packets are missing (33.4.2.10, 33.3.8).
    for (between, expected) in
        [(Packet::Cbr(20), "7 1000800..1001600 binds"), (Packet::Ovf, "7 1000800..? binds")]
    {
        let more = [&more[..3], &[TNT, between], &more[4..]].concat();
        assert_eq!(points(unknown.clone(), &after(24, &more))[3], expected);
    }
}

/// CBR changes: cycles are as long as before or as behind it.
#[test]
fn another_ratio_is_another_length() {
    let more = [Packet::Cyc(10), TNT, Packet::Cbr(12), Packet::Cyc(100), TNT];
    let expected = ["1 1000040..1000040", "5 1000049..1000063 binds", "8 1000149..1000263 binds"];
    // The change is known when it is behind: bounds are those of both.
    let found = points(clocks(), &after(24, &more));
    assert_eq!(found[1..], expected[1..].iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// 33.3.6.3: without a CYC fewer cycles than the threshold have passed.
#[test]
fn a_threshold_bounds_what_has_none() {
    let more = [Packet::Cyc(100), TNT, Packet::Mtc(0x47), Packet::Cyc(350), TNT, Packet::Mtc(0x48)];
    let narrow = points(Clocks { cyc: Some(32), bus: None, ..clocks() }, &after(24, &more));
    let wide = points(Clocks { cyc: None, bus: None, ..clocks() }, &after(24, &more));
    // The MTC are in cycles 100 to 131 and 450 to 481: a cycle has at most 801 / 318 ticks, and 32 of them are 81.
    assert_eq!(narrow[3], "8 1001519..1001600 binds");
    assert_eq!(wide[3], "8 1000800..1001600 binds");
}

/// 33.3.8: nobody knows how many MTC are missing, and the counter of cycles may have wrapped.
#[test]
fn an_overflow_leaves_lower_bounds() {
    let lost = Packet::Tsc(1_900_000);
    let more = [
        Packet::Mtc(0x47),
        Packet::Cyc(3),
        TNT,
        Packet::Cyc(9),
        Packet::Ovf,
        FUP,
        Packet::Mtc(0x4a),
        TNT,
        lost,
    ];
    let expected = [
        "1 1000040..1000040",
        "5 1000800..1000800",
        "6 1000800..1900000 binds",
        "8 1000800..1900000",
        "11 1003200..1900000",
        "13 1900000..1900000",
    ];
    check(clocks(), &after(24, &more), &expected);
    // Damage is the same.
    let packets = after(24, &[Packet::Mtc(0x47), Packet::Pad, Packet::Mtc(0x4a)]);
    let packets = packets.iter().enumerate();
    let damaged = packets.map(|(at, packet)| (at as u64, if at == 6 { Err(()) } else { Ok(*packet) }));
    let found: Vec<_> =
        Points::new(damaged, clocks()).map(|point| (point.span().low, point.span().high)).collect();
    assert_eq!(found[2], (Some(1_003_200), None));
}

/// 33.4.2.11: a TSC outside of PSB+ says that clocks have stood still: cycles do not say for how long.
#[test]
fn a_tsc_elsewhere_is_a_new_beginning() {
    let more = [Packet::Cyc(100), TNT, Packet::Cyc(7), Packet::Tsc(5_000_000), Packet::Cyc(10), TNT];
    let expected = [
        "1 1000040..1000040",
        "5 1000139..1000142 binds",
        "7 1000139..5000000",
        "8 5000000..5000000",
        "9 5000009..5000012 binds",
    ];
    check(clocks(), &after(24, &more), &expected);
}

/// What is known beside packets.
#[test]
fn the_end_of_a_trace_may_be_known() {
    let clocks = |end| Clocks { end, bus: None, ..clocks() };
    let more = [TNT, Packet::Cyc(10), TIP];
    let packets = after(24, &more);
    let expected =
        ["1 1000040..1000040", "6 1000040..1000100 binds", "18446744073709551615 1000040..1000100"];
    check(clocks(Some(1_000_100)), &packets, &expected);
    check(clocks(None), &packets, &["1 1000040..1000040", "6 1000040..? binds"]);
    // Of another clock.
    check(clocks(Some(5)), &packets, &["1 1000040..1000040", "6 1000040..? binds"]);
}

/// A trace that was switched off for some time: only who knows that it was not takes cycles across a PSB.
#[test]
fn a_psb_may_be_behind_a_pause() {
    let more = [Packet::Cyc(100), TNT, Packet::Psb, Packet::Tsc(1_000_340), Packet::PsbEnd];
    let clocks = |has_no_pauses| Clocks { bus: None, has_no_pauses, ..clocks() };
    // 300 ticks are 100 cycles, if they are all.
    let found = |has_no_pauses| points(clocks(has_no_pauses), &after(24, &more)).swap_remove(1);
    assert_eq!(found(true), "5 1000336..1000340 binds");
    assert_eq!(found(false), "5 1000040..1000340 binds");
}

#[test]
fn any_packets_have_times_that_do_not_run_backwards() {
    for number in 0..3000 {
        let mut random = Random(number);
        let packets: Vec<_> = (0..200).map(|at| (at, any(&mut random))).collect();
        let clocks = Clocks {
            tsc_per_art: random.pick(&[None, Some((1, 1)), Some((0, 5)), Some((u32::MAX, 1))]),
            mtc: [None, Some(0), Some(15), Some(255)][random.below(4)],
            cyc: [None, Some(0), Some(u64::MAX)][random.below(3)],
            bus: [None, Some(0..=0), Some(1 << 32..=1 << 40), Some(u64::MAX..=u64::MAX)][random.below(4)]
                .clone(),
            end: random.pick(&[None, None, Some(0), Some(1 << 50)]),
            has_no_pauses: random.once_in(2),
            begin: random.pick(&[0, u64::MAX, 1 << 56]),
            slip: [0, 256, u64::MAX][random.below(3)],
            loses_cyc: random.once_in(2),
        };
        for point in Points::new(packets.iter().copied(), clocks) {
            let (low, high) = (point.span().low, point.span().high);
            assert!(low.is_some() || high.is_some());
            assert!(low.zip(high).is_none_or(|(low, high)| low <= high), "{number}: {point:?}");
        }
    }
}

fn any(random: &mut Random) -> Result<Packet, ()> {
    let number = random.next() >> random.below(64);
    Ok(match random.below(14) {
        0..=3 => Packet::Cyc(number),
        4 | 5 => Packet::Mtc(number as u8),
        6 => Packet::Tsc(number & 0xff_ffff_ffff_ffff),
        7 => Packet::Tma { ctc: number as u16, fast: number as u16 & 0x1ff },
        8 => Packet::Cbr(number as u8),
        9 => [Packet::Psb, Packet::PsbEnd, Packet::Ovf][random.below(3)],
        10 if random.once_in(10) => return Err(()),
        10 => FUP,
        _ => TNT,
    })
}

/// Very many cycles without a time: memory is bounded, and so bounds are wider, but there.
#[test]
fn cycles_without_a_time_take_bounded_memory() {
    let cycles = (0..400_000_u64).flat_map(|at| [(2 * at + 10, Packet::Cyc(10)), (2 * at + 11, TNT)]);
    let end = [(900_000, Packet::Psb), (900_001, Packet::Tsc(5_000_040)), (900_002, Packet::PsbEnd)];
    let packets = begin(24).into_iter().enumerate().map(|(at, packet)| (at as u64, packet));
    let packets = packets.chain(cycles).chain(end).map(|(at, packet)| (at, Ok::<_, ()>(packet)));
    let points: Vec<_> = Points::new(packets, clocks()).collect();
    assert!(points.len() > 30_000 && points.len() < 70_000, "{}", points.len());
    for point in &points[1..points.len() - 1] {
        let true_time = 1_000_040 + (point.offset - 10) / 2 * 10 + 10;
        assert!(point.span().contains(true_time) && point.span().width() < Some(40), "{point:?}");
    }
}
