//! Memory that a simulated processor and kernel write: wraps, truncates, collides, loses records, and is hostile.

use mote_capture::Of;
use mote_perfdata::attribute::flag;
use mote_perfdata::record::{Task, aux};
use mote_perfdata::{Record, SampleId};
use mote_pmu::simulated::{Simulated, Step};
use mote_pmu::{Device, Filter, Kept, Options, Output, Recorder, Settings, Summary, Targets, TimeScale};
use mote_sys::Errno;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

const UNIT: u32 = 8;
const CLOCK: TimeScale = TimeScale { shift: 10, mult: 427, zero: 1000 };
const MEMORY: usize = 64 << 10;

/// Keeps everything.
#[derive(Default)]
struct Everything {
    packets: BTreeMap<Of, Vec<u8>>,
    records: Vec<(Record, SampleId)>,
    largest: usize,
}

impl Output for Everything {
    fn packets(&mut self, of: Of, bytes: &[u8]) -> io::Result<()> {
        self.largest = self.largest.max(bytes.len());
        self.packets.entry(of).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn record(&mut self, record: &Record, id: &SampleId) -> io::Result<()> {
        self.records.push((record.clone(), *id));
        Ok(())
    }
}

fn device() -> Device {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("type"), UNIT.to_string()).expect("a file");
    std::fs::create_dir(folder.path().join("format")).expect("a directory");
    std::fs::write(folder.path().join("format/tsc"), "config:10").expect("a file");
    std::fs::write(folder.path().join("nr_addr_filters"), "2").expect("a file");
    Device::read(folder.path()).expect("a device")
}

fn options(kept: Kept) -> Options {
    Options {
        settings: Settings::default(),
        targets: Targets::Command(77),
        cpus: vec![0, 1],
        memory: MEMORY,
        kept,
        filter: None,
        jit: false,
    }
}

/// What is recorded of steps.
fn recorded(kept: Kept, steps: Vec<Step>) -> (Everything, Summary, Simulated) {
    let mut machine = Simulated::new(UNIT, CLOCK, steps);
    machine.overwrites = kept == Kept::Last;
    let mut recorder = Recorder::open(machine, &device(), &options(kept)).expect("a recording");
    assert_eq!(recorder.clock().map(|clock| (clock.shift, clock.mult, clock.zero)), Some((10, 427, 1000)));
    assert_eq!(recorder.memory(), MEMORY as u64);
    let mut output = Everything::default();
    recorder.enable().expect("it is on");
    for _ in 0..10_000 {
        recorder.wait(Duration::ZERO);
        recorder.round(&mut output).expect("memory");
        if output.records.len() > 100_000 {
            break;
        }
        // The machine is the recorder's; when it has no more steps, nothing comes any more.
        if recorder.machine().left() == 0 {
            break;
        }
    }
    let (summary, machine) = recorder.finish(&mut output).expect("memory");
    (output, summary, machine)
}

fn id(time: u64) -> SampleId {
    SampleId {
        task: Some(Task { pid: 7, tid: 8 }),
        time: Some(time),
        id: Some(1),
        stream: None,
        cpu: Some(0),
    }
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect()
}

fn comm(time: u64, name: &str) -> Step {
    let task = Task { pid: 7, tid: 8 };
    Step::Record(0, Record::Comm { task, is_exec: false, name: name.into() }, id(time))
}

#[test]
fn packets_come_in_their_order_around_the_end() {
    let mut steps = Vec::new();
    let mut expect = Vec::new();
    for number in 0..50 {
        let part = bytes(7000 + 13 * usize::from(number), number);
        expect.extend_from_slice(&part);
        steps.extend([Step::Packets(0, part), Step::Flags(0, 0), Step::Wait]);
    }
    let (output, summary, machine) = recorded(Kept::All, steps);
    assert!(output.packets[&Of::Cpu(0)] == expect);
    assert!(!output.packets.contains_key(&Of::Cpu(1)));
    assert_eq!((summary.bytes, summary.has_lost(), machine.dropped), (expect.len() as u64, false, 0));
}

