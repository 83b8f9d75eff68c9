//! What actions leave behind in maps of the kernel, read back as a person sees it.

use crate::machine::{Machine, Made, listing};
use mote_filter::interpret::{Facts, Word};
use mote_filter::{Aggregate, Decision, Kind, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::context::{DROP, RECORD};
use mote_layout::parse::parse;

const EVENT: &[u8] =
    b"mote1\nnet:in\n6 f:1\n\nlen u32\nproto str\nstate enum u8 IDLE=0 BUSY=1..3\ncomm char[16]\nskew i64\n";

/// A session with one event.
struct World {
    machine: Machine,
    maps: Maps,
}

impl World {
    /// `None` when programs may not be loaded.
    fn new(rules: &[Rule]) -> Option<World> {
        let event = parse(EVENT).unwrap();
        let mut maps = Maps::new();
        let mut session = Session { side: Side::Kernel, missing: Missing::Refuse, declare: &mut |_| Ok(500) };
        let compiled = match compile(rules, &event, &mut session, &mut maps) {
            Ok(Decision::Run(compiled)) => compiled,
            Ok(other) => panic!("{other:?}"),
            Err(problem) => panic!("{}", problem.render()),
        };
        match Machine::load(&compiled, &event, &maps) {
            Made::Ready(machine) => Some(World { machine, maps }),
            Made::NotPermitted => {
                mote_skip::skip("bpf(2) is not permitted");
                None
            }
            Made::OnlyAccepted => panic!("too large for the test"),
            Made::Refused(why) => panic!("{}\n{why}", listing(&compiled)),
        }
    }

    fn of(rules: &[&str]) -> Option<World> {
        let parse = |text: &&str| Rule::parse(text).unwrap_or_else(|problem| panic!("{}", problem.render()));
        World::new(&rules.iter().map(parse).collect::<Vec<_>>())
    }

    /// An event; what the program answers.
    fn event(&self, len: u64, proto: &str, state: u64, skew: i64) -> u64 {
        let words = [
            Word::Number(len),
            Word::Bytes(proto.as_bytes().to_vec()),
            Word::End,
            Word::Number(state),
            Word::Bytes(b"redis-server".to_vec()),
            Word::End,
            Word::Number(skew as u64),
        ];
        let facts =
            Facts { pid: 7, tid: 42, cpu: 1, now: 5_000, comm: b"worker".to_vec(), ..Facts::default() };
        self.machine.run(&words, &facts)
    }

    /// All that there is to see.
    fn text(&self) -> String {
        let mut out = String::new();
        for (at, entry) in self.maps.entries().iter().enumerate() {
            if let Some(aggregate) = Aggregate::read(entry, &self.maps, &self.machine.pairs(at), 0) {
                out.push_str(&aggregate.text(100, 20));
            }
        }
        out
    }
}

#[test]
fn counts() {
    let Some(world) = World::of(&[
        "net:* if len > 10 do count by proto, state, $tid, $comm, len > 100, prefix(comm, 5), comm",
    ]) else {
        return;
    };
    for (len, proto, state) in [(5, "tcp", 0), (50, "tcp", 2), (51, "tcp", 2), (500, "udp", 7), (50, "", 0)] {
        assert_eq!(world.event(len, proto, state, 0), DROP);
    }
    let expected = "\
net:* if len > 10 do count by proto, state, $tid, $comm, len > 100, prefix(comm, 5), comm
  proto state $tid $comm  len > 100 prefix(comm, 5) comm         count
  tcp   BUSY    42 worker false     redis…          redis-server     2  ████████████████████████████
        IDLE    42 worker false     redis…          redis-server     1  ██████████████
  udp   7       42 worker true      redis…          redis-server     1  ██████████████
";
    assert_eq!(world.text(), expected, "{}", world.text());
}

#[test]
fn texts_of_all_lengths_are_keys() {
    let Some(world) = World::new(&[Rule::count("*", "$event, prefix(proto, 5), proto").unwrap()]) else {
        return;
    };
    for len in 0..40 {
        world.event(1, &"abcdefghijklmnopqrstuvwxyz0123456789ABCD"[..len], 0, 0);
    }
    let text = world.text();
    for line in [
        "net:in abcde…           abcdefghijklmnopqrstuvwxyz012345…     8",
        "net:in abcde…           abcdefg ",
        "net:in abcd             abcd ",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let pairs = world.machine.pairs(0);
    assert_eq!(pairs.len(), 33);
    for (key, _) in pairs {
        let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let (short, long) = (&key[8..16], &key[16..48]);
        assert_eq!(&b"abcde\0\0\0"[..end(short)], &short[..end(short)]);
        assert_eq!(end(short), end(long).min(5));
        assert!(
            long[end(long)..].iter().all(|byte| *byte == 0)
                && short[end(short)..].iter().all(|byte| *byte == 0)
        );
    }
}

#[test]
fn histograms() {
    let rules =
        [Rule::histogram("*", "skew by proto").unwrap(), Rule::histogram("*", "len if len < 3").unwrap()];
    let Some(world) = World::new(&rules) else { return };
    for (len, proto, skew) in
        [(1, "tcp", -5), (2, "tcp", 100), (3, "tcp", 0), (2, "tcp", 100), (9, "udp", i64::from(i32::MIN))]
    {
        world.event(len, proto, 0, skew);
    }
    let text = world.text();
    assert!(
        text.starts_with("hist skew by proto\n  proto tcp: skew: 4 values, median 0, 99 % 103\n"),
        "{text}"
    );
    assert!(text.contains("96 .. 103  2 ██") && text.contains("-5  1 █"), "{text}");
    assert!(text.contains("proto udp: skew: 1 value") && text.contains(" .. -2147483648  1"), "{text}");
    assert!(text.contains("hist len if len < 3\n  len: 3 values, median 2, 99 % 2\n    1  1 "), "{text}");
}

#[test]
fn every_value_is_in_its_bucket() {
    let Some(world) = World::new(&[Rule::histogram("*", "skew + 0").unwrap()]) else { return };
    let mut values = vec![0i64, i64::MAX, i64::MIN, i64::MIN + 1];
    for bit in 0..63 {
        values.extend([-1, 0, 1].map(|by| (1i64 << bit) + by));
        values.extend([3i64 << bit, 5i64 << bit]);
    }
    let mut expected = std::collections::BTreeMap::new();
    for value in values {
        world.event(1, "", 0, value);
        let bucket = mote_bpf::helper::bucket(value.unsigned_abs());
        let all = mote_bpf::helper::BUCKETS;
        let place = if value < 0 { all - 1 - bucket } else { all + bucket };
        *expected.entry(place as usize).or_insert(0u64) += 1;
    }
    let found = world.machine.value(0, &[0; 4]).unwrap();
    for (place, count) in found.chunks(8).enumerate() {
        let count = u64::from_le_bytes(count.try_into().unwrap());
        assert_eq!(count, expected.get(&place).copied().unwrap_or(0), "{place}");
    }
}

#[test]
fn the_last_events() {
    let Some(world) = World::of(&["net:* do last 2 len, proto", "net:* if len == 2 do last 5"]) else {
        return;
    };
    for (len, proto) in [(1, "tcp"), (2, "udp"), (3, "a text that is cut at 32 bytes: it goes on")] {
        world.event(len, proto, 1, -3);
    }
    let expected = "\
net:* do last 2 len, proto
  time thread len proto
  5000     42   2 udp
  5000     42   3 a text that is cut at 32 bytes: …
net:* if len == 2 do last 5
  time thread len proto state comm         skew
  5000     42   2 udp   BUSY  redis-server   -3
";
    assert_eq!(world.text(), expected, "{}", world.text());
}

#[test]
fn flags_are_words_of_the_shared_memory() {
    let rules = [
        "*:in if len == 1 do set busy",
        "*:in if len == 2 do clear busy",
        "*:in if $flag.busy do record, snapshot",
    ];
    let Some(world) = World::of(&rules) else { return };
    let results: Vec<_> = [0, 1, 0, 2, 0].map(|len| world.event(len, "", 0, 0)).into();
    assert_eq!(results, [DROP, RECORD, RECORD, DROP, DROP]);
    assert_eq!(world.maps.names().flags(), ["busy"]);
    world.event(1, "", 0, 0);
    let at =
        world.maps.entries().iter().position(|entry| entry.meaning == mote_filter::maps::Meaning::Shared);
    let shared = world.machine.value(at.unwrap(), &[0; 4]).unwrap();
    let word = |at: usize| u64::from_le_bytes(shared[at..at + 8].try_into().unwrap());
    use mote_layout::cooperation::{SHARED_WORDS_AT, SharedHeader};
    assert_eq!(word(SHARED_WORDS_AT + mote_filter::maps::flag_offset(0)), 1);
    assert_eq!(word(std::mem::offset_of!(SharedHeader, snapshots)), 3);
    assert_eq!(word(std::mem::offset_of!(SharedHeader, snapshot_thread)), 7 << 32 | 42);
}

#[test]
fn packets_are_asked_for_in_the_slot_of_the_cpu() {
    use mote_layout::cooperation::SharedHeader;
    use mote_layout::packet_requests::{PacketRequest, PacketRequests, READY, SLOT_BYTES, slot_at};
    use std::mem::offset_of;
    let rules = ["*:in if len == 1 do record, pt snapshot 5ms, count", "*:in if len == 1 do pt snapshot 7ms"];
    let Some(world) = World::of(&rules) else { return };
    let shared = |world: &World| {
        let entries = world.maps.entries();
        let at = entries.iter().position(|entry| entry.meaning == mote_filter::maps::Meaning::Shared);
        world.machine.value(at.unwrap(), &[0; 4]).unwrap()
    };
    let word = |bytes: &[u8], at: usize| {
        let at = offset_of!(SharedHeader, packets) + at;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let refused = offset_of!(PacketRequests, refused);
    assert_eq!(world.event(0, "", 0, 0), DROP);
    assert_eq!(word(&shared(&world), refused), 0);
    // The second rule, and a second event, find the slot taken.
    assert_eq!([0, 1].map(|_| world.event(1, "", 0, 0)), [RECORD; 2]);
    let found = shared(&world);
    let slot = |at: usize| word(&found, slot_at(1) + at);
    let request = [
        offset_of!(PacketRequest, state),
        offset_of!(PacketRequest, time),
        offset_of!(PacketRequest, thread),
        offset_of!(PacketRequest, cpu),
        offset_of!(PacketRequest, event),
        offset_of!(PacketRequest, duration),
    ]
    .map(slot);
    assert_eq!(request, [READY, 5000, 7 << 32 | 42, 1, 0, 5_000_000]);
    assert_eq!(word(&found, refused), 3);
    let all =
        offset_of!(SharedHeader, packets)..offset_of!(SharedHeader, packets) + size_of::<PacketRequests>();
    let taken =
        found[all].chunks(SLOT_BYTES).skip(1).filter(|slot| slot.iter().any(|byte| *byte != 0)).count();
    assert_eq!(taken, 1);
}

#[test]
fn windows_are_of_all_of_the_process_or_of_the_thread() {
    use mote_layout::cooperation::{Header, SLOT_BYTES, SLOTS, Slot};
    use std::mem::offset_of;
    let Some(world) = World::of(&["net:* if $window"]) else { return };
    assert_eq!(world.event(0, "", 0, 0), DROP);
    // It is 5000 now, and the thread is 42.
    let area = crate::machine::area().unwrap();
    let slot = |number: usize| (1 + number % SLOTS as usize) * SLOT_BYTES;
    for (words, expected) in [
        (vec![(offset_of!(Header, window_until), 5_001)], RECORD),
        (vec![(offset_of!(Header, window_until), 5_000)], DROP),
        (
            vec![
                (slot(42) + offset_of!(Slot, thread), 42),
                (slot(42) + offset_of!(Slot, window_until), 6_000),
            ],
            RECORD,
        ),
        (
            vec![
                (slot(42) + offset_of!(Slot, thread), 43),
                (slot(42) + offset_of!(Slot, window_until), 6_000),
            ],
            DROP,
        ),
        (
            vec![
                (slot(49) + offset_of!(Slot, thread), 42),
                (slot(49) + offset_of!(Slot, window_until), 6_000),
            ],
            RECORD,
        ),
        (
            vec![
                (slot(50) + offset_of!(Slot, thread), 42),
                (slot(50) + offset_of!(Slot, window_until), 6_000),
            ],
            DROP,
        ),
        (vec![], DROP),
    ] {
        let mut value = vec![0; mote_layout::cooperation::area_bytes(SLOTS)];
        for (at, word) in &words {
            value[*at..*at + 8].copy_from_slice(&u64::to_le_bytes(*word));
        }
        area.update(&[0; 4], &value).unwrap();
        assert_eq!(world.event(0, "", 0, 0), expected, "{words:?}");
    }
}

#[test]
fn keys_that_do_not_fit_are_counted() {
    let Some(world) = World::new(&[Rule::count("*", "by len").unwrap()]) else { return };
    for len in 0..(16 << 10) + 412 {
        world.event(len, "", 0, 0);
    }
    let dropped =
        world.maps.entries().iter().position(|entry| entry.meaning == mote_filter::maps::Meaning::Dropped);
    let counted = world.maps.entries().iter().position(|entry| entry.name.starts_with("count")).unwrap();
    let value = world.machine.value(dropped.unwrap(), &[0; 4]).unwrap();
    let at = mote_filter::maps::dropped_offset(counted as u32) as usize;
    assert_eq!(u64::from_le_bytes(value[at..at + 8].try_into().unwrap()), 412);
}

#[test]
fn an_action_whose_value_fails_is_left_out() {
    let Some(world) = World::of(&["net:* do count by proto[2], hist 100 / len by proto, record"]) else {
        return;
    };
    assert_eq!(world.event(0, "ab", 0, 0), RECORD);
    assert_eq!(world.event(4, "abc", 0, 0), RECORD);
    let text = world.text();
    assert!(text.contains("       99     1") && text.contains("1 value, median 25"), "{text}");
}

#[test]
fn what_this_side_cannot_do_says_why() {
    let text = b"mote1\nnet:in\n6 f:1\n\nlen u32\nload f64\nids u32[]\nsingle f32[2]\n";
    let event = parse(text).unwrap();
    for (rule, message) in [
        ("*:in if $exe == \"*sh\"", "there is no `$exe` on the kernel's side"),
        ("*:in if $elapsed > 1ms", "there is no `$elapsed` on the kernel's side"),
        ("*:in if load > 0.5", "floats cannot be compared on the kernel's side"),
        ("*:in if single[0] > 0.5", "floats cannot be compared on the kernel's side"),
        ("*:in if ids[0] == 1", "sequences cannot be read on the kernel's side"),
        ("*:in do emit x(len = len)", "events cannot be emitted on the kernel's side"),
        ("*:in do speculate", "records are not kept aside on the kernel's side"),
        ("*:in do open kernel for 10ms", "windows cannot be opened on the kernel's side"),
    ] {
        let rule = Rule::parse(rule).unwrap();
        let mut session = Session { side: Side::Kernel, missing: Missing::Refuse, declare: &mut |_| Ok(500) };
        let problem = compile(&[rule], &event, &mut session, &mut Maps::new()).unwrap_err();
        assert_eq!((problem.kind(), problem.message()), (Kind::Side, message));
    }
    for rule in ["*:in if $window", "*:in if $target == 3"] {
        let rule = Rule::parse(rule).unwrap();
        let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut |_| Ok(500) };
        let problem = compile(&[rule], &event, &mut session, &mut Maps::new()).unwrap_err();
        assert_eq!(problem.kind(), Kind::Side);
    }
}

#[test]
fn one_event_can_ask_for_packets_and_for_samples() {
    use mote_layout::cooperation::SharedHeader;
    use mote_layout::packet_requests::{
        PROFILE, PacketRequest, PacketRequests, functions_wanted, shift_of, slot_at,
    };
    use std::mem::offset_of;
    let rule =
        "*:in do fperf 'b' for 1s, pt snapshot 5ms, fperf 'a*' for 1h, profile for 3ns, fperf 'b' for 4s";
    let Some(world) = World::of(&[rule]) else { return };
    world.event(1, "", 0, 0);
    let entries = world.maps.entries();
    let at = entries.iter().position(|entry| entry.meaning == mote_filter::maps::Meaning::Shared);
    let found = world.machine.value(at.unwrap(), &[0; 4]).unwrap();
    let word = |at: usize| {
        let at = offset_of!(SharedHeader, packets) + at;
        u64::from_le_bytes(found[at..at + 8].try_into().unwrap())
    };
    assert_eq!([0, 1].map(|number| world.maps.function_pattern(number)), [Some("b"), Some("a*")]);
    let all =
        [functions_wanted(0, 1_000_000_000), 5_000_000, functions_wanted(1, 3_600_000_000_000), PROFILE | 3];
    let cpu = 1;
    let durations = all
        .map(|wanted| word(slot_at(cpu + shift_of(wanted) as usize) + offset_of!(PacketRequest, duration)));
    assert_eq!(durations, all);
    // The same once more, before it was heard.
    assert_eq!(word(offset_of!(PacketRequests, refused)), 1);
}
