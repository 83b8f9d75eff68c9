//! Schedules of virtual machines, as packets: what is found in them is what was written, and what is not known is said.

use mote_hardware::vm::{
    self, Counts, Doing, Edge, Interval, Machine, Names, Rates, Space, Summary, Unknown, Vmcs,
};
use mote_pt::packet::Decoder;
use mote_synth::vm::{How, Played, Random, Script, State, Step, True, play, random};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::convert::Infallible;

/// Two machines with two vCPUs and two processes each, and two programs of the host.
const CAST: &str = "
vm a 0x100000000 offset 0xfffffff000000000
vcpu a/0 0x200000000
vcpu a/1 0x200001000
process a/p 0x10000
process a/q 0x14000 split
vm b 0x100100000 offset 0xffffffa000000000
vcpu b/0 0x200002000
vcpu b/1 0x200003000
process b/p 0x10000
process b/q 0x14000 split
host h 0x300000000
host i 0x300010000
";

fn script(text: &str) -> Script {
    format!("{CAST}{}", text.replace("; ", "\n")).parse().unwrap_or_else(|bad| panic!("{bad}"))
}

fn rates(script: &Script) -> Option<Rates> {
    let timing = &script.timing;
    let tsc_hz = Some(timing.tsc_hz());
    timing.mtc.map(|mtc| Rates { mtc, tsc_per_art: timing.tsc_per_art, tsc_hz })
}

/// What is read of a processor.
struct Found {
    intervals: Vec<Interval>,
    counts: Counts,
}

fn read(bytes: &[u8], rates: Option<Rates>) -> Found {
    let mut intervals = Vec::new();
    let counts = merge(&[bytes], rates, |_, interval| intervals.push(interval));
    Found { intervals, counts: counts[0] }
}

/// The intervals of several processors, whose packets are read in parts.
fn merge(streams: &[&[u8]], rates: Option<Rates>, to: impl FnMut(usize, Interval)) -> Vec<Counts> {
    let parts = |bytes: &&[u8]| {
        let (bytes, mut at) = (bytes.to_vec(), 0);
        let next = move || {
            let from = at;
            let rest = bytes.get(at + (64 << 10)..).unwrap_or_default();
            let psb = Decoder::new(rest, at as u64 + (64 << 10)).sync_forward();
            at = psb.map_or(bytes.len(), |psb| psb as usize);
            let part = bytes.get(from..at).filter(|part| !part.is_empty());
            Ok::<_, Infallible>(part.map(|part| (from as u64, part.to_vec())))
        };
        (next, Machine::new(rates))
    };
    vm::merge(streams.iter().map(parts).collect(), to).unwrap_or_else(|never| match never {})
}

/// All VMMs' address spaces and VMCS that are found to belong together.
fn pairs(found: &[Found]) -> BTreeSet<(Vmcs, Space)> {
    let of_span = |interval: &Interval| match interval.doing {
        Doing::Guest { vmcs: Some(vmcs), vm: Some(vm), .. } => Some((vmcs, vm)),
        _ => None,
    };
    found.iter().flat_map(|found| &found.intervals).filter_map(of_span).collect()
}

/// Whether what was found is what was so; what is absent is not wrong.
fn agrees(doing: &Doing, truth: &True) -> bool {
    let is_vmcs = |vmcs: Option<Vmcs>| {
        vmcs.is_none_or(|vmcs| truth.vmcs.is_some_and(|base| Vmcs::of(base) == Some(vmcs)))
    };
    match (*doing, truth.state) {
        (Doing::Unknown(_), _) => true,
        (Doing::Guest { vmcs, vm, process }, State::Guest { vm: true_vm, process: true_process }) => {
            is_vmcs(vmcs)
                && vm.is_none_or(|vm| vm == Space::of(true_vm))
                && process == Space::of(true_process)
        }
        (Doing::Root { vmcs, space }, State::Vmm { vm: cr3 } | State::Host { cr3 }) => {
            is_vmcs(vmcs) && space == Space::of(cr3)
        }
        (Doing::Idle { vmcs, .. }, State::Idle { is_guest }) => vmcs.is_some() == is_guest && is_vmcs(vmcs),
        _ => false,
    }
}