#[test]
fn full_memory_stops_it_and_it_goes_on() {
    let steps = vec![
        // More than there is room for: the rest is lost, and so is what comes before the recorder.
        Step::Packets(0, bytes(MEMORY + 100, 1)),
        Step::Packets(0, bytes(50, 2)),
        Step::Wait,
        Step::Packets(0, bytes(60, 3)),
        Step::Flags(0, aux::PARTIAL | aux::COLLISION),
        Step::Wait,
    ];
    let (output, summary, machine) = recorded(Kept::All, steps);
    let expect = [&bytes(MEMORY + 100, 1)[..MEMORY], &bytes(60, 3)].concat();
    assert!(output.packets[&Of::Cpu(0)] == expect);
    let counted = (summary.truncated, summary.partial, summary.collisions, machine.dropped);
    assert_eq!(counted, (1, 1, 1, 150));
    assert!(summary.has_lost());
    let flags: Vec<u64> = output
        .records
        .iter()
        .filter_map(|(record, _)| if let Record::Aux { flags, .. } = record { Some(*flags) } else { None })
        .collect();
    assert_eq!(flags, [aux::TRUNCATED, aux::PARTIAL | aux::COLLISION]);
}

#[test]
fn the_last_bytes_are_a_snapshot() {
    // Less than its memory: all of it, without what was never written.
    let (output, ..) = recorded(Kept::Last, vec![Step::Packets(0, bytes(1000, 1)), Step::Wait]);
    assert_eq!(output.packets[&Of::Cpu(0)], bytes(1000, 1));
    // More: the last.
    let parts: Vec<Vec<u8>> = (0..40).map(|number| bytes(5000 + number, number as u8)).collect();
    let steps = parts.iter().flat_map(|part| [Step::Packets(1, part.clone()), Step::Wait]).collect();
    let (output, summary, machine) = recorded(Kept::Last, steps);
    let all = parts.concat();
    assert!(output.packets[&Of::Cpu(1)] == all[all.len() - MEMORY..]);
    assert_eq!((summary.bytes, summary.has_lost(), machine.dropped), (MEMORY as u64, false, 0));
}

#[test]
fn lost_records_are_counted() {
    let many = (0..100_000).map(|time| comm(time + 1, "a name of a thread")).collect();
    let (output, summary, _) = recorded(Kept::All, many);
    // There was room for some; how many others there were was said by the next one, if any had come.
    assert!(output.records.len() > 10_000 && summary.records_lost == 0);
    let mut steps: Vec<Step> = (0..100_000).map(|time| comm(time + 1, "a name of a thread")).collect();
    steps.extend([Step::Wait, comm(200_000, "last"), Step::Wait]);
    let (output, summary, _) = recorded(Kept::All, steps);
    let names =
        output.records.iter().filter(|(record, _)| matches!(record, Record::Comm { .. })).count() as u64;
    assert_eq!(names + summary.records_lost, 100_001);
    assert!(summary.records_lost > 1000 && summary.has_lost());
}

