//! Filters in a traced process, of which this test is the session: this program again, playing a scenario.
#![cfg(feature = "filters")]

mod programs;
mod scenarios;
mod session;

use mote_bpf::{MapKind, MapShape};
use mote_layout::tracer;
use mote_loss::Cause;
use mote_wire::{How, filter_counters};
use programs::*;
use session::{Rings, Seen, Session, Wish, Wishes, filtered};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What the traced processes run; passes at once when it is not told a scenario.
#[test]
fn scenario() {
    if let Ok(scenario) = std::env::var("MOTE_SCENE") {
        assert!(mote::is_traced(), "the session was not joined");
        scenarios::play(&scenario);
    }
}

/// Plays a scenario to its end. What was recorded, and the session.
fn run(scenario: &str, wishes: &Wishes) -> (Session, session::Process, Rings) {
    run_in(Session::new(), scenario, wishes)
}

fn run_in(mut session: Session, scenario: &str, wishes: &Wishes) -> (Session, session::Process, Rings) {
    let rings = session.rings();
    let (mut child, process) = session.start(scenario, wishes);
    drop(child.stdin.take());
    assert!(child.wait().expect("it was started").success(), "the scenario '{scenario}' has failed");
    (session, process, rings)
}

/// The id of an event of the scenarios, the same in all processes.
fn id(name: &str) -> u16 {
    run("nothing", &Wishes::new()).1.id(name)
}

fn numbers(records: &[Seen], id: u16) -> Vec<u64> {
    records.iter().filter(|record| record.id == id).map(Seen::number).collect()
}

#[test]
fn what_the_filter_refuses_is_not_in_the_ring() {
    let wishes = [("scenario:number", filtered(above(89))), ("scenario:other", Wish::default())];
    let (_, process, mut rings) = run("numbers", &wishes.into());
    let records = rings.take();
    assert_eq!(numbers(&records, process.id("scenario:number")), (90..100).collect::<Vec<_>>());
    assert_eq!(numbers(&records, process.id("scenario:other")), (0..100).collect::<Vec<_>>());
    assert_eq!(process.installed, Some((1, 0, String::new())));
}

#[test]
fn short_texts_are_recorded_as_they_are_up_to_a_nul() {
    let (_, process, mut rings) = run("short", &[("scenario:short", Wish::default())].into());
    let expect = scenarios::SHORT.iter().flat_map(|(.., bytes)| [u64::from_le_bytes(**bytes); 2]);
    let id = process.id("scenario:short");
    assert_eq!(numbers(&rings.take(), id), expect.collect::<Vec<_>>());
}

#[test]
fn texts_are_compared_where_they_lie() {
    let (_, process, mut rings) = run("texts", &[("scenario:text", filtered(is_tcp()))].into());
    let records = rings.take();
    assert_eq!(records.len(), 2, "{:?}", process.installed);
    assert!(records.iter().all(|record| record.fields.starts_with(b"tcp\0")));
}

#[test]
fn every_type_of_field_has_its_words_and_filters_emit_events() {
    let number = id("scenario:number");
    let (_, process, mut rings) =
        run("types", &[("scenario:types", filtered(types_are_right(number)))].into());
    assert_eq!(process.installed, Some((1, 0, String::new())));
    assert_eq!(numbers(&rings.take(), number), [4711]);
}

#[test]
fn a_refused_program_leaves_its_event_off_and_says_why() {
    let wishes = [("scenario:number", filtered(reads_outside())), ("scenario:other", Wish::default())];
    let (_, process, mut rings) = run("numbers", &wishes.into());
    let records = rings.take();
    assert_eq!(numbers(&records, process.id("scenario:number")), []);
    assert_eq!(numbers(&records, process.id("scenario:other")).len(), 100);
    let (running, refused, why) = process.installed.expect("it was said");
    assert_eq!((running, refused), (0, 1));
    assert!(why.starts_with("scenario:number: "), "{why}");
}