/// Nothing that was found, and is not marked, is otherwise than it was: between the latest moment at which an interval
/// can have begun and its end, the truth is the same.
fn check_no_wrong(cpu: usize, found: &Found, truth: &[True], context: &str) {
    let late = found.counts.late_max + SLACK;
    let truth: Vec<&True> = truth.iter().filter(|line| line.cpu == cpu).collect();
    for interval in &found.intervals {
        let (Some(begin), Some(end)) = (interval.begin, interval.end) else { continue };
        if interval.is_untraced {
            continue;
        }
        let (begin, end) = (begin + late, end.saturating_sub(SLACK));
        for line in truth.iter().filter(|line| begin < end && line.begin < end && line.end > begin) {
            assert!(agrees(&interval.doing, line), "{context}: {interval:x?} where {line:x?} (late {late})");
        }
    }
}

/// What is rounded, in ticks.
const SLACK: u64 = 4;

/// The intervals are the truth, one by one, and each change is where it was.
fn check_all(cpu: usize, found: &Found, truth: &[True], context: &str) {
    check_no_wrong(cpu, found, truth, context);
    let late = found.counts.late_max + SLACK;
    let known: Vec<&Interval> = found
        .intervals
        .iter()
        .filter(|interval| !matches!(interval.doing, Doing::Unknown(_)) && interval.ticks() != Some(0))
        .collect();
    let unknown = found.intervals.iter().filter(|interval| matches!(interval.doing, Doing::Unknown(_)));
    for interval in unknown {
        assert_eq!(interval.doing, Doing::Unknown(Unknown::NotYet), "{context}: {interval:x?}");
    }
    // Changes of what is found and of the truth, each where it is.
    let mut lines = truth.iter().filter(|line| line.cpu == cpu).peekable();
    let mut at = None;
    for interval in &known {
        assert!(at.is_none() || interval.begin == at, "{context}: intervals have gaps at {interval:x?}");
        // A guest that has rested has no time until the host tells it.
        let (Some(begin), Some(end)) = (interval.begin, interval.end) else {
            at = None;
            continue;
        };
        if at.is_none() {
            while lines.next_if(|line| line.end <= begin + late).is_some() {}
        }
        at = Some(end);
        while let Some(line) = lines.next_if(|line| line.end <= end + late) {
            let seen = line.end.min(end).saturating_sub(line.begin.max(begin));
            assert!(
                agrees(&interval.doing, line) || seen <= late,
                "{context}: {interval:x?} where {line:x?}"
            );
            // PSB+ may tell that a VMCS was cleared, which changes nothing.
            let is_exact =
                line.end + SLACK >= end || lines.peek().is_none_or(|next| agrees(&interval.doing, next));
            assert!(is_exact, "{context}: {interval:x?} ends {} after {line:x?}", end - line.end);
        }
    }
    let Some(end) = at else { return };
    assert!(lines.all(|line| line.begin <= end + late), "{context}: the truth goes on");
}

fn play_and_read(script: &Script) -> (Played, Vec<Found>) {
    let played = play(script).unwrap_or_else(|why| panic!("{why}"));
    let found = played.streams.iter().map(|bytes| read(bytes, rates(script))).collect();
    (played, found)
}

/// Plays it with the usual packets, with cycles, with other clocks; all is found.
fn check(text: &str) -> Vec<Found> {
    for more in [
        "cyc; ",
        "mtc 0; ",
        "mtc 9; branches 20us; ",
        "tsc 168/2; art 38400000; ",
        "psb 256; ",
        "tsc 125/3; ",
    ] {
        let script = script(&format!("{more}{text}"));
        let (played, found) = play_and_read(&script);
        for (cpu, found) in found.iter().enumerate() {
            check_all(cpu, found, &played.truth, more);
        }
    }
    let script = script(text);
    let (played, found) = play_and_read(&script);
    let period = script.timing.ticks(340);
    for (cpu, found) in found.iter().enumerate() {
        check_all(cpu, found, &played.truth, "as usual");
        assert!(found.counts.late_max <= period, "changes are as exact as MTC packets: {:?}", found.counts);
        assert_eq!((found.counts.contradictions, found.counts.damaged, found.counts.clock_steps), (0, 0, 0));
    }
    found
}

fn summary(found: &[Found]) -> Summary {
    let mut summary = Summary::new(Names::default());
    for (cpu, found) in found.iter().enumerate() {
        found.intervals.iter().for_each(|interval| summary.add(cpu, interval));
    }
    summary.finish()
}