#[test]
fn records_of_several_cpus_come_in_the_order_of_time() {
    let mut steps = Vec::new();
    for time in 0..300_u64 {
        // CPU 1 is a little behind, and the recorder comes anywhere.
        steps.push(comm(10 * time + 5, "a"));
        let task = Task { pid: 9, tid: 9 };
        let other = Record::Comm { task, is_exec: false, name: "b".into() };
        steps.push(Step::Record(1, other, id(10 * time + 1)));
        if time % 7 == 0 {
            steps.push(Step::Wait);
        }
    }
    let (output, ..) = recorded(Kept::All, steps);
    let times: Vec<u64> = output.records.iter().filter_map(|(_, id)| id.time).collect();
    assert_eq!(times.len(), 600);
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn what_cannot_be_is_survived() {
    let word = |value: u64| value.to_le_bytes().to_vec();
    let (data_head, aux_head) = (1024, 1056);
    let steps = vec![
        Step::Packets(0, bytes(100, 1)),
        Step::Wait,
        // Far ahead, and back.
        Step::Anything(0, aux_head, word(1 << 40)),
        Step::Wait,
        Step::Anything(0, aux_head, word(5)),
        Step::Wait,
        Step::Anything(0, data_head, word(u64::MAX)),
        Step::Wait,
        Step::Anything(0, data_head, word(1 << 20 | 8)),
        Step::Anything(0, 4096, vec![0xff; 1 << 20]),
        Step::Wait,
        Step::Anything(0, data_head, word(3)),
        Step::Wait,
    ];
    let (output, summary, _) = recorded(Kept::All, steps);
    // The first packets, and what is there of those that were claimed.
    assert_eq!(output.packets[&Of::Cpu(0)].len(), 100 + MEMORY);
    assert!(summary.bytes_lost > 1 << 39 && summary.has_lost());
}

#[test]
fn what_was_asked_for_is_what_is_opened() {
    let mut options = options(Kept::All);
    let find = |_: &str, _: &str| Ok((0x1139, 0x40));
    options.filter = Some(Filter::parse("filter main @ /bin/app", &find).expect("a filter"));
    let machine = Simulated::new(UNIT, CLOCK, []);
    let recorder = Recorder::open(machine, &device(), &options).expect("a recording");
    let opened: Vec<_> = recorder.machine().opened().collect();
    // Of each CPU: packets, and what is mapped.
    assert_eq!(
        opened.iter().map(|(attribute, cpu, _)| (attribute.kind, *cpu)).collect::<Vec<_>>(),
        [(UNIT, 0), (1, 0), (UNIT, 1), (1, 1)]
    );
    let on_exec = flag::INHERIT | flag::ENABLE_ON_EXEC | flag::DISABLED;
    assert!(opened.iter().all(|(attribute, ..)| attribute.flags & on_exec == on_exec));
    let filter = opened[0].2.map(|filter| filter.to_string_lossy().into_owned());
    assert_eq!(filter.as_deref(), Some("filter 0x1139/0x40@/bin/app"));
    assert_eq!(opened[1].2, None);
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let check = |change: &dyn Fn(&mut Options), refusal: Option<Errno>, expect: &str| {
        let mut options = options(Kept::All);
        change(&mut options);
        let mut machine = Simulated::new(UNIT, CLOCK, []);
        machine.refusal = refusal;
        let why = Recorder::open(machine, &device(), &options).map(drop).expect_err("it cannot").to_string();
        assert!(why.contains(expect), "{why}");
    };
    let as_it_is = |_: &mut Options| {};
    check(
        &as_it_is,
        Some(Errno(libc::EACCES)),
        "record these threads (permission denied (errno 13)): set sysctl kernel.perf_event_paranoid to 2",
    );
    check(
        &|options| options.targets = Targets::All,
        Some(Errno(libc::EPERM)),
        "whole CPUs (operation not permitted (errno 1)): set sysctl kernel.perf_event_paranoid to 0",
    );
    check(&as_it_is, Some(Errno(libc::EBUSY)), "in use already (processor 0)");
    check(&as_it_is, Some(Errno(libc::ENODEV)), "no such CPU is there");
    check(&as_it_is, Some(Errno(libc::ESRCH)), "the process has ended");
    let find = |_: &str, _: &str| Ok((0x1139, 0x40));
    let filter = |text: &str| Some(Filter::parse(text, &find).expect("a filter"));
    check(&|options| options.filter = filter("filter 0x10/0x10"), None, "use --kernel");
    let three = "filter main @ /a filter main @ /b filter main @ /c";
    check(&|options| options.filter = filter(three), None, "it has 3 ranges; this processor has 2");
    let on_cpus = |options: &mut Options| {
        (options.filter, options.targets) = (filter("filter main @ /a"), Targets::All);
    };
    check(&on_cpus, None, "ranges of files are for processes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nothing_is_lost_that_is_not_counted(sizes in proptest::collection::vec((0_usize..30_000, 0_u8..4), 1..60)) {
        let mut steps = Vec::new();
        let mut all = 0;
        for (number, (size, what)) in sizes.iter().enumerate() {
            match what {
                0 => steps.push(Step::Wait),
                1 => steps.push(Step::Flags(0, 0)),
                _ => {
                    all += *size as u64;
                    steps.push(Step::Packets(0, bytes(*size, number as u8)));
                }
            }
        }
        let (output, summary, machine) = recorded(Kept::All, steps);
        let there = output.packets.get(&Of::Cpu(0)).map_or(0, Vec::len) as u64;
        prop_assert_eq!(there + machine.dropped, all);
        prop_assert_eq!(there, summary.bytes);
        prop_assert_eq!(machine.dropped > 0, summary.truncated > 0);
    }
}