#[test]
fn filters_change_while_threads_run_through_them() {
    let mut session = Session::new();
    let mut rings = session.rings();
    let (mut child, mut process) =
        session.start("hammer", &[("scenario:number", filtered(above(99_990)))].into());
    for round in 0..24 {
        let least = 99_900 + round;
        let wish = match round % 4 {
            0 => filtered(above(least)),
            1 => filtered(never()),
            2 => filtered(above(99_995)),
            _ => filtered(above(least - 1)),
        };
        session.change(&mut process, &[("scenario:number", wish)].into());
        assert_eq!(process.installed, Some((1, 0, String::new())));
        let records = rings.take();
        assert!(records.iter().all(|record| record.number() > 99_890), "a filter let something through");
    }
    // Off, and on again without a filter.
    session.change(&mut process, &Wishes::new());
    assert_eq!(process.installed, Some((0, 0, String::new())));
    // A thread may have been in the middle of one, without a CPU: three at most.
    let mut late = 0;
    until(|| {
        std::thread::sleep(Duration::from_millis(100));
        let records = rings.take();
        late += u32::from(!records.is_empty());
        records.is_empty()
    });
    assert!(late <= 4, "an event that is off was recorded");
    session.change(&mut process, &[("scenario:number", Wish::default())].into());
    until(|| rings.take().iter().any(|record| record.number() < 10_000));
    drop(child.stdin.take());
    assert!(child.wait().expect("it was started").success());
}

/// Waits until something is so.
#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_fault_is_counted_and_the_process_lives() {
    let number = id("scenario:number");
    for keeps_on_fault in [false, true] {
        let bytes = Wish { insns: Some(first_byte()), keeps_on_fault };
        let (session, process, mut rings) =
            run("fault", &[("scenario:bytes", bytes), ("scenario:number", Wish::default())].into());
        let records = rings.take();
        assert_eq!(numbers(&records, number), [7]);
        // What cannot be read cannot be kept.
        assert_eq!(numbers(&records, process.id("scenario:bytes")).len(), 3);
        assert_eq!(rings.lost(Cause::FilterFault), 3);
        assert_eq!(
            (
                session.counters(filter_counters::FAULTS_DROPPED),
                session.counters(filter_counters::FAULTS_KEPT)
            ),
            (3, 0)
        );
        let by_event = session.counters(filter_counters::faults_of(process.id("scenario:bytes"))) as u32;
        assert_eq!(by_event, 3);
    }
}

#[test]
fn a_child_of_fork_has_its_parents_filters_and_its_own_identity() {
    let other = id("scenario:other");
    let wishes =
        [("scenario:number", filtered(above(5))), ("scenario:other", filtered(emit_pid(other)))].into();
    let mut session = Session::new();
    let mut rings = session.rings();
    let (mut parent, process) = session.start("fork", &wishes);
    let mut child = session.meet();
    assert_eq!(child.hello.how, How::Fork);
    child.names.clone_from(&process.names);
    let mut records = Vec::new();
    until(|| {
        records.extend(rings.take());
        numbers(&records, process.id("scenario:number")).len() == 8
    });
    session.change(&mut child, &[("scenario:number", filtered(above(7)))].into());
    assert_eq!(child.installed, Some((1, 0, String::new())));
    drop(parent.stdin.take());
    assert!(parent.wait().expect("it was started").success());
    let ours: Vec<u64> = numbers(&records, other);
    let pids: BTreeSet<u32> = ours.iter().map(|pids| (pids >> 32) as u32).collect();
    assert_eq!(pids, BTreeSet::from([process.hello.pid, child.hello.pid]));
    assert!(records.iter().filter(|record| record.id == other).all(|one| one.number() as u32 == one.thread));
    assert_eq!(numbers(&rings.take(), process.id("scenario:number")), [8, 9]);
}

#[test]
fn what_is_kept_aside_is_recorded_when_it_is_committed() {
    let wishes = [
        ("scenario:begin", filtered(speculate())),
        ("scenario:step", filtered(keeps())),
        ("scenario:end", filtered(decide())),
    ];
    let (session, process, mut rings) = run("speculation", &wishes.into());
    assert_eq!(process.installed, Some((3, 0, String::new())));
    let committed = session.committed();
    let of = |request: u64| {
        let names = committed.iter().filter(|record| record.number() == request);
        names.map(|record| process.names[usize::from(record.id)].as_str()).collect::<Vec<_>>()
    };
    for request in 0..6 {
        let expected: &[&str] = if request % 3 == 0 { &["scenario:begin", "scenario:step"] } else { &[] };
        assert_eq!(of(request), expected, "request {request}");
    }
    assert_eq!(of(100).len(), (4096 - 64) / 20);
    assert_eq!(rings.lost(Cause::SpeculationFull), 301 - (4096 - 64) / 20);
    // Two of three threads had a slot.
    assert_eq!((of(200).len(), rings.lost(Cause::NoSpeculation)), (2, 1));
    let records = rings.take();
    // They come ring by ring.
    let mut ends = numbers(&records, process.id("scenario:end"));
    ends.sort_unstable();
    assert_eq!(ends, [0, 3, 102, 201, 201, 201]);
}