fn vcpu_of(summary: &Summary, vmcs: u64) -> &vm::Vcpu {
    let mut all = summary.vcpus().iter().filter(|(id, _)| id.vmcs == Vmcs::of(vmcs));
    let (_, vcpu) = all.next().expect("the vCPU");
    assert!(all.next().is_none(), "one vCPU is several");
    vcpu
}

#[test]
fn a_pinned_vcpu() {
    let found = check(
        "cpu 0; host h 5us; repeat 50; vmm a/0 3us; guest a/0 p 40us; guest a/0 q 20us; vmm a/0 2us; \
            idle 30us; end",
    );
    let summary = summary(&found);
    let vcpu = vcpu_of(&summary, 0x2_0000_0000);
    assert_eq!((vcpu.entries, vcpu.exits), (50, 50));
    // Nobody else was there, so that it has not waited.
    assert_eq!(vcpu.waits.count, 0);
    let near = |ticks: u64, us: u64| ticks.abs_diff(us * 2400) < 50 * 1600;
    assert!(near(vcpu.guest.ticks, 50 * 60) && near(vcpu.vmm.ticks, 50 * 5), "{vcpu:?}");
    // The two halves of a process under page-table isolation are one.
    assert_eq!(summary.processes().len(), 2);
    let idle = summary.cpus()[&0].idle;
    assert!(near(idle.ticks, 50 * 30) && idle.intervals == 50, "{idle:?}");
}

#[test]
fn four_vcpus_on_one_processor() {
    let visit = |vcpu: &str| {
        format!("vmm {vcpu} 2us; guest {vcpu} p 100us; vmm {vcpu} 1us; guest {vcpu} q 50us; vmm {vcpu} 1us; ")
    };
    let text = ["a/0", "a/1", "b/0", "b/1"].map(visit).concat();
    let found = check(&format!("cpu 0; host h 5us; repeat 10; {text}end"));
    let summary = summary(&found);
    assert_eq!(summary.vcpus().keys().filter(|id| id.vmcs.is_some()).count(), 4);
    for vmcs in [0x2_0000_0000, 0x2_0000_1000, 0x2_0000_2000, 0x2_0000_3000] {
        let vcpu = vcpu_of(&summary, vmcs);
        assert_eq!((vcpu.entries, vcpu.exits, vcpu.handling.count()), (20, 20, 10));
        // Each waits nine times for three others, 154 us each.
        assert_eq!((vcpu.waits.count, vcpu.waits.behind.len()), (9, 3));
        let most = vcpu.waits.at_most_max / 2400;
        assert!((460..=466).contains(&most), "{most} us");
    }
    assert_eq!(summary.cpus()[&0].switches.count(), 39);
}

#[test]
fn another_program_of_the_host_is_neither_vmm_nor_idle() {
    let found = check(
        "cpu 0; host h 5us; repeat 20; vmm a/0 3us; guest a/0 p 40us; vmm a/0 2us; host i 20us; \
            vmm a/0 3us; end",
    );
    let summary = summary(&found);
    let (cpu, vcpu) = (&summary.cpus()[&0], vcpu_of(&summary, 0x2_0000_0000));
    let near = |ticks: u64, us: u64| ticks.abs_diff(us * 2400) < 20 * 1600;
    assert!(
        near(cpu.host.ticks, 5 + 20 * 20) && near(vcpu.vmm.ticks, 20 * 8) && cpu.idle.intervals == 0,
        "{cpu:?}"
    );
    // From an exit to the next entry there was always another program.
    assert_eq!(vcpu.handling.count(), 0);
}

#[test]
fn a_vmcs_is_cleared_and_loaded_again() {
    check(
        "psb 256; cpu 0; host h 5us; repeat 20; vmm a/0 3us; guest a/0 p 10us; vmm a/0 2us; vmm a/1 1us; \
            guest a/1 p 5us; vmm a/1 1us; clear a/1; vmm a/1 20us; vmm a/0 1us; guest a/0 p 3us; \
            vmm a/0 2us; clear a/0; host h 40us; end",
    );
}

#[test]
fn machines_come_and_go() {
    // The second machine has the VMCS of the first one, which is gone.
    let text = "vm c 0x100200000; vcpu c/0 0x200000000; process c/p 0x10000; cpu 0; host h 5us; \
                vmm a/0 3us; guest a/0 p 100us; vmm a/0 9us; clear a/0; host h 20us; vmm c/0 3us; \
        guest c/0 p 50us; vmm c/0 3us; host i 9us; ";
    let summary = summary(&check(text));
    let mut all: Vec<u64> =
        summary.vcpus().keys().filter_map(|id| Some((id.vmcs?, id.vm?).1.address())).collect();
    all.sort_unstable();
    assert_eq!(all, [0x1_0000_0000, 0x1_0020_0000]);
    assert_eq!(summary.processes().len(), 2, "the same CR3 in two machines is two processes");
}

