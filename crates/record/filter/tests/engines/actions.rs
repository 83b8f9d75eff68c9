//! What actions leave behind, read back as a person sees it.

use crate::machine::{Machine, emitted};
use mote_filter::interpret::{Facts, Word};
use mote_filter::{Aggregate, Compiled, Decision, Emitted, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::context::{DROP, RECORD, SPECULATE};
use mote_layout::parse::parse;
use mote_vm::Choice;

const EVENT: &[u8] =
    b"mote1\nnet:in\n6 f:1\n\nlen u32\nproto str\nstate enum u8 IDLE=0 BUSY=1..3\nload f64\nskew i32\n";

/// A session with one event.
struct World {
    machine: Machine,
    maps: Maps,
    declared: Vec<Emitted>,
    records: bool,
}

impl World {
    fn new(rules: &[Rule], engine: Choice) -> World {
        let event = parse(EVENT).unwrap();
        let mut maps = Maps::new();
        let mut declared = Vec::new();
        let mut declare = |event: &Emitted| {
            declared.push(event.clone());
            Ok(500)
        };
        let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut declare };
        let Compiled { insns, records, .. } = match compile(rules, &event, &mut session, &mut maps) {
            Ok(Decision::Run(compiled)) => compiled,
            Ok(other) => panic!("{other:?}"),
            Err(problem) => panic!("{}", problem.render()),
        };
        let machine = Machine::new(&insns, &event, &maps, engine).unwrap_or_else(|why| panic!("{why}"));
        World { machine, maps, declared, records }
    }

    fn of(rules: &[&str], engine: Choice) -> World {
        let parse = |text: &&str| Rule::parse(text).unwrap_or_else(|problem| panic!("{}", problem.render()));
        World::new(&rules.iter().map(parse).collect::<Vec<_>>(), engine)
    }

    /// An event; what the program answers.
    fn event(&self, len: u64, proto: &str, state: u64, skew: i64) -> u64 {
        let words = [
            Word::Number(len),
            Word::Bytes(proto.as_bytes().to_vec()),
            Word::End,
            Word::Number(state),
            Word::Number(1.5f64.to_bits()),
            Word::Number(skew as u64),
        ];
        let facts = Facts {
            pid: 7,
            tid: 42,
            cpu: 1,
            now: 5_000,
            elapsed: u64::MAX,
            comm: b"worker".to_vec(),
            ..Facts::default()
        };
        self.machine.run(&words, &facts).unwrap()
    }

    /// All that there is to see.
    fn text(&self) -> String {
        let mut out = String::new();
        for (at, entry) in self.maps.entries().iter().enumerate() {
            let (pairs, dropped) = self.machine.pairs(at);
            if let Some(aggregate) = Aggregate::read(entry, &self.maps, &pairs, dropped) {
                out.push_str(&aggregate.text(100, 20));
            }
        }
        out
    }
}

fn on_both(check: impl Fn(Choice)) {
    check(Choice::Interpreter);
    check(Choice::Jit);
}

#[test]
fn counts() {
    on_both(|engine| {
        let world =
            World::of(&["net:* if len > 10 do count by proto, state, $tid, $comm, load, len > 100"], engine);
        for (len, proto, state) in
            [(5, "tcp", 0), (50, "tcp", 2), (51, "tcp", 2), (500, "udp", 7), (50, "", 0)]
        {
            assert_eq!(world.event(len, proto, state, 0), DROP);
        }
        assert!(!world.records);
        let expected = "\
net:* if len > 10 do count by proto, state, $tid, $comm, load, len > 100
  proto state $tid $comm  load len > 100 count
  tcp   BUSY    42 worker  1.5 false         2  ████████████████████████████████████████
        IDLE    42 worker  1.5 false         1  ████████████████████
  udp   7       42 worker  1.5 true          1  ████████████████████
";
        assert_eq!(world.text(), expected, "{}", world.text());
    });
}

#[test]
fn counts_of_everything() {
    on_both(|engine| {
        let rules = [
            Rule::count("net:*", "").unwrap(),
            Rule::count("*", "$event, prefix(proto, 5), prefix($comm, 3), prefix($comm, 12)").unwrap(),
        ];
        let world = World::new(&rules, engine);
        for proto in ["tcp over ip", "tcp over udp", "tcp"] {
            world.event(1, proto, 0, 0);
        }
        let expected = "\
count of net:*
  count
      3  ████████████████████████████████████████
count by $event, prefix(proto, 5), prefix($comm, 3), prefix($comm, 12)
  $event prefix(proto, 5) prefix($comm, 3) prefix($comm, 12) count
  net:in tcp o…           wor…             worker                2  ████████████████████████████████
  net:in tcp              wor…             worker                1  ████████████████
";
        assert_eq!(world.text(), expected, "{}", world.text());
    });
}

#[test]
fn histograms() {
    on_both(|engine| {
        let rules =
            [Rule::histogram("*", "skew by proto").unwrap(), Rule::histogram("*", "len if len < 3").unwrap()];
        let world = World::new(&rules, engine);
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
    });
}

#[test]
fn the_last_events() {
    on_both(|engine| {
        let world = World::of(&["net:* do last 2 len, proto", "net:* if len == 2 do last 5"], engine);
        for (len, proto) in [(1, "tcp"), (2, "udp"), (3, "a text that is cut at 32 bytes: it goes on")] {
            world.event(len, proto, 1, -3);
        }
        let expected = "\
net:* do last 2 len, proto
  time thread len proto
  5000     42   2 udp
  5000     42   3 a text that is cut at 32 bytes: …
net:* if len == 2 do last 5
  time thread len proto state load skew
  5000     42   2 udp   BUSY   1.5   -3
";
        assert_eq!(world.text(), expected);
    });
}