#[test]
fn what_is_kept_by_a_key_is_of_all_threads() {
    for (end, of_each) in [(tracer::COMMIT_BY, 2), (tracer::DISCARD_BY, 0)] {
        let wishes = [
            ("scenario:begin", filtered(by_key(Some(tracer::SPECULATE_BY)))),
            ("scenario:step", filtered(by_key(None))),
            ("scenario:end", filtered(by_key(Some(end)))),
        ];
        let (session, process, mut rings) = run("speculation_by_key", &wishes.into());
        assert_eq!(process.installed, Some((3, 0, String::new())));
        let committed = session.committed();
        let records = rings.take();
        let mut threads = BTreeSet::new();
        for request in 0..8 {
            let of = |list: &[Seen]| list.iter().filter(|record| record.number() == request).count();
            // Five had a slot; the events of the others are recorded at once, and that is counted.
            let expected = if request < 5 { (of_each, 1) } else { (0, 3) };
            assert_eq!((of(&committed), of(&records)), expected, "request {request}");
            threads.extend(committed.iter().map(|record| record.thread));
        }
        assert_eq!(threads.len(), 5 * of_each);
        assert_eq!(session.counters(filter_counters::KEYS_REFUSED), 3);
    }
}

#[test]
fn filters_ask_for_snapshots() {
    let other = id("scenario:other");
    let (session, _, mut rings) = run("numbers", &[("scenario:number", filtered(snapshot(other)))].into());
    assert_eq!(session.counters(filter_counters::SNAPSHOTS), 100);
    assert_eq!(numbers(&rings.take(), other), [u64::MAX; 100]);
}

#[test]
fn filters_ask_for_packets_once_until_they_are_heard() {
    use mote_layout::packet_requests::{PacketRequest, PacketRequests, READY, SLOTS, slot_at};
    use std::mem::offset_of;
    let cpu = SLOTS + 3;
    let (session, ..) = run("numbers", &[("scenario:number", filtered(packets(cpu as i32)))].into());
    let word = |at: usize| session.counters(filter_counters::PACKETS + at);
    assert_eq!(word(offset_of!(PacketRequests, refused)), 99);
    let request = [
        (offset_of!(PacketRequest, state), READY),
        (offset_of!(PacketRequest, time), 77),
        (offset_of!(PacketRequest, thread), 9),
        (offset_of!(PacketRequest, cpu), cpu as u64),
        (offset_of!(PacketRequest, event), 3),
        (offset_of!(PacketRequest, duration), 5_000_000),
    ];
    for (at, expect) in request {
        assert_eq!((at, word(slot_at(3) + at)), (at, expect));
    }
    assert_eq!(word(slot_at(2)), 0);
}

#[test]
fn filters_count_in_maps_that_the_session_reads() {
    let mut session = Session::new();
    // Room for 4 of the 7 remainders.
    let kind = MapKind::Hash;
    let shape = MapShape { kind, key_bytes: 8, value_bytes: 8, entries: 4, read_only: false };
    let map = session.add_map(shape);
    let wishes = [("scenario:number", filtered(count(7))), ("scenario:other", filtered(count(2)))];
    let (session, process, mut rings) = run_in(session, "numbers", &wishes.into());
    assert_eq!(process.installed, Some((2, 0, String::new())));
    assert_eq!(rings.take(), []);
    let (mut cursor, mut key, mut value) = (Default::default(), [0; 8], [0; 8]);
    let mut counts = BTreeMap::new();
    while map.next(&mut cursor, &mut key, &mut value) {
        counts.insert(u64::from_le_bytes(key), u64::from_le_bytes(value));
    }
    // Numbers and others take turns: 0, 1, 2 and 3 are there first. Of 100 numbers, 15 leave each of 0 and 1.
    assert_eq!(counts, BTreeMap::from([(0, 15 + 50), (1, 15 + 50), (2, 14), (3, 14)]));
    assert_eq!(map.dropped(), 200 - 158);
    drop(session);
}