#[test]
fn silence_in_the_host_is_idle() {
    let found = check(
        "cpu 0; repeat 20; host h 50us; nap 300us; vmm a/0 3us; guest a/0 p 10us; vmm a/0 20us; nap 60us; \
            end",
    );
    assert_eq!(summary(&found).cpus()[&0].idle.intervals, 40);
}

#[test]
fn the_guest_rests() {
    let text = "psb 256; cpu 0; host h 5us; repeat 200; vmm a/0 23us; guest a/0 p 10us; idle 20us; \
                guest a/0 q 9us; vmm a/0 17us; end";
    let found = check(text);
    // When the guest's own counter has been seen once, it tells the time after a rest.
    let timed = found[0].intervals.iter().filter(|interval| interval.ticks().is_some()).count();
    assert!(timed * 100 >= found[0].intervals.len() * 80, "{timed} of {}", found[0].intervals.len());
}

#[test]
fn processors_with_clocks_of_their_own() {
    let text = "skew 1 72057594037000000; cpu 0; host h 5us; vmm a/0 3us; guest a/0 p 90us; vmm a/0 3us; \
                cpu 1; host i 5us; vmm a/1 3us; guest a/1 q 90us; vmm a/1 3us; ";
    let (played, found) = play_and_read(&script(text));
    // Packets have 56 bits of the counter.
    let truth: Vec<True> = played
        .truth
        .iter()
        .map(|line| True { begin: line.begin & MASK, end: line.end & MASK, ..*line })
        .collect();
    found.iter().enumerate().for_each(|(cpu, found)| check_all(cpu, found, &truth, "skew"));
}

const MASK: u64 = (1 << 56) - 1;

#[test]
fn the_capture_begins_in_the_middle() {
    for begin in (0..400).step_by(7) {
        let text = format!(
            "begin {begin}us; psb 512; cpu 0; host h 5us; repeat 4; vmm a/0 3us; guest a/0 p 90us; \
                vmm a/0 3us; host i 5us; end"
        );
        let (played, found) = play_and_read(&script(&text));
        check_no_wrong(0, &found[0], &played.truth, &text);
        let known = found[0].intervals.iter().find(|interval| !matches!(interval.doing, Doing::Unknown(_)));
        assert!(known.is_none_or(|interval| interval.begins == Edge::Cut), "{begin}");
        assert!(known.is_some() || begin > 350, "{begin}");
    }
}

#[test]
fn without_packets_of_time_there_are_no_times() {
    let text = "tsc off; mtc off; cpu 0; host h 5us; repeat 20; vmm a/0 3us; guest a/0 p 90us; \
                vmm a/0 3us; host i 5us; end";
    let (_, found) = play_and_read(&script(text));
    assert!(
        found[0]
            .intervals
            .iter()
            .all(|interval| interval.begin.is_none() && interval.end.is_none() && interval.ticks().is_none())
    );
    let summary = summary(&found);
    let vcpu = vcpu_of(&summary, 0x2_0000_0000);
    assert_eq!((vcpu.entries, vcpu.exits, vcpu.guest.intervals, vcpu.guest.known()), (20, 20, 20, None));
}

#[test]
fn tsc_packets_alone_are_less_exact_and_not_wrong() {
    let text = "mtc off; psb 256; cpu 0; host h 5us; repeat 40; vmm a/0 30us; guest a/0 p 90us; \
                vmm a/0 30us; host i 500us; end";
    let (played, found) = play_and_read(&script(text));
    check_no_wrong(0, &found[0], &played.truth, "TSC");
    assert!(found[0].counts.late_max > 0);
}

#[test]
fn lost_packets_are_said() {
    for how in ["overflow", "overflow psb", "drop"] {
        let text = format!(
            "psb 1024; cpu 0; host h 5us; repeat 9; vmm a/0 3us; guest a/0 p 90us; lose {how}; \
                guest a/0 p 9us; vmm a/0 3us; host i 9us; vmm a/1 2us; guest a/1 q 60us; resume; \
                guest a/1 p 9us; vmm a/1 1us; host h 2us; end"
        );
        let (played, found) = play_and_read(&script(&text));
        check_no_wrong(0, &found[0], &played.truth, &text);
        let unknown =
            found[0].intervals.iter().filter(|interval| matches!(interval.doing, Doing::Unknown(_))).count();
        assert!(unknown >= 9, "{how}: {unknown}");
        let cut = found[0].intervals.iter().filter(|interval| interval.ends == Edge::Cut).count();
        assert!(cut >= 9, "{how}: {cut}");
    }
}