#[test]
fn flags_are_read_by_others() {
    on_both(|engine| {
        let world = World::of(
            &[
                "*:in if len == 1 do set busy",
                "*:in if len == 2 do clear busy",
                "*:in if $flag.busy do record",
            ],
            engine,
        );
        let results: Vec<_> = [0, 1, 0, 2, 0].map(|len| world.event(len, "", 0, 0)).into();
        assert_eq!(results, [DROP, RECORD, RECORD, DROP, DROP]);
    });
}

#[test]
fn emitted_events_are_packed_as_records_are() {
    on_both(|engine| {
        let world = World::of(
            &[
                "net:* do emit seen(size = len + 1, name = proto, up = len > 3, load = load), emit who(comm = $comm)",
            ],
            engine,
        );
        world.event(4, "tcp", 0, 0);
        world.event(1, &"long ".repeat(100), 0, 0);
        assert_eq!(
            world.declared[0].description,
            "mote1\nnet:seen\n6 :0\n\nsize i64\nload f64\nup bool\nname str\n"
        );
        let all = emitted();
        let mut expected = 5u64.to_le_bytes().to_vec();
        expected.extend(1.5f64.to_le_bytes());
        expected.extend(b"\x01tcp\0");
        assert_eq!(all[0], (500, expected));
        assert_eq!(all[1], (500, b"worker\0".to_vec()));
        let long = &all[2].1;
        assert_eq!((long.len(), long[16], long[long.len() - 1]), (17 + 128, 0, 0));
        assert!(long[17..144].iter().all(|byte| b"long ".contains(byte)));
    });
}

#[test]
fn what_is_discarded_goes_with_the_event_that_discards() {
    on_both(|engine| {
        let world = World::of(
            &[
                "net:*",
                "*:in if len == 1 do speculate",
                "*:in if len == 2 do commit",
                "*:in if len >= 2 do discard",
            ],
            engine,
        );
        let results: Vec<_> = [0, 1, 0, 2, 1, 3, 3].map(|len| world.event(len, "", 0, 0)).into();
        // After `commit` there is nothing to discard; the second 3 discards nothing either.
        assert_eq!(results, [SPECULATE, SPECULATE, SPECULATE, SPECULATE, SPECULATE, DROP, SPECULATE]);
    });
}

#[test]
fn what_a_first_event_lacks_is_absent() {
    on_both(|engine| {
        let world = World::of(&["net:* do hist $delta, hist $last.len, count by $elapsed"], engine);
        assert_eq!([3, 5, 9].map(|len| world.event(len, "tcp", 0, 0)), [DROP; 3]);
        let text = world.text();
        assert!(text.contains("$delta: 2 values, median 0"), "{text}");
        assert!(text.contains("$last.len: 2 values, median 3"), "{text}");
        assert!(!text.contains("18446744073709551615"), "{text}");
    });
    let conditions = [
        "$delta < 5",
        "$delta >= 0",
        "!($delta > 5)",
        "$delta == $delta",
        "$last.len == 0",
        "$last.len != len",
        "$last.load < 100.0",
        "$last.proto != proto || true",
        "!($last.proto == proto)",
        "len + $last.len > 0",
    ];
    for condition in conditions {
        on_both(|engine| {
            let world = World::of(&[&format!("net:* if {condition} do record")], engine);
            assert_eq!(world.event(1, "tcp", 0, 0), DROP, "{condition}");
        });
    }
    on_both(|engine| {
        let world = World::of(&["net:* if len > 3 || !($elapsed > 10ms) do record"], engine);
        // Nothing fails that is not asked for.
        assert_eq!([4, 1].map(|len| world.event(len, "", 0, 0)), [RECORD, DROP]);
        let world = World::of(&["net:* if changed(len) || $delta > 1h do record"], engine);
        assert_eq!([4, 4, 5].map(|len| world.event(len, "", 0, 0)), [RECORD, DROP, RECORD]);
    });
}

#[test]
fn an_action_whose_value_fails_is_left_out() {
    on_both(|engine| {
        let world = World::of(&["net:* do count by proto[2], hist 100 / len by proto, record"], engine);
        assert_eq!(world.event(0, "ab", 0, 0), RECORD);
        assert_eq!(world.event(4, "abc", 0, 0), RECORD);
        let text = world.text();
        assert!(text.contains("       99     1") && text.contains("1 value, median 25"), "{text}");
    });
}

#[test]
fn packets_are_asked_for_with_time_cpu_and_thread() {
    for engine in [Choice::Interpreter, Choice::Jit] {
        let rules = ["*:in if len > 5 do pt snapshot 5ms, record", "*:in if $cpu == 1 do pt snapshot 1s"];
        let world = World::of(&rules, engine);
        assert_eq!(world.event(3, "tcp", 0, 0), DROP);
        let request = |ns: u64| (ns, [0, 5_000, 1, 7 << 32 | 42_u64].map(u64::to_le_bytes).concat());
        assert_eq!(emitted(), [request(1_000_000_000)]);
        assert_eq!(world.event(9, "tcp", 0, 0), RECORD);
        assert_eq!(emitted(), [request(5_000_000), request(1_000_000_000)]);
    }
}