#[test]
fn what_is_met_while_tracing_is_off_is_not_known() {
    let text = "cpu 0; host h 5us; repeat 9; vmm a/0 3us; guest a/0 p 90us; vmm a/0 3us; off; \
                vmm a/1 2us; guest a/1 q 60us; vmm a/1 2us; on; vmm a/0 3us; guest a/0 p 9us; \
        vmm a/0 2us; end";
    let (played, found) = play_and_read(&script(text));
    check_no_wrong(0, &found[0], &played.truth, text);
    let untraced = found[0]
        .intervals
        .iter()
        .filter(|interval| interval.doing == Doing::Unknown(Unknown::Untraced))
        .count();
    assert!(untraced >= 9, "{untraced}");
}

#[test]
fn damage_is_said() {
    let text = "psb 512; cpu 0; host h 5us; repeat 9; vmm a/0 3us; guest a/0 p 90us; damage 30; \
                guest a/0 q 9us; vmm a/0 3us; end";
    let (played, found) = play_and_read(&script(text));
    check_no_wrong(0, &found[0], &played.truth, text);
    assert!(found[0].counts.damaged > 9 * 30);
}

/// A vCPU that moves is on one processor at a time; clocks that differ are noticed.
#[test]
fn moves_and_clocks_that_differ() {
    for (skew, is_overlapping) in [(0, false), (240_000, true)] {
        let text = format!(
            "skew 1 {skew}; cpu 0; host h 5us; repeat 9; vmm a/0 10us; guest a/0 p 90us; vmm a/0 10us; \
                clear a/0; host h 110us; end; cpu 1; host i 5us; host h 110us; repeat 9; vmm a/0 10us; \
                guest a/0 p 90us; vmm a/0 10us; clear a/0; host h 110us; end"
        );
        let script = script(&text);
        let played = play(&script).expect("a schedule");
        let streams: Vec<&[u8]> = played.streams.iter().map(Vec::as_slice).collect();
        let mut summary = Summary::new(Names::default());
        let mut last = 0;
        merge(&streams, rates(&script), |cpu, interval| {
            assert!(interval.end.is_none_or(|end| end >= last), "intervals come by their ends");
            last = interval.end.unwrap_or(last);
            summary.add(cpu, &interval);
        });
        let summary = summary.finish();
        let vcpu = vcpu_of(&summary, 0x2_0000_0000);
        assert_eq!((vcpu.waits.overlap_max > 1000, vcpu.cpus.len()), (is_overlapping, 2), "{:?}", vcpu.waits);
        assert!(is_overlapping || vcpu.waits.moves == 17, "{:?}", vcpu.waits);
    }
}

/// Streams that are read in turns, in parts, give what each of them gives by itself.
#[test]
fn parts_change_nothing() {
    let options = Random { seed: 5, length_ns: 60_000_000, cpus: 3, ..RANDOM };
    let mut script = random(&options);
    script.timing.psb_bytes = 2048;
    script.timing.branch_ns = 100;
    let played = play(&script).expect("a schedule");
    assert!(played.streams.iter().all(|bytes| bytes.len() > 600_000), "there are parts");
    let streams: Vec<&[u8]> = played.streams.iter().map(Vec::as_slice).collect();
    let mut all = vec![Vec::new(); 3];
    let counts = merge(&streams, rates(&script), |cpu, interval| all[cpu].push(interval));
    for ((bytes, intervals), counts) in played.streams.iter().zip(all).zip(counts) {
        let mut whole = Vec::new();
        let mut machine = Machine::new(rates(&script));
        machine.feed(bytes, 0, |interval| whole.push(interval));
        assert_eq!(machine.finish(|interval| whole.push(interval)), counts);
        assert!(whole == intervals);
    }
}

const RANDOM: Random = Random {
    seed: 1,
    cpus: 2,
    machines: 2,
    vcpus: 2,
    moves: 0,
    length_ns: 6_000_000,
    is_lossy: false,
    is_silent: false,
};

fn any_random() -> impl Strategy<Value = (Random, u8, bool, u64)> {
    let shape = (any::<u64>(), 1..4_usize, 1..4_usize, 1..4_usize, 0..3_u64);
    let packets = (any::<bool>(), 0..6_u8, any::<bool>(), prop_oneof![Just(256_u64), Just(1024), Just(8192)]);
    (shape, packets).prop_map(|((seed, cpus, machines, vcpus, moves), (is_silent, mtc, cyc, psb))| {
        (Random { seed, cpus, machines, vcpus, moves, is_silent, ..RANDOM }, mtc, cyc, psb)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_schedules_are_found((options, mtc, cyc, psb) in any_random()) {
        let mut script = random(&options);
        (script.timing.mtc, script.timing.cyc, script.timing.psb_bytes) = (Some(mtc), cyc, psb);
        let (played, found) = play_and_read(&script);
        for (cpu, found) in found.iter().enumerate() {
            check_all(cpu, found, &played.truth, &format!("{options:?}"));
        }
    }

    #[test]
    fn loss_and_damage_are_never_wrong((options, mtc, cyc, psb) in any_random(), skip_ns in 0..3_000_000_u64) {
        let mut script = random(&Random { is_lossy: true, ..options });
        (script.timing.mtc, script.timing.cyc, script.timing.psb_bytes) = (Some(mtc), cyc, psb);
        script.timing.skip_ns = skip_ns;
        let (played, found) = play_and_read(&script);
        for (cpu, found) in found.iter().enumerate() {
            check_no_wrong(cpu, found, &played.truth, &format!("{options:?}"));
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..4000), at in 0..4000_usize, seed: u64) {
        let mut script = random(&Random { seed, cpus: 1, length_ns: 3_000_000, ..RANDOM });
        script.timing.psb_bytes = 256;
        let mut stream = play(&script).expect("a schedule").streams.remove(0);
        let at = at.min(stream.len());
        stream.splice(at..(at + bytes.len() / 2).min(stream.len()), bytes);
        let found = read(&stream, rates(&script));
        let mut summary = Summary::new(Names::default());
        found.intervals.iter().for_each(|interval| summary.add(0, interval));
        let _ = summary.finish();
        prop_assert_eq!(found.counts.bytes, stream.len() as u64);
    }
}

/// What MTC packets mean is told by them, in host and guests.
#[test]
fn clocks_are_inferred() {
    for (mtc, ratio, art) in [(3, (100, 1), 24_000_000), (0, (168, 2), 24_000_000), (9, (125, 3), 38_400_000)]
    {
        let mut script = random(&Random { length_ns: 60_000_000, ..RANDOM });
        (script.timing.mtc, script.timing.tsc_per_art, script.timing.art_hz) = (Some(mtc), ratio, art);
        for stream in play(&script).expect("a schedule").streams {
            let found = vm::infer(&stream).expect("rates");
            let ratio_of = |(a, b): (u32, u32)| f64::from(a) / f64::from(b);
            let differs = ratio_of(found.tsc_per_art) / ratio_of(ratio) - 1.0;
            assert!(found.mtc == mtc && differs.abs() < 1e-5, "{mtc} {ratio:?}: {found:?}");
        }
    }
    assert_eq!(vm::infer(&[]), None);
}

#[test]
fn steps_that_no_processor_can_do_are_refused() {
    for (text, part) in [
        ("cpu 0; host h 1us; guest a/0 p 1us", "`vmm` comes before"),
        ("cpu 0; vmm a/0 1us; guest a/0 p 1us; host h 1us", "`vmm` comes after"),
        ("cpu 0; vmm a/0 1us; guest a/0 p 1us; vmm b/0 1us", "its own VMM first"),
        ("cpu 0; idle 1us", "cannot rest"),
    ] {
        let why = play(&script(text)).expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
    let lost = Script { cpus: vec![vec![Step::Lose(How::Dropped), Step::Host(9, 1)]], ..Script::default() };
    assert!(play(&lost).is_err());
}

#[test]
fn what_belongs_together_is_found_on_all_processors() {
    let (_, found) = play_and_read(&random(&RANDOM));
    let pairs = pairs(&found);
    assert!(!pairs.is_empty());
    let machines: BTreeSet<u64> = pairs.iter().map(|(_, vm)| vm.address()).collect();
    assert_eq!(machines.into_iter().collect::<Vec<_>>(), [0x1_0000_0000, 0x1_0010_0000]);
}
